"""Decisions whose outcome is still open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, takewhile

from rankloop.eventlog.events import DecisionMade
from rankloop.types import FloatArray


@dataclass(slots=True)
class OpenDecision:
    """A list that was decided, and what has happened to it so far."""

    shown: DecisionMade
    outcome: FloatArray | None = None  # [k], None while nothing was told
    regret: float | None = None  # what was lost against the best list, where somebody told

    def add(self, outcome: FloatArray, regret: float | None, aggregate: str) -> None:
        """Take in another event: the earliest counts, or their sum. Regret is told once."""
        if self.outcome is None:
            self.outcome = outcome.copy()
        elif aggregate == "sum":
            self.outcome += outcome
        self.regret = regret if self.regret is None else self.regret


class OpenDecisions:
    """Open decisions in the order of the log; a window bounds how many there can be."""

    def __init__(self, window: float) -> None:
        self.window = window
        self._waiting: dict[str, OpenDecision] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[OpenDecision]:
        return iter(self._waiting.values())

    def add(self, shown: DecisionMade, outcome: FloatArray | None = None, regret: float | None = None) -> None:
        """A new decision."""
        self._waiting[shown.id] = OpenDecision(shown, outcome, regret)

    def get(self, id: str) -> OpenDecision | None:
        """An open decision."""
        return self._waiting.get(id)

    def pop(self, id: str) -> OpenDecision | None:
        """Settle a decision: it is no longer open."""
        return self._waiting.pop(id, None)

    def part(self, ids: Iterable[str]) -> None:
        """Those of these that are still open hold no longer in memory what they were read with."""
        for id in ids:
            waiting = self._waiting.get(id)
            if waiting is not None:
                waiting.shown = waiting.shown.alone()

    def due(self, now: float, coming: Iterable[DecisionMade] = ()) -> tuple[str, ...]:
        """Decisions whose window has closed, oldest first; `coming` are those that will be added next."""
        waiting = chain((waiting.shown for waiting in self._waiting.values()), coming)
        return tuple(shown.id for shown in takewhile(lambda shown: shown.time + self.window <= now, waiting))
