"""How a ranker has done since the start, counted as it happens."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass

from rankloop.engine import Listed

MINUTES = 24 * 60
"""So many are remembered."""


@dataclass(slots=True)
class Counts:
    """Lists, those with feedback, and those with a click."""

    lists: int = 0
    answered: int = 0
    clicked: int = 0

    @property
    def click_through(self) -> float | None:
        """Share of lists that were clicked so far."""
        return self.clicked / self.lists if self.lists else None


class Stats:
    """Counts in all and by minute; a click belongs to the minute in which its list was decided."""

    def __init__(self) -> None:
        self.since = time.time()
        self.all = Counts()
        self.minutes: OrderedDict[int, Counts] = OrderedDict()
        self._exploration, self._slots = 0.0, 0

    def listed(self, now: float, exploration: float, slots: int) -> None:
        """A list was decided; `exploration` is the sum of the shares of so many slots."""
        minute = int(now // 60)
        counts = self.minutes.get(minute)
        if counts is None:
            counts = self.minutes[minute] = Counts()
            while len(self.minutes) > MINUTES:
                self.minutes.popitem(last=False)
        counts.lists += 1
        self.all.lists += 1
        self._exploration += exploration
        self._slots += slots

    def told(self, decided: float, *, first: bool, click: bool) -> None:
        """Feedback came for a list: the first of this list, the first click on it."""
        if decided < self.since:
            return  # the list was not counted either
        for counts in (self.all, self.minutes.get(int(decided // 60))):
            if counts is not None:
                counts.answered += first
                counts.clicked += click

    @property
    def exploration_share(self) -> float | None:
        """Mean over the slots listed."""
        return self._exploration / self._slots if self._slots else None


def exploration_share(listed: Listed) -> float | None:
    """How much of a score is exploring: |score - estimate| beside |estimate|; all of it where it is random."""
    if listed.rule == "pinned":
        return 0.0
    if listed.rule == "random":
        return 1.0
    if listed.estimate is None:
        return None
    if listed.score is None:  # beyond all numbers: nobody has seen it
        return 1.0
    added = abs(listed.score - listed.estimate)
    whole = added + abs(listed.estimate)
    return added / whole if whole > 0 else 0.0
