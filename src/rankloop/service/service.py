"""What the routes share: rankers, limits, keys, metrics, the way back from the writer."""

from __future__ import annotations

import asyncio
from typing import Self

from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.scheduler import Scheduler
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.auth import AccessControl
from rankloop.service.commit_bridge import CommitBridge
from rankloop.service.metrics import Metrics


class Service:
    """One open log and all that answers for it."""

    def __init__(self, settings: ServiceSettings, rankers: RankerRegistry) -> None:
        self.settings, self.limits, self.rankers = settings, settings.limits, rankers
        self.guard, self.bridge, self.metrics = AccessControl(settings), CommitBridge(), Metrics(rankers)
        self.scheduler = Scheduler(rankers, settings.snapshots, self._closed)

    @classmethod
    def open(cls, settings: ServiceSettings) -> Self:
        """Open the log, rebuild the rankers, start the scheduler."""
        service = cls(settings, RankerRegistry.open(settings))
        service.scheduler.start()
        return service

    def _closed(self, ranker: str, windows: int) -> None:
        self.metrics.closed.labels(ranker).inc(windows)

    def answers_in(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let this loop apply what the log has kept: its requests wait for that, and for each other, in any case."""
        self.rankers.writer.apply_in(loop.call_soon_threadsafe)

    def close(self) -> None:
        """End the scheduler, then keep everything."""
        self.rankers.writer.apply_in(None)  # nobody may be left to wait for the loop, which waits here
        self.scheduler.close()
        self.rankers.close()
