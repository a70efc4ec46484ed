"""The composition inside wrappers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rankloop.belief.order import PairwiseOrder
from rankloop.explore import Greedy
from rankloop.plan import Uniform
from rankloop.policy import Policy, Ranks
from rankloop.wrappers import EpochRepeat


def unwrap(policy: Ranks, state: Any) -> tuple[Policy[Any] | None, Any]:
    """The policy that wrappers are around, and its state; nothing where it is no composition."""
    inner: Any = policy
    while not isinstance(inner, Policy) and hasattr(inner, "policy"):
        inner, state = inner.policy, getattr(state, "inner", state)
    return (inner, state) if isinstance(inner, Policy) else (None, None)


def belief_of(policy: Ranks, state: Any) -> tuple[Policy[Any] | None, Any]:
    """The policy that wrappers are around, and its belief's state; nothing where it is no composition."""
    inner, state = unwrap(policy, state)
    return inner, None if inner is None else state.belief


def greedy(policy: Ranks) -> Policy[Any] | None:
    """The policy inside without exploring, where its belief has estimates."""
    inner, belief = belief_of(policy, policy.init(1))
    if inner is None or not hasattr(belief, "mean") or isinstance(inner.plan, Uniform):
        return None
    return replace(inner, explore=Greedy())


def learns_from_others(policy: Ranks) -> bool:
    """Whether lists that somebody else made teach it: not where it must repeat or shuffle its own."""
    outer: Any = policy
    while hasattr(outer, "policy"):
        if isinstance(outer, EpochRepeat):
            return False
        outer = outer.policy
    return isinstance(outer, Policy) and not isinstance(outer.belief, PairwiseOrder)
