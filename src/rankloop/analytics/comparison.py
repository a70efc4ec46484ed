"""Compare two policies on the same log by how well they predict clicks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from rankloop.analytics.intervals import NORMAL_95
from rankloop.analytics.ranker_state import ReplayedState
from rankloop.eventlog.events import DecisionMade
from rankloop.eventlog.store import LogEntry
from rankloop.types import EMPTY, BoolArray, FloatArray

PAGE_ENTRIES = 100
"""Log entries that one replica applies before the other one continues."""
PAUSE_ENTRIES = 500
"""Log entries between two calls of `pause`."""
MIN_COMPARED_LISTS = 100
"""Lists needed for a verdict: the normal interval of a mean is not reliable for fewer."""
MIN_PROBABILITY = 0.001
"""Predictions are clipped to [MIN_PROBABILITY, 1 - MIN_PROBABILITY], so that one surprising click cannot decide."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How well two policies predicted clicks on the same lists, each before it learned from them.

    The score of a list is the sum over its items of the Bernoulli log-likelihood of "clicked" under the policy's
    probability of a click in that slot. `difference` is the mean over lists of the challenger's score minus that of
    the active policy, `low` and `high` the normal 95 % interval of that mean, from the paired differences.
    """

    active: str
    challenger: str
    lists: int
    difference: float | None
    low: float | None
    high: float | None
    verdict: str  # of the challenger compared with the active policy: better, worse or cannot tell
    reason: str | None  # why there is no verdict


class PredictionJudge:
    """Scores the predictions of two replicas that settle the same lists, the active one first."""

    def __init__(self, active: ReplayedState, challenger: ReplayedState) -> None:
        self._replicas = (active, challenger)
        self._predicted: dict[str, tuple[FloatArray | None, FloatArray]] = {}  # active prediction and outcome
        self._without: set[int] = set()  # indices of the replicas without predictions
        self._amounts = False
        self._lists, self._mean, self._squares = 0, 0.0, 0.0  # of the score differences; squared deviations
        active.witness, challenger.witness = self._see_active, self._see_challenger

    def _see_active(self, shown: DecisionMade, outcome: FloatArray) -> None:
        """Store the prediction of the active policy for a list that settles."""
        self._predicted[shown.id] = self._replicas[0].learners.predict(shown), outcome

    def _see_challenger(self, shown: DecisionMade, outcome: FloatArray) -> None:
        """Score both predictions when the same list settles at the challenger."""
        active, observed = self._predicted.pop(shown.id)
        challenger, filled = self._replicas[1].learners.predict(shown), shown.items != EMPTY
        self._without |= {at for at, prediction in enumerate((active, challenger)) if prediction is None}
        if active is None or challenger is None or not filled.any():
            return
        # Both are scored on the outcome as the active policy reads it: the challenger may read amounts as clicks.
        clicked = observed[filled] != 0
        self._amounts = self._amounts or bool((clicked & (observed[filled] != 1)).any())
        self._add(_score(challenger[filled], clicked) - _score(active[filled], clicked))

    def _add(self, difference: float) -> None:
        """Update mean and squared deviations (Welford)."""
        difference = round(difference, 12)  # equal policies may differ in the last bits of their sums
        self._lists += 1
        before = difference - self._mean
        self._mean += before / self._lists
        self._squares += before * (difference - self._mean)

    def comparison(self) -> Comparison:
        """Return the comparison over all lists scored so far."""
        names = [replica.config.policy for replica in self._replicas]
        n, low, high = self._lists, None, None
        if n > 1:
            half = NORMAL_95 * math.sqrt(self._squares / (n - 1) / n)
            low, high = self._mean - half, self._mean + half
        reason = self._no_verdict(low, high)
        verdict = "cannot tell" if reason is not None else "better" if self._mean > 0 else "worse"
        return Comparison(names[0], names[1], n, self._mean if n else None, low, high, verdict, reason)

    def _no_verdict(self, low: float | None, high: float | None) -> str | None:
        """Return why there is no verdict, or None if there is one."""
        if self._without:
            names = " and ".join(sorted({self._replicas[at].config.policy for at in self._without}))
            return f"Clicks cannot be predicted without estimates of {names}."
        if self._amounts:
            return "Outcomes are amounts, but the predictions are click probabilities."
        if self._lists < MIN_COMPARED_LISTS or low is None or high is None:
            return f"Fewer than {MIN_COMPARED_LISTS} lists could be compared."
        if low <= 0.0 <= high:
            return "The 95 % interval of the difference contains 0."
        return None


def _score(probability: FloatArray, clicked: BoolArray) -> float:
    p = np.clip(probability, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    return float(np.log(np.where(clicked, p, 1.0 - p)).sum())


def compare(
    active: ReplayedState,
    challenger: ReplayedState,
    entries: Iterable[LogEntry],
    pause: Callable[[], None] = lambda: None,
) -> Comparison:
    """Apply a log to two fresh replicas in step, page by page, and compare their predictions.

    Args:
        active: fresh replica with the active policy.
        challenger: fresh replica with the challenger.
        entries: the log from its beginning, read once.
        pause: called every `PAUSE_ENTRIES` entries, to let other threads run.
    """
    judge, remaining, read = PredictionJudge(active, challenger), iter(entries), 0
    while page := list(islice(remaining, PAGE_ENTRIES)):
        for replica in (active, challenger):
            replica.follow(page, page=PAGE_ENTRIES)
        if (read + len(page)) // PAUSE_ENTRIES > read // PAUSE_ENTRIES:
            pause()
        read += len(page)
    active.witness = challenger.witness = None
    return judge.comparison()
