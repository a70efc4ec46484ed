"""One decision: which group the visitor is in, which list is shown, and why. `verification` decides the same again."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop import propensity
from rankloop.arrays import Array
from rankloop.eventlog.events import DecisionMade
from rankloop.math import numerics
from rankloop.plan.caps import first_under
from rankloop.propensity import Propensity
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.serving.config import RankerConfig
from rankloop.serving.items.field_groups import caps_of
from rankloop.serving.items.item_table import ItemTable
from rankloop.serving.learners import Learners
from rankloop.serving.rank_request import PolicyRequest
from rankloop.serving.ranking import Ranking, exploration_shares
from rankloop.serving.replica import Replica
from rankloop.types import EMPTY, BoolArray, Decision, FloatArray, IntArray, Request
from rankloop.version import __version__

FIRST_BLOCK_COLUMNS = 256
"""Columns of the default order that are searched first for items that may be listed."""
PROPENSITY_STREAM = 1
"""Stream of the draws that estimate a propensity; the list itself is drawn from stream 0 of its decision."""


class Stamp(NamedTuple):
    """What identifies a decision."""

    id: str
    number: int  # from 1; the random numbers follow from it
    time: float
    process: int = 0  # that decides, from 1, where several share the log; its random numbers are its own


class PolicyList(NamedTuple):
    """The list of the policy."""

    decision: Decision
    explored: bool  # exploration changed the list, where that is checked
    propensity: Propensity | None  # where it has a closed form


class Draws(NamedTuple):
    """Copies of what a propensity is estimated from, so that the ranker may go on meanwhile."""

    policy: RankingPolicy[LearnerState]
    state: LearnerState
    shown: Decision
    rng: np.random.Generator
    number: int

    @classmethod
    def of(cls, learners: Learners, state: LearnerState, shown: Decision, rng: np.random.Generator, n: int) -> Draws:
        """Return n draws of a list that was just decided."""
        live = shown.request
        names = [name for name in Request.__slots__ if name not in ("learners", "items", "k")]
        arrays: dict[str, Array | None] = {name: _copy(getattr(live, name)) for name in names}
        request = Request.trusted(live.learners, live.items, live.k, **arrays)
        return cls(learners.policy, state.copy(), replace(shown, request=request), rng, n)

    def estimate(self) -> Propensity:
        """Decide again and count."""
        return propensity.estimate(self.policy, self.state, self.shown, self.rng, self.number)


def decide(
    replica: Replica, log: str, request: PolicyRequest, stamp: Stamp, rng: np.random.Generator, *, withheld: bool
) -> tuple[DecisionMade, Ranking, Draws | None]:
    """Decide a list and explain it; return the event, the list, and the draws of its propensity that are still to do.

    Args:
        replica: the ranker's state, which is only read.
        log: the name of the ranker's log, which salts the assignment of visitors to groups.
        request: what to rank.
        stamp: id, number and time of the decision.
        rng: the random numbers of the decision, `rng_of_decision(seed, number)`.
        withheld: today's exploration is spent, so the list must be the one estimated to be best.
    """
    config, learners, request = replica.config, replica.learners, under_caps(replica, request)
    visitor = stamp.id if request.visitor is None else request.visitor
    control = in_control_group(config, log, visitor, tripped=replica.guardrail_tripped is not None)
    shadow = config.mode == "shadow"
    state = learners.of(request.segment)
    made: PolicyList | None = None
    draws: Draws | None = None
    approximate = False
    if not control or shadow:
        made = policy_list(replica, state, request, rng, withheld=withheld)
    if made is None or control:
        shown = learners.policy.adopt(request.request, control_list(request, replica.items)[None, :])
        reasons, scores, likely = None, None, None
        shares: list[float | None] = [None] * request.request.k
    else:
        shown, likely = made.decision, made.propensity
        reasons = learners.policy.explain(state, learners.fresh, shown)
        scores = None if shown.scores is None else shown.scores[0]
        approximate = learners.policy.approximate(request.request)
        shares = exploration_shares(shown.items[0], scores, reasons, request.pinned)
        if likely is None and request.draws:
            own = rng_of_decision(config.seed, stamp.number, PROPENSITY_STREAM, stamp.process)
            draws = Draws.of(learners, state, shown, own, request.draws)
    x, context, named, columns = shown.rows.x, request.request.context, request.named, shown.columns[0]
    explained = [share for share in shares if share is not None]
    event = DecisionMade(
        time=stamp.time,
        id=stamp.id,
        number=stamp.number,
        segment=request.segment,
        items=columns,
        x=None if x is None else x[0] if x.shape[0] == 1 else np.broadcast_to(x, (1, *x.shape[1:]))[0],
        context=None if context is None else context[0],
        scores=scores,
        pinned=request.pinned,
        propensity=likely,
        policy=config.policy,
        version=__version__,
        seed=config.seed,
        group="control" if control else "treatment",
        visitor=request.visitor,
        why=reasons,
        proposed=made.decision.columns[0] if made is not None and control else None,
        prices=_prices_of(shown, replica.items, columns) if config.objective == "revenue" else None,
        candidates=_short(named.candidates),
        excluded=_short(named.excluded),
        rows=named.rows,
        given_scores=named.given_scores,
        given_prices=named.given_prices,
        order=_short(named.order),
        rewards=named.rewards,
        losses=named.losses,
        exploring=sum(explained),
        judged=len(explained),
        explored=made is not None and made.explored and not control,  # a list that is not shown explores nothing
        position=replica.position,
        config=replica.version,
        numerics=numerics.version(mixed=replica.mixed_numerics),
        withheld=withheld and made is not None,
        asked=request.fingerprint,
        process=stamp.process,
        approximate=approximate,
        context_fields=request.context_fields,
        item_fields=request.item_fields,
    )
    return (
        event,
        Ranking(event, replica.items.ids, shares, request.ignored, unknown_fields=request.unknown_fields),
        draws,
    )


def in_control_group(config: RankerConfig, log: str, visitor: str, *, tripped: bool) -> bool:
    """Return whether a visitor sees the control ranking: always the same answer for the same visitor."""
    if config.mode == "shadow" or tripped:
        return True
    return config.traffic < 1.0 and traffic_bucket(log, visitor) >= config.traffic


def traffic_bucket(log: str, visitor: str) -> float:
    """Return the number in [0, 1) that a visitor of a ranker hashes to."""
    # A ranker that was reset has a log of another name, name#…, and the same visitors.
    digest = hashlib.blake2b(f"{log.partition('#')[0]}\0{visitor}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2.0**64


def policy_list(
    replica: Replica, state: LearnerState, request: PolicyRequest, rng: np.random.Generator, *, withheld: bool
) -> PolicyList:
    """Return the policy's list, within the limits of exploration that the configuration sets."""
    config, learners, wanted = replica.config, replica.learners, request.request
    policy, greedy = learners.policy, learners.greedy
    if greedy is None or (config.explore_from == 0 and config.explore_daily is None):
        decision = policy.decide(state, wanted, rng)
        return PolicyList(decision, False, _closed_form(learners, state, decision))
    best = greedy.decide(state, wanted, rng)
    if withheld:
        return PolicyList(best, False, propensity.of(greedy, state, best))
    if config.explore_from:
        pinned = np.full(wanted.k, EMPTY, dtype=np.int64) if wanted.pinned is None else wanted.pinned.copy()
        pinned[: config.explore_from] = best.items[0, : config.explore_from]
        wanted = replace(wanted, pinned=pinned)
    decision = policy.decide(state, wanted, rng)
    changed = not np.array_equal(decision.items, best.items)
    return PolicyList(decision, changed, _closed_form(learners, state, decision))


