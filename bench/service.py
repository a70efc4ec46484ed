"""The service over HTTP beside an empty POST: `python -m bench.service [SECONDS] [shared]`.

The callers have a core of their own and all cores are kept awake, see `bench.load.apart`; with "shared" they do not.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from statistics import median

from bench.load import Connection, Times, apart, as_fast_as_possible, at_a_rate, cpu, memory, serving

RANK, FEEDBACK = "/v1/rankers/bench/rank", "/v1/rankers/bench/feedback"
ROUNDS, EACH = 3, 4.0
SPAN, BESIDE = 20.0, 4.0
"""Seconds of half the load at a time, and of empty POSTs at the same rate after each: what the machine itself costs."""


async def nothing(connection: Connection, times: Times) -> None:
    """An empty POST."""
    await times.post("empty", connection, "/empty", b'{"k":10}')


async def visit(connection: Connection, times: Times) -> None:
    """One list and its feedback."""
    told = await times.post("rank", connection, RANK, b'{"k":10}')
    decision = told.split(b'"decision":"', 1)[1].split(b'"', 1)[0]
    await times.post("feedback", connection, FEEDBACK, b'{"decision":"%s","clicked":[2]}' % decision)


async def measured(seconds: float, cores: Sequence[int]) -> None:
    """Rates in turns, so that both meet the same noise; then half of the service's rate for a while."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("bench.empty", cores=cores) as (empty, _),
        serving("bench.served", f"{folder}/log.db", cores=cores) as (port, pid),
    ):
        full = await rates(empty, port, pid)
        before = memory(pid)
        await half(empty, port, seconds, full / 2)
        print(f"  memory: {before:.0f} MB before, {memory(pid):.0f} MB after")


async def half(empty: int, port: int, seconds: float, rate: float) -> None:
    """So many requests per second for a while, and what an empty POST has to wait for on this machine at that rate."""
    times, beside, spans = Times(), Times(), []
    for n in range(max(1, round(seconds / SPAN))):
        span = await at_a_rate(port, visit, SPAN, rate / 2, seed=n)  # a visit is two requests
        times.add(span)
        spans.append(span.quantile(0.99))
        beside.add(await at_a_rate(empty, nothing, BESIDE, rate, seed=n))
    print(f"half of that load for {SPAN * len(spans):.0f} s: {times.requests:,} requests, no errors")
    for kind in times.of:
        print(f"  {kind}: p50 {times.quantile(0.5, kind):.1f} ms, p99 {times.quantile(0.99, kind):.1f} ms")
    print(
        f"  both: p99 {times.quantile(0.99):.1f} ms (below 25 asked), {median(spans):.1f} in the median {SPAN:.0f} s; "
        f"an empty POST at this rate, in between: p99 {beside.quantile(0.99):.1f} ms"
    )


async def rates(empty: int, port: int, pid: int) -> float:
    """Requests per second of the service, in turns with an empty POST."""
    await as_fast_as_possible(port, visit, 2.0)
    await as_fast_as_possible(empty, nothing, 1.0)
    found: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        _, plain = await as_fast_as_possible(empty, nothing, EACH)
        before = cpu(pid)
        times, full = await as_fast_as_possible(port, visit, EACH)
        each = 1e6 * (cpu(pid) - before) / times.requests
        found.append((plain, full))
        print(
            f"empty POST {plain:,.0f} requests/s; rank and feedback {full:,.0f}, {each:.0f} µs of CPU each, "
            f"p50 {times.quantile(0.5):.1f} ms, p99 {times.quantile(0.99):.1f} ms; ratio {full / plain:.2f}"
        )
    plain, full = (float(sum(rate)) / ROUNDS for rate in zip(*found, strict=True))
    print(f"ratio {full / plain:.2f} over all rounds (at least 0.4 asked)")
    return full


def main(seconds: float = 20.0, *, shared: bool = False) -> None:
    """Print the ratios."""
    with nullcontext(()) if shared else apart() as cores:
        asyncio.run(measured(seconds, cores))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0, shared="shared" in sys.argv[2:])
