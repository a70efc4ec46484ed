"""Whose list is shown: the policy's, or the caller's own."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from rankloop.engine.asking import Asked
from rankloop.engine.config import RankerConfig
from rankloop.engine.inside import unwrap
from rankloop.engine.propensity import Propensity, of
from rankloop.engine.replica import Replica
from rankloop.errors import MISSING, InvalidInput
from rankloop.types import EMPTY, Decision

Draws = np.random.Generator


def is_control(config: RankerConfig, name: str, who: str, guarded: bool) -> bool:
    """Whether this visitor sees the caller's own order: always the same for the same visitor."""
    if config.mode == "shadow" or guarded:
        return True
    return config.traffic < 1.0 and share(name, who) >= config.traffic


def share(name: str, who: str) -> float:
    """A number in [0, 1) that belongs to a visitor of a ranker."""
    print_ = hashlib.blake2b(f"{name}\0{who}".encode(), digest_size=8).digest()
    return int.from_bytes(print_) / 2.0**64


def own_order(asked: Asked) -> Any:
    """The caller's list [k], which must have been given."""
    if asked.order is None:
        raise InvalidInput("order", MISSING, "the ids in your own order, which visitors of the control group see")
    return asked.order


def decide(
    replica: Replica, config: RankerConfig, asked: Asked, rng: Draws, spent: int
) -> tuple[Decision, bool, Propensity | None]:
    """The policy's list, within what it may explore; `spent` lists of today were changed by exploring.

    Also whether exploring changed it, where that is looked at, and its propensity where that has a closed form.
    """
    learners = replica.learners
    state = learners.of(asked.segment)
    request = asked.request
    if learners.greedy is None or (config.explore_from == 0 and config.explore_daily is None):
        made = learners.policy.decide(state, request, rng)
        return made, False, of(learners.policy, state, made, learners.law)
    _, inner = unwrap(learners.policy, state)
    best = learners.greedy.decide(inner, request, rng)
    if config.explore_daily is not None and spent >= config.explore_daily:
        return best, False, of(learners.greedy, inner, best)
    if config.explore_from:
        pinned = np.full(request.k, EMPTY, dtype=np.int64) if request.pinned is None else request.pinned.copy()
        pinned[: config.explore_from] = best.items[0, : config.explore_from]
        request = replace(request, pinned=pinned)
    made = learners.policy.decide(state, request, rng)
    return made, not np.array_equal(made.items, best.items), of(learners.policy, state, made, learners.law)
