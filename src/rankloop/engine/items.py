"""The items of a ranker: added, changed and removed while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankloop import validate
from rankloop.engine.limits import MAX_AMOUNT, MAX_MAGNITUDE, MAX_POSITION, MAX_PRIOR_WEIGHT
from rankloop.errors import MISSING, InvalidInput
from rankloop.types import BoolArray, FloatArray, IntArray

ID_LENGTH = 200
FIRST = 16
"""Columns that a table starts with; they double when they are taken."""
PER_COLUMN = ("x", "prices", "enabled", "coverage", "removed", "positions")
"""What a table keeps for each column."""


@dataclass(frozen=True)
class Item:
    """Something that can be listed."""

    id: str
    features: tuple[float, ...] | None = None
    price: float = 0.0
    enabled: bool = True
    prior: tuple[float, float] | None = None  # mean outcome in the eyes of another ranker, and so many observations
    coverage: tuple[float, ...] | None = None  # share of each topic that it covers
    default_position: float | None = None  # in the default order: smaller ones first, items without one last

    @classmethod
    def of(
        cls, given: Any, dim: int | None, field: str = "item", topics: int | None = None, *, amounts: bool = False
    ) -> Self:
        """Check a mapping with an id and, optionally, the other fields of an item; prior: {score, strength}."""
        if isinstance(given, cls):
            given = given.as_mapping()
        optional = ("features", "price", "enabled", "prior", "coverage", "default_position")
        fields = validate.mapping(field, given, required=("id",), optional=optional)
        enabled = fields.get("enabled", True)
        if not isinstance(enabled, bool):
            raise InvalidInput(f"{field}.enabled", enabled, "true or false")
        return cls(
            id=name(f"{field}.id", fields["id"]),
            features=_features(f"{field}.features", fields.get("features"), dim),
            price=validate.number(f"{field}.price", fields.get("price", 0.0), low=0.0, high=MAX_AMOUNT),
            enabled=enabled,
            prior=_prior(f"{field}.prior", fields.get("prior"), amounts),
            coverage=_coverage(f"{field}.coverage", fields.get("coverage"), topics),
            default_position=_position(f"{field}.default_position", fields.get("default_position")),
        )

    def as_mapping(self) -> dict[str, Any]:
        """What `of` accepts."""
        prior = None if self.prior is None else {"score": self.prior[0], "strength": self.prior[1]}
        features = None if self.features is None else list(self.features)
        told: dict[str, Any] = {"id": self.id, "features": features, "price": self.price, "enabled": self.enabled}
        told["prior"] = prior
        if self.coverage is not None:
            told["coverage"] = list(self.coverage)
        if self.default_position is not None:
            told["default_position"] = self.default_position
        return told


def name(field: str, value: Any) -> str:
    """A printable text of reasonable length."""
    fine = isinstance(value, str) and 0 < len(value) <= ID_LENGTH and value.isprintable()
    if not fine or value in (".", ".."):  # steps of a path: no client could ask for it by its address
        raise InvalidInput(field, value, f"a printable text of 1 to {ID_LENGTH} characters, neither . nor ..")
    return str(value)


def _features(field: str, value: Any, dim: int | None) -> tuple[float, ...] | None:
    return _numbers(field, value, dim, "features, since the ranker has none (ranker.dim)", "ranker.dim")


def _coverage(field: str, value: Any, topics: int | None) -> tuple[float, ...] | None:
    why = "coverage, since the ranker has no topics (ranker.coverage)"
    return _numbers(field, value, topics, why, "ranker.coverage", low=0.0, high=1.0)


def _numbers(
    field: str,
    value: Any,
    length: int | None,
    none: str,
    setting: str,
    *,
    low: float = -MAX_MAGNITUDE,
    high: float = MAX_MAGNITUDE,
) -> tuple[float, ...] | None:
    """So many numbers; nothing at all where the ranker's setting is not there."""
    if length is None:
        if value is not None:
            raise InvalidInput(field, value, f"no {none}")
        return None
    if value is None:
        raise InvalidInput(field, MISSING, f"{length} numbers, as {setting} says")
    return tuple(validate.vector(field, value, length=length, low=low, high=high).tolist())


def _prior(field: str, value: Any, amounts: bool) -> tuple[float, float] | None:
    """A score in the units of the objective: a click-through, or an amount."""
    if value is None:
        return None
    given = validate.mapping(field, value, required=("score", "strength"))
    low, high = (-1e6, 1e6) if amounts else (0.0, 1.0)
    score = validate.number(f"{field}.score", given["score"], low=low, high=high)
    return score, validate.number(f"{field}.strength", given["strength"], low=0.0, high=1e6)


def _position(field: str, value: Any) -> float | None:
    return None if value is None else validate.number(field, value, low=-MAX_POSITION, high=MAX_POSITION)


def check_weight(field: str, item: Item, prior: tuple[float, float] | None) -> None:
    """Refuse a prior that weighs so much, by the item's features, that nothing could be told apart beside it."""
    if prior is None or item.features is None:
        return
    squares = sum(value * value for value in item.features)
    if prior[1] * squares > MAX_PRIOR_WEIGHT:
        most = f"{MAX_PRIOR_WEIGHT / squares:.3g}"
        accepted = f"at most {most}, which is {MAX_PRIOR_WEIGHT:g} over the squared length of its features"
        raise InvalidInput(field, prior[1], accepted)


