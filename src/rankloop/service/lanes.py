"""Lanes: work that would hold up the event loop runs in threads, a few for each ranker, in bounded numbers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from rankloop.errors import Busy
from rankloop.schema.admission_settings import AdmissionSettings
from rankloop.service.admission import Admission
from rankloop.service.refusals import DEADLINE, FAIR_SHARE, QUEUE_FULL, overloaded

MAX_THREADS = 64
"""Threads of all lanes together."""
T = TypeVar("T")


class Lane:
    """The threads of one ranker, and the requests that use them or wait for them."""

    def __init__(self, threads: int) -> None:
        self.requests = 0
        self.blocked = 0  # requests that wait for other work with the ranker
        self.free_threads = asyncio.Semaphore(threads)


class Lanes:
    """Runs work in threads; a ranker that is busy for long occupies its own threads only.

    While the threads of a ranker are all in use, or a request waits for other work with it, its requests that have not
    started wait in the queue of the admission: there they cost nothing, and the event loop executes them when the
    ranker is free again. If each took a thread instead, the threads would hold one another up, and a burst could keep
    the ranker busy for as long as the load lasts.

    Args:
        settings: the limits.
        admission: counts the refusals, and knows the deadlines.
    """

    def __init__(self, settings: AdmissionSettings, admission: Admission) -> None:
        self._settings, self._admission = settings, admission
        self._threads = CapacityLimiter(MAX_THREADS)
        self.busy: dict[str, Lane] = {}  # by ranker
        self.blocked: set[str] = set()  # rankers that other work holds, as far as is known
        self._others: dict[str, int] = {}  # requests other than rank and feedback, by ranker
        self._all_others = 0

    async def run(self, ranker: str, deadline: float, work: Callable[[float], T], *, blocked: bool = False) -> T:
        """Run work in a thread and return its result; refuse with 503 if it cannot begin before the deadline.

        Args:
            ranker: the name of the ranker that it is for.
            deadline: monotonic time.
            work: takes the seconds that it may wait for the ranker; it raises `Busy` if that is not enough.
            blocked: whether other work holds the ranker now, so that no other request could be executed either.
        """
        lane = self.busy.get(ranker)
        if lane is None:
            lane = self.busy[ranker] = Lane(self._settings.ranker_threads)
        if lane.requests >= self._settings.ranker_queue:
            raise self.refusal(QUEUE_FULL)
        lane.requests += 1
        lane.blocked += blocked
        self._hold_or_release(ranker, lane)
        self._admission.park()
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                await lane.free_threads.acquire()
            try:
                return await run_sync(partial(_before, deadline, work), limiter=self._threads)
            finally:
                lane.free_threads.release()
        except (Busy, TimeoutError):
            raise self.refusal(DEADLINE) from None
        finally:
            self._admission.unpark()
            lane.requests -= 1
            lane.blocked -= blocked
            if not lane.requests:
                del self.busy[ranker]
            self._hold_or_release(ranker, lane)

    def _hold_or_release(self, ranker: str, lane: Lane) -> None:
        if lane.blocked:
            self.blocked.add(ranker)
        else:
            self.blocked.discard(ranker)
        if lane.blocked or lane.requests >= self._settings.ranker_threads:
            self._admission.hold(ranker)
        else:
            self._admission.release(ranker)

    def refusal(self, reason: str) -> Exception:
        """Count a refusal and return it."""
        self._admission.count_refusal(reason)
        return overloaded(reason)

    # Requests other than rank and feedback, whose routes use the framework's threads

    def enter(self, ranker: str) -> None:
        """Count such a request, or refuse it if too many are under way; `ranker` is empty if it is for none."""
        if self._all_others >= self._settings.others:
            raise self.refusal(QUEUE_FULL)
        if ranker and self._others.get(ranker, 0) >= self._settings.ranker_others:
            raise self.refusal(FAIR_SHARE)
        self._all_others += 1
        self._others[ranker] = self._others.get(ranker, 0) + 1

    def leave(self, ranker: str) -> None:
        """Count such a request as answered."""
        self._all_others -= 1
        left = self._others.pop(ranker) - 1
        if left:
            self._others[ranker] = left


def _before(deadline: float, work: Callable[[float], T]) -> T:
    patience = deadline - time.monotonic()
    if patience < 0.0:
        raise Busy("the deadline is over.")
    return work(patience)
