"""Benchmarks: commands that print ratios of alternatives measured in the same run."""
