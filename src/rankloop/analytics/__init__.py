"""What the log tells about a ranker: counters, estimates, comparisons and diagnoses. Nothing here changes a ranker."""
