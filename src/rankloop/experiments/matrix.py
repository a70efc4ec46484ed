"""Every policy in every world where it can run, including worlds that violate its assumptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankloop import catalogue
from rankloop.errors import Unsupported
from rankloop.experiments.outcome import SEED, Panel
from rankloop.experiments.runner import play_panels
from rankloop.math.logistic import sigmoid
from rankloop.simulator import streams
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.simulator.spec import policy_specs
from rankloop.simulator.stats import ratio_of_means
from rankloop.simulator.trace import Trace
from rankloop.types import FloatArray
from rankloop.worlds import from_spec

ITEMS, SLOTS = 16, 4
GIVEN_PRIOR = {"a": 1.0, "b": 3.0}
"""The prior given to policies that take one: weak, with a mean close to the mean attraction."""


@dataclass(frozen=True)
class MatrixSize:
    """The horizon and the number of replications of a matrix."""

    rounds: int
    replications: int


FULL, QUICK = MatrixSize(10_000, 96), MatrixSize(1_500, 16)


def worlds() -> dict[str, Mapping[str, object]]:
    """Return six kinds of world with the same 16 items, attraction logistic in three features and a constant.

    A seventh has items that cover topics, the only kind in which `dep` can run.
    """
    rng = np.random.default_rng(SEED)
    x = np.concatenate([rng.standard_normal((ITEMS, 3)), np.ones((ITEMS, 1))], axis=1)
    x /= np.linalg.vector_norm(x, axis=1, keepdims=True)
    attraction = np.asarray(sigmoid(x @ np.array([1.6, -1.2, 0.8, -2.4]))).round(3).tolist()
    features = x.round(3).tolist()
    items = {"attraction": attraction, "features": features}
    seen = [1.0, 0.7, 0.5, 0.3]
    topics = rng.dirichlet(np.full(4, 0.5), size=ITEMS).round(3).tolist()
    return {
        "cascade": {"kind": "cascade", "k": SLOTS, **items},
        "dependent-click": {"kind": "dependent-click", "termination": [0.9, 0.7, 0.5, 0.3], **items},
        "position-based": {"kind": "position-based", "bias": seen, **items},
        "choice": {"kind": "choice", "bias": seen, **items},
        "item-position": {"kind": "item-position", "items": ITEMS, "dim": 4, "k": SLOTS, "objective": "clicks"},
        "cascade-rewards": {"kind": "cascade-rewards", "budget": SLOTS, "scenario": "exponential", **items},
        "coverage-rewards": {
            "kind": "coverage-rewards",
            "coverage": topics,
            "weights": [4.0, 2.0, -1.0, 3.0],
            "budget": SLOTS,
            "scenario": "exponential",
        },
    }


def players() -> tuple[PolicySpec, ...]:
    """Return every policy of the catalogue with its defaults, and GIVEN_PRIOR for policies that take a prior."""
    return policy_specs([{"id": e.id, **(GIVEN_PRIOR if "prior" in e.needs else {})} for e in catalogue.entries()])


@dataclass(frozen=True)
class MatrixCell:
    """One policy in one world: the final regret of its replications, or why it cannot run."""

    world: str
    id: str
    regret: FloatArray | None = None  # [R]
    refused: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Matrix:
    """The cells of all policies and worlds."""

    size: MatrixSize
    cells: tuple[MatrixCell, ...]

    def cell(self, world: str, id: str) -> MatrixCell:
        """Return the cell of a policy in a world."""
        return next(c for c in self.cells if c.world == world and c.id == id)

    def share(self, world: str, id: str) -> tuple[float, float]:
        """Return final regret as a share of the random baseline's, and half its 95 % interval; NaN if refused."""
        regret, random = self.cell(world, id).regret, self.cell(world, "random").regret
        return (np.nan, np.nan) if regret is None or random is None else ratio_of_means(regret, random)

    @property
    def worlds(self) -> list[str]:
        """Return the worlds, the columns of the matrix."""
        return list(dict.fromkeys(c.world for c in self.cells))

    @property
    def policies(self) -> list[str]:
        """Return the policies, the rows of the matrix."""
        return list(dict.fromkeys(c.id for c in self.cells))


def run(size: MatrixSize, folder: Path, *, jobs: int, progress: Callable[[int, int], None]) -> Matrix:
    """Return the matrix; cells that are not stored in the folder are played, so an interrupted run can be resumed.

    Args:
        size: rounds and replications.
        folder: the folder of stored results.
        jobs: number of processes.
        progress: called with the number of replication-rounds done and the total.
    """
    panels, refusals = [], {}
    for world, spec in worlds().items():
        setting = (
            from_spec(spec).prepare(streams.shared(SEED)).draw([streams.replication(SEED, 0)], size.rounds).setting
        )
        runnable = []
        for policy in players():
            try:
                policy.build(setting)
                runnable.append(policy)
            except Unsupported as refusal:
                refusals[world, policy.id] = str(refusal)
        panels.append(
            Panel({"world": world}, world, spec, tuple(runnable), size.rounds, size.replications, size.replications)
        )
    results = dict(zip(worlds(), play_panels(panels, folder, jobs=jobs, progress=progress), strict=True))
    cells = []
    for policy in players():
        for world, result in results.items():
            refused = refusals.get((world, policy.id))
            cells.append(MatrixCell(world, policy.id, refused=refused) if refused else _cell(world, result[policy.id]))
    return Matrix(size, tuple(cells))


def _cell(world: str, trace: Trace) -> MatrixCell:
    return MatrixCell(world, trace.id, regret=trace.final, seconds=trace.seconds)
