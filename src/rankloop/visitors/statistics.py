"""Statistics of a run of simulated visitors: counts, click-through, regret and latencies."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TypedDict

from rankloop.errors import RankloopError

FIRST_BUCKET_SECONDS, BUCKET_RATIO = 1e-5, 1.05
"""Bound of the first bucket, and the ratio of each bound to the one before: percentiles are at most 5 % too large."""


class LatencyHistogram:
    """A histogram of latencies in geometric buckets: exact counts in bounded memory, however long a run is."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        """Count one latency."""
        ratio = max(seconds, FIRST_BUCKET_SECONDS) / FIRST_BUCKET_SECONDS
        self._buckets[max(0, math.ceil(math.log(ratio, BUCKET_RATIO)))] += 1
        self.longest = max(self.longest, seconds)

    def percentile(self, share: float) -> float | None:
        """Return the latency that this share of all requests did not exceed; None without requests."""
        left = share * self._buckets.total()
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(FIRST_BUCKET_SECONDS * BUCKET_RATIO**bucket, self.longest)
        return None

    def as_json(self) -> dict[str, float | None]:
        """Return percentiles in milliseconds."""
        seconds = {f"p{round(100 * share)}": self.percentile(share) for share in (0.5, 0.9, 0.99)}
        seconds["longest"] = self.longest if self._buckets else None
        return {name: None if value is None else round(1e3 * value, 3) for name, value in seconds.items()}


@dataclass
class IntervalStatistics:
    """Counts that start again from 0 for each line of progress."""

    lists: int = 0
    clicked: int = 0
    rank: LatencyHistogram = field(default_factory=LatencyHistogram)
    feedback: LatencyHistogram = field(default_factory=LatencyHistogram)


class Summary(TypedDict):
    """All statistics of a run; times in milliseconds, None where nothing was measured."""

    seconds: float
    lists: int
    lists_per_second: float
    feedback_sent: int
    feedback_sent_late: int
    late: int
    lost: int
    feedback_missing: int
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
    """Count what happens in a run; safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self.all, self._recent = IntervalStatistics(), IntervalStatistics()
        self.behind = LatencyHistogram()  # how long after its due time a visit began
        self.feedback_sent = self.feedback_sent_late = 0
        self.lost = self.late = self.repeated = self.refused = self.retries = 0
        self.regret = 0.0
        self.receipts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def shown(self, took: float, *, behind: float, clicked: bool, regret: float, delay: float | None) -> None:
        """Count a list that was shown to a visitor, who sends feedback after a delay (None: never)."""
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
        """Count feedback that the service has acknowledged."""
        with self._lock:
            for part in (self.all, self._recent):
                part.feedback.add(took)
            self.feedback_sent += 1
            self.feedback_sent_late += late
            self.receipts[status] += 1

    def withdrawn(self) -> None:
        """Count a visit whose feedback an earlier run of the same name had sent; its list was withdrawn."""
        with self._lock:
            self.repeated += 1

    def refuse(self, error: RankloopError) -> None:
        """Count feedback that the service refused permanently."""
        with self._lock:
            self.refused += 1
            self.errors[_error_kind(error)] += 1

    def failed(self, error: RankloopError) -> None:
        """Count a failed attempt that will be retried."""
        with self._lock:
            self.retries += 1
            self.errors[_error_kind(error)] += 1

    def ended(self, error: RankloopError) -> None:
        """Count the error that ended the run."""
        with self._lock:
            self.errors[_error_kind(error)] += 1

    @property
    def feedback_missing(self) -> int:
        """Return for how many lists feedback was intended but never acknowledged."""
        return self.all.lists - self.feedback_sent - self.lost - self.repeated - self.refused

    def line(self) -> str:
        """Return a line of progress: totals so far, click-through and latencies since the last line."""
        with self._lock:
            recent, self._recent = self._recent, IntervalStatistics()
            seconds, errors = time.monotonic() - self._started, self.errors.total()
            lists = f"{self.all.lists:,} lists, {self.feedback_sent:,} feedback sent"
            counts = f"{lists}, {self.late:,} late, {self.lost:,} lost"
        rate = "-" if not recent.lists else f"{recent.clicked / recent.lists:.1%}"
        times = f"rank {_percentiles(recent.rank)}, feedback {_percentiles(recent.feedback)}"
        return f"{seconds:.0f} s: {counts}, {errors:,} errors; clicked {rate}; {times} ms (p50/p99)"

    def summary(self) -> Summary:
        """Return all statistics as plain values; times in milliseconds."""
        with self._lock:
            lists, seconds = self.all.lists, time.monotonic() - self._started
            return {
                "seconds": round(seconds, 3),
                "lists": lists,
                "lists_per_second": round(lists / seconds, 1),
                "feedback_sent": self.feedback_sent,
                "feedback_sent_late": self.feedback_sent_late,
                "late": self.late,
                "lost": self.lost,
                "feedback_missing": self.feedback_missing,
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


def _error_kind(error: RankloopError) -> str:
    return f"{type(error).__name__} {error.status}" if error.status else f"no answer ({error})"


def _percentiles(times: LatencyHistogram) -> str:
    """Return the median and the 99th percentile in milliseconds, as text."""
    latencies = [times.percentile(share) for share in (0.5, 0.99)]
    return "/".join("-" if seconds is None else f"{1e3 * seconds:.1f}" for seconds in latencies)
