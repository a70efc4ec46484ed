"""Which policy fits? Every policy in every world where it can run, also the wrong one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankloop import catalogue
from rankloop.errors import RankloopError, Unsupported
from rankloop.experiments.identity import code
from rankloop.files import replace_file
from rankloop.math.logistic import sigmoid
from rankloop.simulator import streams
from rankloop.simulator.chunk import Chunk
from rankloop.simulator.parallel import Task, as_done
from rankloop.simulator.spec import PolicySpec, policy_specs
from rankloop.simulator.stats import share_of
from rankloop.types import FloatArray
from rankloop.worlds import World, from_spec

ITEMS, SLOTS, SEED = 16, 4, 1
TOLD_PRIOR = {"a": 1.0, "b": 3.0}
"""What policies that take a prior are told: near the mean attraction, and no more."""


@dataclass(frozen=True)
class Size:
    """How long the experiment is."""

    rounds: int
    replications: int


FULL, QUICK = Size(10_000, 96), Size(1_500, 16)


def worlds() -> dict[str, Mapping[str, Any]]:
    """Six kinds of visitor for the same 16 items, attraction logistic in three features and a constant.

    And one whose items cover topics, without which `dep` would have no world.
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
    """Every policy of the catalogue with its defaults; those that take a prior are told one."""
    return policy_specs([{"id": e.id, **(TOLD_PRIOR if "prior" in e.needs else {})} for e in catalogue.entries()])


@dataclass(frozen=True)
class Cell:
    """One policy in one world: final regrets of its replications, or why it cannot run."""

    world: str
    id: str
    regret: FloatArray | None = None  # [R]
    refused: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Matrix:
    """All cells."""

    size: Size
    cells: tuple[Cell, ...]

    def cell(self, world: str, id: str) -> Cell:
        """The cell of this policy in this world."""
        return next(c for c in self.cells if c.world == world and c.id == id)

    def share(self, world: str, id: str) -> tuple[float, float]:
        """Final regret as a share of the random policy's, and half its 95 % confidence interval; NaN if refused."""
        own, random = self.cell(world, id).regret, self.cell(world, "random").regret
        return (np.nan, np.nan) if own is None or random is None else share_of(own, random)

    @property
    def worlds(self) -> list[str]:
        """The columns."""
        return list(dict.fromkeys(c.world for c in self.cells))

    @property
    def policies(self) -> list[str]:
        """The rows."""
        return list(dict.fromkeys(c.id for c in self.cells))


def run(size: Size, folder: Path, *, jobs: int, told: Callable[[int, int], None]) -> Matrix:
    """Play every cell that is not in the folder yet; each is kept as soon as it is done.

    Args:
        size: rounds and replications.
        folder: where cells are kept; a run that was interrupted goes on from there.
        jobs: processes.
        told: called with the number of cells done and of all cells.
    """
    kept = folder / "cells"
    kept.mkdir(parents=True, exist_ok=True)
    tasks: dict[tuple[str, str], Task] = {}
    found: dict[tuple[str, str], Cell] = {}
    for name, task in _tasks(size):
        if isinstance(task, str):
            found[name] = Cell(*name, refused=task)
            continue
        before = _load(_path(kept, name, size), name, size)
        if before is None:
            tasks[name] = task
        else:
            found[name] = before
    total = len(tasks) + len(found)
    told(len(found), total)
    names = list(tasks)
    for i, result in as_done(list(tasks.values()), jobs):
        cell = Cell(*names[i], regret=result.regret[-1], seconds=result.seconds)
        found[names[i]] = cell
        _save(_path(kept, names[i], size), cell)
        told(len(found), total)
    order = [(world, policy.id) for policy in players() for world in worlds()]
    return Matrix(size, tuple(found[name] for name in order))


def _tasks(size: Size) -> Iterator[tuple[tuple[str, str], Task | str]]:
    """Every cell: what to play, or why it cannot be played."""
    for world, spec in worlds().items():
        made: World = from_spec(spec).prepare(streams.shared(SEED))
        setting = made.draw([streams.replication(SEED, 0)], size.rounds).setting
        for policy in players():
            try:
                policy.build(setting)
            except Unsupported as refusal:
                yield (world, policy.id), str(refusal)
                continue
            yield (world, policy.id), Task(made, policy, Chunk(0, 0, size.replications), size.rounds, SEED)


def _path(folder: Path, name: tuple[str, str], size: Size) -> Path:
    """A file name that changes with anything that the cell depends on."""
    world, id = name
    params = next(p.params for p in players() if p.id == id)
    identity = json.dumps([code(), worlds()[world], id, params, size.rounds, size.replications, SEED], default=repr)
    return folder / f"{world}--{id}--{hashlib.sha256(identity.encode()).hexdigest()[:12]}.json"


def _load(path: Path, name: tuple[str, str], size: Size) -> Cell | None:
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        regret = np.array(kept["regret"], dtype=np.float64)
        if regret.shape != (size.replications,):
            raise ValueError("another number of replications")
        return Cell(*name, regret=regret, seconds=kept["seconds"])
    except (ValueError, KeyError, TypeError):
        raise RankloopError(f"{path} is not a cell of this experiment; remove it and run again.") from None


def _save(path: Path, cell: Cell) -> None:
    regret = [] if cell.regret is None else cell.regret.tolist()
    text = json.dumps({"regret": regret, "seconds": cell.seconds})
    replace_file(path, lambda p: p.write_text(text, encoding="utf-8"))
