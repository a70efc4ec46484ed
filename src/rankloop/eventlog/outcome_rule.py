"""`OutcomeRule`: how the events of a decision, of one kind or of several, make up its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.schema import RankerSettings
from rankloop.schema.limits import MAX_MAGNITUDE
from rankloop.schema.reward import Aggregation
from rankloop.types import FloatArray


@dataclass(frozen=True, eq=False)
class OutcomeRule:
    """The `reward` section of a ranker as a computation: the outcome of a slot is Σ weight·(combined values of a kind).

    Where the objective counts clicks, it is 1 if a kind of weight 1 has a value above 0, else 0.
    """

    kinds: tuple[str, ...]
    weights: FloatArray  # [kinds]
    aggregates: tuple[Aggregation, ...]
    windows: tuple[float | None, ...]  # seconds; None: the ranker's
    at_once: bool  # a list is learned with its first event
    amounts: bool  # the objective is amount

    @classmethod
    def of(cls, settings: RankerSettings) -> Self | None:
        """Return the rule of a ranker; None without a `reward` section, for `FeedbackReceived.combined` is the rule."""
        reward = settings.reward
        if reward is None:
            return None
        kinds = reward.kinds.values()
        return cls(
            kinds=tuple(reward.kinds),
            weights=np.array([one.weight for one in kinds]),
            aggregates=tuple(one.aggregate for one in kinds),
            windows=tuple(one.window for one in kinds),
            at_once=reward.learn == "at-once",
            amounts=settings.objective == "amount",
        )

    def number(self, kind: str) -> int | None:
        """Return the number of a kind; None if it is not declared, so that its events do not count here."""
        return self.kinds.index(kind) if kind in self.kinds else None

    def teaches(self, kind: int) -> bool:
        """Return whether values of a kind are learned, and not only counted."""
        return bool(self.weights[kind])

    def in_time(self, kind: int, seconds: float) -> bool:
        """Return whether an event of a kind counts, these seconds after its list."""
        window = self.windows[kind]
        return window is None or seconds <= window

    def added(self, before: FloatArray | None, kind: int, values: FloatArray) -> FloatArray:
        """Return the combined values of a decision after one more event, [kinds, k], NaN for kinds without an event.

        Args:
            before: the combined values before it; None if it is the first.
            kind: its number.
            values: of its slots, [k].
        """
        after = np.full((len(self.kinds), len(values)), np.nan) if before is None else before.copy()
        known, aggregate = after[kind], self.aggregates[kind]
        if len(known) == 0 or known[0] != known[0]:
            after[kind] = values
        elif aggregate == "sum":
            after[kind] = known + values
        elif aggregate == "max":
            after[kind] = np.maximum(known, values)
        return after

    def outcome(self, combined: FloatArray) -> FloatArray | None:
        """Return the outcome [k] of combined values [kinds, k]; None if no kind that teaches had an event."""
        reported = (self.weights != 0.0) & (combined == combined).all(axis=1)
        if not reported.any():
            return None
        if self.amounts:
            return np.asarray(self.weights[reported] @ combined[reported])
        return np.asarray((combined[reported] > 0.0).any(axis=0), dtype=np.float64)

    def value(self, combined: FloatArray | None, kind: int) -> float:
        """Return the summed values of a kind; 0 if it had no event."""
        if combined is None or not combined.shape[1] or combined[kind, 0] != combined[kind, 0]:
            return 0.0
        return float(combined[kind].sum())

    def of_event(self, kind: int, values: FloatArray) -> FloatArray:
        """Return the outcome [k] that an event alone has."""
        outcome = self.outcome(self.added(None, kind, values))
        return np.zeros(len(values)) if outcome is None else outcome

    def check(self, kind: str, values: FloatArray) -> None:
        """Refuse values [k] of a kind whose product with its weight is larger than a value may be."""
        number = self.number(kind)
        most = MAX_MAGNITUDE / max(1.0, 0.0 if number is None else abs(float(self.weights[number])))
        for slot, value in enumerate(values.tolist()):
            if abs(value) > most:
                raise InvalidInput(f"values[{slot}]", value, f"magnitudes up to {most:g}, by the weight of {kind}")
