"""When feedback windows close, by a monotonic clock."""
