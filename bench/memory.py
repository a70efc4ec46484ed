"""Measure the memory of a run: constant in the number of rounds, with one copy of the features for all replications.

python -m bench.memory
"""

from __future__ import annotations

import tracemalloc

import numpy as np

from bench.lin_ts import problem
from rankloop.simulator.chunk import Chunk, play
from rankloop.simulator.spec import policy_specs
from rankloop.worlds.attraction import FixedAttraction
from rankloop.worlds.click_models import CascadeClicks
from rankloop.worlds.click_world import ClickWorld


def peak(policy: str, L: int, d: int, replications: int, rounds: int) -> float:
    """Return the peak of the allocated memory in MB."""
    X, nu = problem(L, d)
    world = ClickWorld(CascadeClicks(), FixedAttraction(nu, X), 4)
    (spec,) = policy_specs([policy])
    play(world, spec, Chunk(0, 0, 2), 2, 0, lambda t: None)
    tracemalloc.start()
    play(world, spec, Chunk(0, 0, replications), rounds, 0, lambda t: None)
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return highest / 1e6


def main() -> None:
    """Print the peak for short and long runs, and the peak compared with copies of the features."""
    for policy in ("cascade-lin-ts", "log-ts-ltr"):
        short, long = (peak(policy, 256, 20, 32, rounds) for rounds in (200, 2000))
        print(f"{policy}: peak {short:.2f} MB at 200 rounds, {long:.2f} MB at 2,000: {long / short:.2f} times")
    L, d, B = 3000, 40, 64
    features = np.zeros((L, d)).nbytes / 1e6
    used = peak("cascade-lin-ts", L, d, B, 20)
    print(f"L={L} d={d} B={B}: features {features:.2f} MB once, {features * B:.0f} MB if copied; peak {used:.1f} MB")


if __name__ == "__main__":
    main()
