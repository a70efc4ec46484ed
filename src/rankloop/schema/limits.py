"""Limits of values that callers send, in process and over HTTP."""

import sys

MAX_MAGNITUDE = 1e6
"""Magnitude of a feature, a context entry and a feedback value."""
MAX_AMOUNT = 1e9
"""Price of an item, and magnitude of a regret."""
MAX_POSITION = 1e15
"""Magnitude of a default position: large enough for timestamps and catalogue numbers."""
MAX_PRIOR_SEGMENTS = 1_000
"""Segments for which a prior has separate scores."""
MAX_PRIOR_STRENGTH = 1e6
"""Strength of an item's prior, in observations."""
MAX_PRIOR_WEIGHT = 1e6
"""Strength of a prior times the squared length of the item's features. A stronger prior could not be
subtracted again without losing digits of what was learned."""
MAX_RAW_FIELDS = 200
"""Fields of an item, and of a context."""
MAX_RAW_TEXT = 1_000
"""Characters of a text in a field."""
MAX_RAW_ENTRIES = 1_000
"""Entries of a list in a field."""
MAX_KINDS = 16
"""Kinds of feedback of one ranker: an open decision keeps a number for each kind and slot."""
MAX_ID_LENGTH = 200
"""Characters of an id, a segment and a visitor."""
MAX_CAPPED_FIELDS = 8
"""Fields with a cap on the items of a list that have the same value."""
MAX_SLOTS = 1000
"""Slots of a list."""
MAX_DRAWS = 10_000
"""Lists drawn to estimate a propensity."""
MAX_FEATURES = 5_000
"""Features of an item, or entries of a context: a belief stores their square for each learner."""
MAX_CROSSED_FEATURES = 512
"""Features of a row in which item features and context are crossed: a dense model stores their square."""
MAX_FIELDS = 100
"""Declared fields of items, and of contexts."""
MAX_FIELD_NUMBER = 1e15
"""Magnitude of a number in a field: large enough for timestamps."""
MAX_FIELD_TEXT = 200
"""Characters of a category and of a tag."""
MAX_TAGS = 20
"""Different tags of one field of one item or context."""
MAX_CATEGORIES = 1_000
"""Categories or tags of a field that have coefficients of their own."""
MIN_HASHED, MAX_HASHED = 2**8, 2**22
"""Coefficients that hashed rows share."""
MAX_POSITIONS = 1_024
"""Positions of a sparse row."""
MAX_ROUNDS = 10**9
"""Horizon of a policy that needs one."""
MAX_SEED = 2**63 - 1
"""Seed of random numbers."""
MIN_PARAMETER, MAX_PARAMETER = 1e-12, 1e12
"""Magnitudes of non-zero parameters and of the parameters of Beta priors."""
MAX_FLOAT = sys.float_info.max
"""The largest finite number."""
