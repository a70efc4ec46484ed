"""Run experiments; results are stored chunk by chunk, and stored chunks are not played again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankloop.experiments.cache_key import code_hash
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.outcome import SEED, Outcome, Panel
from rankloop.files import replace_file
from rankloop.simulator.api import assemble, plays, prepare
from rankloop.simulator.chunk import Chunk, ChunkResult
from rankloop.simulator.parallel import Task, run_unordered
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.simulator.result import Result
from rankloop.simulator.spec import Spec

ExperimentProgress = Callable[[str, int, int], None]
"""Called with an experiment's id, the number of its replication-rounds that are done, and the total."""


@dataclass(frozen=True)
class ChunkStore:
    """Stored results of chunks; a file's name is a hash of everything that the result depends on."""

    folder: Path

    def path(self, panel: Panel, inputs: Mapping[str, str], policy: PolicySpec, chunk: Chunk) -> Path:
        """Return the file for the result of a policy on a chunk."""
        data = {id: inputs[id] for id in panel.data if id in inputs}
        identity = [code_hash(), panel.world, data, policy.id, policy.params, panel.rounds, SEED]
        text = json.dumps([*identity, chunk.index, chunk.first, chunk.size], sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()[:24]
        return self.folder / name[:2] / f"{name}.npz"

    def load(self, path: Path) -> ChunkResult | None:
        """Return a stored result; None where the file is missing or damaged."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return ChunkResult(arrays["regret"], arrays["reward"], float(arrays["seconds"]))
        except Exception:  # any damage: the chunk is played again
            return None

    def save(self, path: Path, result: ChunkResult) -> None:
        """Store a result atomically."""
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
    """Play the chunks that are not stored yet, and return the outcome of the experiment.

    Args:
        experiment: the experiment.
        folder: the folder of all results; stored chunks below it are shared by all experiments.
        quick: whether to run the smaller version.
        jobs: number of processes.
        engine: `local` or `dask`.
        extra: policies that are added to every panel.
        inputs: fingerprints of the data sets, part of the cache key.
        progress: called after each chunk.
    """
    given = dict(inputs or {})
    panels = [_with(panel, extra) for panel in experiment.panels(quick)]
    report = progress or (lambda name, done, total: None)
    results = play_panels(
        panels,
        folder,
        jobs=jobs,
        engine=engine,
        inputs=given,
        progress=lambda done, total: report(experiment.id, done, total),
    )
    return Outcome(experiment.id, quick, tuple(zip(panels, results, strict=True)), given)


def play_panels(
    panels: Sequence[Panel],
    folder: Path,
    *,
    jobs: int = 1,
    engine: str = "local",
    inputs: Mapping[str, str] | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Result]:
    """Return the result of every panel; chunks that are not stored below the folder are played and stored.

    Args:
        panels: the panels.
        folder: the folder of all results.
        jobs: number of processes.
        engine: `local` or `dask`.
        inputs: fingerprints of the data sets, part of the cache key.
        progress: called with the number of replication-rounds done and the total.
    """
    specs = [panel.spec() for panel in panels]
    store = ChunkStore(folder / "chunks")
    results: dict[tuple[int, int], ChunkResult] = {}
    left: list[tuple[int, int, Path | None]] = []
    for p, (panel, spec) in enumerate(zip(panels, specs, strict=True)):
        for i, (policy, chunk) in enumerate(plays(spec)):
            # A custom policy is always played: changes of its code cannot be detected.
            path = None if policy.own else store.path(panel, inputs or {}, policy, chunk)
            stored = None if path is None else store.load(path)
            if stored is None:
                left.append((p, i, path))
            else:
                results[p, i] = stored
    total = sum(spec.rounds * chunk.size for spec in specs for _, chunk in plays(spec))
    done = sum(panels[p].rounds * result.regret.shape[1] for (p, _), result in results.items())
    progress(done, total)
    for n, result in run_unordered(_tasks(specs, left), jobs, engine):
        p, i, path = left[n]
        if path is not None:
            store.save(path, result)
        results[p, i] = result
        done += panels[p].rounds * result.regret.shape[1]
        progress(done, total)
    return [assemble(spec, [results[p, i] for i in range(len(plays(spec)))]) for p, spec in enumerate(specs)]


def _with(panel: Panel, extra: Sequence[PolicySpec]) -> Panel:
    for policy in extra:
        panel = panel.with_policy(policy)
    return panel


def _tasks(specs: Sequence[Spec], left: Sequence[tuple[int, int, Path | None]]) -> Iterator[Task]:
    """Yield the tasks; a panel's world is prepared at its first task and released after its last."""
    current, world = -1, None
    for p, i, _ in left:
        if p != current or world is None:
            current, world = p, prepare(specs[p])
        policy, chunk = plays(specs[p])[i]
        yield Task(world, policy, chunk, specs[p].rounds, specs[p].seed)
