"""rankloop: an online learning-to-rank engine. It shows a list, watches the clicks and learns from each."""

from rankloop.catalogue import build, entries, policy
from rankloop.errors import InvalidInput, MissingExtra, RankloopError, Unsupported
from rankloop.policy import Policy
from rankloop.simulator import Result, simulate
from rankloop.types import Decision, Request, Setting
from rankloop.version import __version__

__all__ = [
    "Decision",
    "InvalidInput",
    "MissingExtra",
    "Policy",
    "RankloopError",
    "Request",
    "Result",
    "Setting",
    "Unsupported",
    "__version__",
    "build",
    "entries",
    "policy",
    "simulate",
]
