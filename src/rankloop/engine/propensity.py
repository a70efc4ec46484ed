"""How likely was this list? What off-policy evaluation needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.engine.chances import CERTAIN
from rankloop.engine.laws import DETERMINISTIC, EXACT, MONTE_CARLO, Law, law_of
from rankloop.errors import InvalidInput
from rankloop.policy import Ranks
from rankloop.types import Decision, FloatArray

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
    """Probabilities of a list under its policy and state.

    `deterministic`: no other list was possible, all of them are 1 and are not written down. `exact`: computed, without
    errors. `monte-carlo`: counted in so many draws, with standard errors.
    """

    kind: str
    draws: int = 0
    list: float | None = None  # that the whole list is shown
    prefix: FloatArray | None = None  # [k] that it begins like this, to each slot
    slot: FloatArray | None = None  # [k] that each slot shows what it shows
    list_error: float | None = None
    prefix_error: FloatArray | None = None  # [k]
    slot_error: FloatArray | None = None  # [k]


ONLY = Propensity(DETERMINISTIC)
"""Of a list that could not have been another."""


def of(policy: Ranks, state: Any, decision: Decision, law: Law | None = None) -> Propensity | None:
    """The propensity of a list where it can be had exactly; None where only deciding again helps (`estimate`).

    The list need not be the policy's own: `policy.adopt` makes a decision of any, and one that the policy could not
    have shown has probability 0.

    Args:
        policy: the policy.
        state: of one learner, as it was when it decided.
        decision: of one learner, as `decide` or `adopt` made it.
        law: the policy's, where somebody who asks often has kept it (`laws.law_of`).
    """
    if len(decision.items) != 1:
        raise InvalidInput("decision.items", len(decision.items), "the list of one learner")
    found = (law_of(policy) if law is None else law).chances(state, decision)
    if found is None:
        return None
    if found is CERTAIN:
        return ONLY
    whole = float(found.prefix[-1]) if found.prefix.size else 1.0
    return Propensity(EXACT, 0, whole, found.prefix, found.slot)


def estimate(policy: Ranks, state: Any, decision: Decision, seed: tuple[int, int], draws: int) -> Propensity:
    """Decide again `draws` times in the same state and count, unless the list could not have been another.

    Args:
        policy: the policy.
        state: of one learner, as it was when it decided.
        decision: of one learner.
        seed: of the decision.
        draws: how often; the standard error of a probability p is √(p(1-p)/draws).
    """
    if of(policy, state, decision) is ONLY:
        return ONLY
    rng = numbered(*seed, stream=STREAM)
    again = np.concatenate([policy.decide(state, decision.request, rng).items for _ in range(draws)])
    same = again == decision.items
    prefix = np.logical_and.accumulate(same, axis=1).mean(axis=0)
    slot = same.mean(axis=0)
    whole = float(same.all(axis=1).mean())
    error = {"prefix": _error(prefix, draws), "slot": _error(slot, draws)}
    return Propensity(
        MONTE_CARLO, draws, whole, prefix, slot, float(_error(np.array(whole), draws)), error["prefix"], error["slot"]
    )


def _error(p: FloatArray, draws: int) -> FloatArray:
    return np.asarray(np.sqrt(p * (1.0 - p) / draws))
