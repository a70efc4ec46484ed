"""A decided list as callers see it: the items in order, and why each of them is in its slot."""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence

from msgspec import UNSET

from rankloop.eventlog.events import DecisionMade
from rankloop.propensity import Propensity
from rankloop.schema import RankAnswer, RankedItem
from rankloop.types import EMPTY, FloatArray, IntArray


class Ranking:
    """The answer to a rank request."""

    __slots__ = ("_ids", "_items", "_shares", "event", "ignored", "repeated", "unknown_fields")

    def __init__(
        self,
        event: DecisionMade,
        ids: Sequence[str],
        shares: Sequence[float | None] | None = None,
        ignored: tuple[str, ...] = (),
        repeated: bool = False,
        unknown_fields: tuple[str, ...] = (),
    ) -> None:
        self.event, self._ids, self._shares = event, ids, shares
        self.ignored = ignored  # ids of the request that had no effect: unknown items, or items that may not be listed
        self.unknown_fields = unknown_fields  # names of fields that had no effect, as context.name or items.name
        self.repeated = repeated  # an idempotent retry: the decision was made before
        self._items: tuple[RankedItem, ...] | None = None

    @property
    def id(self) -> str:
        """The id of the decision."""
        return self.event.id

    @property
    def segment(self) -> str:
        """The segment whose learner decided."""
        return self.event.segment

    @property
    def policy(self) -> str:
        """The id of the policy."""
        return self.event.policy

    @property
    def group(self) -> str:
        """`treatment`, or `control`: the caller's order, or the default order."""
        return self.event.group

    @property
    def propensity(self) -> Propensity | None:
        """The probability of the list, where it is known."""
        return self.event.propensity

    @property
    def approximate(self) -> bool:
        """Whether caps were kept greedily, so that a better list may exist."""
        return self.event.approximate

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the items in order."""
        return tuple(self._ids[column] for column in self.event.items.tolist() if column != EMPTY)

    @property
    def items(self) -> tuple[RankedItem, ...]:
        """The items in order, each with the reason for its slot."""
        if self._items is None:
            event, shares = self.event, self._shares
            if shares is None:
                shares = exploration_shares(event.items, event.scores, event.why, event.pinned)
            self._items = _ranked_items(event, self._ids, shares)
        return self._items

    def answer(self, lag: float | None = None) -> RankAnswer:
        """Return the list as it is sent to a client; with the position and the lag of a process that is not alone."""
        event, likely = self.event, self.event.propensity
        sent = None if likely is None else likely.answer()
        return RankAnswer(
            event.id,
            event.segment,
            event.policy,
            event.group,
            self.items,
            sent,
            self.ignored,
            self.unknown_fields,
            event.approximate,
            UNSET if lag is None else event.position,
            UNSET if lag is None else round(lag, 4),
        )


def _ranked_items(event: DecisionMade, ids: Sequence[str], shares: Sequence[float | None]) -> tuple[RankedItem, ...]:
    columns = event.items.tolist()
    unknown = [None] * len(columns)
    scores = unknown if event.scores is None else event.scores.tolist()
    estimates, widths, priors = [unknown] * 3 if event.why is None else event.why.tolist()
    rule = "control" if event.group == "control" else "random" if event.scores is None else "ranked"
    return tuple(
        RankedItem(
            ids[column],
            "pinned" if slot in event.pinned and rule != "control" else rule,
            _finite(scores[slot]),
            _finite(estimates[slot]),
            _finite(widths[slot]),
            _finite(priors[slot]),
            None if rule == "control" else shares[slot],
        )
        for slot, column in enumerate(columns)
        if column != EMPTY
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and -math.inf < value < math.inf else None


def exploration_shares(
    items: IntArray, scores: FloatArray | None, why: FloatArray | None, pinned: Sequence[int] = ()
) -> list[float | None]:
    """Return the share of each slot's score that is exploration, |s - e| / (|s - e| + |e|) for score s and estimate e.

    It is 1 where the slot is random or the item was never observed, 0 where it is pinned, and None in an empty slot
    and where the policy has no estimate.
    """
    columns = items.tolist()
    if scores is None:
        return [None if column == EMPTY else 0.0 if slot in pinned else 1.0 for slot, column in enumerate(columns)]
    if why is None:
        return [0.0 if slot in pinned else None for slot in range(len(columns))]
    shares: list[float | None] = []
    for slot, (column, score, estimate) in enumerate(zip(columns, scores.tolist(), why[0].tolist(), strict=True)):
        if column == EMPTY or estimate != estimate:
            shares.append(None)
        elif slot in pinned:
            shares.append(0.0)
        elif math.isinf(score):
            shares.append(1.0)
        else:
            added = abs(score - estimate)
            whole = added + abs(estimate)
            shares.append(added / whole if whole > 0 else 0.0)
    return shares


def new_id(now: float) -> str:
    """Return an id that cannot be guessed; it starts with the time, so that an index stays compact."""
    return f"{int(1000 * now):011x}{secrets.token_urlsafe(9)}"
