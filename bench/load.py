"""Generate HTTP load on keep-alive connections, and start servers for it, on the loopback interface only."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HOST = "127.0.0.1"
CONNECTIONS = 64


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection(HOST, self._port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.close()

    async def post(self, path: str, body: bytes) -> bytes:
        """Return the body of the response; raise if its status is not 200."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        response = await self._reader.readuntil(b"\r\n\r\n")
        length = int(response.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        answer = await self._reader.readexactly(length)
        if not response.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{response!r} {answer!r}")
        return answer


Visit = Callable[[Connection, "Times"], Awaitable[None]]


@dataclass
class Times:
    """Seconds that each request took, by kind."""

    of: dict[str, list[float]] = field(default_factory=dict)

    async def post(self, kind: str, connection: Connection, path: str, body: bytes) -> bytes:
        """Send a request and record its time."""
        start = time.perf_counter()
        answer = await connection.post(path, body)
        self.of.setdefault(kind, []).append(time.perf_counter() - start)
        return answer

    def add(self, more: Times) -> None:
        """Add the times of another measurement."""
        for kind, times in more.of.items():
            self.of.setdefault(kind, []).extend(times)

    @property
    def requests(self) -> int:
        """Number of requests."""
        return sum(map(len, self.of.values()))

    def quantile(self, q: float, kind: str | None = None) -> float:
        """Return a quantile in milliseconds."""
        chosen = self.of[kind] if kind is not None else [seconds for times in self.of.values() for seconds in times]
        return 1e3 * float(np.quantile(chosen, q))


async def as_fast_as_possible(port: int, visit: Visit, seconds: float) -> tuple[Times, float]:
    """Send visits without a pause on every connection; return their times and the requests per second."""
    times, end = Times(), time.perf_counter() + seconds

    async def one() -> None:
        async with Connection(port) as connection:
            while time.perf_counter() < end:
                await visit(connection, times)

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return times, times.requests / (time.perf_counter() - start)


async def at_a_rate(port: int, visit: Visit, seconds: float, rate: float, seed: int = 0) -> Times:
    """Send visits at a rate per second, at the arrival times of a Poisson process, however many are still running."""
    times, rng = Times(), np.random.default_rng(seed)
    idle: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait(await Connection(port).__aenter__())
    running: set[asyncio.Task[None]] = set()

    async def one() -> None:
        connection = await idle.get()
        try:
            await visit(connection, times)
        finally:
            idle.put_nowait(connection)

    begin, due = time.perf_counter(), 0.0
    while (due := due + rng.exponential(1.0 / rate)) < seconds:
        await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
        task = asyncio.ensure_future(one())
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    while not idle.empty():
        await idle.get_nowait().__aexit__()
    return times


@contextmanager
def serving(*command: str, options: Sequence[str] = (), cores: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """Run a module of this package as a server process, on these cores or on all; give its port and process id."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-m", *command, str(port), *options])
    if cores:
        os.sched_setaffinity(process.pid, cores)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection((HOST, port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


SPIN = """
import os, sys
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
os.sched_setaffinity(0, {int(sys.argv[1])})
while os.getppid() == int(sys.argv[2]): pass
"""


@contextmanager
def apart() -> Iterator[Sequence[int]]:
    """Pin this process to the last core, leave the others to servers, and keep all cores awake; Linux only.

    In production, callers have machines of their own. A virtual core that sleeps has to wait for its host at each
    request, for tens of milliseconds on a busy host; an idle-priority process on each core keeps it awake.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "SCHED_IDLE") else []
    command = [sys.executable, "-c", SPIN]
    spinning = [subprocess.Popen([*command, str(core), str(os.getpid())]) for core in cores]
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[-1:])
    try:
        yield cores[:-1]
    finally:
        if cores:
            os.sched_setaffinity(0, cores)
        for process in spinning:
            process.kill()
            process.wait()


def cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Return the resident memory of a process in megabytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
