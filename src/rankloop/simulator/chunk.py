"""Play one chunk of replications: the loop of simulated rounds, for B replications at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankloop.policy import SupportsRanking
from rankloop.simulator import streams
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.types import FloatArray, IntArray
from rankloop.worlds import World

Tick = Callable[[int], None]
"""Called with the number of rounds played so far."""


@dataclass(frozen=True)
class Chunk:
    """The replications first … first + size - 1 of a run."""

    index: int
    first: int
    size: int


@dataclass(frozen=True)
class ChunkResult:
    """Cumulative regret and reward at the checkpoints, each [C, B], and the run time in seconds."""

    regret: FloatArray
    reward: FloatArray
    seconds: float


def checkpoints(rounds: int, most: int = 100) -> IntArray:
    """Return the rounds at which a run is recorded: evenly spaced, the last at `rounds`."""
    return np.unique(np.linspace(0, rounds, min(rounds, most) + 1).round().astype(np.int64)[1:])


def prepare_world(world: World, seed: int) -> World:
    """Return the world with everything drawn that all replications of a run share."""
    return world.prepare(streams.shared(seed))


def play(world: World, spec: PolicySpec, chunk: Chunk, rounds: int, seed: int, tick: Tick) -> ChunkResult:
    """Play all rounds of a chunk and return its curves. Memory does not depend on the number of rounds."""
    started = time.perf_counter()
    replications = range(chunk.first, chunk.first + chunk.size)
    instance = world.draw([streams.replication(seed, r) for r in replications], rounds)
    policy: SupportsRanking = spec.build(instance.setting)
    state = policy.init(chunk.size)
    visitors = streams.visitors(seed, chunk.index)
    rng = streams.policy(seed, chunk.index, spec.id, spec.params)

    recorded = checkpoints(rounds)
    regret, reward = np.zeros((2, len(recorded), chunk.size))
    lost, won = np.zeros((2, chunk.size))
    upcoming = 0
    for t in range(1, rounds + 1):
        visit = instance.visit(visitors)
        decision = policy.decide(state, visit.request, rng)
        clicks, gain = visit.click(decision.items)
        policy.learn(state, decision, policy.feedback.keep(clicks))
        lost += visit.best - visit.value(decision.items)
        won += gain
        if t == recorded[upcoming]:
            regret[upcoming], reward[upcoming] = lost, won
            upcoming += 1
            tick(t)
    return ChunkResult(regret, reward, time.perf_counter() - started)
