"""Real data: readers of the original files, prepared features, and a cache for them. Nothing is ever fetched."""

from rankloop.data.bandit_log import BanditLog
from rankloop.data.cache import Cache, fingerprint
from rankloop.data.digits import Digits
from rankloop.data.errors import BadData, MissingData
from rankloop.data.judgements import Judgements, Queries
from rankloop.data.known import SETS, DataSet
from rankloop.data.ratings import Ratings
from rankloop.data.sets import find, read, root, survey
from rankloop.data.splits import Split

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
