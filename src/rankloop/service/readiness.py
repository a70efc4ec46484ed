"""Whether the log can be used now, answered within a time limit even if the log does not respond."""

from __future__ import annotations

import asyncio
import time

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.registry_log import PUT, RESERVED
from rankloop.service.problems import RETRY, RequestRefused
from rankloop.service.warm_up import WarmUp

READ_TIMEOUT_SECONDS = 2.0
"""Time after which the warm-up or a read of the log counts as not done."""


class ReadinessProbe:
    """Reads from the log, one read at a time: however many probes arrive, a log that hangs blocks one thread."""

    def __init__(self, rankers: RankerRegistry, warm_up: WarmUp) -> None:
        self._rankers, self._warm_up = rankers, warm_up
        self._thread = CapacityLimiter(1)  # of its own: all others may be waiting for a ranker
        self._read: asyncio.Task[object] | None = None

    async def check(self) -> None:
        """Refuse with 503 if kernels are being compiled, the log cannot be read, or its writer is not running."""
        end = time.monotonic() + READ_TIMEOUT_SECONDS
        await self._warm_up.wait(READ_TIMEOUT_SECONDS)
        if not self._warm_up.done:
            raise RequestRefused(503, "the service is starting: its rankers are being warmed up.", headers=RETRY)
        read, loop = self._read, asyncio.get_running_loop()
        if read is None or read.done() or read.get_loop() is not loop:
            find = self._rankers.store.find
            work = run_sync(find, RESERVED, PUT, "-", abandon_on_cancel=True, limiter=self._thread)
            read = self._read = loop.create_task(work)
            read.add_done_callback(_retrieve_exception)
        try:
            await asyncio.wait_for(asyncio.shield(read), end - time.monotonic())
        except TimeoutError:
            raise RequestRefused(503, "the log does not respond.", headers=RETRY) from None
        if not self._rankers.writes:
            raise RequestRefused(503, "the log is not being written.", headers=RETRY)


def _retrieve_exception(read: asyncio.Task[object]) -> None:
    """Mark the exception of a read that outlived its probes as retrieved, so that asyncio does not report it."""
    if not read.cancelled():
        read.exception()
