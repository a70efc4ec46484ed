"""`simulate`: run policies on simulated visitors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from rankloop import validate
from rankloop.errors import InvalidInput, Unsupported
from rankloop.policy import SupportsRanking
from rankloop.simulator import streams
from rankloop.simulator.chunk import Chunk, ChunkResult, checkpoints, prepare_world
from rankloop.simulator.parallel import ProgressCallback, Task, run_all
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.simulator.result import Result
from rankloop.simulator.spec import DEFAULT_CHUNK, Spec
from rankloop.simulator.trace import Trace
from rankloop.types import Setting
from rankloop.version import __version__
from rankloop.worlds import World

RANDOM = PolicySpec(id="random", label="random")


def simulate(
    policies: Sequence[str | Mapping[str, object] | PolicySpec | Callable[[Setting], SupportsRanking]],
    world: World | Mapping[str, object],
    *,
    rounds: int,
    replications: int,
    seed: int = 0,
    chunk: int = DEFAULT_CHUNK,
    jobs: int = 1,
    report: ProgressCallback | None = None,
) -> Result:
    """Run every policy on the same worlds and the same visitors (common random numbers).

    Args:
        policies: ids, mappings with 'id' and parameters, or functions from a Setting to a policy.
        world: a world, or a mapping as in a spec file.
        rounds: the horizon: visitors of each replication.
        replications: independent repetitions.
        seed: equal seeds give equal results, for any number of `jobs`.
        chunk: replications that share a batch; results depend on it.
        jobs: number of processes.
        report: called with the number of replication-rounds played since its last call.

    >>> result = simulate(
    ...     ["cascade-ucb1", "random"],
    ...     {"kind": "cascade", "attraction": [0.5, 0.1], "k": 1},
    ...     rounds=200,
    ...     replications=10,
    ...     seed=7,
    ... )
    >>> bool(result["cascade-ucb1"].final.mean() < result["random"].final.mean())
    True
    """
    given = {
        "world": world,
        "policies": policies,
        "rounds": rounds,
        "replications": replications,
        "seed": seed,
        "chunk": chunk,
    }
    return run(Spec.of(given), jobs=jobs, report=report)


def run(spec: Spec, *, jobs: int = 1, report: ProgressCallback | None = None) -> Result:
    """Run a validated spec."""
    validate.integer("jobs", jobs)
    world = prepare(spec)
    tasks = [Task(world, player, chunk, spec.rounds, spec.seed) for player, chunk in plays(spec)]
    return assemble(spec, run_all(tasks, jobs, report or (lambda played: None)))


def prepare(spec: Spec) -> World:
    """Return the prepared world of a spec; refuse a policy that cannot run in it."""
    world = prepare_world(spec.world, spec.seed)
    _check_policies(world, spec)
    return world


def plays(spec: Spec) -> list[tuple[PolicySpec, Chunk]]:
    """Return the tasks of a spec as (policy, chunk): policy by policy, the random baseline last."""
    chunks = [
        Chunk(i, first, min(spec.chunk, spec.replications - first))
        for i, first in enumerate(range(0, spec.replications, spec.chunk))
    ]
    return [(player, chunk) for player in with_baseline(spec) for chunk in chunks]


def assemble(spec: Spec, results: Sequence[ChunkResult]) -> Result:
    """Return the result of a spec from the results of `plays(spec)`, in the same order."""
    players = with_baseline(spec)
    chunks = len(results) // len(players)
    traces = [_trace(player, results[i * chunks : (i + 1) * chunks], spec.rounds) for i, player in enumerate(players)]
    baseline = next(t for t, p in zip(traces, players, strict=True) if p.id == "random" and not p.function)
    return Result(spec.source, __version__, tuple(traces[: len(spec.policies)]), replace(baseline, label="random"))


def with_baseline(spec: Spec) -> tuple[PolicySpec, ...]:
    """Return the policies of a spec, with the random baseline added if it is not among them."""
    included = any(p.id == "random" and p.function is None for p in spec.policies)
    return spec.policies if included else (*spec.policies, RANDOM)


def _check_policies(world: World, spec: Spec) -> None:
    """Build every policy once, so that a policy that cannot run is refused before any round is played."""
    setting = world.draw([streams.replication(spec.seed, 0)], spec.rounds).setting
    for i, policy in enumerate(spec.policies):
        try:
            policy.build(setting)
        except Unsupported as error:
            raise Unsupported(f"policies[{i}]: {error}") from None
        except InvalidInput as error:
            raise error.within(f"policies[{i}]") from None


def _trace(policy: PolicySpec, parts: Sequence[ChunkResult], rounds: int) -> Trace:
    regret, reward = (np.concatenate([getattr(part, name) for part in parts], axis=1) for name in ("regret", "reward"))
    seconds = sum(part.seconds for part in parts)
    return Trace(policy.id, policy.label, policy.params, regret, reward, seconds, checkpoints(rounds))
