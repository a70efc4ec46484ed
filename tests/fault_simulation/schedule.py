"""Schedules: what happens in a simulation, drawn from a seed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.serving import RankerConfig

WEIGHTS = {
    "rank": 7.0,
    "feedback": 7.0,
    "repeat feedback": 1.0,
    "write": 5.0,
    "pass time": 3.0,
    "tick": 4.0,
    "put items": 1.0,
    "snapshot": 1.0,
    "start": 3.0,
    "close": 0.3,
    "crash": 1.0,
    "fail next append": 1.0,
    "disconnect": 0.8,
    "tear snapshot": 0.3,
    "jump wall clock": 1.5,
}
"""What may happen, and how often."""
TWO_WRITERS = WEIGHTS | {"start": 6.0, "fail next append": 4.0, "disconnect": 2.0, "write": 8.0, "pass time": 1.0}
"""How often with two processes at the same time, which are meant to meet."""
POLICIES = ("gts", "cascade-ucb1", "random")
WINDOW_SECONDS = 30.0


class Step(NamedTuple):
    """One thing that happens; the two numbers in [0, 1) choose to what, and how."""

    what: str
    which: float
    how: float

    def __str__(self) -> str:
        return f"{self.what} ({self.which:.4f}, {self.how:.4f})"


class Schedule(NamedTuple):
    """A whole simulation."""

    seed: int
    settings: dict[str, object]
    engines: int  # processes that may run at the same time
    claims_work: bool
    steps: list[Step]

    def __str__(self) -> str:
        head = f"seed {self.seed}: {self.engines} engines, claims work: {self.claims_work}, {self.settings}"
        return "\n".join([head, *(f"{at:3d}. {step}" for at, step in enumerate(self.steps))])

    @property
    def config(self) -> RankerConfig:
        """The ranker's configuration."""
        return RankerConfig.of(self.settings)


def draw(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    rng = np.random.default_rng([20260917, seed])
    settings: dict[str, object] = {
        "policy": str(rng.choice(POLICIES)),
        "slots": 2,
        "seed": seed,
        "window": WINDOW_SECONDS,
        "commit": str(rng.choice(["all", "feedback"])),
        "aggregate": str(rng.choice(["earliest", "sum"])),
    }
    engines = int(rng.integers(1, 3))
    claims_work = bool(rng.random() < 0.5)
    length = int(rng.integers(15, 45))
    weights = WEIGHTS if engines == 1 else TWO_WRITERS
    shares = np.array(list(weights.values())) / sum(weights.values())
    names = rng.choice(list(weights), size=length, p=shares)
    numbers = rng.random((length, 2))
    steps = [Step(str(name), float(which), float(how)) for name, (which, how) in zip(names, numbers, strict=True)]
    return Schedule(seed, settings, engines, claims_work, steps)
