"""Two policies on the same log: which of them predicts the clicks of visitors better?"""

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

PAGE = 100
"""Entries that both replicas follow at once: what they learn from them, they know after them."""
EVERY = 500
"""Entries between two pauses."""
MIN_LISTS = 100
"""Lists below which nothing is said: the normal interval of a mean needs some."""
CLIP = 0.001
"""Predictions lie in [CLIP, 1 - CLIP]: one click on an item that nobody had seen must not decide everything."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How well two policies predicted the same lists before either learned from them.

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
    verdict: str  # better, worse or cannot tell: the challenger beside the active policy
    reason: str | None  # why it cannot tell


class PredictionJudge:
    """Compares predictions of the lists that two replicas settle: both settle the same ones, the active one first."""

    def __init__(self, active: ReplayedState, challenger: ReplayedState) -> None:
        self._replicas = (active, challenger)
        self._predicted: dict[str, tuple[FloatArray | None, FloatArray]] = {}  # by the active one, and what happened
        self._without: set[int] = set()  # which of the two has no predictions
        self._amounts = False
        self._lists, self._mean, self._squares = 0, 0.0, 0.0  # of the differences; squares are of deviations
        active.witness, challenger.witness = self._first, self._second

    def _first(self, shown: DecisionMade, outcome: FloatArray) -> None:
        """A list settles at the active policy."""
        self._predicted[shown.id] = self._replicas[0].learners.predict(shown), outcome

    def _second(self, shown: DecisionMade, outcome: FloatArray) -> None:
        """The same list settles at the challenger: compare what both had predicted."""
        ours, happened = self._predicted.pop(shown.id)
        theirs, there = self._replicas[1].learners.predict(shown), shown.items != EMPTY
        self._without |= {at for at, one in enumerate((ours, theirs)) if one is None}
        if ours is None or theirs is None or not there.any():
            return
        # Both are scored on what happened as the active policy reads it: the challenger may read amounts as clicks.
        clicked = happened[there] != 0
        self._amounts = self._amounts or bool((clicked & (happened[there] != 1)).any())
        self._add(_score(theirs[there], clicked) - _score(ours[there], clicked))

    def _add(self, difference: float) -> None:
        """Welford's update of mean and squared deviations."""
        difference = round(difference, 12)  # equal policies may differ in the last bits of their sums
        self._lists += 1
        before = difference - self._mean
        self._mean += before / self._lists
        self._squares += before * (difference - self._mean)

    def comparison(self) -> Comparison:
        """What it has seen so far."""
        names = [replica.config.policy for replica in self._replicas]
        n, low, high = self._lists, None, None
        if n > 1:
            half = NORMAL_95 * math.sqrt(self._squares / (n - 1) / n)
            low, high = self._mean - half, self._mean + half
        reason = self._why_not(low, high)
        verdict = "cannot tell" if reason is not None else "better" if self._mean > 0 else "worse"
        return Comparison(names[0], names[1], n, self._mean if n else None, low, high, verdict, reason)

    def _why_not(self, low: float | None, high: float | None) -> str | None:
        """Why the numbers cannot tell which one is better, if they cannot."""
        if self._without:
            names = " and ".join(sorted({self._replicas[at].config.policy for at in self._without}))
            return f"There are no estimates of {names} from which clicks could be predicted."
        if self._amounts:
            return "Outcomes are amounts, and these predictions are of clicks."
        if self._lists < MIN_LISTS or low is None or high is None:
            return f"Fewer than {MIN_LISTS} lists could be compared."
        if low <= 0.0 <= high:
            return "The 95 % interval of the difference contains 0."
        return None


def _score(probability: FloatArray, clicked: BoolArray) -> float:
    p = np.clip(probability, CLIP, 1.0 - CLIP)
    return float(np.log(np.where(clicked, p, 1.0 - p)).sum())


def compare(
    active: ReplayedState,
    challenger: ReplayedState,
    entries: Iterable[LogEntry],
    pause: Callable[[], None] = lambda: None,
) -> Comparison:
    """Let two fresh replicas follow a log in step, page by page, and compare what they predicted.

    Args:
        active: of the policy that decides; it has seen nothing.
        challenger: of the policy that may replace it; it has seen nothing.
        entries: the log from its beginning, read once.
        pause: called now and then, to let others work.
    """
    judge, left, read = PredictionJudge(active, challenger), iter(entries), 0
    while page := list(islice(left, PAGE)):
        for replica in (active, challenger):
            replica.follow(page, page=PAGE)
        if (read + len(page)) // EVERY > read // EVERY:
            pause()
        read += len(page)
    active.witness = challenger.witness = None
    return judge.comparison()
