"""Compare the fast path of the service with its plain form: `python -m bench.fast_paths [ROUNDS]`.

A fast path stays only while it saves more than a tenth; docs/explanation/decisions/0009-writer.md has the last numbers.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

from bench.load import apart, as_fast_as_possible, cpu, serving
from bench.service import visit

VARIANTS = {
    "as in production": (),
    "two writes per answer": ("two-writes",),
}
SECONDS = 3.0


async def compare(rounds: int, cores: Sequence[int]) -> None:
    """Load all variants in turns, and print the medians."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        servers = {
            name: stack.enter_context(serving("bench.served", f"{folder}/{i}.db", options=plain, cores=cores))
            for i, (name, plain) in enumerate(VARIANTS.items())
        }
        for port, _ in servers.values():
            await as_fast_as_possible(port, visit, SECONDS)
        for _ in range(rounds):
            for name, (port, pid) in servers.items():
                before = cpu(pid)
                times, rate = await as_fast_as_possible(port, visit, SECONDS)
                found[name].append(((cpu(pid) - before) / times.requests, rate))
    base = median(each for each, _ in found["as in production"])
    for name, results in found.items():
        each, rate = (median(values) for values in zip(*results, strict=True))
        print(f"{name}: {each * 1e6:.0f} µs of CPU per request ({each / base - 1:+.0%}), {rate:,.0f} requests/s")


def main(rounds: int = 9) -> None:
    """Run the comparison on this machine."""
    with apart() as cores:
        asyncio.run(compare(rounds, cores))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
