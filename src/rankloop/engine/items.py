"""The items of a ranker: added, changed and removed while it runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankloop import validate
from rankloop.errors import MISSING, InvalidInput
from rankloop.types import BoolArray, FloatArray, IntArray

ID_LENGTH = 200
FIRST = 16
"""Columns that a table starts with; they double when they are taken."""


@dataclass(frozen=True)
class Item:
    """Something that can be listed."""

    id: str
    features: tuple[float, ...] | None = None
    price: float = 0.0
    enabled: bool = True
    prior: tuple[float, float] | None = None  # mean outcome in the eyes of another ranker, and so many observations
    coverage: tuple[float, ...] | None = None  # share of each topic that it covers

    @classmethod
    def of(cls, given: Any, dim: int | None, field: str = "item", topics: int | None = None) -> Self:
        """Check a mapping with id and, optionally, features, price, enabled, prior: {score, strength} and coverage."""
        if isinstance(given, cls):
            given = given.as_mapping()
        optional = ("features", "price", "enabled", "prior", "coverage")
        fields = validate.mapping(field, given, required=("id",), optional=optional)
        enabled = fields.get("enabled", True)
        if not isinstance(enabled, bool):
            raise InvalidInput(f"{field}.enabled", enabled, "true or false")
        return cls(
            id=name(f"{field}.id", fields["id"]),
            features=_features(f"{field}.features", fields.get("features"), dim),
            price=validate.number(f"{field}.price", fields.get("price", 0.0), low=0.0),
            enabled=enabled,
            prior=_prior(f"{field}.prior", fields.get("prior")),
            coverage=_coverage(f"{field}.coverage", fields.get("coverage"), topics),
        )

    def as_mapping(self) -> dict[str, Any]:
        """What `of` accepts."""
        prior = None if self.prior is None else {"score": self.prior[0], "strength": self.prior[1]}
        features = None if self.features is None else list(self.features)
        told = {"id": self.id, "features": features, "price": self.price, "enabled": self.enabled, "prior": prior}
        return told if self.coverage is None else {**told, "coverage": list(self.coverage)}


def name(field: str, value: Any) -> str:
    """A printable text of reasonable length."""
    if not isinstance(value, str) or not value or len(value) > ID_LENGTH or not value.isprintable():
        raise InvalidInput(field, value, f"a printable text of 1 to {ID_LENGTH} characters")
    return value


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
    low: float = -math.inf,
    high: float = math.inf,
) -> tuple[float, ...] | None:
    """So many numbers; nothing at all where the ranker's setting is not there."""
    if length is None:
        if value is not None:
            raise InvalidInput(field, value, f"no {none}")
        return None
    if value is None:
        raise InvalidInput(field, MISSING, f"{length} numbers, as {setting} says")
    return tuple(validate.vector(field, value, length=length, low=low, high=high).tolist())


def _prior(field: str, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    given = validate.mapping(field, value, required=("score", "strength"))
    score = validate.number(f"{field}.score", given["score"], low=0.0, high=1.0)
    return score, validate.number(f"{field}.strength", given["strength"], low=0.0, high=1e6)


class ItemTable:
    """Columns of items; a column belongs to one id for ever, also after the item is removed."""

    def __init__(self, dim: int | None, topics: int | None = None) -> None:
        self.dim, self.topics = dim, topics
        self.ids: list[str] = []
        self.column: dict[str, int] = {}
        self._x = np.zeros((FIRST, dim or 0))
        self._coverage = np.zeros((FIRST, topics or 0))
        self._prices = np.zeros(FIRST)
        self._enabled = np.zeros(FIRST, dtype=np.bool_)
        self._removed: set[str] = set()

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

    def check(self, items: Sequence[Item]) -> None:
        """Refuse ids that were removed, and ids that stand twice."""
        seen: set[str] = set()
        for i, item in enumerate(items):
            if item.id in self._removed:
                raise InvalidInput(f"items[{i}].id", item.id, "an id that was not removed before: ids are never reused")
            if item.id in seen:
                raise InvalidInput(f"items[{i}].id", item.id, "every id once")
            seen.add(item.id)

    def put(self, items: Iterable[Item]) -> None:
        """Add items, or change those that are there."""
        for item in items:
            if item.id in self._removed:  # while this entry was on its way to the log
                continue
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
            self._prices[at], self._enabled[at] = item.price, item.enabled

    def __len__(self) -> int:
        """Items that were not removed."""
        return len(self.ids) - len(self._removed)

    def remove(self, ids: Iterable[str]) -> None:
        """Never list these again; of two who remove an item at once, both are right."""
        for id in ids:
            self._enabled[self.column[id]] = False
            self._removed.add(id)

    def known(self, field: str, id: Any) -> int:
        """The column of an item that is there."""
        if not isinstance(id, str) or not self.has(id):
            raise InvalidInput(field, id, "the id of an item of this ranker")
        return self.column[id]

    def has(self, id: str) -> bool:
        """Whether it is there, and was not removed."""
        return id in self.column and id not in self._removed

    def columns(self, field: str, ids: Any) -> IntArray:
        """The columns of some items."""
        if not isinstance(ids, Sequence) or isinstance(ids, str):
            raise InvalidInput(field, ids, "a list of ids")
        return np.array([self.known(f"{field}[{i}]", id) for i, id in enumerate(ids)], dtype=np.int64)

    def all(self) -> list[Item]:
        """Every item that was not removed."""
        return [self.get(id) for id in self.ids if id not in self._removed]

    def get(self, id: str) -> Item:
        """One item as it is now."""
        at = self.known("id", id)
        x = None if self.dim is None else tuple(self._x[at].tolist())
        topics = None if self.topics is None else tuple(self._coverage[at].tolist())
        return Item(id, x, float(self._prices[at]), bool(self._enabled[at]), None, topics)

    def arrays(self) -> dict[str, Any]:
        """Everything, for a snapshot."""
        n = len(self.ids)
        return {
            "ids": np.array(self.ids, dtype=np.str_),
            "removed": np.array([id in self._removed for id in self.ids], dtype=np.bool_),
            **{name: own[:n].copy() for name, own in self._columns().items()},
        }

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {"x": self._x, "prices": self._prices, "enabled": self._enabled, "coverage": self._coverage}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Become what `arrays` gave."""
        ids = [str(id) for id in arrays["ids"]]
        self.ids, self.column = ids, {id: i for i, id in enumerate(ids)}
        self._removed = {id for id, gone in zip(ids, arrays["removed"], strict=True) if gone}
        while self.capacity < len(ids):
            self._grow()
        for name, own in self._columns().items():
            own[: len(ids)] = arrays[name]

    def _grow(self) -> None:
        for name, own in self._columns().items():
            setattr(self, f"_{name}", np.concatenate([own, np.zeros_like(own)]))
