"""One PostgreSQL log that several processes write and follow, each in the order of the log."""
