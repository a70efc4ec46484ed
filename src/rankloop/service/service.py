"""What the routes share: rankers, limits, keys, metrics and scheduled work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.scheduler import Scheduler
from rankloop.hosting.shared_registry import open_rankers
from rankloop.schema.api_key import ApiKey
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.access.audit import AuditLog, AuditRecord
from rankloop.service.access.auth import AccessControl
from rankloop.service.access.key_watch import KeyWatch, key_changes
from rankloop.service.admission import Admission
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
        self.audit = AuditLog(settings.audit)
        self.key_watch: KeyWatch | None = None
        self.scheduler = Scheduler(rankers, settings.snapshots, self._count_closed_windows)

    @classmethod
    def open(cls, settings: ServiceSettings, key_file: Path | None = None) -> Self:
        """Open the log, replay its rankers, start the scheduled work, and watch the file with the API keys."""
        AuditLog(settings.audit)  # refuses a file that cannot be written before the log is opened
        service = cls(settings, open_rankers(settings))
        service.warm_up.start()
        service.scheduler.start()
        if key_file is not None:
            service.key_watch = KeyWatch(key_file, service.use_keys)
            service.key_watch.start()
        return service

    def _count_closed_windows(self, ranker: str, windows: int) -> None:
        self.metrics.closed.labels(ranker).inc(windows)

    def use_keys(self, keys: Sequence[ApiKey]) -> None:
        """Replace the API keys; record which were added and revoked."""
        if changes := key_changes(self.access.keys, keys):
            self.access.use_keys(keys)
            self.audit.record(AuditRecord(by="settings", action="API keys", fields=changes, status=200))

    def close(self) -> None:
        """Stop the scheduled work, then save the state and close the log."""
        if self.key_watch is not None:
            self.key_watch.close()
        self.audit.close()
        self.warm_up.close()
        self.scheduler.close()
        self.rankers.close()
