"""Public data sets: readers of the original files, derived features, and a cache for them. Nothing is downloaded."""

from rankloop.datasets.bandit_log import BanditLog
from rankloop.datasets.cache import Cache, fingerprint
from rankloop.datasets.errors import BadData, MissingData
from rankloop.datasets.finder import find, read, root, survey
from rankloop.datasets.judgements import Judgements, Queries
from rankloop.datasets.mnist import Digits
from rankloop.datasets.ratings import Ratings
from rankloop.datasets.registry import SETS, DataSet
from rankloop.datasets.splits import Split

__all__ = [
    "SETS",
    "BadData",
    "BanditLog",
    "Cache",
    "DataSet",
    "Digits",
    "Judgements",
    "MissingData",
    "Queries",
    "Ratings",
    "Split",
    "find",
    "fingerprint",
    "read",
    "root",
    "survey",
]
