"""Measure the cost of open dashboards: CPU of the service, and the p99 of rank with ten dashboards and without.

    python -m bench.dashboard         # about half a minute
    python -m bench.dashboard 100     # 100 seconds under load, for a noisy machine

The service runs in its own process, under rank and feedback at a constant rate. Half seconds with and without
dashboards alternate, so that both meet the same noise. Linux only.
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
CALLERS, VISITS_PER_SECOND = 8, 25.0
"""Concurrent visitors, and visits per second of each: rank, then feedback."""
DASHBOARDS, OVERVIEW_SECONDS, REPORT_SECONDS = 10, 2.0, 15.0
"""Poll intervals of the page with everything in view: the overview, and the items and slots."""
WINDOW_SECONDS, LOAD_SECONDS, IDLE_SECONDS = 0.5, 18.0, 4.0
RANKER_PATH = "/v1/rankers/shop"


@dataclass
class Http:
    """A minimal HTTP client on one keep-alive connection, as a browser or a client library uses it."""

    port: int
    reader: asyncio.StreamReader = field(init=False)
    writer: asyncio.StreamWriter = field(init=False)

    async def open(self) -> Http:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __call__(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Send a request and return the body of the response."""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        response = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        assert response.startswith(b"http/1.1 200"), response
        length = int(response.partition(b"content-length:")[2].partition(b"\r\n")[0])
        return await self.reader.readexactly(length)


async def visitor(http: Http, start: float, end: float, took: list[tuple[float, float]]) -> None:
    """Send visits at a constant rate; record the start and the duration of each rank."""
    at = start
    while at < end:
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        sent = time.perf_counter()
        answer = json.loads(await http("POST", f"{RANKER_PATH}/rank", b"{}"))
        took.append((sent, time.perf_counter() - sent))
        clicked = [2] if len(took) % 3 == 0 else []
        body = json.dumps({"decision": answer["decision"], "clicked": clicked}).encode()
        await http("POST", f"{RANKER_PATH}/feedback", body)
        at += 1.0 / VISITS_PER_SECOND


async def dashboard(http: Http, first: float, start: float, end: float, every: float) -> None:
    """Send the requests of a page that is open in every second window of `every` seconds, or always if this is 0."""
    on = first  # time that the page was open until its next request
    report = "report?sort=estimate&order=descending&hours=0&limit=25&age=10"
    polls = {"overview?hours=1&points=60": OVERVIEW_SECONDS, "slots?limit=20&age=10": REPORT_SECONDS}
    polls[report] = REPORT_SECONDS
    due = {path: first * pause / OVERVIEW_SECONDS for path, pause in polls.items()}
    while True:
        at = start + on if every == 0 else start + every * (2 * (on // every) + 1) + on % every
        if at >= end:
            return
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        for path, pause in polls.items():
            if due[path] <= on:
                await http("GET", f"{RANKER_PATH}/{path}")
                due[path] = on + pause
        on = min(due.values())


@contextlib.asynccontextmanager
async def connected(port: int, count: int) -> AsyncIterator[list[Http]]:
    """Open a number of connections, and close them after the block."""
    connections = [await Http(port).open() for _ in range(count)]
    try:
        yield connections
    finally:
        for http in connections:
            http.writer.close()
            await http.writer.wait_closed()


async def play(port: int, callers: int, dashboards: int, seconds: float, every: float = 0.0) -> Any:
    """Return the start and the duration of each rank, [n, 2]; dashboards are open in every second window, or always."""
    took: list[tuple[float, float]] = []
    async with connected(port, callers + dashboards) as https:
        start = time.perf_counter()
        end = start + seconds
        tasks = [
            visitor(one, start + i / VISITS_PER_SECOND / callers, end, took) for i, one in enumerate(https[:callers])
        ]
        phases = np.random.default_rng(0).permutation(dashboards) / max(1, dashboards) * OVERVIEW_SECONDS
        tasks += [
            dashboard(one, float(phase), start, end, every) for one, phase in zip(https[callers:], phases, strict=True)
        ]
        await asyncio.gather(*tasks, asyncio.sleep(seconds))
    return np.array(took).reshape(-1, 2) - [start, 0.0]


def cpu(process: int) -> float:
    """Return the CPU seconds of a process from its Linux clock, including those of finished threads."""
    return time.clock_gettime((~process << 3) | 2)


@contextlib.contextmanager
def serving(folder: str) -> Iterator[tuple[int, int]]:
    """Run a service in its own process; give its port and process id."""
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
    """Create a ranker with many items."""
    x = np.random.default_rng(0).standard_normal((L, D))
    x = np.round(x / np.linalg.vector_norm(x, axis=1, keepdims=True), 4)
    with Client(f"http://127.0.0.1:{port}", timeout=60.0) as client:
        client.put_ranker("shop", {"policy": "cascade-lin-ts", "slots": K, "dim": D, "seed": 1})
        for at in range(0, L, 2000):
            rows = enumerate(x[at : at + 2000].tolist(), at)
            client.put_items("shop", [{"id": f"item-{i}", "features": row} for i, row in rows])


async def measure(port: int, process: int, seconds: float) -> None:
    """Measure and print the CPU and the latency."""
    await play(port, CALLERS, 1, 1.5)  # warm up: load compiled code, fill caches
    before = cpu(process)
    took = await play(port, CALLERS, DASHBOARDS, seconds, WINDOW_SECONDS)
    busy = (cpu(process) - before) / seconds
    spent = []
    for dashboards in (0, 1, DASHBOARDS):
        before = cpu(process)
        await play(port, 0, dashboards, IDLE_SECONDS)
        spent.append((cpu(process) - before) / IDLE_SECONDS)
    print(f"{L:,} items, {CALLERS * VISITS_PER_SECOND:.0f} visits/s: the service uses {busy:.0%} of a core")
    for dashboards, share in zip((1, DASHBOARDS), spent[1:], strict=True):
        extra = share - spent[0]
        print(f"{dashboards} open: {extra:.2%} of a core, {extra / busy:.2%} of the service's CPU (target: under 2 %)")
    for q in (50, 99):
        (on, off), (low, high) = compare(took, q)
        target = " (target: at most 1.10)" if q == 99 else ""
        print(
            f"rank p{q}: {on:.2f} ms with ten dashboards, {off:.2f} ms without: ratio {on / off:.2f}{target}, "
            f"90 % interval {low:.2f} to {high:.2f}"
        )


def compare(took: Any, q: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return a percentile in ms with and without dashboards, and a 90 % bootstrap interval of their ratio."""
    window, rng = (took[:, 0] // WINDOW_SECONDS).astype(int), np.random.default_rng(0)
    groups = [[took[window == at, 1] for at in np.unique(window) if at % 2 == odd] for odd in (1, 0)]

    def ratio() -> float:
        drawn = [np.concatenate([group[i] for i in rng.integers(len(group), size=len(group))]) for group in groups]
        return float(np.percentile(drawn[0], q) / np.percentile(drawn[1], q))

    low, high = np.percentile([ratio() for _ in range(500)], (5, 95))
    on, off = (1e3 * float(np.percentile(np.concatenate(group), q)) for group in groups)
    return (on, off), (float(low), float(high))


def main() -> None:
    """Start a service and measure it."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else LOAD_SECONDS
    with tempfile.TemporaryDirectory() as folder, serving(folder) as (port, process):
        prepare(port)
        asyncio.run(measure(port, process, seconds))


if __name__ == "__main__":
    main()
