"""rankloop: an online learning-to-rank engine that decides lists and learns from every click.

Public names are imported at their first use: a program that only calls a service loads neither NumPy nor the engine.
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

_NAMES_BY_MODULE = {
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
_MODULES = {name: f"rankloop.{module}" for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module 'rankloop' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
