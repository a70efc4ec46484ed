"""rankloop: an online learning-to-rank engine. It shows a list, watches the clicks and learns from each.

Names are loaded when they are first used: a program that only talks to a service needs neither NumPy nor the engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankloop.version import __version__

if TYPE_CHECKING:
    from rankloop.catalogue import build, entries
    from rankloop.connection import Connection, connect
    from rankloop.errors import Conflict, InvalidInput, MissingExtra, NotFound, RankloopError, Unavailable, Unsupported
    from rankloop.policy import Policy, SupportsRanking
    from rankloop.ranking_policy import RankingPolicy
    from rankloop.schema import FeedbackEvent, Item, RankerSettings, RankRequest
    from rankloop.serving import Ranker, RankerConfig
    from rankloop.simulator import Result, simulate
    from rankloop.types import Decision, Request, Setting

__all__ = [
    "Conflict",
    "Connection",
    "Decision",
    "FeedbackEvent",
    "InvalidInput",
    "Item",
    "MissingExtra",
    "NotFound",
    "Policy",
    "RankRequest",
    "Ranker",
    "RankerConfig",
    "RankerSettings",
    "RankingPolicy",
    "RankloopError",
    "Request",
    "Result",
    "Setting",
    "SupportsRanking",
    "Unavailable",
    "Unsupported",
    "__version__",
    "build",
    "connect",
    "entries",
    "simulate",
]

_HOMES = {
    "catalogue": ("build", "entries"),
    "connection": ("Connection", "connect"),
    "serving": ("Ranker", "RankerConfig"),
    "errors": ("Conflict", "InvalidInput", "MissingExtra", "NotFound", "RankloopError", "Unavailable", "Unsupported"),
    "policy": ("Policy", "SupportsRanking"),
    "ranking_policy": ("RankingPolicy",),
    "schema": ("FeedbackEvent", "Item", "RankRequest", "RankerSettings"),
    "simulator": ("Result", "simulate"),
    "types": ("Decision", "Request", "Setting"),
}
_HOME = {name: f"rankloop.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load the module of a public name."""
    if name not in _HOME:
        raise AttributeError(f"module 'rankloop' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
