"""Whether the log can be used now: answered in time, also where the log itself does not answer."""

from __future__ import annotations

import asyncio

from anyio.to_thread import run_sync

from rankloop.hosting.change_history import PUT, RESERVED
from rankloop.hosting.registry import RankerRegistry
from rankloop.service.problems import RETRY, RequestRefused

PATIENCE = 2.0
"""Seconds after which a look into the log that has no answer counts as failed."""


class ReadinessProbe:
    """Looks into the log. One look at a time: however often somebody asks, a log that hangs holds one thread."""

    def __init__(self, rankers: RankerRegistry) -> None:
        self._rankers = rankers
        self._look: asyncio.Task[object] | None = None

    async def check(self) -> None:
        """Refuse with 503 where the log cannot be read now, or nobody writes it."""
        look, loop = self._look, asyncio.get_running_loop()
        if look is None or look.done() or look.get_loop() is not loop:
            find = self._rankers.store.find
            look = self._look = loop.create_task(run_sync(find, RESERVED, PUT, "-", abandon_on_cancel=True))
            look.add_done_callback(_seen)
        try:
            await asyncio.wait_for(asyncio.shield(look), PATIENCE)
        except TimeoutError:
            raise RequestRefused(503, "the log does not answer.", headers=RETRY) from None
        if not self._rankers.writes:
            raise RequestRefused(503, "the log is not being written.", headers=RETRY)


def _seen(look: asyncio.Task[object]) -> None:
    """An error that came too late for anybody is not one that nobody looked at."""
    if not look.cancelled():
        look.exception()
