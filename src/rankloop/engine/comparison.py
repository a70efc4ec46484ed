"""Two policies on the same log: which would have known better what visitors click?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from rankloop.engine.explain import estimates_of
from rankloop.engine.records import Shown
from rankloop.engine.replica import Replica
from rankloop.store.base import Entry
from rankloop.types import EMPTY, FloatArray

PAGE = 100
"""Entries that a judged replica follows at once: what it learns from them, it knows after them."""
EVERY = 500
"""Entries between two pauses."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well a policy's estimates foresaw the outcomes of lists before it learned from them.

    `error` is the mean squared difference between estimate and outcome over the slots that were looked at; `order`
    the share of pairs of a clicked and an unclicked item of one list that the estimates put in the right order (ties
    count half). None where the policy has no estimates, or no list was clicked.
    """

    policy: str
    lists: int
    slots: int
    error: float | None
    pairs: int
    order: float | None


class Judge:
    """Looks at lists as they settle, before their replica has learned from them."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._lists, self._slots, self._error, self._pairs, self._right = 0, 0, 0.0, 0, 0.0
        replica.witness = self.settled

    def settled(self, shown: Shown, outcome: FloatArray) -> None:
        """A list settles; the replica may be some lists behind, half of `PAGE`, and never knows this one."""
        learners = self._replica.learners
        self._lists += 1
        estimate = estimates_of(learners, shown)
        if estimate is None:
            return
        seen = learners.policy.feedback.read(shown.items[None, :], learners.policy.feedback.keep(outcome[None, :]))
        looked = (seen.exposure[0] > 0) & (shown.items != EMPTY) & np.isfinite(estimate)
        y, p = outcome[looked], estimate[looked]
        self._slots += len(y)
        self._error += float(((y - p) ** 2).sum())
        clicked, other = p[y > 0], p[y <= 0]
        if len(clicked) and len(other):
            gap = clicked[:, None] - other[None, :]
            self._pairs += gap.size
            self._right += float((gap > 0).sum() + 0.5 * (gap == 0).sum())

    def judgement(self) -> Judgement:
        """What it has seen."""
        return Judgement(
            self._replica.config.policy,
            self._lists,
            self._slots,
            self._error / self._slots if self._slots else None,
            self._pairs,
            self._right / self._pairs if self._pairs else None,
        )


def judged(
    replicas: Iterable[Replica], read: Callable[[int], Iterable[Entry]], pause: Callable[[], None] = lambda: None
) -> list[Judgement]:
    """Let fresh replicas follow a log, and judge each.

    Args:
        replicas: that have seen nothing.
        read: the log after a position.
        pause: called now and then, to let others work.
    """
    found = []
    for replica in replicas:
        judge = Judge(replica)
        replica.follow(_paused(read(0), pause), page=PAGE)
        replica.witness = None
        found.append(judge.judgement())
    return found


def _paused(entries: Iterable[Entry], pause: Callable[[], None]) -> Iterable[Entry]:
    for n, entry in enumerate(entries):
        if n % EVERY == EVERY - 1:
            pause()
        yield entry
