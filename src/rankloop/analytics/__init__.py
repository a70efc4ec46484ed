"""Analytics of a ranker: counters, estimates, comparisons and diagnoses. Nothing here changes a ranker."""