class ItemTable:
    """Columns of items; a column belongs to one item for ever, also after the item is removed.

    A removed id may come back: it is another item then, in a column of its own.
    """

    def __init__(self, dim: int | None, topics: int | None = None) -> None:
        self.dim, self.topics = dim, topics
        self.ids: list[str] = []  # of all columns; an id that came back stands here again
        self.column: dict[str, int] = {}  # of the items that are there now
        self._x = np.zeros((FIRST, dim or 0))
        self._coverage = np.zeros((FIRST, topics or 0))
        self._prices = np.zeros(FIRST)
        self._enabled = np.zeros(FIRST, dtype=np.bool_)
        self._removed = np.zeros(FIRST, dtype=np.bool_)
        self._positions = np.zeros(FIRST)  # NaN where an item has none
        self._order: IntArray | None = None
        self.priors: dict[int, tuple[float, float]] = {}  # score and strength of columns that were given some

    @property
    def capacity(self) -> int:
        """Columns that there is room for."""
        return len(self._prices)

    @property
    def features(self) -> FloatArray | None:
        """Features of all columns, [capacity, d]."""
        return None if self.dim is None else self._x

    @property
    def coverage(self) -> FloatArray | None:
        """Topics that all columns cover, [capacity, topics]."""
        return None if self.topics is None else self._coverage

    @property
    def prices(self) -> FloatArray:
        """Prices of all columns, [capacity]; changes in place until the table grows."""
        return self._prices

    @property
    def enabled(self) -> BoolArray:
        """Columns that may be listed, [capacity]."""
        return self._enabled

    @property
    def there(self) -> IntArray:
        """Columns of the items that were not removed, in the order of arrival."""
        return np.flatnonzero(~self._removed[: len(self.ids)])

    @property
    def default_order(self) -> IntArray:
        """All columns by default position, those without one last, ties in the order of arrival.

        Sorted once, and kept until the table changes.
        """
        if self._order is None:
            self._order = np.argsort(self._positions[: len(self.ids)], kind="stable")
        return self._order

    def check(self, items: Sequence[Item]) -> None:
        """Refuse ids that stand twice."""
        seen: set[str] = set()
        for i, item in enumerate(items):
            if item.id in seen:
                raise InvalidInput(f"items[{i}].id", item.id, "every id once")
            seen.add(item.id)

    def put(self, items: Iterable[Item]) -> None:
        """Add items, or change those that are there."""
        self._order = None
        for item in items:
            at = self.column.get(item.id)
            if at is None:
                at = self.column[item.id] = len(self.ids)
                self.ids.append(item.id)
                if at >= self.capacity:
                    self._grow()
            if item.features is not None:
                self._x[at] = item.features
            if item.coverage is not None:
                self._coverage[at] = item.coverage
            if item.prior is not None:
                self.priors[at] = item.prior
            self._prices[at], self._enabled[at] = item.price, item.enabled
            self._positions[at] = np.nan if item.default_position is None else item.default_position

    def __len__(self) -> int:
        """Items that were not removed."""
        return len(self.column)

    def remove(self, ids: Iterable[str]) -> None:
        """Never list these again; of two who remove an item at once, both are right."""
        for id in ids:
            at = self.column.pop(id, None)
            if at is not None:
                self._enabled[at], self._removed[at] = False, True
                self.priors.pop(at, None)

    def prior(self, id: str) -> tuple[float, float] | None:
        """Score and strength that an item was given, where it is there."""
        at = self.column.get(id)
        return None if at is None else self.priors.get(at)

    def known(self, field: str, id: Any) -> int:
        """The column of an item that is there."""
        if not isinstance(id, str) or not self.has(id):
            raise InvalidInput(field, id, "the id of an item of this ranker")
        return self.column[id]

    def has(self, id: str) -> bool:
        """Whether it is there, and was not removed."""
        return id in self.column

    def columns(self, field: str, ids: Any) -> IntArray:
        """The columns of some items."""
        return np.array([self.known(f"{field}[{i}]", id) for i, id in enumerate(id_list(field, ids))], dtype=np.int64)

    def all(self) -> list[Item]:
        """Every item that was not removed."""
        return [self._item(at) for at in self.there.tolist()]

    def get(self, id: str) -> Item:
        """One item as it is now."""
        return self._item(self.known("id", id))

    def _item(self, at: int) -> Item:
        x = None if self.dim is None else tuple(self._x[at].tolist())
        topics = None if self.topics is None else tuple(self._coverage[at].tolist())
        position = None if np.isnan(self._positions[at]) else float(self._positions[at])
        price, enabled, prior = float(self._prices[at]), bool(self._enabled[at]), self.priors.get(at)
        return Item(self.ids[at], x, price, enabled, prior, topics, position)

    def arrays(self) -> dict[str, Any]:
        """Everything, for a snapshot."""
        n = len(self.ids)
        return {
            "ids": np.array(self.ids, dtype=np.str_),
            **{name: own[:n].copy() for name, own in self._columns().items()},
            "priors": np.array([(at, *prior) for at, prior in self.priors.items()]).reshape(-1, 3),
        }

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, f"_{name}") for name in PER_COLUMN}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Become what `arrays` gave."""
        ids = [str(id) for id in arrays["ids"]]
        gone = arrays["removed"].tolist()
        self.ids, self.column = ids, {id: at for at, id in enumerate(ids) if not gone[at]}
        self.priors = {int(at): (score, strength) for at, score, strength in arrays["priors"].tolist()}
        self._order = None
        while self.capacity < len(ids):
            self._grow()
        for name, own in self._columns().items():
            own[: len(ids)] = arrays[name]

    def _grow(self) -> None:
        for name, own in self._columns().items():
            setattr(self, f"_{name}", np.concatenate([own, np.zeros_like(own)]))


def id_list(field: str, ids: Any) -> Sequence[Any]:
    """A list, its entries not looked at."""
    if not isinstance(ids, Sequence) or isinstance(ids, str):
        raise InvalidInput(field, ids, "a list of ids")
    return ids
