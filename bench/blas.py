"""Compare one and two BLAS threads on the same chunk, alternating in one run.

python -m bench.blas
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from bench.lin_ts import problem
from rankloop.simulator.chunk import Chunk, play
from rankloop.simulator.spec import policy_specs
from rankloop.worlds.attraction import FixedAttraction
from rankloop.worlds.click_models import CascadeClicks
from rankloop.worlds.click_world import ClickWorld


def main(repeats: int = 5) -> None:
    """Measure CascadeLinTS with a medium and a large number of items."""
    (spec,) = policy_specs(["cascade-lin-ts"])
    for L, B in ((256, 256), (3000, 10)):
        X, nu = problem(L, 20)
        world = ClickWorld(CascadeClicks(), FixedAttraction(nu, X), 4)
        seconds = np.zeros((2, repeats))
        for repeat in range(repeats):
            for row, threads in enumerate((1, 2)):
                with threadpool_limits(threads):
                    seconds[row, repeat] = play(world, spec, Chunk(0, 0, B), 150, 0, lambda t: None).seconds
        ratio = float(np.median(seconds[0] / seconds[1]))
        print(
            f"L={L} B={B}: with two BLAS threads a chunk is {ratio:.2f} times as fast as with one (a second process: 2)"
        )


if __name__ == "__main__":
    main()
