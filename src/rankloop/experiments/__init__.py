"""Experiments as data: fixed worlds, a fixed interaction, a fixed analysis."""
