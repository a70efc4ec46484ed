"""What watching costs: CPU of the service with open dashboards, and the p99 of rank with ten of them and without.

    python -m bench.dashboard         # about half a minute
    python -m bench.dashboard 100     # so many seconds under load, where the machine is noisy

A service in a process of its own, under rank and feedback at a steady pace. Half seconds with and without dashboards
alternate, so that both meet the same noise. On Linux.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.client import Client

L, D, K = 10_000, 20, 10
CALLERS, PACE = 8, 25.0
"""Visitors at the same time, and visits per second of each: rank, then feedback."""
DASHBOARDS, OFTEN, SELDOM = 10, 2.0, 15.0
"""As the page, with everything in view: an overview every two seconds, items and slots every fifteen."""
WINDOW, SECONDS, WATCHED = 0.5, 18.0, 4.0
AT = "/v1/rankers/shop"


@dataclass
class Http:
    """One connection that is kept, as a browser and a client keep theirs; as little work as possible here."""

    port: int
    reader: asyncio.StreamReader = field(init=False)
    writer: asyncio.StreamWriter = field(init=False)

    async def open(self) -> Http:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __call__(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Ask, and wait for the whole answer."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        told = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        assert told.startswith(b"http/1.1 200"), told
        length = int(told.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return await self.reader.readexactly(length)


async def visitor(http: Http, start: float, end: float, took: list[tuple[float, float]]) -> None:
    """Visits at a steady pace; when each rank was asked, and how long it took."""
    at = start
    while at < end:
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        asked = time.perf_counter()
        told = json.loads(await http("POST", f"{AT}/rank", b"{}"))
        took.append((asked, time.perf_counter() - asked))
        clicked = [2] if len(took) % 3 == 0 else []
        await http("POST", f"{AT}/feedback", json.dumps({"decision": told["decision"], "clicked": clicked}).encode())
        at += 1.0 / PACE


async def dashboard(http: Http, first: float, start: float, end: float, every: float) -> None:
    """What an open page asks, its clock standing still outside of every other window of so many seconds."""
    on = first  # how long it was open so far, when it asks next
    asked = {"overview?hours=1&points=60": OFTEN}
    asked |= {"slots?limit=20&age=10": SELDOM, "report?sort=estimate&order=descending&hours=0&limit=25&age=10": SELDOM}
    due = {path: first * pause / OFTEN for path, pause in asked.items()}
    while True:
        at = start + on if every == 0 else start + every * (2 * (on // every) + 1) + on % every
        if at >= end:
            return
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        for path, pause in asked.items():
            if due[path] <= on:
                await http("GET", f"{AT}/{path}")
                due[path] = on + pause
        on = min(due.values())


@contextlib.asynccontextmanager
async def connected(port: int, many: int) -> AsyncIterator[list[Http]]:
    """So many connections."""
    made = [await Http(port).open() for _ in range(many)]
    try:
        yield made
    finally:
        for http in made:
            http.writer.close()
            await http.writer.wait_closed()


async def play(port: int, callers: int, watching: int, seconds: float, every: float = 0.0) -> Any:
    """When ranks were asked and how long they took, [n, 2]; dashboards are open in every second window, or always."""
    took: list[tuple[float, float]] = []
    async with connected(port, callers + watching) as https:
        start = time.perf_counter()
        end = start + seconds
        tasks = [visitor(one, start + i / PACE / callers, end, took) for i, one in enumerate(https[:callers])]
        phases = np.random.default_rng(0).permutation(watching) / max(1, watching) * OFTEN
        tasks += [
            dashboard(one, float(phase), start, end, every) for one, phase in zip(https[callers:], phases, strict=True)
        ]
        await asyncio.gather(*tasks, asyncio.sleep(seconds))
    return np.array(took).reshape(-1, 2) - [start, 0.0]


def cpu(process: int) -> float:
    """CPU seconds of a process, with those of threads that ended; the clock that Linux has for it."""
    return time.clock_gettime((~process << 3) | 2)


@contextlib.contextmanager
def serving(folder: str) -> Iterator[tuple[int, int]]:
    """A service in a process of its own: its port, and its id."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "rankloop", "serve", "--log", str(Path(folder) / "log.db"), "--port", str(port)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment) as process:
        try:
            for _ in range(300):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
                    break
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.terminate()


def prepare(port: int) -> None:
    """A ranker with many items."""
    x = np.random.default_rng(0).standard_normal((L, D))
    x = np.round(x / np.linalg.vector_norm(x, axis=1, keepdims=True), 4)
    with Client(f"http://127.0.0.1:{port}", timeout=60.0) as client:
        client.put_ranker("shop", {"policy": "cascade-lin-ts", "slots": K, "dim": D, "seed": 1})
        for at in range(0, L, 2000):
            rows = enumerate(x[at : at + 2000].tolist(), at)
            client.put_items("shop", [{"id": f"item-{i}", "features": row} for i, row in rows])


async def measure(port: int, process: int, seconds: float) -> None:
    """Both questions, and what the numbers say."""
    await play(port, CALLERS, 1, 1.5)  # compiled code is loaded, pages are warm
    before = cpu(process)
    took = await play(port, CALLERS, DASHBOARDS, seconds, WINDOW)
    busy = (cpu(process) - before) / seconds
    spent = []
    for watching in (0, 1, DASHBOARDS):
        before = cpu(process)
        await play(port, 0, watching, WATCHED)
        spent.append((cpu(process) - before) / WATCHED)
    print(f"{L:,} items, {CALLERS * PACE:.0f} visits a second: the service is busy for {busy:.0%} of a core")
    for watching, alone in zip((1, DASHBOARDS), spent[1:], strict=True):
        more = alone - spent[0]
        print(f"{watching} open: {more:.2%} of a core, {more / busy:.2%} of the service's CPU (under 2 % asked)")
    for q in (50, 99):
        (on, off), (low, high) = compared(took, q)
        asked = " (at most 1.10 asked)" if q == 99 else ""
        print(f"rank p{q}: {on:.2f} ms with ten dashboards, {off:.2f} ms without: ratio {on / off:.2f}{asked},")
        print(f"  on this machine now between {low:.2f} and {high:.2f}, which holds nine times of ten")


def compared(took: Any, q: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """A percentile in ms with dashboards and without, and bounds of their ratio: windows drawn again and again."""
    window, rng = (took[:, 0] // WINDOW).astype(int), np.random.default_rng(0)
    groups = [[took[window == at, 1] for at in np.unique(window) if at % 2 == odd] for odd in (1, 0)]

    def ratio() -> float:
        drawn = [np.concatenate([group[i] for i in rng.integers(len(group), size=len(group))]) for group in groups]
        return float(np.percentile(drawn[0], q) / np.percentile(drawn[1], q))

    low, high = np.percentile([ratio() for _ in range(500)], (5, 95))
    on, off = (1e3 * float(np.percentile(np.concatenate(group), q)) for group in groups)
    return (on, off), (float(low), float(high))


def main() -> None:
    """Start a service, and measure."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory() as folder, serving(folder) as (port, process):
        prepare(port)
        asyncio.run(measure(port, process, seconds))


if __name__ == "__main__":
    main()
