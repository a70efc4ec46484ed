"""Offer a service three times the load that it can serve: `python -m bench.overload [SECONDS]`.

The capacity is measured with callers that wait for each answer. Half and three times of it arrive as a Poisson process,
on as many connections as it takes, whether or not earlier requests were answered. Accepted requests must stay above
80 % of the capacity, and their p99 latency within four times of that at half load. The service has the first core and
the callers the last one.
"""

from __future__ import annotations

import random
import select
import socket
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field

from bench.load import HOST, apart, serving

CALLERS = 64
"""Connections that measure the capacity."""
MAX_CONNECTIONS = 450
"""Connections of an open load, fewer than the service accepts from an address; a request that finds all of them waiting
is counted as unsent."""
TARGET_GOODPUT, TARGET_LATENCY = 0.8, 4.0
WARM_UP_SECONDS = 2.0
ROUNDS = 3


@dataclass
class Load:
    """What happened to the requests of one measurement."""

    seconds: float
    latencies: list[float] = field(default_factory=list)  # of accepted requests, in seconds
    refused: int = 0
    unsent: int = 0
    failed: int = 0

    @property
    def rate(self) -> float:
        """Accepted requests per second."""
        return len(self.latencies) / self.seconds

    def quantile(self, q: float) -> float:
        """Return a quantile of the latency of accepted requests in milliseconds."""
        ordered = sorted(self.latencies)
        return 1e3 * ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("inf")

    def __str__(self) -> str:
        return (
            f"{self.rate:,.0f} accepted/s, p50 {self.quantile(0.5):.1f} ms, p99 {self.quantile(0.99):.1f} ms; "
            f"{self.refused:,} refused, {self.unsent:,} unsent, {self.failed:,} failed"
        )


@dataclass(frozen=True)
class Overload:
    """The loads of one stage."""

    capacity: Load
    half: Load
    triple: Load

    @property
    def goodput(self) -> float:
        """Accepted requests at three times the capacity, as a share of the capacity."""
        return self.triple.rate / self.capacity.rate

    @property
    def latency(self) -> float:
        """The p99 latency of accepted requests at three times the capacity, in units of that at half load."""
        return self.triple.quantile(0.99) / self.half.quantile(0.99)

    @property
    def holds(self) -> bool:
        """Whether both targets are met, and nothing failed in another way than by a refusal."""
        failed = self.half.failed + self.triple.failed
        return self.goodput >= TARGET_GOODPUT and self.latency <= TARGET_LATENCY and not failed

    def __str__(self) -> str:
        return (
            f"capacity: {self.capacity}\nhalf load: {self.half}\nthree times the capacity: {self.triple}\n"
            f"goodput {self.goodput:.0%} of the capacity (target: at least {TARGET_GOODPUT:.0%}), p99 "
            f"{self.latency:.1f} times that at half load (target: at most {TARGET_LATENCY:g})"
        )


