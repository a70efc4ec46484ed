"""How likely was this list? What off-policy evaluation needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.engine.inside import belief_of
from rankloop.explore import Blocks, SharedNoise, Thompson
from rankloop.plan import Uniform
from rankloop.policy import Ranks
from rankloop.types import Decision, FloatArray
from rankloop.wrappers import RandomLists

STREAM = 1
"""Of the draws that estimate a propensity; the list itself is drawn from stream 0 of its decision."""


def numbered(seed: int, number: int, stream: int = 0) -> np.random.Generator:
    """The random numbers of a decision: a counter-based generator, so any of them can be had at once."""
    return np.random.Generator(np.random.Philox(key=[seed, number], counter=[0, 0, 0, stream]))


class Numbered:
    """One generator that becomes that of any decision: as `numbered`, in a tenth of the time, for one thread."""

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._rng = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._key, self._counter = self._state["state"]["key"], self._state["state"]["counter"]

    def __call__(self, seed: int, number: int) -> np.random.Generator:
        """The random numbers of a decision, until those of another are asked for."""
        self._counter[:] = 0
        self._key[:] = seed, number
        self._bits.state = self._state
        return self._rng


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """Estimated probabilities of a list under its policy and state, with standard errors; nothing where not random."""

    kind: str  # deterministic (but for exact ties), or monte-carlo
    draws: int = 0
    list: float | None = None  # that the whole list is shown
    prefix: FloatArray | None = None  # [k] that it begins like this, to each slot
    slot: FloatArray | None = None  # [k] that each slot shows what it shows
    list_error: float | None = None
    prefix_error: FloatArray | None = None  # [k]
    slot_error: FloatArray | None = None  # [k]


def is_random(policy: Ranks, state: Any) -> bool:
    """Whether two visitors in the same state may see different lists, ties apart."""
    inner, _ = belief_of(policy, state)
    if isinstance(policy, RandomLists) or inner is None:
        return True
    return isinstance(inner.explore, Thompson | SharedNoise | Blocks) or isinstance(inner.plan, Uniform)


def estimate(policy: Ranks, state: Any, decision: Decision, seed: tuple[int, int], draws: int) -> Propensity:
    """Decide again `draws` times in the same state and count.

    Args:
        policy: the policy.
        state: of one learner, as it was when it decided.
        decision: of one learner.
        seed: of the decision.
        draws: how often; the standard error of a probability p is √(p(1-p)/draws).
    """
    if not is_random(policy, state):
        return Propensity("deterministic")
    rng = numbered(*seed, stream=STREAM)
    again = np.concatenate([policy.decide(state, decision.request, rng).items for _ in range(draws)])
    same = again == decision.items
    prefix = np.logical_and.accumulate(same, axis=1).mean(axis=0)
    slot = same.mean(axis=0)
    whole = float(same.all(axis=1).mean())
    error = {"prefix": _error(prefix, draws), "slot": _error(slot, draws)}
    return Propensity(
        "monte-carlo", draws, whole, prefix, slot, float(_error(np.array(whole), draws)), error["prefix"], error["slot"]
    )


def _error(p: FloatArray, draws: int) -> FloatArray:
    return np.asarray(np.sqrt(p * (1.0 - p) / draws))
