"""Several rankers by name over one log: created, changed, rebuilt and maintained, for the service or in process."""
