"""Propensities: how likely a list was, as off-policy evaluation needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.propensity.closed_forms import CERTAIN, ListProbabilities
from rankloop.propensity.list_distribution import DETERMINISTIC, EXACT, MONTE_CARLO, ListDistribution, SupportsDecide
from rankloop.schema import PropensityAnswer
from rankloop.types import Decision, FloatArray


class HasListDistribution(SupportsDecide, Protocol):
    """A policy that describes how its lists are drawn."""

    def list_distribution(self) -> ListDistribution:
        """Return the distribution of its lists."""


@dataclass(frozen=True, slots=True, eq=False)
class Propensity:
    """Probabilities of a list under its policy and state.

    `deterministic`: no other list was possible; all probabilities are 1 and are not stored. `exact`: computed in closed
    form, without errors. `monte-carlo`: counted in `draws` draws, with standard errors.
    """

    kind: str
    draws: int = 0
    list: float | None = None  # of the whole list
    prefix: FloatArray | None = None  # [k] of the list up to and including each slot
    slot: FloatArray | None = None  # [k] of the item in each slot, whatever the others show
    list_error: float | None = None
    prefix_error: FloatArray | None = None  # [k]
    slot_error: FloatArray | None = None  # [k]

    def answer(self) -> PropensityAnswer:
        """Return the propensity in plain numbers, as the API returns it."""
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
"""The propensity of a list that was the only possible one."""


def of(
    policy: HasListDistribution, state: object, decision: Decision, lists: ListDistribution | None = None
) -> Propensity | None:
    """Return the propensity of a list in closed form; None where only deciding again helps (`estimate`).

    The list need not be the policy's own: `policy.adopt` makes a decision of any list, and one that the policy could
    not have shown has probability 0.

    Args:
        policy: the policy.
        state: of one learner, at the time of the decision.
        decision: of one learner, from `decide` or `adopt`.
        lists: the distribution of the policy's lists, if the caller has cached it.
    """
    if len(decision.items) != 1:
        raise InvalidInput("decision.items", len(decision.items), "the list of one learner")
    found = (policy.list_distribution() if lists is None else lists).probability(state, decision)
    return None if found is None else closed_form(found)


def closed_form(found: ListProbabilities) -> Propensity:
    """Return the propensity of a list whose probabilities have a closed form."""
    if found is CERTAIN:
        return DETERMINISTIC_PROPENSITY
    whole = float(found.prefix[-1]) if found.prefix.size else 1.0
    return Propensity(EXACT, 0, whole, found.prefix, found.slot)


def estimate(
    policy: HasListDistribution, state: object, decision: Decision, rng: np.random.Generator, draws: int
) -> Propensity:
    """Decide again `draws` times in the same state and count, unless the list was deterministic.

    Args:
        policy: the policy.
        state: of one learner, at the time of the decision.
        decision: of one learner.
        rng: for the draws, independent of the generator that decided.
        draws: number of draws; the standard error of a probability p is √(p(1-p)/draws).
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
