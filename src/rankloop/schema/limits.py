"""Bounds of what callers give, in process and over HTTP alike."""

import sys

MAX_MAGNITUDE = 1e6
"""Magnitude of a feature, of a number of a context and of a value of feedback."""
MAX_AMOUNT = 1e9
"""Price of an item, and magnitude of a regret."""
MAX_POSITION = 1e15
"""Magnitude of a default position: room for times and for the numbers of a catalogue."""
MAX_PRIOR_SEGMENTS = 1_000
"""Segments of which a prior says something of their own."""
MAX_PRIOR_STRENGTH = 1e6
"""Observations that a prior of an item is worth."""
MAX_PRIOR_WEIGHT = 1e6
"""Strength of a prior times the squared length of the item's features. A prior that weighs more could not be taken back
without losing digits of what was learned."""
MAX_ID_LENGTH = 200
"""Characters of an id, of a segment and of the name of a visitor."""
MAX_SLOTS = 1000
"""Slots of a list."""
MAX_DRAWS = 10_000
"""Lists drawn to estimate a propensity."""
MAX_FEATURES = 5_000
"""Features of an item, or numbers of a context: a belief keeps the square of them for each learner."""
MAX_ROUNDS = 10**9
"""Horizon of a policy that needs one."""
MAX_SEED = 2**63 - 1
"""Of random numbers."""
MIN_PARAMETER, MAX_PARAMETER = 1e-12, 1e12
"""Magnitudes of parameters and of Beta priors, other than 0."""
MAX_FLOAT = sys.float_info.max
"""The largest finite number."""
