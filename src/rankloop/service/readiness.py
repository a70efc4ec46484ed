"""Whether this process can use the log now, answered within a time limit even if the log does not respond."""

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
    """Reads from the log and confirms the claim to it, one check at a time: a log that hangs blocks one thread."""

    def __init__(self, rankers: RankerRegistry, warm_up: WarmUp, max_lag: float) -> None:
        self._rankers, self._warm_up, self._max_lag = rankers, warm_up, max_lag
        self._thread = CapacityLimiter(1)  # of its own: all others may be waiting for a ranker
        self._read: asyncio.Task[object] | None = None

    async def check(self) -> None:
        """Refuse with 503 if rankers are being warmed up, the log is not usable, or another serves it."""
        end = time.monotonic() + READ_TIMEOUT_SECONDS
        self._rankers.writer.require_claim()
        if not self._rankers.writes:
            raise RequestRefused(503, "the log is not being written.", headers=RETRY)
        await self._warm_up.wait(READ_TIMEOUT_SECONDS)
        if not self._warm_up.done:
            raise RequestRefused(503, "the service is starting: its rankers are being warmed up.", headers=RETRY)
        read, loop = self._read, asyncio.get_running_loop()
        if read is None or read.done() or read.get_loop() is not loop:
            read = self._read = loop.create_task(self._use_log())
            read.add_done_callback(_retrieve_exception)
        try:
            # A warm-up that ended at the last moment leaves the log some time as well.
            await asyncio.wait_for(asyncio.shield(read), max(READ_TIMEOUT_SECONDS / 4.0, end - time.monotonic()))
        except TimeoutError:
            raise RequestRefused(503, "the log does not respond.", headers=RETRY) from None
        lag = self._rankers.writer.lag
        if lag is not None and lag > self._max_lag:
            raise RequestRefused(503, f"the log is followed with a lag of {lag:.1f} seconds.", headers=RETRY)
        problem = self._rankers.store.problem
        if problem is not None:
            raise RequestRefused(503, f"the log cannot be written: {problem}.", headers=RETRY)

    async def _use_log(self) -> None:
        find = self._rankers.store.find
        await run_sync(find, RESERVED, PUT, "-", abandon_on_cancel=True, limiter=self._thread)
        await self._rankers.writer.barrier()


def _retrieve_exception(read: asyncio.Task[object]) -> None:
    """Mark the exception of a read that outlived its probes as retrieved, so that asyncio does not report it."""
    if not read.cancelled():
        read.exception()
