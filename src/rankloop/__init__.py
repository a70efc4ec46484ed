"""rankloop: an online learning-to-rank engine. It shows a list, watches the clicks and learns from each."""

from rankloop.catalogue import build, entries
from rankloop.engine import Ranker, RankerConfig
from rankloop.errors import InvalidInput, MissingExtra, RankloopError, Unsupported
from rankloop.policy import Policy, Ranks
from rankloop.simulator import Result, simulate
from rankloop.types import Decision, Request, Setting
from rankloop.version import __version__

__all__ = [
    "Decision",
    "InvalidInput",
    "MissingExtra",
    "Policy",
    "Ranker",
    "RankerConfig",
    "RankloopError",
    "Ranks",
    "Request",
    "Result",
    "Setting",
    "Unsupported",
    "__version__",
    "build",
    "entries",
    "simulate",
]
