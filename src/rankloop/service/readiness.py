"""Whether this process can use the log now, answered within a time limit even if the log does not respond."""

from __future__ import annotations

import asyncio

from anyio.to_thread import run_sync

from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.registry_log import PUT, RESERVED
from rankloop.service.problems import RETRY, RequestRefused

READ_TIMEOUT_SECONDS = 2.0
"""Time after which a read of the log counts as failed."""


class ReadinessProbe:
    """Reads from the log and confirms the claim to it, one check at a time: a log that hangs blocks one thread."""

    def __init__(self, rankers: RankerRegistry) -> None:
        self._rankers = rankers
        self._read: asyncio.Task[object] | None = None

    async def check(self) -> None:
        """Refuse with 503 if the log cannot be read or written, or if another process serves it."""
        if self._rankers.writer.refusal is not None:
            raise self._rankers.writer.refusal
        if not self._rankers.writes:
            raise RequestRefused(503, "the log is not being written.", headers=RETRY)
        read, loop = self._read, asyncio.get_running_loop()
        if read is None or read.done() or read.get_loop() is not loop:
            read = self._read = loop.create_task(self._use_log())
            read.add_done_callback(_retrieve_exception)
        try:
            await asyncio.wait_for(asyncio.shield(read), READ_TIMEOUT_SECONDS)
        except TimeoutError:
            raise RequestRefused(503, "the log does not respond.", headers=RETRY) from None
        problem = self._rankers.store.problem
        if problem is not None:
            raise RequestRefused(503, f"the log cannot be written: {problem}.", headers=RETRY)

    async def _use_log(self) -> None:
        await run_sync(self._rankers.store.find, RESERVED, PUT, "-", abandon_on_cancel=True)
        await self._rankers.writer.barrier()


def _retrieve_exception(read: asyncio.Task[object]) -> None:
    """Mark the exception of a read that outlived its probes as retrieved, so that asyncio does not report it."""
    if not read.cancelled():
        read.exception()
