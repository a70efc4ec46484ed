"""Erase what identifies a visitor, in a log, in its backups and in exported files."""
