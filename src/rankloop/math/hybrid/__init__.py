"""Compiled loops of the hybrid belief, with and without pooled segments."""
