"""What happened in a run: counts, and how long answers took."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TypedDict

from rankloop.errors import RankloopError

SHORTEST, STEP = 1e-5, 1.05
"""Seconds of the first bucket, and the ratio of each to the one before: a percentile is at most 5 % too large."""


class Times:
    """Seconds in buckets: exact counts in a bounded memory, however long a run is."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        """One more."""
        self._buckets[max(0, math.ceil(math.log(max(seconds, SHORTEST) / SHORTEST, STEP)))] += 1
        self.longest = max(self.longest, seconds)

    def percentile(self, share: float) -> float | None:
        """The time that this share of all did not exceed; None of nothing."""
        left = share * self._buckets.total()
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(SHORTEST * STEP**bucket, self.longest)
        return None

    def as_json(self) -> dict[str, float | None]:
        """Percentiles in milliseconds."""
        found = {f"p{round(100 * share)}": self.percentile(share) for share in (0.5, 0.9, 0.99)}
        found["longest"] = self.longest if self._buckets else None
        return {name: None if seconds is None else round(1e3 * seconds, 3) for name, seconds in found.items()}


@dataclass
class Interval:
    """What is counted anew for each line of progress."""

    lists: int = 0
    clicked: int = 0
    rank: Times = field(default_factory=Times)
    feedback: Times = field(default_factory=Times)


class Summary(TypedDict):
    """All numbers of a run; times in milliseconds, None where there is none."""

    seconds: float
    lists: int
    lists_per_second: float
    told: int
    told_late: int
    late: int
    lost: int
    untold: int
    repeated: int
    refused: int
    receipts: dict[str, int]
    clicked: int
    click_through: float | None
    mean_regret: float | None
    rank_ms: dict[str, float | None]
    feedback_ms: dict[str, float | None]
    behind_ms: dict[str, float | None]
    retries: int
    errors: dict[str, int]


class VisitStatistics:
    """Counts of a run. Any thread may add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self.all, self._recent = Interval(), Interval()
        self.behind = Times()  # how long after its time a visit began
        self.lost = self.late = self.told = self.told_late = self.repeated = self.refused = self.retries = 0
        self.regret = 0.0
        self.receipts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def shown(self, took: float, *, behind: float, clicked: bool, regret: float, delay: float | None) -> None:
        """A list was shown to a visitor, who will tell after a delay (None: never)."""
        with self._lock:
            for part in (self.all, self._recent):
                part.lists += 1
                part.clicked += clicked
                part.rank.add(took)
            self.behind.add(behind)
            self.regret += regret
            self.lost += delay is None
            self.late += delay is not None and delay > 0.0

    def acknowledged(self, took: float, status: str, *, late: bool) -> None:
        """The service has taken what a visitor told."""
        with self._lock:
            for part in (self.all, self._recent):
                part.feedback.add(took)
            self.told += 1
            self.told_late += late
            self.receipts[status] += 1

    def again(self) -> None:
        """A visit had been told of before, in an earlier run of this name; its list was withdrawn."""
        with self._lock:
            self.repeated += 1

    def refuse(self, error: RankloopError) -> None:
        """What a visitor told was refused for good."""
        with self._lock:
            self.refused += 1
            self.errors[_kind(error)] += 1

    def failed(self, error: RankloopError) -> None:
        """An attempt failed; it is made again."""
        with self._lock:
            self.retries += 1
            self.errors[_kind(error)] += 1

    def ended(self, error: RankloopError) -> None:
        """A refusal ended the run."""
        with self._lock:
            self.errors[_kind(error)] += 1

    @property
    def untold(self) -> int:
        """Lists of which nothing is known to have been told, though their visitors meant to."""
        return self.all.lists - self.told - self.lost - self.repeated - self.refused

    def line(self) -> str:
        """The numbers so far, and click-through and times since the last line."""
        with self._lock:
            recent, self._recent = self._recent, Interval()
            seconds, errors = time.monotonic() - self._started, self.errors.total()
            counts = f"{self.all.lists:,} lists, {self.told:,} told, {self.late:,} late, {self.lost:,} lost"
        rate = "-" if not recent.lists else f"{recent.clicked / recent.lists:.1%}"
        times = f"rank {_both(recent.rank)}, feedback {_both(recent.feedback)}"
        return f"{seconds:.0f} s: {counts}, {errors:,} errors; clicked {rate}; {times} ms (p50/p99)"

    def summary(self) -> Summary:
        """All numbers as plain values; times in milliseconds."""
        with self._lock:
            lists, seconds = self.all.lists, time.monotonic() - self._started
            return {
                "seconds": round(seconds, 3),
                "lists": lists,
                "lists_per_second": round(lists / seconds, 1),
                "told": self.told,
                "told_late": self.told_late,
                "late": self.late,
                "lost": self.lost,
                "untold": self.untold,
                "repeated": self.repeated,
                "refused": self.refused,
                "receipts": dict(self.receipts),
                "clicked": self.all.clicked,
                "click_through": self.all.clicked / lists if lists else None,
                "mean_regret": self.regret / lists if lists else None,
                "rank_ms": self.all.rank.as_json(),
                "feedback_ms": self.all.feedback.as_json(),
                "behind_ms": self.behind.as_json(),
                "retries": self.retries,
                "errors": dict(self.errors),
            }


def _kind(error: RankloopError) -> str:
    return f"{type(error).__name__} {error.status}" if error.status else f"no answer ({error})"


def _both(times: Times) -> str:
    found = [times.percentile(share) for share in (0.5, 0.99)]
    return "/".join("-" if seconds is None else f"{1e3 * seconds:.1f}" for seconds in found)
