"""Rank requests as policies take them: checked against the ranker, with ids as columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.schema import RankRequest, RequestItem
from rankloop.schema.accepted_values import integer_range
from rankloop.schema.fields import Fields
from rankloop.schema.identifiers import printable
from rankloop.schema.service_settings import ServiceLimits
from rankloop.schema.slot_values import check_by_slot
from rankloop.serving.config import RankerConfig
from rankloop.serving.items.field_encoding import FieldEncoding
from rankloop.serving.items.item_table import ItemTable, check_score, unknown_fields
from rankloop.serving.items.named_items import NOTHING_NAMED, NamedItems
from rankloop.serving.items.raw_fields import encoded
from rankloop.serving.learners import Learners
from rankloop.types import EMPTY, FloatArray, IntArray, Request

CandidateOf = Callable[[int], int | None]
"""Returns the candidate that a column is; None if it may not be listed."""


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """A rank request that was checked against a ranker."""

    request: Request
    segment: str
    visitor: str | None
    pinned: tuple[int, ...]  # slots
    draws: int = 0  # that estimate the propensity
    order: IntArray | None = None  # [k] the caller's own list, as candidates of the request
    ignored: tuple[str, ...] = ()  # ids without effect, each once
    fingerprint: str | None = None  # of an idempotent request, then the ignored ids, one per line
    named: NamedItems = NOTHING_NAMED  # what the request says about items
    context_fields: str | None = None  # as JSON
    item_fields: str | None = None  # of each candidate or null, as a JSON list
    unknown_fields: tuple[str, ...] = ()  # without effect, since the ranker has no such features


def read(
    config: RankerConfig, items: ItemTable, learners: Learners, given: RankRequest, fingerprint: str | None = None
) -> PolicyRequest:
    """Return the request for the policy, or raise InvalidInput if this ranker cannot answer it."""
    k = config.slots if given.k is None else given.k
    if k > config.slots:
        raise InvalidInput("k", k, integer_range(0, config.slots))
    if given.budget is not None:
        k = min(k, given.budget)
    named = (given.candidates, given.items, given.order, given.rewards, given.losses)
    if named == NOTHING_GIVEN and not given.exclude and not given.pin:
        request = learners.enabled_request(k, _context(config, items, given))
        made = PolicyRequest(request, given.segment, given.visitor, (), given.propensity, None, (), fingerprint)
        return made if given.context_fields is None else _with_fields(made, given, items, [])
    return _read_lists(config, items, learners, given, k, fingerprint)


NOTHING_GIVEN = (None,) * 5
"""The optional fields of a plain request."""


def check_limits(given: RankRequest, limits: ServiceLimits) -> None:
    """Refuse a request with longer lists or more draws than the service allows."""
    lists = (
        ("candidates", given.candidates),
        ("items", given.items),
        ("exclude", given.exclude),
        ("order", given.order),
    )
    for name, ids in lists:
        if ids is not None and len(ids) > limits.list:
            raise InvalidInput(name, Words(f"a list of {len(ids)}"), f"a list of at most {limits.list}")
    if given.propensity > limits.draws:
        raise InvalidInput("propensity", given.propensity, f"at most {limits.draws} draws")


def _read_lists(
    config: RankerConfig, items: ItemTable, learners: Learners, given: RankRequest, k: int, fingerprint: str | None
) -> PolicyRequest:
    """Read a request that names items, or brings values of its own."""
    ids, context = _IdReader(items, given.strict), _context(config, items, given)
    rewards, losses = _by_slot(config, learners, given)
    if given.candidates is None and given.items is None:
        excluded = ids.columns("exclude", given.exclude)
        allowed = items.enabled
        if len(excluded):
            allowed = allowed.copy()
            allowed[excluded] = False
        named = NamedItems(excluded=excluded if len(excluded) else None, rewards=rewards, losses=losses)
        candidate_of: CandidateOf = lambda at: at if allowed[at] else None  # noqa: E731
    else:
        named = _candidates(config, learners, ids, given)._replace(rewards=rewards, losses=losses)
        numbers = _numbers_of(named) if given.pin or given.order is not None else {}
        candidate_of = numbers.get
    pinned = _pinned_items(items, k, given.pin, candidate_of) if given.pin else None
    listed = None
    if given.order is not None:
        listed, order = _order(ids, given.order, k, candidate_of)
        if "scores" in learners.reads:
            named = named._replace(order=order)
    if named.candidates is None:
        request = learners.restricted_request(k, context, allowed, named, pinned)
    else:
        request = learners.candidates_request(k, context, named, pinned)
    ignored = tuple(ids.ignored)
    made = PolicyRequest(
        request,
        given.segment,
        given.visitor,
        tuple(sorted(given.pin)) if given.pin else (),
        given.propensity,
        listed,
        ignored,
        None if fingerprint is None else "\n".join([fingerprint, *ignored]),
        named,
    )
    return _with_fields(made, given, items, ids.brought)


def _with_fields(
    made: PolicyRequest, given: RankRequest, items: ItemTable, brought: Sequence[Fields | None]
) -> PolicyRequest:
    """Return a request with the fields that it brings, which are logged, and the names of those without effect.

    Args:
        made: the request without them.
        given: what was asked.
        items: of the ranker.
        brought: fields of each candidate, with its stored ones where the request brings some.
    """
    context, encoding = given.context_fields, items.encoding
    of_items = [item.fields for item in given.given_items]
    in_items = unknown_fields(items, of_items)
    in_context = () if context is None else context if encoding is None else encoding.unknown_in_context(context)
    return replace(
        made,
        context_fields=None if context is None else encoded("context", context).decode(),
        item_fields=encoded("items", brought).decode() if any(one is not None for one in brought) else None,
        unknown_fields=(*(f"context.{name}" for name in in_context), *(f"items.{name}" for name in in_items)),
    )


def _numbers_of(named: NamedItems) -> dict[int, int]:
    """Return the number of the candidate that each of their columns is."""
    return {} if named.candidates is None else {at: n for n, at in enumerate(named.candidates.tolist())}


class _IdReader:
    """Turns ids into columns. Ids without effect are refused in a strict request, and collected otherwise."""

    def __init__(self, items: ItemTable, strict: bool) -> None:
        self.items, self.strict = items, strict
        self.ignored: dict[str, None] = {}  # each once, in the order given
        self.brought: list[Fields | None] = []  # of the candidates, stored ones included, where the request has some

    def columns(self, field: str, ids: Sequence[str], candidate_of: CandidateOf | None = None) -> IntArray:
        """Return the columns of the known items, of those that may be listed if `candidate_of` is given."""
        return np.array(self.known(field, ids, candidate_of), dtype=np.int64)

    def known(self, field: str, ids: Sequence[str], candidate_of: CandidateOf | None = None) -> list[int]:
        """Return the same as a list."""
        columns, found = [self.items.column.get(id) for id in ids], []
        for i, at in enumerate(columns):
            if at is not None and (candidate_of is None or candidate_of(at) is not None):
                found.append(at)
            else:
                self.ignore(f"{field}[{i}]", ids[i])
        return found

    def ignore(self, field: str, id: str) -> None:
        """Collect an id without effect, or refuse it in a strict request."""
        if self.strict:
            self.items.known(field, id)
            raise InvalidInput(field, id, "an enabled item that may be listed")
        self.ignored[printable(field, id)] = None


def _candidates(config: RankerConfig, learners: Learners, ids: _IdReader, given: RankRequest) -> NamedItems:
    """Return the candidates of a request, rising by column, with the values that the request brings for them."""
    if given.items is None:
        named = set(ids.known("candidates", given.candidates or ()))
        return NamedItems(_enabled(ids.items, named.difference(ids.known("exclude", given.exclude))))
    items = given.given_items
    _check_values(items, config, learners, ids.items)
    brought: dict[int, RequestItem] = {}
    for i, item in enumerate(items):
        at = ids.items.column.get(item.id)
        if at is None:
            ids.ignore(f"items[{i}].id", item.id)
        else:
            brought[at] = item
    columns = _enabled(ids.items, brought.keys() - ids.known("exclude", given.exclude))
    ranked = [brought[at] for at in columns.tolist()]
    if any(item.fields for item in ranked):
        ids.brought = [_merged(ids.items, at, item) for at, item in zip(columns.tolist(), ranked, strict=True)]
    scores, prices = (_given_numbers([getattr(item, name) for item in ranked]) for name in ("score", "price"))
    if ids.items.encoding is None:
        rows = _given_rows(ids.items, columns, ranked)
    else:
        rows = _encoded_rows(ids.items, ids.items.encoding, columns, ids.brought)
    return NamedItems(columns, None, rows, scores, prices)


def _merged(items: ItemTable, column: int, item: RequestItem) -> Fields | None:
    """Return the fields of an item in a request: those of the request, then stored ones that it does not bring."""
    if not item.fields:
        return None
    return {**(items.raw_fields.get(column) or {}), **item.fields}


def _encoded_rows(
    items: ItemTable, encoding: FieldEncoding, columns: IntArray, fields: Sequence[Fields | None]
) -> FloatArray | None:
    """Return the features of all candidates [C, d], stored ones where the request brings no fields; None if none."""
    given = [(n, one) for n, one in enumerate(fields) if one is not None]
    if items.features is None or not given:
        return None
    rows = items.features[columns]
    rows[[n for n, _ in given]] = encoding.items.rows([one for _, one in given])
    return rows


def _enabled(items: ItemTable, columns: Collection[int]) -> IntArray:
    """Return those of some columns that may be listed, rising."""
    rising = np.array(sorted(columns), dtype=np.int64)
    return rising[items.enabled[rising]]


def _check_values(given: Sequence[RequestItem], config: RankerConfig, learners: Learners, items: ItemTable) -> None:
    """Refuse an item that is named twice, values that the ranker does not use, and features of another length."""
    dim, priced = config.dim, config.objective == "revenue"
    seen: set[str] = set()
    for i, item in enumerate(given):
        features = item.features
        if item.id in seen:
            raise InvalidInput(f"items[{i}].id", item.id, "every id once")
        seen.add(item.id)
        if item.fields is not None and items.encoding is not None:
            items.encoding.check_item(f"items[{i}].fields", item.fields)
        if features is not None and len(features) != dim:
            if dim is None:
                accepted = "no features, since the ranker has none (ranker.dim)"
                raise InvalidInput(f"items[{i}].features", features, accepted)
            raise InvalidInput(f"items[{i}].features", Words(f"a list of {len(features)}"), f"a list of {dim}")
        if item.price is not None and not priced:
            raise InvalidInput(f"items[{i}].price", item.price, "no price, since ranker.objective is not revenue")
        if item.score is not None:
            check_score(f"items[{i}].score", item.score, learners.policy)


def _given_numbers(values: Sequence[float | None]) -> FloatArray | None:
    """Return the numbers, NaN where there is none; None if there is none at all."""
    if all(value is None for value in values):
        return None
    return np.array([np.nan if value is None else value for value in values])


def _given_rows(items: ItemTable, columns: IntArray, brought: Sequence[RequestItem]) -> FloatArray | None:
    """Return the features of all candidates [C, d], stored ones where the request brings none; None if it has none."""
    with_features = [n for n, item in enumerate(brought) if item.features is not None]
    if items.features is None or not with_features:
        return None
    given = np.array([brought[n].features for n in with_features], dtype=np.float64)
    if len(with_features) == len(columns):
        return given
    rows = items.features[columns]
    rows[with_features] = given
    return rows


def _by_slot(
    config: RankerConfig, learners: Learners, given: RankRequest
) -> tuple[FloatArray | None, FloatArray | None]:
    """Return the rewards and losses of the request, or refuse those that no list can be planned for."""
    for name, numbers in (("rewards", given.rewards), ("losses", given.losses)):
        if numbers is not None and "rewards" not in learners.reads:
            accepted = f"no {name}, since the policy reads none; policies that choose the length of a list do"
            raise InvalidInput(name, numbers, accepted)
    check_by_slot("", config.slots, given.rewards, given.losses)
    rewards, losses = (None if values is None else np.array(values) for values in (given.rewards, given.losses))
    return rewards, losses


def _context(config: RankerConfig, items: ItemTable, given: RankRequest) -> FloatArray | None:
    if items.encoding is not None:
        if given.context_numbers is not None:
            raise InvalidInput("context", given.context, "a mapping of fields, since the ranker has ranker.features")
        return items.encoding.given_context(given.context_fields)
    length, context = config.context, given.context_numbers
    if length is None:
        if context is not None:
            raise InvalidInput("context", context, "no context, since the ranker has none (ranker.context)")
        return None
    if context is None:
        raise InvalidInput(
            "context", MISSING if given.context is None else given.context, f"{length} numbers, as ranker.context says"
        )
    if len(context) != length:
        raise InvalidInput("context", Words(f"a list of {len(context)}"), f"a list of {length}")
    return np.array([context], dtype=np.float64)


def _pinned_items(items: ItemTable, k: int, pin: Mapping[int, str], candidate_of: CandidateOf) -> IntArray:
    """Return the candidates that are pinned, [k], EMPTY where a slot is free."""
    if k == 0:
        raise InvalidInput("pin", pin, "nothing, since k is 0")
    pinned = np.full(k, EMPTY, dtype=np.int64)
    for slot, id in pin.items():
        if slot >= k:
            raise InvalidInput("pin", slot, integer_range(0, k - 1))
        candidate = candidate_of(items.known(f"pin.{slot}", id))
        if candidate is None:
            raise InvalidInput(f"pin.{slot}", id, "an enabled item that is not excluded")
        pinned[slot] = candidate
    if len(set(pin.values())) < len(pin):
        raise InvalidInput("pin", pin, "every item in one slot only")
    return pinned


def _order(ids: _IdReader, order: Sequence[str], k: int, candidate_of: CandidateOf) -> tuple[IntArray, IntArray]:
    """Return the first k items of the caller's order that may be listed, as candidates, and all of them as columns.

    Slots are EMPTY where there are fewer than k.
    """
    columns = ids.columns("order", order, candidate_of)
    known = [id for id in order if ids.items.has(id)]
    if len(set(known)) < len(known):
        raise InvalidInput("order", order[:20], "every item once")
    first = [candidate for at in columns[:k].tolist() if (candidate := candidate_of(at)) is not None]
    listed = np.full(k, EMPTY, dtype=np.int64)
    listed[: len(first)] = first
    return listed, columns
