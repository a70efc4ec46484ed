"""Whose list is shown: the policy's, or that of the control group."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from rankloop.propensity import Propensity, of
from rankloop.serving.config import RankerConfig
from rankloop.serving.item_table import ItemTable
from rankloop.serving.rank_request import PolicyRequest
from rankloop.serving.replica import Replica
from rankloop.types import EMPTY, BoolArray, Decision, IntArray

Draws = np.random.Generator
FIRST_BLOCK_COLUMNS = 256
"""Columns of the default order that are looked at first."""


def is_control(config: RankerConfig, name: str, who: str, guardrail_tripped: bool) -> bool:
    """Whether this visitor sees the control ranking: always the same for the same visitor."""
    if config.mode == "shadow" or guardrail_tripped:
        return True
    return config.traffic < 1.0 and share(name, who) >= config.traffic


def share(name: str, who: str) -> float:
    """A number in [0, 1) that belongs to a visitor of a ranker."""
    # A ranker that started anew has a log of another name, name#…, and the same visitors.
    print_ = hashlib.blake2b(f"{name.partition('#')[0]}\0{who}".encode(), digest_size=8).digest()
    return int.from_bytes(print_) / 2.0**64


def own_order(asked: PolicyRequest, table: ItemTable) -> IntArray:
    """The list [k] of the control group: the caller's order, or where none was given the default order with the pins.

    EMPTY where there are too few items.
    """
    if asked.order is not None:
        return asked.order
    request = asked.request
    own = np.full(request.k, EMPTY, dtype=np.int64) if request.pinned is None else request.pinned.copy()
    may = table.enabled if request.allowed is None else request.allowed
    if asked.pinned:
        may = may.copy()
        may[own[own != EMPTY]] = False
    free = np.flatnonzero(own == EMPTY)
    listed = _first(table.default_order, may, len(free))
    own[free[: len(listed)]] = listed
    return own


def _first(order: IntArray, may: BoolArray, n: int) -> IntArray:
    """The first n columns of an order that may be listed; of a long order, most need not be looked at."""
    size = FIRST_BLOCK_COLUMNS + n
    while True:
        begin = order[:size]
        listed = begin[may[begin]]
        if len(listed) >= n or size >= len(order):
            return listed[:n]
        size *= 8


def decide(
    replica: Replica, config: RankerConfig, asked: PolicyRequest, rng: Draws, withheld: bool
) -> tuple[Decision, bool, Propensity | None]:
    """The policy's list, within what it may explore: nothing today, where exploration is withheld.

    Also whether exploring changed it, where that is looked at, and its propensity where that has a closed form.
    """
    learners = replica.learners
    state = learners.of(asked.segment)
    request = asked.request
    if learners.greedy is None or (config.explore_from == 0 and config.explore_daily is None):
        made = learners.policy.decide(state, request, rng)
        return made, False, of(learners.policy, state, made, learners.lists)
    best = learners.greedy.decide(state, request, rng)
    if withheld:
        return best, False, of(learners.greedy, state, best)
    if config.explore_from:
        pinned = np.full(request.k, EMPTY, dtype=np.int64) if request.pinned is None else request.pinned.copy()
        pinned[: config.explore_from] = best.items[0, : config.explore_from]
        request = replace(request, pinned=pinned)
    made = learners.policy.decide(state, request, rng)
    return made, not np.array_equal(made.items, best.items), of(learners.policy, state, made, learners.lists)