def under_caps(replica: Replica, request: PolicyRequest) -> PolicyRequest:
    """Return a request with the caps of the configuration, on the values that its items have in the capped fields."""
    if replica.config.caps is None:
        return request
    names, caps = caps_of(replica.config.caps)
    wanted, values = request.request, replica.items.raw_fields.groups
    groups = values.of_items(names, replica.items.capacity)
    if wanted.columns is not None:
        groups = groups[:, wanted.columns]
        if request.item_fields is not None:
            groups = values.in_request(groups, request.item_fields)
    used = {f"items.{name}" for name in names}
    unknown = tuple(name for name in request.unknown_fields if name not in used)
    return replace(request, request=wanted.under(groups, caps), unknown_fields=unknown)


def _copy(array: Array | None) -> Array | None:
    return None if array is None else np.copy(array)


def _closed_form(learners: Learners, state: LearnerState, decision: Decision) -> Propensity | None:
    """Return the propensity of a list where it has a closed form."""
    if not learners.lists.has_closed_form:
        return None
    found = learners.lists.probability(state, decision)
    return None if found is None else propensity.closed_form(found)


def _short(columns: IntArray | None) -> NDArray[np.int32] | None:
    """Return columns as a log stores them."""
    return None if columns is None else columns.astype(np.int32)


