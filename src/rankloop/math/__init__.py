"""Numerical pieces without any notion of ranking."""
