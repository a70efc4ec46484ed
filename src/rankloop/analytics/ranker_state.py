"""Protocols of the ranker state that analytics read; `rankloop.serving.replica` implements them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from rankloop.analytics.counters import Counters
from rankloop.eventlog.events import DecisionMade
from rankloop.eventlog.store import LogEntry
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema import RankerSettings
from rankloop.types import BoolArray, FloatArray, IntArray, Request

Witness = Callable[[DecisionMade, FloatArray], None]
"""Called with a decision and its outcome [k] before the policy learns from them."""


class ItemColumns(Protocol):
    """The items of a ranker by column."""

    ids: list[str]  # of all columns, including those of removed items

    @property
    def present(self) -> IntArray:
        """Columns of the items that were not removed, in the order in which they were added."""

    @property
    def enabled(self) -> BoolArray:
        """Columns of items that may be ranked, [capacity]."""


class SegmentLearners(Protocol):
    """The learners of a ranker, one for each segment."""

    policy: RankingPolicy[LearnerState]
    segments: dict[str, int]

    def of(self, segment: str) -> LearnerState:
        """Return the learner of a segment, or a fresh one where the segment has none."""

    def request(self, k: int, context: FloatArray | None) -> Request:
        """Return a request for k of all items; context is [1, dx]."""

    def no_context(self) -> FloatArray | None:
        """Return a context of zeros, [1, dx], or None where requests have no context."""

    def predict(self, decision: DecisionMade) -> FloatArray | None:
        """Return the probability of a click in each slot [k], or None where the policy has no estimates."""


class RankerState(Protocol):
    """The state of a ranker at a position of its log."""

    @property
    def config(self) -> RankerSettings:
        """The settings in force."""

    @property
    def items(self) -> ItemColumns:
        """The items."""

    @property
    def learners(self) -> SegmentLearners:
        """The learners."""

    @property
    def counters(self) -> Counters:
        """Counters of decisions and outcomes."""

    @property
    def objective(self) -> str:
        """The objective in which lists are valued: a key of `list_value.UNITS`."""

    @property
    def guardrail_tripped(self) -> str | None:
        """Why the guardrail tripped, or None."""

    @property
    def changes(self) -> Sequence[tuple[float, str]]:
        """Time and description of each change of the settings or the guardrail."""

    def counts(self) -> dict[str, int]:
        """Return the number of items, segments, decisions and open decisions, and the log position."""


class ReplayedState(RankerState, Protocol):
    """A state that applies a log and calls a witness before each outcome is learned."""

    witness: Witness | None

    def follow(self, entries: Iterable[LogEntry], *, page: int) -> None:
        """Apply entries in pages."""
