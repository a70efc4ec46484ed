"""Says how long a replay will take, from the rate at which it runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator

from rankloop.eventlog.store import LogEntry

FIRST_SECONDS, EVERY_SECONDS = 2.0, 10.0
"""When the first line is logged, and how long after it the next one. A replay that takes less logs nothing."""
PAGE_ENTRIES = 2000
"""Entries between two looks at the clock; a replay applies as many at once."""
log = logging.getLogger("rankloop.serving")


class ReplayProgress:
    """Logs how many entries were replayed and about how long the rest will take.

    The first page is left out of the rate, since functions are compiled while it is applied.

    Args:
        ranker: the name in the log lines.
        total: returns the number of entries; called before the first line only.
        clock: returns seconds.
    """

    def __init__(self, ranker: str, total: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._ranker, self._total, self._clock = ranker, total, clock

    def watched(self, entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
        """Yield the entries, and log lines while they are applied."""
        due, measured_from, total = self._clock() + FIRST_SECONDS, 0.0, 0
        for replayed, entry in enumerate(entries):
            if replayed and replayed % PAGE_ENTRIES == 0:  # all entries before this one are applied
                now = self._clock()
                if replayed == PAGE_ENTRIES:
                    measured_from = now
                elif now >= due:
                    total = total or self._total()
                    rate = (replayed - PAGE_ENTRIES) / max(now - measured_from, 1e-9)
                    self._say(replayed, total, (total - replayed) / rate)
                    due = now + EVERY_SECONDS
            yield entry

    def _say(self, replayed: int, total: int, seconds: float) -> None:
        left = f"{seconds:,.0f} seconds" if seconds < 120.0 else f"{seconds / 60.0:,.0f} minutes"
        log.warning(
            "ranker %s: %s of %s log entries replayed, about %s left", self._ranker, f"{replayed:,}", f"{total:,}", left
        )
