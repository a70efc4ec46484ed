"""The items of a ranker: added, changed and removed while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from rankloop.arrays import Array
from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema import Item, Prior, RankerSettings, SegmentPrior
from rankloop.schema.item import logged_prior
from rankloop.schema.limits import MAX_PRIOR_WEIGHT
from rankloop.types import BoolArray, FloatArray, IntArray

FIRST = 16
"""Columns that a table starts with; they double when they are taken."""
PER_COLUMN = ("x", "prices", "enabled", "coverage", "removed", "positions")
"""What a table keeps for each column."""


def fit(item: Item, field: str, config: RankerSettings) -> None:
    """Refuse an item that has not what the ranker's settings ask for, or has more."""
    _check_length(f"{field}.features", item.features, config.dim, "features, since the ranker has none", "ranker.dim")
    why = "coverage, since the ranker has no topics"
    _check_length(f"{field}.coverage", item.coverage, config.coverage, why, "ranker.coverage")
    amounts = config.objective == "amount"  # a score is in the units of the objective: an amount, or a click-through
    for where, prior in _priors(f"{field}.prior", item.prior):
        if not amounts and not 0.0 <= prior.score <= 1.0:
            raise InvalidInput(f"{where}.score", prior.score, "a number in [0, 1]")


def _check_length(field: str, value: Sequence[float] | None, length: int | None, none: str, setting: str) -> None:
    """So many numbers; nothing at all where the ranker's setting is not there."""
    if length is None:
        if value is not None:
            raise InvalidInput(field, value, f"no {none} ({setting})")
    elif value is None:
        raise InvalidInput(field, MISSING, f"{length} numbers, as {setting} says")
    elif len(value) != length:
        raise InvalidInput(field, Words(f"a list of {len(value)}"), f"a list of {length}")


def check_prior(field: str, item: Item, before: Prior | None, policy: RankingPolicy[LearnerState]) -> None:
    """Refuse a prior that the policy cannot take, or cannot put in the place of the one before."""
    if item.prior not in (None, before):
        if not policy.takes_priors:
            raise InvalidInput(field, item.prior, "no prior, since the policy takes no scores of another ranker")
        if before is not None and not policy.replaces_priors:
            accepted = "the prior that the item has, since the policy cannot take it back; remove the item, then put it"
            raise InvalidInput(field, item.prior, accepted)
        if item.prior is not None and item.prior.segments and item.prior.strength and not policy.replaces_priors:
            accepted = "0 beside segments, since the policy cannot take the prior of all segments back in one of them"
            raise InvalidInput(f"{field}.strength", item.prior.strength, accepted)
    for where, prior in _priors(field, before if item.prior is None else item.prior):
        _check_weight(f"{where}.strength", item, prior)


def _priors(field: str, prior: Prior | None) -> Iterator[tuple[str, SegmentPrior]]:
    """A prior and those of its segments, with the names of their fields."""
    if prior is not None:
        yield field, prior
        yield from ((f"{field}.segments.{segment}", one) for segment, one in prior.segments.items())


def _check_weight(field: str, item: Item, prior: SegmentPrior) -> None:
    """Refuse a prior that weighs so much, by the item's features, that nothing could be told apart beside it."""
    if item.features is None:
        return
    squares = sum(value * value for value in item.features)
    if prior.strength * squares > MAX_PRIOR_WEIGHT:
        most = f"{MAX_PRIOR_WEIGHT / squares:.3g}"
        accepted = f"at most {most}, which is {MAX_PRIOR_WEIGHT:g} over the squared length of its features"
        raise InvalidInput(field, prior.strength, accepted)


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
        self.priors: dict[int, Prior] = {}  # of columns that were given some

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
    def present(self) -> IntArray:
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

    def prior(self, id: str) -> Prior | None:
        """Score and strength that an item was given, where it is there."""
        at = self.column.get(id)
        return None if at is None else self.priors.get(at)

    def known(self, field: str, id: str) -> int:
        """The column of an item that is there."""
        if not self.has(id):
            raise InvalidInput(field, id, "the id of an item of this ranker")
        return self.column[id]

    def has(self, id: str) -> bool:
        """Whether it is there, and was not removed."""
        return id in self.column

    def columns(self, field: str, ids: Sequence[str]) -> IntArray:
        """The columns of some items."""
        return np.array([self.known(f"{field}[{i}]", id) for i, id in enumerate(ids)], dtype=np.int64)

    def all(self) -> list[Item]:
        """Every item that was not removed."""
        return [self._item(at) for at in self.present.tolist()]

    def get(self, id: str) -> Item:
        """One item as it is now."""
        return self._item(self.known("id", id))

    def _item(self, at: int) -> Item:
        x = None if self.dim is None else tuple(self._x[at].tolist())
        topics = None if self.topics is None else tuple(self._coverage[at].tolist())
        position = None if np.isnan(self._positions[at]) else float(self._positions[at])
        price, enabled, prior = float(self._prices[at]), bool(self._enabled[at]), self.priors.get(at)
        return Item.logged(self.ids[at], x, price, enabled, prior, topics, position)

    def arrays(self) -> dict[str, Array]:
        """Everything, for a snapshot."""
        n = len(self.ids)
        return {
            "ids": np.array(self.ids, dtype=np.str_),
            **{name: own[:n].copy() for name, own in self._columns().items()},
            "priors": np.array([(at, one.score, one.strength) for at, one in self.priors.items()]).reshape(-1, 3),
            "segment_priors": np.frombuffer(
                msgspec.json.encode({at: one.segments for at, one in self.priors.items() if one.segments}), np.uint8
            ),
        }

    def _columns(self) -> dict[str, Array]:
        return {name: getattr(self, f"_{name}") for name in PER_COLUMN}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Become what `arrays` gave."""
        ids = [str(id) for id in arrays["ids"]]
        gone = arrays["removed"].tolist()
        self.ids, self.column = ids, {id: at for at, id in enumerate(ids) if not gone[at]}
        segments = msgspec.json.decode(arrays["segment_priors"].tobytes(), type=dict[int, dict[str, dict[str, float]]])
        self.priors = {
            int(at): logged_prior(score, strength, segments.get(int(at), {}))
            for at, score, strength in arrays["priors"].tolist()
        }
        self._order = None
        while self.capacity < len(ids):
            self._grow()
        for name, own in self._columns().items():
            own[: len(ids)] = arrays[name]

    def _grow(self) -> None:
        for name, own in self._columns().items():
            setattr(self, f"_{name}", np.concatenate([own, np.zeros_like(own)]))
