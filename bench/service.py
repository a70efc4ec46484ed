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
ASKED = 0.4
"""Requests per second, as a share of those of an empty POST, that the service must reach."""


async def nothing(connection: Connection, times: Times) -> None:
    """An empty POST."""
    await times.post("empty", connection, "/empty", b'{"k":10}')


async def visit(connection: Connection, times: Times) -> None:
    """One list and its feedback."""
    told = await times.post("rank", connection, RANK, b'{"k":10}')
    decision = told.split(b'"decision":"', 1)[1].split(b'"', 1)[0]
    await times.post("feedback", connection, FEEDBACK, b'{"decision":"%s","clicked":[2]}' % decision)


async def measured(seconds: float, cores: Sequence[int]) -> None:
    """Rates in turns, so that both meet the same noise; then half of the load for a while."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("bench.empty", cores=cores) as (empty, _),
        serving("bench.served", f"{folder}/log.db", cores=cores) as (port, pid),
    ):
        plain, full = await rates(empty, port, pid)
        before = memory(pid)
        await half(empty, port, seconds, {"the asked load": ASKED * plain / 2, "the reached load": full / 2})
        print(f"memory: {before:.0f} MB before, {memory(pid):.0f} MB after")


async def half(empty: int, port: int, seconds: float, loads: dict[str, float]) -> None:
    """So many requests per second for a while, in turns, and what an empty POST has to wait for at such a rate."""
    told, beside = {name: Times() for name in loads}, Times()
    spans: dict[str, list[float]] = {name: [] for name in loads}
    for n in range(max(1, round(seconds / SPAN))):
        for name, rate in loads.items():
            span = await at_a_rate(port, visit, SPAN, rate / 2, seed=n)  # a visit is two requests
            told[name].add(span)
            spans[name].append(span.quantile(0.99))
        beside.add(await at_a_rate(empty, nothing, BESIDE, max(loads.values()), seed=n))
    for name, times in told.items():
        of = ", ".join(
            f"{kind} {times.quantile(0.5, kind):.1f} and {times.quantile(0.99, kind):.1f}" for kind in times.of
        )
        print(
            f"half of {name}, {loads[name]:,.0f} requests/s, for {SPAN * len(spans[name]):.0f} s: "
            f"{times.requests:,} requests, no errors\n  p99 {times.quantile(0.99):.1f} ms (below 25 asked), "
            f"{median(spans[name]):.1f} in the median {SPAN:.0f} s; p50 and p99 of {of}"
        )
    print(f"an empty POST at {max(loads.values()):,.0f} requests/s, in between: p99 {beside.quantile(0.99):.1f} ms")


async def rates(empty: int, port: int, pid: int) -> tuple[float, float]:
    """Requests per second of an empty POST and of the service, in turns."""
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
    print(f"ratio {full / plain:.2f} over all rounds (at least {ASKED} asked)")
    return plain, full


def main(seconds: float = 20.0, *, shared: bool = False) -> None:
    """Print the ratios."""
    with nullcontext(()) if shared else apart() as cores:
        asyncio.run(measured(seconds, cores))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0, shared="shared" in sys.argv[2:])
