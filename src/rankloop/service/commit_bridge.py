"""From the writer's thread to the event loop: whoever waits for a commit does not stop the others."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class CommitBridge:
    """Waits for futures of other threads. One wake-up of the loop serves all that a commit has settled.

    Unlike `asyncio.wrap_future`, a caller who gives up does not cancel what is being written.
    """

    def __init__(self) -> None:
        self._channel: _Channel | None = None

    async def wait(self, future: Future[T]) -> T:
        """What the future gives."""
        loop = asyncio.get_running_loop()
        channel = self._channel
        if channel is None or channel.loop is not loop:
            channel = self._channel = _Channel(loop)
        waiter: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda done: channel.finished(waiter, done))
        return await waiter


class _Channel:
    """Futures that are done and whose waiters do not know yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._done: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    def finished(self, waiter: asyncio.Future[T], done: Future[T]) -> None:
        """Called in any thread."""
        self._done.append((waiter, done))
        if not self._woken:
            self._woken = True
            try:
                self.loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                return  # the loop has ended, and nobody waits any more

    def _drain(self) -> None:
        self._woken = False  # before the first is taken: what comes later wakes again
        while self._done:
            waiter, done = self._done.popleft()
            if waiter.done():
                continue
            error = done.exception()
            if error is None:
                waiter.set_result(done.result())
            else:
                waiter.set_exception(error)
