"""What a caller asks for, as a request to a policy: checked, with ids as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop import validate
from rankloop.engine.config import RankerConfig
from rankloop.engine.items import ItemTable, name
from rankloop.engine.learners import Learners
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
    chosen = candidates is not None or bool(exclude)
    allowed = _allowed(table, candidates, exclude) if chosen else table.enabled
    pinned = _pins(table, size, pin, allowed) if pin else None
    visitor_context = _context(config, context)
    if chosen or pin or visitor_context is not None:
        request = learners.request(size, visitor_context, allowed=allowed, pinned=pinned)
    else:
        request = learners.usual(size)
    own = None if order is None else _order(table, order, size, allowed)
    return Asked(request, segment, visitor, tuple(sorted(pin)) if pin else (), draws, chosen, own)


def _context(config: RankerConfig, context: Any) -> FloatArray | None:
    wanted = config.context
    if wanted is None:
        if context is not None:
            raise InvalidInput("context", context, "no context, since the ranker has none (ranker.context)")
        return None
    if context is None:
        raise InvalidInput("context", MISSING, f"{wanted} numbers, as ranker.context says")
    return validate.vector("context", context, length=wanted)[None, :]


def _allowed(table: ItemTable, candidates: Any, exclude: Any) -> BoolArray:
    allowed = table.enabled.copy()
    if candidates is not None:
        chosen = np.zeros_like(allowed)
        chosen[table.columns("candidates", candidates)] = True
        allowed &= chosen
    allowed[table.columns("exclude", exclude)] = False
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


def _order(table: ItemTable, order: Any, k: int, allowed: BoolArray) -> IntArray:
    """The first k of the caller's order, EMPTY where it is shorter."""
    columns = table.columns("order", order)
    for i, column in enumerate(columns.tolist()):
        if not allowed[column]:
            raise InvalidInput(f"order[{i}]", order[i], "an enabled item that may be listed")
    if len(set(columns.tolist())) < len(columns):
        raise InvalidInput("order", _few(order), "every item once")
    own = np.full(k, EMPTY, dtype=np.int64)
    own[: min(k, len(columns))] = columns[:k]
    return own


def _few(order: Sequence[Any]) -> list[Any]:
    return list(order[:20])
