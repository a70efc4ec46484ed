"""Admission of rank and feedback requests: bounded queues, deadlines, and fair shares for keys and rankers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from rankloop.schema.admission_settings import AdmissionSettings
from rankloop.service.held_bodies import HeldBodies
from rankloop.service.refusals import DEADLINE, FAIR_SHARE, QUEUE_FULL

STARTS_PER_ITERATION = 48
"""Requests that start in one iteration of the event loop: a few milliseconds of work, after which the loop reads its
sockets again and answers health checks."""
REFUSALS_PER_ITERATION = 64
SWEEP_SECONDS = 0.05
"""Time between two searches for requests that are past their deadline."""
MAX_KNOWN_KEYS = 1000
DEADLINE_HEADER = b"request-deadline-ms"
log = logging.getLogger("rankloop.service")


@dataclass(slots=True, eq=False)
class Waiting:
    """A request that waits to be executed."""

    key: str
    ranker: str
    arrived: float
    deadline: float
    start: Callable[[], None]
    refuse: Callable[[str], None]  # takes the reason


class FairQueue:
    """Requests in turns: the keys take turns, and the rankers of a key, each with its requests in order of arrival."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, deque[Waiting]]] = {}  # in the order of their turns
        self._of_key: dict[str, int] = {}
        self._of_ranker: dict[str, int] = {}
        self.size = 0

    def of_ranker(self, ranker: str) -> int:
        """Return the number of requests that wait for a ranker."""
        return self._of_ranker.get(ranker, 0)

    def push(self, request: Waiting) -> None:
        """Add a request."""
        key, ranker = request.key, request.ranker
        rankers = self._keys.get(key)
        if rankers is None:
            rankers = self._keys[key] = {}
        queue = rankers.get(ranker)
        if queue is None:
            queue = rankers[ranker] = deque()
        queue.append(request)
        self._of_key[key] = self._of_key.get(key, 0) + 1
        self._of_ranker[ranker] = self._of_ranker.get(ranker, 0) + 1
        self.size += 1

    def pop(self) -> Waiting:
        """Take the request whose turn it is."""
        key = next(iter(self._keys))
        ranker = next(iter(self._keys[key]))
        return self._take(key, ranker, deque.popleft, next_turn=True)

    def longest(self, key: str, ranker: str) -> tuple[str, str]:
        """Return the key and its ranker with the most requests, if one more of this key and ranker came."""
        counts = Counter(self._of_key)
        counts[key] += 1
        most = max(counts, key=lambda one: (counts[one], one == key))
        rankers = Counter({name: len(queue) for name, queue in self._keys.get(most, {}).items()})
        if most == key:
            rankers[ranker] += 1
        return most, max(rankers, key=lambda one: (rankers[one], one == ranker))

    def pop_newest(self, key: str, ranker: str) -> Waiting:
        """Take the request of a key and ranker that came last."""
        return self._take(key, ranker, deque.pop)

    def pop_expired(self, now: float) -> list[Waiting]:
        """Take all requests that are past their deadline."""
        expired = []
        for key, rankers in list(self._keys.items()):
            for ranker, queue in list(rankers.items()):
                late = [request for request in queue if request.deadline < now]
                expired += [self._take(key, ranker, partial(_removed, request)) for request in late]
        return expired

    def _take(
        self, key: str, ranker: str, take: Callable[[deque[Waiting]], Waiting], *, next_turn: bool = False
    ) -> Waiting:
        rankers = self._keys[key]
        queue = rankers[ranker]
        request = take(queue)
        self.size -= 1
        _decrease(self._of_key, key)
        _decrease(self._of_ranker, ranker)
        if not queue or (next_turn and len(rankers) > 1):
            del rankers[ranker]
            if queue:
                rankers[ranker] = queue  # after the other rankers of the key
        if not rankers or (next_turn and len(self._keys) > 1):
            del self._keys[key]
            if rankers:
                self._keys[key] = rankers  # after the other keys
        return request


def _decrease(counts: dict[str, int], name: str) -> None:
    left = counts[name] - 1
    if left:
        counts[name] = left
    else:
        del counts[name]


def _removed(request: Waiting, queue: deque[Waiting]) -> Waiting:
    queue.remove(request)
    return request


class Admission:
    """Starts requests at the pace at which the event loop executes them, and refuses those that would wait too long.

    Requests start at once as long as none waits. A burst may fill the queue. If requests have been waiting without a
    pause for `overload_ms`, the service is overloaded, and the queue is short so that accepted requests wait briefly;
    this ends when nothing waits and nothing was refused for as long. When the queue is full, the key with the most
    waiting requests loses its newest one, of the ranker with the most.

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
        self._standing_since: float | None = None  # from when on the queue has not been empty
        self._refused_at = -float("inf")
        self.overloaded = False  # the queue is short, since requests have been waiting without a pause for long
        self._set_limits()
        self._fewest = min(settings.queue, settings.overload_queue, settings.ranker_queue)
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

    def starts_now(self) -> bool:
        """Return whether a request that arrives now need not wait; if so, it counts as started."""
        if self._queue.size or self._started >= STARTS_PER_ITERATION or self.running >= self._room:
            return False
        self._count_start()
        return True

    def finished(self) -> None:
        """Count a started request as answered."""
        self.running -= 1
        if self._queue.size:
            self._pump_soon()

    def park(self) -> None:
        """Count a started request as not executed while it waits for its ranker: others may start instead."""
        self.finished()

    def unpark(self) -> None:
        """Count a parked request as executed again."""
        self.running += 1

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
        if self._standing_since is None:
            self._standing_since = self._clock()
        self._queue.push(request)
        self._pump_soon()
        if not self._sweeping:
            self._sweeping = True
            asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def count_refusal(self, reason: str) -> None:
        """Count a request that was refused."""
        self.refused[reason] += 1
        self._refused_at = self._clock()

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
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Start the requests whose turn it is; the loop polls its sockets before the next call."""
        self._pumping, self._started = False, 0
        queue, now, refused = self._queue, self._clock(), 0
        while queue.size and self._started < STARTS_PER_ITERATION and self.running < self._room:
            if refused >= REFUSALS_PER_ITERATION:
                self._pump_soon()
                break
            request = queue.pop()
            if request.deadline < now:
                refused += 1
                self._refuse(request, DEADLINE)
            elif queue.size >= self._limit:  # the service has become overloaded
                refused += 1
                self._refuse(request, QUEUE_FULL)
            else:
                self.waited += now - request.arrived
                self.waits += 1
                self._count_start()
                self._start(request)
        if not queue.size:
            self._standing_since = None
        self._judge(now)

    def _judge(self, now: float) -> None:
        """Enter or leave the state of overload."""
        long, since = 1e-3 * self.settings.overload_ms, self._standing_since
        if not self.overloaded and since is not None and now - since > long:
            self.overloaded = True
            self._set_limits()
        elif self.overloaded and since is None and now - self._refused_at > long:
            self.overloaded = False
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
            else:
                self._standing_since = None
            self._judge(now)
