"""Compare the service over HTTP with an empty POST: `python -m bench.service [SECONDS] [shared]`.

The callers run on a separate core and all cores are kept awake, see `bench.load.apart`; "shared" does neither.
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
ROUNDS, ROUND_SECONDS = 3, 4.0
SPAN_SECONDS, EMPTY_SECONDS = 20.0, 4.0
"""A span of half the load is followed by empty POSTs at the same rate, which measure the machine itself."""
TARGET_SHARE = 0.4
"""The throughput that the service must reach, as a share of that of an empty POST."""


async def empty_post(connection: Connection, times: Times) -> None:
    """Send an empty POST."""
    await times.post("empty", connection, "/empty", b'{"k":10}')


async def visit(connection: Connection, times: Times) -> None:
    """Request one list and send its feedback."""
    answer = await times.post("rank", connection, RANK, b'{"k":10}')
    decision = answer.split(b'"decision":"', 1)[1].split(b'"', 1)[0]
    await times.post("feedback", connection, FEEDBACK, b'{"decision":"%s","clicked":[2]}' % decision)


async def measure(seconds: float, cores: Sequence[int]) -> None:
    """Measure the throughput of both alternately, so that both meet the same noise; then latency at half the load."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving("bench.empty", cores=cores) as (empty, _),
        serving("bench.served", f"{folder}/log.db", cores=cores) as (port, pid),
    ):
        plain, full = await rates(empty, port, pid)
        before = memory(pid)
        loads = {"the target load": TARGET_SHARE * plain / 2, "the measured load": full / 2}
        await latency(empty, port, seconds, loads)
        print(f"memory: {before:.0f} MB before, {memory(pid):.0f} MB after")


async def latency(empty: int, port: int, seconds: float, loads: dict[str, float]) -> None:
    """Print the latency of the service at each load in requests per second, alternately, and that of an empty POST."""
    measured, baseline = {name: Times() for name in loads}, Times()
    spans: dict[str, list[float]] = {name: [] for name in loads}
    for n in range(max(1, round(seconds / SPAN_SECONDS))):
        for name, rate in loads.items():
            span = await at_a_rate(port, visit, SPAN_SECONDS, rate / 2, seed=n)  # a visit is two requests
            measured[name].add(span)
            spans[name].append(span.quantile(0.99))
        baseline.add(await at_a_rate(empty, empty_post, EMPTY_SECONDS, max(loads.values()), seed=n))
    for name, times in measured.items():
        by_kind = ", ".join(
            f"{kind} {times.quantile(0.5, kind):.1f} and {times.quantile(0.99, kind):.1f}" for kind in times.of
        )
        print(
            f"half of {name}, {loads[name]:,.0f} requests/s, for {SPAN_SECONDS * len(spans[name]):.0f} s: "
            f"{times.requests:,} requests, no errors\n  p99 {times.quantile(0.99):.1f} ms (target: below 25), "
            f"{median(spans[name]):.1f} in the median {SPAN_SECONDS:.0f} s; p50 and p99 of {by_kind}"
        )
    print(f"an empty POST at {max(loads.values()):,.0f} requests/s, alternating: p99 {baseline.quantile(0.99):.1f} ms")


async def rates(empty: int, port: int, pid: int) -> tuple[float, float]:
    """Return the requests per second of an empty POST and of the service, measured alternately."""
    await as_fast_as_possible(port, visit, 2.0)
    await as_fast_as_possible(empty, empty_post, 1.0)
    rounds: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        _, plain = await as_fast_as_possible(empty, empty_post, ROUND_SECONDS)
        before = cpu(pid)
        times, full = await as_fast_as_possible(port, visit, ROUND_SECONDS)
        each = 1e6 * (cpu(pid) - before) / times.requests
        rounds.append((plain, full))
        print(
            f"empty POST {plain:,.0f} requests/s; rank and feedback {full:,.0f}, {each:.0f} µs of CPU each, "
            f"p50 {times.quantile(0.5):.1f} ms, p99 {times.quantile(0.99):.1f} ms; ratio {full / plain:.2f}"
        )
    plain, full = (float(sum(rate)) / ROUNDS for rate in zip(*rounds, strict=True))
    print(f"ratio {full / plain:.2f} over all rounds (target: at least {TARGET_SHARE})")
    return plain, full


def main(seconds: float = 20.0, *, shared: bool = False) -> None:
    """Print the ratios."""
    with nullcontext(()) if shared else apart() as cores:
        asyncio.run(measure(seconds, cores))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0, shared="shared" in sys.argv[2:])
