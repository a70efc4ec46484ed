"""Open connections: how many there may be, which one makes room for another, and which one has waited too long."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from rankloop.schema.connection_settings import ConnectionSettings

STATE_KEY = "connections"
"""Key of the `Connections` in the state that the application's lifespan yields."""
SWEEP_SECONDS = 1.0
"""Time between two searches for connections that have waited too long."""
EXCUSED_SECONDS = 0.5
"""A sweep that is later than this was held up by the service itself: what clients sent meanwhile was not read."""
GRACE_SECONDS = 5.0
"""Time after which the rate of a body or of an answer is measured."""
log = logging.getLogger("rankloop.service")


class Phase(Enum):
    """What a connection waits for."""

    NEW = "the first byte of its first request"
    HEAD = "the rest of a request's headers"
    BODY = "the rest of a request's body"
    WORK = "the service"
    ANSWER = "the client, which must receive an answer"
    IDLE = "a further request"


REASONS = {Phase.NEW: "idle", Phase.HEAD: "head", Phase.BODY: "body", Phase.ANSWER: "answer", Phase.IDLE: "idle"}
"""Names of the time-outs in the metrics."""


class WatchedClient(Protocol):
    """The protocol of a connection, which can end it."""

    def settle(self) -> None:
        """Report the current phase to the connections."""

    def is_held(self) -> bool:
        """Return whether the service itself has stopped reading, so that the client cannot proceed."""

    def close(self, phase: Phase) -> None:
        """Send what is left to send, then close."""

    def abort(self) -> None:
        """Close at once."""


@dataclass(eq=False, slots=True)
class OpenConnection:
    """A connection, what it waits for, since when, and the bytes that were received or that the client must receive."""

    client: WatchedClient
    address: str
    phase: Phase = Phase.NEW
    since: float = 0.0
    size: int = 0


class Connections:
    """The open connections of a service.

    Those that wait for their client are ordered by the time at which they began to wait. If a new connection exceeds a
    limit, the first of them is closed; connections whose request is being answered are not. So idle connections and
    half-sent requests, however many, keep nobody else away.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        total: int,
        count: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the collection without connections.

        Args:
            settings: limits and time-outs.
            total: maximum number of connections, at most that of the settings.
            count: counts a connection that the service closed, by reason.
            clock: time in seconds.
        """
        self._settings, self._total, self._count, self._clock = settings, total, count, clock
        self._open: set[OpenConnection] = set()
        self._waiting: OrderedDict[OpenConnection, None] = OrderedDict()
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, one: OpenConnection) -> bool:
        """Add a connection, after making room for it; return False if there is no room."""
        if self._by_address[one.address] >= self._settings.per_address:
            admitted = self._make_room(one.address)
        else:
            admitted = len(self) < self._total or self._make_room(None)
        if not admitted:
            self._count("refused")
            return False
        self._open.add(one)
        self._by_address[one.address] += 1
        one.since = self._clock()
        self._waiting[one] = None
        return True

    def _make_room(self, address: str | None) -> bool:
        """Close the connection, of one address or of all, that has waited longest for its client."""
        for one in self._waiting:
            if address is None or one.address == address:
                one.client.abort()
                self.forget(one)
                self._count("evicted")
                return True
        return False

    def forget(self, one: OpenConnection) -> None:
        """Remove a connection that was lost."""
        if one in self._open:
            self._open.remove(one)
            self._waiting.pop(one, None)
            self._by_address[one.address] -= 1
            if not self._by_address[one.address]:
                del self._by_address[one.address]

    def enter(self, one: OpenConnection, phase: Phase, size: int = 0) -> None:
        """Note what a connection waits for from now on."""
        before = one.phase
        if phase is before or one not in self._open:
            return
        one.phase = phase
        if before is Phase.NEW and phase is Phase.HEAD:
            return  # the time of the headers begins with the connection
        if phase is not Phase.HEAD:
            one.size = size
        self._waiting.pop(one, None)
        if phase is not Phase.WORK:
            self._waiting[one] = None
            one.since = self._clock()

    def renew(self, one: OpenConnection) -> None:
        """Let the time of a connection that waits begin again."""
        one.size = 0
        if one in self._waiting:
            one.since = self._clock()
            self._waiting.move_to_end(one)

    def sweep(self) -> None:
        """Close the connections whose clients were too slow; one that fails does not keep the others open."""
        for one in [one for one in self._open if one.phase is Phase.WORK]:
            try:
                one.client.settle()  # a failed request may have closed its connection
            except Exception:
                log.exception("a connection could not be examined")
        now = self._clock()
        for one in [one for one in self._waiting if now - one.since > self.allowed_seconds(one)]:
            try:
                self._end(one)
            except Exception:
                log.exception("a connection that waited too long could not be closed")

    def excuse(self, seconds: float) -> None:
        """Do not count this time, in which the service itself was held up and read nothing, against its clients."""
        now = self._clock()
        for one in self._waiting:
            one.since = min(now, one.since + seconds)

    def _end(self, one: OpenConnection) -> None:
        """Close a connection that has waited too long, unless the service itself has stopped reading."""
        if one.client.is_held():
            self.renew(one)
            return
        self._count(REASONS[one.phase])
        if one.phase is Phase.ANSWER:
            one.client.abort()
            self.forget(one)
        else:
            one.client.close(one.phase)

    def allowed_seconds(self, one: OpenConnection) -> float:
        """Return for how long a connection may wait in its phase."""
        settings, by_rate = self._settings, GRACE_SECONDS + one.size / self._settings.min_rate
        if one.phase is Phase.BODY:
            return min(settings.body_seconds, by_rate)
        if one.phase is Phase.ANSWER:
            return min(settings.answer_seconds, by_rate)
        return settings.idle_seconds if one.phase is Phase.IDLE else settings.head_seconds

    @asynccontextmanager
    async def swept(self) -> AsyncIterator[None]:
        """Sweep regularly until the end of the block."""

        async def sweep_forever() -> None:
            loop = asyncio.get_running_loop()
            while True:
                due = loop.time() + SWEEP_SECONDS
                await asyncio.sleep(SWEEP_SECONDS)
                late = loop.time() - due
                if late > EXCUSED_SECONDS:
                    self.excuse(late)
                self.sweep()

        task = asyncio.get_running_loop().create_task(sweep_forever())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def network(address: str) -> str:
    """Return what counts as one address: an IPv4 address, or the /64 network of an IPv6 address."""
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(found.ipv4_mapped or ipaddress.IPv6Network((found.packed[:8] + bytes(8), 64)))
