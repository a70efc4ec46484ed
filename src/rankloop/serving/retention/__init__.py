"""Remove old entries of a log, for which an archive and a base state stand in."""
