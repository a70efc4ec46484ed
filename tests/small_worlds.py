"""Small worlds, lists and policies that several test files share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankloop.design import PerItem
from rankloop.feedback import SemiBandit
from rankloop.simulator import streams
from rankloop.state import State
from rankloop.types import BoolArray, Decision, FloatArray, IntArray, Request
from rankloop.worlds import Instance, from_spec

CASCADE: dict[str, Any] = {"kind": "cascade", "attraction": [0.1, 0.5, 0.3, 0.4, 0.2], "k": 2}
DEPENDENT: dict[str, Any] = {
    "kind": "dependent-click",
    "attraction": [0.1, 0.5, 0.3, 0.4, 0.2],
    "termination": [0.3, 0.9, 0.6],
}
POSITION: dict[str, Any] = {"kind": "position-based", "attraction": [0.1, 0.5, 0.3, 0.4, 0.2], "bias": [0.4, 1.0, 0.7]}


def settled(spec: Mapping[str, Any], replications: int, *, seed: int = 0, first: int = 0) -> Any:
    """Replications first … first + replications - 1 of a world, as a run with this seed would draw them."""
    world = from_spec(spec).prepare(streams.shared(seed))
    instance: Instance = world.draw(
        [streams.replication(seed, r) for r in range(first, first + replications)], rounds=None
    )
    return instance


def every_list(items: int, k: int) -> IntArray:
    """All ordered lists of k distinct items, [number, k]."""
    return np.array(list(permutations(range(items), k)), dtype=np.int64)


def random_users(users: int, items: int, seed: int) -> BoolArray:
    """A binary matrix whose items differ in popularity and whose users differ in taste."""
    rng = np.random.default_rng(seed)
    taste, kind = rng.random((users, 3)), rng.random((3, items))
    return np.asarray(rng.random((users, items)) < 0.4 * taste @ kind)


def matrix_file(folder: Path, W: ArrayLike, name: str = "users.npz") -> str:
    """An .npz with this W."""
    np.savez(folder / name, W=np.asarray(W))
    return str(folder / name)


@dataclass
class Clock(State):
    """The state of a policy that only counts rounds."""

    t: IntArray  # [B]


@dataclass
class ShowsAlways:
    """Shows one list for ever and keeps the clicks; `draws` random numbers are wasted in each round."""

    items: ArrayLike  # [K]
    draws: int = 0
    clicks: list[FloatArray] = field(default_factory=list)
    feedback = SemiBandit()

    def init(self, learners: int) -> Clock:
        return Clock(np.ones(learners, dtype=np.int64))

    def decide(self, state: Clock, request: Request, rng: np.random.Generator) -> Decision:
        rng.random(self.draws)
        return self.adopt(request, np.tile(np.asarray(self.items), (request.learners, 1)))

    def learn(self, state: Clock, decision: Decision, clicks: ArrayLike) -> None:
        self.clicks.append(np.array(clicks, dtype=np.float64))
        state.t += 1

    def adopt(self, request: Request, items: ArrayLike) -> Decision:
        lists = np.asarray(items, dtype=np.int64)
        return Decision(lists, PerItem().pick(request, lists), request)
