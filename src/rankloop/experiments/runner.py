"""Run experiments: what was played before is kept, chunk by chunk, and never played again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankloop.experiments.cache_key import code_hash
from rankloop.experiments.experiment import SEED, Experiment, Outcome, Panel
from rankloop.files import replace_file
from rankloop.simulator.api import assemble, plays, prepare
from rankloop.simulator.chunk import Chunk, ChunkResult
from rankloop.simulator.parallel import Task, run_unordered
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.simulator.result import Result
from rankloop.simulator.spec import Spec

ExperimentProgress = Callable[[str, int, int], None]
"""Told an experiment's id, and how many of its replication-rounds are done, of how many."""


@dataclass(frozen=True)
class ChunkStore:
    """Results of chunks in files whose names say all that they depend on."""

    folder: Path

    def path(self, panel: Panel, inputs: Mapping[str, str], policy: PolicySpec, chunk: Chunk) -> Path:
        """Where this play is kept."""
        own = {id: inputs[id] for id in panel.data if id in inputs}
        identity = [code_hash(), panel.world, own, policy.id, policy.params, panel.rounds, SEED]
        text = json.dumps([*identity, chunk.index, chunk.first, chunk.size], sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:24]
        return self.folder / name[:2] / f"{name}.npz"

    def load(self, path: Path) -> ChunkResult | None:
        """What is kept there; nothing where the file is missing or damaged."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                return ChunkResult(kept["regret"], kept["reward"], float(kept["seconds"]))
        except Exception:  # whatever a damaged file leads to, its chunk is played again
            return None

    def save(self, path: Path, result: ChunkResult) -> None:
        """Keep a result, whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                np.savez(file, regret=result.regret, reward=result.reward, seconds=result.seconds)

        replace_file(path, write)


def run(
    experiment: Experiment,
    folder: Path,
    *,
    quick: bool,
    jobs: int = 1,
    engine: str = "local",
    extra: Sequence[PolicySpec] = (),
    inputs: Mapping[str, str] | None = None,
    progress: ExperimentProgress | None = None,
) -> Outcome:
    """Play what is not kept yet and put all results together.

    Args:
        experiment: what to run.
        folder: of all results; chunks are kept below it, and shared by experiments that play the same.
        quick: the smaller version.
        jobs: processes.
        engine: `local` or `dask`.
        extra: policies that are added to every panel.
        inputs: fingerprints of the data sets; another one is another experiment.
        told: progress.
    """
    given = dict(inputs or {})
    panels = [_with(panel, extra) for panel in experiment.panels(quick)]
    tell = progress or (lambda name, done, total: None)
    results = play_panels(
        panels,
        folder,
        jobs=jobs,
        engine=engine,
        inputs=given,
        progress=lambda done, total: tell(experiment.id, done, total),
    )
    return Outcome(experiment, quick, tuple(zip(panels, results, strict=True)), given)


def play_panels(
    panels: Sequence[Panel],
    folder: Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    inputs: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Result]:
    """The result of every panel: chunks that are kept below the folder are taken, the others played and kept.

    Args:
        panels: what to play.
        folder: of all results.
        jobs: processes.
        engine: `local` or `dask`.
        inputs: fingerprints of the data sets.
        told: how many replication-rounds are done, of how many.
    """
    specs = [panel.spec() for panel in panels]
    store = ChunkStore(folder / "chunks")
    found: dict[tuple[int, int], ChunkResult] = {}
    left: list[tuple[int, int, Path | None]] = []
    for p, (panel, spec) in enumerate(zip(panels, specs, strict=True)):
        for i, (policy, chunk) in enumerate(plays(spec)):
            # A policy of one's own is always played: nothing says when it has changed.
            path = None if policy.own else store.path(panel, inputs or {}, policy, chunk)
            kept = None if path is None else store.load(path)
            if kept is None:
                left.append((p, i, path))
            else:
                found[p, i] = kept
    total = sum(spec.rounds * chunk.size for spec in specs for _, chunk in plays(spec))
    done = sum(panels[p].rounds * result.regret.shape[1] for (p, _), result in found.items())
    progress(done, total)
    for n, result in run_unordered(_tasks(specs, left), jobs, engine):
        p, i, path = left[n]
        if path is not None:
            store.save(path, result)
        found[p, i] = result
        done += panels[p].rounds * result.regret.shape[1]
        progress(done, total)
    return [assemble(spec, [found[p, i] for i in range(len(plays(spec)))]) for p, spec in enumerate(specs)]


def _with(panel: Panel, extra: Sequence[PolicySpec]) -> Panel:
    for policy in extra:
        panel = panel.with_policy(policy)
    return panel


def _tasks(specs: Sequence[Spec], left: Sequence[tuple[int, int, Path | None]]) -> Iterator[Task]:
    """One by one, a panel's world prepared when its first play is due, and dropped with the last."""
    at, world = -1, None
    for p, i, _ in left:
        if p != at or world is None:
            at, world = p, prepare(specs[p])
        policy, chunk = plays(specs[p])[i]
        yield Task(world, policy, chunk, specs[p].rounds, specs[p].seed)
