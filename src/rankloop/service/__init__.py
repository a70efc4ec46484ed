"""The HTTP service: rankers by name over one log, an API with familiar manners, metrics."""
