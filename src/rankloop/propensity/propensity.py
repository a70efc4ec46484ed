"""How likely was this list? What off-policy evaluation needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.propensity.closed_forms import CERTAIN
from rankloop.propensity.list_distribution import DETERMINISTIC, EXACT, MONTE_CARLO, ListDistribution, SupportsDecide
from rankloop.schema import PropensityAnswer
from rankloop.types import Decision, FloatArray


class HasListDistribution(SupportsDecide, Protocol):
    """A policy that says how its lists come about."""

    def list_distribution(self) -> ListDistribution:
        """What is random about its lists."""


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

    def answer(self) -> PropensityAnswer:
        """The same in plain numbers, as it is told to a caller."""
        return PropensityAnswer(
            self.kind,
            self.draws,
            self.list,
            _numbers(self.prefix),
            _numbers(self.slot),
            self.list_error,
            _numbers(self.prefix_error),
            _numbers(self.slot_error),
        )


DETERMINISTIC_PROPENSITY = Propensity(DETERMINISTIC)
"""Of a list that could not have been another."""


def of(
    policy: HasListDistribution, state: object, decision: Decision, lists: ListDistribution | None = None
) -> Propensity | None:
    """The propensity of a list where it can be had exactly; None where only deciding again helps (`estimate`).

    The list need not be the policy's own: `policy.adopt` makes a decision of any, and one that the policy could not
    have shown has probability 0.

    Args:
        policy: the policy.
        state: of one learner, as it was when it decided.
        decision: of one learner, as `decide` or `adopt` made it.
        lists: the distribution of the policy's lists, for a caller who asks often and has kept it.
    """
    if len(decision.items) != 1:
        raise InvalidInput("decision.items", len(decision.items), "the list of one learner")
    found = (policy.list_distribution() if lists is None else lists).probability(state, decision)
    if found is None:
        return None
    if found is CERTAIN:
        return DETERMINISTIC_PROPENSITY
    whole = float(found.prefix[-1]) if found.prefix.size else 1.0
    return Propensity(EXACT, 0, whole, found.prefix, found.slot)


def estimate(
    policy: HasListDistribution, state: object, decision: Decision, rng: np.random.Generator, draws: int
) -> Propensity:
    """Decide again `draws` times in the same state and count, unless the list could not have been another.

    Args:
        policy: the policy.
        state: of one learner, as it was when it decided.
        decision: of one learner.
        rng: of the draws, independent of the one that decided.
        draws: how often; the standard error of a probability p is √(p(1-p)/draws).
    """
    if of(policy, state, decision) is DETERMINISTIC_PROPENSITY:
        return DETERMINISTIC_PROPENSITY
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


def _numbers(array: FloatArray | None) -> tuple[float, ...] | None:
    return None if array is None else tuple(array.tolist())
