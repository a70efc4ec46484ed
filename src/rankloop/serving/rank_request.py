"""Rank requests as policies take them: checked against the ranker, with ids as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.schema import RankRequest
from rankloop.schema.accepted_values import integer_range
from rankloop.schema.identifiers import printable
from rankloop.schema.service_settings import ServiceLimits
from rankloop.serving.config import RankerConfig
from rankloop.serving.item_table import ItemTable
from rankloop.serving.learners import Learners
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Request


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """A rank request that was checked against a ranker."""

    request: Request
    segment: str
    visitor: str | None
    pinned: tuple[int, ...]  # slots
    draws: int  # that estimate the propensity
    chosen: bool  # the caller named candidates or exclusions
    order: IntArray | None  # [k] the caller's own list
    ignored: tuple[str, ...] = ()  # ids without effect, each once
    fingerprint: str | None = None  # of an idempotent request, then the ignored ids, one per line


def read(
    config: RankerConfig, items: ItemTable, learners: Learners, given: RankRequest, fingerprint: str | None = None
) -> PolicyRequest:
    """Return the request for the policy, or raise InvalidInput if this ranker cannot answer it."""
    k = config.slots if given.k is None else given.k
    if k > config.slots:
        raise InvalidInput("k", k, integer_range(0, config.slots))
    if given.budget is not None:
        k = min(k, given.budget)
    if given.candidates is None and not given.exclude and not given.pin and given.order is None:
        request = learners.enabled_request(k, _context(config, given.context))
        return PolicyRequest(request, given.segment, given.visitor, (), given.propensity, False, None, (), fingerprint)
    return _read_lists(config, items, learners, given, k, fingerprint)


def check_limits(given: RankRequest, limits: ServiceLimits) -> None:
    """Refuse a request with longer lists or more draws than the service allows."""
    for name, ids in (("candidates", given.candidates), ("exclude", given.exclude), ("order", given.order)):
        if ids is not None and len(ids) > limits.list:
            raise InvalidInput(name, Words(f"a list of {len(ids)}"), f"a list of at most {limits.list}")
    if given.propensity > limits.draws:
        raise InvalidInput("propensity", given.propensity, f"at most {limits.draws} draws")


def _read_lists(
    config: RankerConfig, items: ItemTable, learners: Learners, given: RankRequest, k: int, fingerprint: str | None
) -> PolicyRequest:
    """Read a request that names items."""
    ids = _IdReader(items, given.strict)
    chosen = given.candidates is not None or bool(given.exclude)
    allowed = _allowed(ids, given.candidates, given.exclude) if chosen else items.enabled
    pinned = _pinned_items(items, k, given.pin, allowed) if given.pin else None
    request = learners.request(k, _context(config, given.context), allowed=allowed, pinned=pinned)
    order = None if given.order is None else _order(ids, given.order, k, allowed)
    ignored = tuple(ids.ignored)
    return PolicyRequest(
        request,
        given.segment,
        given.visitor,
        tuple(sorted(given.pin)) if given.pin else (),
        given.propensity,
        chosen,
        order,
        ignored,
        None if fingerprint is None else "\n".join([fingerprint, *ignored]),
    )


class _IdReader:
    """Turns ids into columns. Ids without effect are refused in a strict request, and collected otherwise."""

    def __init__(self, items: ItemTable, strict: bool) -> None:
        self.items, self.strict = items, strict
        self.ignored: dict[str, None] = {}  # each once, in the order given

    def columns(self, field: str, ids: Sequence[str], allowed: BoolArray | None = None) -> IntArray:
        """Return the columns of the known items, of those that may be listed if `allowed` is given."""
        column, found = self.items.column, []
        for i, id in enumerate(ids):
            at = column.get(id)
            if at is not None and (allowed is None or allowed[at]):
                found.append(at)
            elif self.strict:
                self.items.known(f"{field}[{i}]", id)
                raise InvalidInput(f"{field}[{i}]", id, "an enabled item that may be listed")
            else:
                self.ignored[printable(f"{field}[{i}]", id)] = None
        return np.array(found, dtype=np.int64)


def _context(config: RankerConfig, context: Sequence[float] | None) -> FloatArray | None:
    length = config.context
    if length is None:
        if context is not None:
            raise InvalidInput("context", context, "no context, since the ranker has none (ranker.context)")
        return None
    if context is None:
        raise InvalidInput("context", MISSING, f"{length} numbers, as ranker.context says")
    if len(context) != length:
        raise InvalidInput("context", Words(f"a list of {len(context)}"), f"a list of {length}")
    return np.array([context], dtype=np.float64)


def _allowed(ids: _IdReader, candidates: Sequence[str] | None, exclude: Sequence[str]) -> BoolArray:
    allowed = ids.items.enabled.copy()
    if candidates is not None:
        chosen = np.zeros_like(allowed)
        chosen[ids.columns("candidates", candidates)] = True
        allowed &= chosen
    allowed[ids.columns("exclude", exclude)] = False
    return allowed


def _pinned_items(items: ItemTable, k: int, pin: Mapping[int, str], allowed: BoolArray) -> IntArray:
    if k == 0:
        raise InvalidInput("pin", pin, "nothing, since k is 0")
    pinned = np.full(k, EMPTY, dtype=np.int64)
    for slot, id in pin.items():
        if slot >= k:
            raise InvalidInput("pin", slot, integer_range(0, k - 1))
        pinned[slot] = items.known(f"pin.{slot}", id)
        if not allowed[pinned[slot]]:
            raise InvalidInput(f"pin.{slot}", id, "an enabled item that is not excluded")
    if len(set(pin.values())) < len(pin):
        raise InvalidInput("pin", pin, "every item in one slot only")
    return pinned


def _order(ids: _IdReader, order: Sequence[str], k: int, allowed: BoolArray) -> IntArray:
    """Return the first k items of the caller's order that may be listed, EMPTY where there are fewer."""
    columns = ids.columns("order", order, allowed)
    known = [id for id in order if ids.items.has(id)]
    if len(set(known)) < len(known):
        raise InvalidInput("order", order[:20], "every item once")
    listed = np.full(k, EMPTY, dtype=np.int64)
    listed[: min(k, len(columns))] = columns[:k]
    return listed
