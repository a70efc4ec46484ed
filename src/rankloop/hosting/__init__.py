"""Rankers by name over one log: created, changed, replaced and looked after, for a service or in process."""
