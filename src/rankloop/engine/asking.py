"""What a caller asks for, as a request to a policy: checked, with ids as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop import validate
from rankloop.engine.config import RankerConfig
from rankloop.engine.items import ItemTable, id_list, name
from rankloop.engine.learners import Learners
from rankloop.engine.limits import MAX_MAGNITUDE
from rankloop.errors import MISSING, InvalidInput
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Request


@dataclass(frozen=True, slots=True)
class Asked:
    """A checked question."""

    request: Request
    segment: str
    visitor: str | None
    pinned: tuple[int, ...]
    draws: int
    chosen: bool  # the caller said which items may be listed
    order: IntArray | None  # [k] the caller's own list
    ignored: tuple[str, ...] = ()  # ids that say nothing here, each once


def read(
    config: RankerConfig,
    table: ItemTable,
    learners: Learners,
    *,
    k: Any = None,
    budget: Any = None,
    context: Any = None,
    candidates: Any = None,
    exclude: Any = (),
    pin: Any = None,
    segment: Any = "",
    propensity: Any = 0,
    order: Any = None,
    visitor: Any = None,
    strict: Any = False,
) -> Asked:
    """Check what is asked; `Ranker.rank` says what each of these is."""
    draws = validate.integer("propensity", propensity, low=0, high=10_000) if propensity else 0
    size = config.slots if k is None else validate.integer("k", k, low=0, high=config.slots)
    if budget is not None:
        size = min(size, validate.integer("budget", budget, low=0))
    if segment != "":
        name("segment", segment)
    if visitor is not None:
        name("visitor", visitor)
    if not isinstance(strict, bool):
        raise InvalidInput("strict", strict, "true or false")
    ids = _Ids(table, strict)
    chosen = candidates is not None or bool(exclude)
    allowed = _allowed(ids, candidates, exclude) if chosen else table.enabled
    pinned = _pins(table, size, pin, allowed) if pin else None
    visitor_context = _context(config, context)
    if chosen or pin or visitor_context is not None:
        request = learners.request(size, visitor_context, allowed=allowed, pinned=pinned)
    else:
        request = learners.usual(size)
    own = None if order is None else _order(ids, order, size, allowed)
    slots = tuple(sorted(pin)) if pin else ()
    return Asked(request, segment, visitor, slots, draws, chosen, own, tuple(ids.ignored))


class _Ids:
    """Ids of a question as columns; those of no item are refused where the question is strict, and noted where not."""

    def __init__(self, table: ItemTable, strict: bool) -> None:
        self.table, self.strict = table, strict
        self.ignored: dict[str, None] = {}  # each once, in the order given

    def columns(self, field: str, ids: Any, allowed: BoolArray | None = None) -> IntArray:
        """The columns of the items that are there, and that may be listed where `allowed` says which may."""
        column, found = self.table.column, []
        for i, id in enumerate(id_list(field, ids)):
            at = column.get(id) if isinstance(id, str) else None
            if at is not None and (allowed is None or allowed[at]):
                found.append(at)
            elif self.strict:
                self.table.known(f"{field}[{i}]", id)
                raise InvalidInput(f"{field}[{i}]", id, "an enabled item that may be listed")
            else:
                self.ignored[name(f"{field}[{i}]", id)] = None
        return np.array(found, dtype=np.int64)


def _context(config: RankerConfig, context: Any) -> FloatArray | None:
    wanted = config.context
    if wanted is None:
        if context is not None:
            raise InvalidInput("context", context, "no context, since the ranker has none (ranker.context)")
        return None
    if context is None:
        raise InvalidInput("context", MISSING, f"{wanted} numbers, as ranker.context says")
    return validate.vector("context", context, low=-MAX_MAGNITUDE, high=MAX_MAGNITUDE, length=wanted)[None, :]


def _allowed(ids: _Ids, candidates: Any, exclude: Any) -> BoolArray:
    allowed = ids.table.enabled.copy()
    if candidates is not None:
        chosen = np.zeros_like(allowed)
        chosen[ids.columns("candidates", candidates)] = True
        allowed &= chosen
    allowed[ids.columns("exclude", exclude)] = False
    return allowed


def _pins(table: ItemTable, k: int, pin: Any, allowed: BoolArray) -> IntArray:
    if not isinstance(pin, Mapping):
        raise InvalidInput("pin", pin, "a mapping from slots to ids of items")
    if k == 0:
        raise InvalidInput("pin", dict(pin), "nothing, since k is 0")
    pinned = np.full(k, EMPTY, dtype=np.int64)
    for slot, id in pin.items():
        at = validate.integer("pin", slot, low=0, high=k - 1)
        pinned[at] = table.known(f"pin.{at}", id)
        if not allowed[pinned[at]]:
            raise InvalidInput(f"pin.{at}", id, "an enabled item that is not excluded")
    if len(set(pin.values())) < len(pin):
        raise InvalidInput("pin", dict(pin), "every item in one slot only")
    return pinned


def _order(ids: _Ids, order: Any, k: int, allowed: BoolArray) -> IntArray:
    """The first k of the caller's order that may be listed, EMPTY where there are fewer."""
    columns = ids.columns("order", order, allowed)
    items = [id for id in order if ids.table.has(id)]
    if len(set(items)) < len(items):
        raise InvalidInput("order", _few(order), "every item once")
    own = np.full(k, EMPTY, dtype=np.int64)
    own[: min(k, len(columns))] = columns[:k]
    return own


def _few(order: Sequence[Any]) -> list[Any]:
    return list(order[:20])
