"""`simulate`: policies against simulated visitors."""

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
from rankloop.simulator.result import Result, Trace
from rankloop.simulator.spec import DEFAULT_CHUNK, Spec
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
    """Run every policy on the same worlds and the same visitors.

    Args:
        policies: ids, mappings with 'id' and parameters, or functions from a Setting to a policy.
        world: a world, or a mapping as in a spec file.
        rounds: visitors of each replication.
        replications: independent repetitions.
        seed: equal seeds give equal results, whatever `jobs` is.
        chunk: replications that share a batch; part of the experiment's identity.
        jobs: processes.
        report: told how many replication-rounds have been played.

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
    """Run a spec that has been checked."""
    validate.integer("jobs", jobs)
    world = prepare(spec)
    tasks = [Task(world, player, chunk, spec.rounds, spec.seed) for player, chunk in plays(spec)]
    return assemble(spec, run_all(tasks, jobs, report or (lambda played: None)))


def prepare(spec: Spec) -> World:
    """The world of a spec, ready to play, every policy built once so that what cannot run is said first."""
    world = prepare_world(spec.world, spec.seed)
    _check_policies(world, spec)
    return world


def plays(spec: Spec) -> list[tuple[PolicySpec, Chunk]]:
    """All that a spec has to play: policy by policy, the yardstick last, chunk by chunk."""
    chunks = [
        Chunk(i, first, min(spec.chunk, spec.replications - first))
        for i, first in enumerate(range(0, spec.replications, spec.chunk))
    ]
    return [(player, chunk) for player in with_baseline(spec) for chunk in chunks]


def assemble(spec: Spec, results: Sequence[ChunkResult]) -> Result:
    """The result of a spec from what its plays gave, in their order."""
    players = with_baseline(spec)
    each = len(results) // len(players)
    traces = [_trace(player, results[i * each : (i + 1) * each], spec.rounds) for i, player in enumerate(players)]
    yardstick = next(t for t, p in zip(traces, players, strict=True) if p.id == "random" and not p.function)
    return Result(spec.source, __version__, tuple(traces[: len(spec.policies)]), replace(yardstick, label="random"))


def with_baseline(spec: Spec) -> tuple[PolicySpec, ...]:
    """The policies of a spec, and the random one if it is not among them."""
    asked = any(p.id == "random" and p.function is None for p in spec.policies)
    return spec.policies if asked else (*spec.policies, RANDOM)


def _check_policies(world: World, spec: Spec) -> None:
    """Build every policy once, so that what cannot run is said before anything runs."""
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
