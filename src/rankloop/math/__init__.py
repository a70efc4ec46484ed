"""Numerical routines that know nothing about ranking."""