class _Caller:
    """One keep-alive connection with at most one request under way."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.sent_at, self.answer, self.ranks = 0.0, b"", False

    def send(self, request: bytes, *, ranks: bool) -> None:
        self.sent_at, self.answer, self.ranks = time.perf_counter(), b"", ranks
        self.socket.send(request)

    def receive(self) -> bool:
        """Read what has arrived; return whether the answer is complete."""
        data = self.socket.recv(65536)
        self.answer += data
        head, separator, body = self.answer.partition(b"\r\n\r\n")
        if not separator:
            return not data  # the connection was closed
        return len(body) >= int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])


class Callers:
    """Sends lists and their feedback in turn, from one thread that never sleeps.

    Args:
        address: of the service.
        ranker: the ranker that is asked.
        key: the API key, if the service requires one.
    """

    def __init__(self, address: tuple[str, int], ranker: str, key: str | None = None, *, seed: int = 0) -> None:
        self._address, self._rng = address, random.Random(seed)
        self._key = "" if key is None else f"Authorization: Bearer {key}\r\n"
        self._paths = f"/v1/rankers/{ranker}/rank", f"/v1/rankers/{ranker}/feedback"
        self._rank = self._request(self._paths[0], b'{"k":10}')
        self._decisions: deque[bytes] = deque(maxlen=10_000)  # without feedback yet
        self._epoll, self._by_file, self._idle = select.epoll(), dict[int, _Caller](), list[_Caller]()
        self._busy = 0
        self._turn = False

    def _request(self, path: str, body: bytes) -> bytes:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{self._key}Content-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def as_fast_as_possible(self, seconds: float) -> Load:
        """Send the next request on a connection as soon as the last one is answered."""
        self.connect(CALLERS)
        load, end = Load(seconds), time.perf_counter() + seconds
        for _ in range(CALLERS):
            self._send(load)
        while time.perf_counter() < end:
            for _ in range(self._receive(load)):
                self._send(load)
        self._finish(load)
        return load

    def at_a_rate(self, seconds: float, rate: float) -> Load:
        """Send requests at the arrival times of a Poisson process."""
        self.connect()
        load, draw = Load(seconds), self._rng.expovariate
        now = begin = time.perf_counter()
        due = begin + draw(rate)
        while now < begin + seconds:
            while due <= now:
                self._send(load)
                due += draw(rate)
            self._receive(load)
            now = time.perf_counter()
        self._finish(load)
        return load

    def connect(self, connections: int = MAX_CONNECTIONS) -> None:
        """Open all connections of an open load, as callers with a pool of connections do."""
        while len(self._by_file) < connections:
            caller = _Caller(self._address)
            self._by_file[caller.socket.fileno()] = caller
            self._epoll.register(caller.socket, select.EPOLLIN)
            self._idle.append(caller)
            if len(self._by_file) % 50 == 0:
                time.sleep(0.02)  # the service accepts them

    def _send(self, load: Load) -> None:
        """Send the next request on the connection that has been idle for the shortest time."""
        self._turn = not self._turn
        ranks = self._turn or not self._decisions
        body = b"" if ranks else b'{"decision":"%s","clicked":[2]}' % self._decisions.pop()
        request = self._rank if ranks else self._request(self._paths[1], body)
        while self._idle:
            caller = self._idle.pop()
            try:
                caller.send(request, ranks=ranks)
            except OSError:  # closed by the service because it was idle
                self._forget(caller)
                continue
            self._busy += 1
            return
        load.unsent += 1

    def _receive(self, load: Load, timeout: float = 0.0) -> int:
        """Read the answers that have arrived; return their number."""
        received = 0
        for file, _ in self._epoll.poll(timeout):
            caller = self._by_file.get(file)
            if caller is None:  # closed meanwhile
                continue
            try:
                complete = caller.receive()
            except OSError:
                complete, caller.answer = True, b""
            if complete:
                received += 1
                self._note(caller, load)
        return received

    def _note(self, caller: _Caller, load: Load) -> None:
        (answer, caller.answer), waited = (caller.answer, b""), caller.sent_at != 0.0
        self._busy -= waited
        if answer.startswith(b"HTTP/1.1 200"):
            load.latencies.append(time.perf_counter() - caller.sent_at)
            if caller.ranks:
                self._decisions.append(answer.split(b'"decision":"', 1)[1].split(b'"', 1)[0])
        elif answer.startswith(b"HTTP/1.1 503") and b"retry-after" in answer.lower():
            load.refused += 1
        elif waited:
            load.failed += 1
        caller.sent_at = 0.0
        if answer:
            self._idle.append(caller)
            return
        if caller in self._idle:
            self._idle.remove(caller)
        self._forget(caller)

    def _forget(self, caller: _Caller) -> None:
        """Drop a connection that the service has closed."""
        self._epoll.unregister(caller.socket)
        del self._by_file[caller.socket.fileno()]
        caller.socket.close()

    def _finish(self, load: Load) -> None:
        """Wait for the requests under way; those without an answer have failed."""
        end = time.perf_counter() + 30.0
        while self._busy and time.perf_counter() < end:
            self._receive(load, 0.1)
        load.failed += self._busy

    def close(self) -> None:
        """Close all connections."""
        for caller in self._by_file.values():
            caller.socket.close()
        self._epoll.close()


def overload_stage(address: tuple[str, int], seconds: float, ranker: str = "bench", key: str | None = None) -> Overload:
    """Measure capacity, half load and three times the capacity, each for so many seconds."""
    callers = Callers(address, ranker, key)
    try:
        callers.as_fast_as_possible(WARM_UP_SECONDS)
        capacity = callers.as_fast_as_possible(seconds)
        half = callers.at_a_rate(seconds, capacity.rate / 2.0)
        return Overload(capacity, half, callers.at_a_rate(seconds, 3.0 * capacity.rate))
    finally:
        callers.close()


def main(seconds: float = 10.0) -> None:
    """Print what a service holds in three rounds."""
    with (
        tempfile.TemporaryDirectory() as folder,
        apart() as cores,
        serving("bench.served", f"{folder}/log.db", cores=cores) as (port, _),
    ):
        rounds = [overload_stage((HOST, port), seconds) for _ in range(ROUNDS)]
        for one in rounds:
            print(one, flush=True)
        print(f"{sum(one.holds for one in rounds)} of {ROUNDS} rounds hold both targets")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
