"""Admission of rank and feedback requests: bounded queues, deadlines, and fair shares for keys and rankers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

from rankloop.schema.admission_settings import AdmissionSettings
from rankloop.service.fair_queue import FairQueue, Waiting
from rankloop.service.held_bodies import HeldBodies
from rankloop.service.refusals import DEADLINE, FAIR_SHARE, QUEUE_FULL

STARTS_PER_ITERATION = 48
"""Requests that start in one iteration of the event loop: a few milliseconds of work, after which the loop reads its
sockets again and answers health checks."""
REFUSALS_PER_ITERATION = 64
SWEEP_SECONDS = 0.05
"""Time between two searches for requests that are past their deadline."""
BURST_SECONDS = 0.02
"""If requests have been waiting for so long without a pause, the newest one starts first. If this turns out to be an
overload, the oldest ones are refused, and no request was executed late because others had come before."""
CALM_SECONDS, CALM_SHARE = 1.0, 0.05
"""An overload has ended when, for this time, at most this share of the requests was refused: refused callers come back
after their pause, and a service that took every lull between them for the end would fill its queue again and again."""
MAX_KNOWN_KEYS = 1000
DEADLINE_HEADER = b"request-deadline-ms"
log = logging.getLogger("rankloop.service")


class Admission:
    """Starts requests at the pace at which the event loop executes them, and refuses those that would wait too long.

    Requests start at once as long as none waits. A burst may fill the queue. If requests have been waiting without a
    pause for `overload_ms`, or if the queue is full, the service is overloaded, and the queue is short so that accepted
    requests wait briefly; this ends when almost nothing was refused for a second. When the queue is full, the key with
    the most waiting requests loses its newest one, of the ranker with the most. Requests of a ranker that is held wait
    without holding up others; they do not count as a sign of overload.

    All methods are called on one event loop.

    Args:
        settings: the limits.
        clock: returns seconds.
    """

    def __init__(self, settings: AdmissionSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings, self._clock, self._queue = settings, clock, FairQueue()
        self.running = 0
        self.refused: Counter[str] = Counter()  # requests by reason
        self.waited = self.waits = 0.0  # seconds that requests waited before they started, and their number
        self._started = 0  # in this iteration of the loop
        self._pumping = self._sweeping = False
        self._standing_since: float | None = None  # from when on requests have been ready to start
        self._period = (0.0, 0, 0)  # of the overload: when it began, and the starts and refusals until then
        self._starts = self._refusals = 0
        self.overloaded = False  # the queue is short, since requests have been waiting without a pause for long
        self._set_limits()
        self._full = min(settings.queue, settings.ranker_queue)
        self._fewest = min(self._full, settings.overload_queue)
        self._names: dict[bytes, str] = {}  # of keys by Authorization header
        self.bodies = HeldBodies()

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return self._queue.size

    def _set_limits(self) -> None:
        """Set how many requests may wait and be executed now."""
        settings, self._limit, self._room = self.settings, self.settings.queue, self.settings.running
        if self.overloaded:
            self._limit = min(self._limit, settings.overload_queue)
            self._room = min(self._room, settings.overload_running)

    @property
    def may_refuse(self) -> bool:
        """Whether `refuses` may refuse a request that arrives now; this takes no time."""
        return self._queue.size >= self._fewest

    # Who sends a request

    def learn_key(self, authorization: bytes, name: str | None) -> None:
        """Remember the name of the key in a header that was accepted, for a fair share of its own."""
        if name is not None and authorization not in self._names:
            if len(self._names) >= MAX_KNOWN_KEYS:
                self._names.clear()
            self._names[authorization] = name

    def key_of(self, authorization: bytes | None) -> str:
        """Return the name of the key in a header; all keys that were never accepted share one name."""
        return "" if authorization is None else self._names.get(authorization, "")

    def deadline(self, arrived: float, headers: Mapping[bytes, bytes]) -> float:
        """Return the time up to which a request may start; its headers may ask for an earlier one."""
        allowed, asked = self.settings.deadline_ms, headers.get(DEADLINE_HEADER)
        if asked is not None and asked.isdigit() and len(asked) < 10:
            allowed = min(allowed, float(asked))
        return arrived + 1e-3 * allowed

    # Requests

    def starts_now(self, ranker: str) -> bool:
        """Return whether a request that arrives now need not wait; if so, it counts as started."""
        queue = self._queue
        if queue.ready or self._started >= STARTS_PER_ITERATION or self.running >= self._room or queue.is_held(ranker):
            return False
        self._count_start()
        return True

    def finished(self) -> None:
        """Count a started request as answered."""
        self.running -= 1
        if self._queue.ready:
            self._pump_soon()

    def park(self) -> None:
        """Count a started request as not executed while it waits for its ranker: others may start instead."""
        self.finished()

    def unpark(self) -> None:
        """Count a parked request as executed again."""
        self.running += 1

    def hold(self, ranker: str) -> None:
        """Let the requests of a ranker wait, since they could not be executed if they started."""
        self._queue.hold(ranker)
        if not self._queue.ready:
            self._standing_since = None

    def release(self, ranker: str) -> None:
        """Start the requests of a ranker again."""
        self._queue.release(ranker)
        if self._queue.ready:
            self._note_standing()
            self._pump_soon()

    def _note_standing(self) -> None:
        if self._standing_since is None:
            self._standing_since = self._clock()

    def refuses(self, key: str, ranker: str) -> str | None:
        """Return why a request that arrives now is refused; None if it may wait."""
        if self._queue.of_ranker(ranker) >= self.settings.ranker_queue:
            return QUEUE_FULL
        if self._queue.size >= self._limit and self._queue.longest(key, ranker) == (key, ranker):
            return QUEUE_FULL if self._queue.of_ranker(ranker) == self._queue.size else FAIR_SHARE
        return None

    def wait(self, request: Waiting) -> None:
        """Let a request that `refuses` admits wait for its turn, if need be instead of another one."""
        if self._queue.size >= self._limit:
            self._refuse(self._queue.pop_newest(*self._queue.longest(request.key, request.ranker)), FAIR_SHARE)
        self._queue.push(request)
        if self._queue.ready:
            self._note_standing()
            self._pump_soon()
        if not self._sweeping:
            self._sweeping = True
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def count_refusal(self, reason: str) -> None:
        """Count a request that was refused."""
        self.refused[reason] += 1
        self._refusals += 1
        if self._queue.ready >= self._full and not self.overloaded:
            self._set_overloaded(True, self._clock())

    def _refuse(self, request: Waiting, reason: str) -> None:
        self.count_refusal(reason)
        try:
            request.refuse(reason)
        except Exception:  # the others must not wait for ever because of it
            log.exception("a request could not be refused")

    def _start(self, request: Waiting) -> None:
        try:
            request.start()
        except Exception:
            log.exception("a request could not be started")
            self.finished()

    def _count_start(self) -> None:
        self.running += 1
        self._started += 1
        self._starts += 1
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Start the requests whose turn it is; the loop polls its sockets before the next call."""
        self._pumping, self._started = False, 0
        queue, now, refused = self._queue, self._clock(), 0
        # Requests that have just come are executed in time; those that wait are, too, if this is only a burst.
        newest_first = not self.overloaded and now - (self._standing_since or now) > BURST_SECONDS
        while queue.ready and self._started < STARTS_PER_ITERATION and self.running < self._room:
            if refused >= REFUSALS_PER_ITERATION:
                self._pump_soon()
                break
            request = queue.pop(newest=newest_first)
            if request.deadline < now:
                refused += 1
                self._refuse(request, DEADLINE)
            elif queue.ready >= self._limit:  # the service has become overloaded
                refused += 1
                self._refuse(request, QUEUE_FULL)
            else:
                self.waited += now - request.arrived
                self.waits += 1
                self._count_start()
                self._start(request)
        if not queue.ready:
            self._standing_since = None
        self._judge(now)

    def _judge(self, now: float) -> None:
        """Enter or leave the state of overload."""
        if self.overloaded:
            begin, starts, refusals = self._period
            if now - begin > CALM_SECONDS:
                is_calm = self._refusals - refusals <= CALM_SHARE * (self._starts - starts)
                self._set_overloaded(not is_calm, now)
        elif self._standing_since is not None and now - self._standing_since > 1e-3 * self.settings.overload_ms:
            self._set_overloaded(True, now)

    def _set_overloaded(self, overloaded: bool, now: float) -> None:
        """Set the state of overload, and begin a period after which it is judged again."""
        self.overloaded, self._period = overloaded, (now, self._starts, self._refusals)
        self._set_limits()

    def _sweep(self) -> None:
        """Refuse the requests that are past their deadline, even if nothing can start."""
        now = self._clock()
        try:
            for request in self._queue.pop_expired(now):
                self._refuse(request, DEADLINE)
        finally:
            self._sweeping = self._queue.size > 0
            if self._sweeping:
                asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)
            if not self._queue.ready:
                self._standing_since = None
            self._judge(now)
