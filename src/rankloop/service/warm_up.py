"""Compiles what the rankers of a log need before the service says that it is ready."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

from rankloop.hosting.registry import RankerRegistry
from rankloop.serving.warm_up import warm_up

POLL_SECONDS = 0.02
log = logging.getLogger("rankloop.service")


class WarmUp:
    """A thread that warms up the rankers that exist when the service starts; new ones are warmed up when created."""

    def __init__(self, rankers: RankerRegistry) -> None:
        self._rankers = rankers
        self._thread = threading.Thread(target=self._run, name="rankloop-warm-up", daemon=True)
        self._stop = threading.Event()

    @property
    def done(self) -> bool:
        """Whether all rankers are warmed up."""
        return not self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop after the ranker under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    async def wait(self, seconds: float) -> None:
        """Wait until all rankers are warmed up, at most for so long."""
        end = time.monotonic() + seconds
        while not self.done and time.monotonic() < end:
            await asyncio.sleep(POLL_SECONDS)

    def _run(self) -> None:
        for hosted in self._rankers:
            if self._stop.is_set():
                return
            ranker = hosted.opened
            if ranker is None:
                continue
            try:
                warm_up(ranker.config)
            except Exception:
                log.exception("ranker %s could not be warmed up; its first requests may be slow", hosted.name)
