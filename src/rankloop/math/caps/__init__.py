"""Compiled loops that keep caps: at most n items of a list with one value of a field."""
