"""What the routes share: rankers, limits, keys, metrics and scheduled work."""

from __future__ import annotations

from typing import Self

from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.scheduler import Scheduler
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.admission import Admission
from rankloop.service.auth import AccessControl
from rankloop.service.lanes import Lanes
from rankloop.service.metrics import Metrics
from rankloop.service.warm_up import WarmUp


class Service:
    """An open log with its rankers, and everything that answers for them."""

    def __init__(self, settings: ServiceSettings, rankers: RankerRegistry) -> None:
        self.settings, self.limits, self.rankers = settings, settings.limits, rankers
        self.admission = Admission(settings.admission)
        self.access, self.metrics = AccessControl(settings), Metrics(rankers, self.admission)
        self.lanes = Lanes(settings.admission, self.admission)
        self.warm_up = WarmUp(rankers)
        self.scheduler = Scheduler(rankers, settings.snapshots, self._count_closed_windows)

    @classmethod
    def open(cls, settings: ServiceSettings) -> Self:
        """Open the log, replay its rankers and start the scheduled work."""
        service = cls(settings, RankerRegistry.open(settings))
        service.warm_up.start()
        service.scheduler.start()
        return service

    def _count_closed_windows(self, ranker: str, windows: int) -> None:
        self.metrics.closed.labels(ranker).inc(windows)

    def close(self) -> None:
        """Stop the scheduled work, then save the state and close the log."""
        self.warm_up.close()
        self.scheduler.close()
        self.rankers.close()
