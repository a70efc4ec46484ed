"""A thread that closes feedback windows and stores snapshots."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from rankloop.errors import RankloopError
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.hosting.registry import RankerRegistry
from rankloop.schema.service_settings import SnapshotSettings

RETRY_SECONDS = 60.0
"""Least pause after a snapshot that could not be stored: every attempt copies the state while requests wait."""
log = logging.getLogger("rankloop.service")


class Scheduler:
    """Maintains every ranker at a fixed interval; a ranker that fails does not stop the others.

    Of several processes that share the log, the one that has the lease does it.

    Args:
        rankers: the rankers to maintain.
        snapshots: when to store a snapshot.
        on_windows_closed: called with a ranker's name and the number of feedback windows that were closed.
        every: seconds between two rounds.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        rankers: RankerRegistry,
        snapshots: SnapshotSettings,
        on_windows_closed: Callable[[str, int], None],
        *,
        every: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rankers, self._snapshots, self._every = rankers, snapshots, every
        self._on_windows_closed, self._clock = on_windows_closed, clock
        self._last_snapshots: dict[HostedRanker, tuple[int, float]] = {}  # log position and monotonic time
        self._retry_at: dict[HostedRanker, float] = {}  # of those whose last snapshot could not be stored
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankloop-scheduler", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after the round under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self.run_once()

    def run_once(self) -> None:
        """Close the due feedback windows and store the due snapshots of every ranker."""
        rankers = list(self._rankers)
        for hosted in rankers:
            try:
                closed = hosted.ranker.tick()
                if closed:
                    self._on_windows_closed(hosted.name, closed)
                if self._rankers.writer.leads:
                    self._rankers.follow_features(hosted)
                    self._store_snapshot_if_due(hosted)
            except RankloopError as error:
                log.warning("ranker %s: %s", hosted.name, error)
            except Exception:
                log.exception("the maintenance of ranker %s failed", hosted.name)
        for deleted in self._last_snapshots.keys() - set(rankers):
            del self._last_snapshots[deleted]
            self._retry_at.pop(deleted, None)

    def _store_snapshot_if_due(self, hosted: HostedRanker) -> None:
        now, position = self._clock(), hosted.ranker.position
        last_position, last_time = self._last_snapshots.setdefault(hosted, (position, now))
        interval = 60.0 * self._snapshots.minutes
        is_due = now - last_time >= interval or position - last_position >= self._snapshots.entries
        if position > last_position and is_due and now >= self._retry_at.get(hosted, now):
            self._retry_at[hosted] = now + max(interval, RETRY_SECONDS)
            self._last_snapshots[hosted] = (hosted.ranker.snapshot(), now)
            del self._retry_at[hosted]
