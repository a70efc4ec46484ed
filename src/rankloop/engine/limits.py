"""Bounds of numbers that callers give, in process and over HTTP alike."""

MAX_MAGNITUDE = 1e6
"""Magnitude of a feature, of a number of a context and of a value of feedback."""
MAX_AMOUNT = 1e9
"""Price of an item, and magnitude of a regret."""
MAX_POSITION = 1e15
"""Magnitude of a default position: room for times and for the numbers of a catalogue."""
MAX_PRIOR_WEIGHT = 1e6
"""Strength of a prior times the squared length of the item's features. A prior that weighs more could not be taken back
without losing digits of what was learned."""
