"""Decisions whose outcome is still open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, takewhile

from rankloop.eventlog.events import DecisionMade
from rankloop.types import FloatArray


@dataclass(slots=True)
class OpenDecision:
    """A decision and the feedback received for it so far."""

    event: DecisionMade
    outcome: FloatArray | None = None  # [k], None before the first feedback
    regret: float | None = None  # against the best list, where it was reported


class OpenDecisions(dict[str, OpenDecision]):
    """Open decisions by id, in log order; the feedback window bounds their number."""

    def __init__(self, window: float) -> None:
        super().__init__()
        self.window = window  # seconds

    def detach(self, ids: Iterable[str]) -> None:
        """Copy the arrays of these decisions, so that they keep no page of the log in memory."""
        for id in ids:
            decision = self.get(id)
            if decision is not None:
                decision.event = decision.event.detached()

    def due(self, now: float, uncommitted: Iterable[DecisionMade] = ()) -> tuple[str, ...]:
        """Return the decisions whose window has closed, oldest first.

        Args:
            now: the current time.
            uncommitted: decisions that will be added next.
        """
        events = chain((decision.event for decision in self.values()), uncommitted)
        return tuple(event.id for event in takewhile(lambda event: event.time + self.window <= now, events))
