"""What a caller asks for, as a request to a policy: checked, with ids as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.schema import RankRequest
from rankloop.schema.accepted_values import integer_range
from rankloop.schema.identifiers import printable
from rankloop.serving.config import RankerConfig
from rankloop.serving.item_table import ItemTable
from rankloop.serving.learners import Learners
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Request


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """A checked question."""

    request: Request
    segment: str
    visitor: str | None
    pinned: tuple[int, ...]
    draws: int
    chosen: bool  # the caller said which items may be listed
    order: IntArray | None  # [k] the caller's own list
    ignored: tuple[str, ...] = ()  # ids that say nothing here, each once


def read(config: RankerConfig, table: ItemTable, learners: Learners, asked: RankRequest) -> PolicyRequest:
    """The question for a policy that a valid request asks, or InvalidInput where this ranker cannot answer it."""
    size = config.slots if asked.k is None else asked.k
    if size > config.slots:
        raise InvalidInput("k", size, integer_range(0, config.slots))
    if asked.budget is not None:
        size = min(size, asked.budget)
    ids = _Ids(table, asked.strict)
    chosen = asked.candidates is not None or bool(asked.exclude)
    allowed = _allowed(ids, asked.candidates, asked.exclude) if chosen else table.enabled
    pinned = _pins(table, size, asked.pin, allowed) if asked.pin else None
    context = _context(config, asked.context)
    if chosen or asked.pin or context is not None:
        request = learners.request(size, context, allowed=allowed, pinned=pinned)
    else:
        request = learners.usual(size)
    own = None if asked.order is None else _order(ids, asked.order, size, allowed)
    slots = tuple(sorted(asked.pin)) if asked.pin else ()
    return PolicyRequest(
        request, asked.segment, asked.visitor, slots, asked.propensity, chosen, own, tuple(ids.ignored)
    )


class _Ids:
    """Ids of a question as columns; those of no item are refused where the question is strict, and noted where not."""

    def __init__(self, table: ItemTable, strict: bool) -> None:
        self.table, self.strict = table, strict
        self.ignored: dict[str, None] = {}  # each once, in the order given

    def columns(self, field: str, ids: Sequence[str], allowed: BoolArray | None = None) -> IntArray:
        """The columns of the items that are there, and that may be listed where `allowed` says which may."""
        column, found = self.table.column, []
        for i, id in enumerate(ids):
            at = column.get(id)
            if at is not None and (allowed is None or allowed[at]):
                found.append(at)
            elif self.strict:
                self.table.known(f"{field}[{i}]", id)
                raise InvalidInput(f"{field}[{i}]", id, "an enabled item that may be listed")
            else:
                self.ignored[printable(f"{field}[{i}]", id)] = None
        return np.array(found, dtype=np.int64)


def _context(config: RankerConfig, context: Sequence[float] | None) -> FloatArray | None:
    wanted = config.context
    if wanted is None:
        if context is not None:
            raise InvalidInput("context", context, "no context, since the ranker has none (ranker.context)")
        return None
    if context is None:
        raise InvalidInput("context", MISSING, f"{wanted} numbers, as ranker.context says")
    if len(context) != wanted:
        raise InvalidInput("context", Words(f"a list of {len(context)}"), f"a list of {wanted}")
    return np.array([context], dtype=np.float64)


def _allowed(ids: _Ids, candidates: Sequence[str] | None, exclude: Sequence[str]) -> BoolArray:
    allowed = ids.table.enabled.copy()
    if candidates is not None:
        chosen = np.zeros_like(allowed)
        chosen[ids.columns("candidates", candidates)] = True
        allowed &= chosen
    allowed[ids.columns("exclude", exclude)] = False
    return allowed


def _pins(table: ItemTable, k: int, pin: Mapping[int, str], allowed: BoolArray) -> IntArray:
    if k == 0:
        raise InvalidInput("pin", pin, "nothing, since k is 0")
    pinned = np.full(k, EMPTY, dtype=np.int64)
    for slot, id in pin.items():
        if slot >= k:
            raise InvalidInput("pin", slot, integer_range(0, k - 1))
        pinned[slot] = table.known(f"pin.{slot}", id)
        if not allowed[pinned[slot]]:
            raise InvalidInput(f"pin.{slot}", id, "an enabled item that is not excluded")
    if len(set(pin.values())) < len(pin):
        raise InvalidInput("pin", pin, "every item in one slot only")
    return pinned


def _order(ids: _Ids, order: Sequence[str], k: int, allowed: BoolArray) -> IntArray:
    """The first k of the caller's order that may be listed, EMPTY where there are fewer."""
    columns = ids.columns("order", order, allowed)
    items = [id for id in order if ids.table.has(id)]
    if len(set(items)) < len(items):
        raise InvalidInput("order", order[:20], "every item once")
    own = np.full(k, EMPTY, dtype=np.int64)
    own[: min(k, len(columns))] = columns[:k]
    return own
