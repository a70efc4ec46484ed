"""A thread that closes feedback windows and keeps snapshots."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from rankloop.errors import RankloopError
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.hosting.registry import RankerRegistry
from rankloop.schema.service_settings import SnapshotSettings

log = logging.getLogger("rankloop.service")


class Scheduler:
    """Calls every ranker once in a while; a ranker that fails does not stop the others."""

    def __init__(
        self,
        rankers: RankerRegistry,
        snapshots: SnapshotSettings,
        closed: Callable[[str, int], None],
        *,
        every: float = 1.0,
    ) -> None:
        self._rankers, self._snapshots, self._closed, self._every = rankers, snapshots, closed, every
        self._kept: dict[HostedRanker, tuple[int, float]] = {}  # position of the last snapshot, and when that was
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankloop-scheduler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End, after what is being done."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._every):
            self.once()

    def once(self) -> None:
        """Look after every ranker."""
        there = list(self._rankers)
        for hosted in there:
            try:
                closed = hosted.ranker.tick()
                if closed:
                    self._closed(hosted.name, closed)
                self._keep(hosted)
            except RankloopError as error:
                log.warning("ranker %s: %s", hosted.name, error)
            except Exception:
                log.exception("ranker %s could not be looked after", hosted.name)
        for gone in self._kept.keys() - set(there):
            del self._kept[gone]

    def _keep(self, hosted: HostedRanker) -> None:
        now, position = time.monotonic(), hosted.ranker.position
        at, then = self._kept.setdefault(hosted, (position, now))
        old = now - then >= 60.0 * self._snapshots.minutes
        if position > at and (old or position - at >= self._snapshots.entries):
            self._kept[hosted] = (hosted.ranker.snapshot(), now)