def _prices_of(shown: Decision, items: ItemTable, columns: IntArray) -> FloatArray:
    """Return what a click on each listed item is worth, [k], 0 in an empty slot."""
    given = shown.request.prices
    prices = items.prices[columns] if given is None else given[shown.items[0]]
    return np.where(columns == EMPTY, 0.0, prices)


def control_list(request: PolicyRequest, items: ItemTable) -> IntArray:
    """Return the list [k] of the control group as candidates of the request.

    It is the caller's order, else the default order around the pinned items. Slots are EMPTY where there are too few
    items.
    """
    if request.order is not None:
        return request.order
    wanted = request.request
    slots = np.full(wanted.k, EMPTY, dtype=np.int64) if wanted.pinned is None else wanted.pinned.copy()
    allowed = wanted.allowed
    if wanted.columns is None:
        order, allowed = items.default_order, items.enabled if allowed is None else allowed
    else:
        keys, scores = items.default_keys[wanted.columns], wanted.scores
        keys = keys if scores is None or items.default_ranks is not None else -scores
        order = np.argsort(keys, kind="stable")
        allowed = np.ones(wanted.items, dtype=np.bool_) if allowed is None else allowed
    if request.pinned:
        allowed = allowed.copy()
        allowed[slots[slots != EMPTY]] = False
    free, caps = np.flatnonzero(slots == EMPTY), wanted.active_caps()
    if caps is None:
        listed = _first_allowed(order, allowed, len(free))
    else:
        listed = first_under(caps, order, allowed, slots[slots != EMPTY], len(free))
    slots[free[: len(listed)]] = listed
    return slots


def _first_allowed(order: IntArray, allowed: BoolArray, n: int) -> IntArray:
    """Return the first n columns of an order that may be listed, without searching all of a long order."""
    size = FIRST_BLOCK_COLUMNS + n
    while True:
        block = order[:size]
        listed = block[allowed[block]]
        if len(listed) >= n or size >= len(order):
            return listed[:n]
        size *= 8


def rng_of_decision(seed: int, number: int, stream: int = 0, process: int = 0) -> np.random.Generator:
    """Return the random numbers of a decision, from a counter-based RNG: any decision's, at any time."""
    return np.random.Generator(np.random.Philox(key=[seed, number], counter=[0, 0, process, stream]))


class DecisionRng:
    """`rng_of_decision` with one generator that is repositioned: a tenth of the time, for one thread."""

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._rng = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._key, self._counter = self._state["state"]["key"], self._state["state"]["counter"]

    def __call__(self, seed: int, number: int, process: int = 0) -> np.random.Generator:
        """Return the random numbers of a decision; they are valid until the next call."""
        self._counter[:] = 0
        self._counter[2] = process
        self._key[:] = seed, number
        self._bits.state = self._state
        return self._rng
