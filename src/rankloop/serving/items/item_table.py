"""The items of a ranker: added, changed and removed while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from rankloop.arrays import Array
from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema import Item, Prior, RankerSettings, SegmentPrior
from rankloop.schema.feature_settings import FeatureSettings
from rankloop.schema.fields import Fields
from rankloop.schema.item import logged_prior
from rankloop.schema.limits import MAX_PRIOR_WEIGHT
from rankloop.serving.items.field_encoding import FieldEncoding
from rankloop.serving.items.raw_fields import RawFields, encoded
from rankloop.types import BoolArray, FloatArray, IntArray

INITIAL_COLUMNS = 16
"""Capacity of a new table; it doubles when the table is full."""
PER_COLUMN = ("x", "prices", "enabled", "coverage", "removed", "positions", "scores")
"""Arrays that have one row for each column."""


def check_item(item: Item, field: str, config: RankerSettings) -> None:
    """Refuse an item whose features, coverage or prior do not match the ranker's settings."""
    _check_length(f"{field}.features", item.features, config.dim, "features, since the ranker has none", "ranker.dim")
    none = "coverage, since the ranker has no topics"
    _check_length(f"{field}.coverage", item.coverage, config.coverage, none, "ranker.coverage")
    if item.fields is not None:
        encoded(f"{field}.fields", item.fields)
    amounts = config.objective == "amount"  # a score has the unit of the objective: an amount, or a click-through rate
    for name, prior in _priors(f"{field}.prior", item.prior):
        if not amounts and not 0.0 <= prior.score <= 1.0:
            raise InvalidInput(f"{name}.score", prior.score, "a number in [0, 1]")


def _check_length(field: str, value: Sequence[float] | None, length: int | None, none: str, setting: str) -> None:
    """Refuse a list of another length than the setting; without the setting, refuse any list."""
    if length is None:
        if value is not None:
            raise InvalidInput(field, value, f"no {none} ({setting})")
    elif value is None:
        raise InvalidInput(field, MISSING, f"{length} numbers, as {setting} says")
    elif len(value) != length:
        raise InvalidInput(field, Words(f"a list of {len(value)}"), f"a list of {length}")


def unknown_fields(table: ItemTable, given: Sequence[Fields | None]) -> list[str]:
    """Return the names of fields of items that have no effect, each once."""
    if table.encoding is not None:
        return table.encoding.unknown_in_items(given)
    return list({name: None for fields in given for name in fields or ()})


def check_score(field: str, score: float | None, policy: RankingPolicy[LearnerState]) -> None:
    """Refuse the caller's own score of an item if the policy does not read it."""
    if score is not None and "scores" not in policy.reads:
        accepted = "no score, since the policy reads none; give it as a prior, or choose policy hybrid"
        raise InvalidInput(field, score, accepted)


def check_prior(field: str, item: Item, before: Prior | None, policy: RankingPolicy[LearnerState]) -> None:
    """Refuse a prior that the policy does not support, or by which it cannot replace the previous one."""
    if item.prior not in (None, before):
        if not policy.takes_priors:
            raise InvalidInput(field, item.prior, "no prior, since the policy takes no scores of another ranker")
        if policy.pools and item.prior is not None and item.prior.segments:
            accepted = "no scores by segment, since ranker.pooled makes all segments start from what they share"
            raise InvalidInput(f"{field}.segments", sorted(item.prior.segments), accepted)
        if before is not None and not policy.replaces_priors:
            accepted = "the prior that the item has, since the policy cannot replace it; remove the item, then put it"
            raise InvalidInput(field, item.prior, accepted)
        if item.prior is not None and item.prior.segments and item.prior.strength and not policy.replaces_priors:
            accepted = (
                "0 together with segments, since the policy cannot replace the prior of all segments in one of them"
            )
            raise InvalidInput(f"{field}.strength", item.prior.strength, accepted)
    for name, prior in _priors(field, before if item.prior is None else item.prior):
        _check_weight(f"{name}.strength", item, prior)


def _priors(field: str, prior: Prior | None) -> Iterator[tuple[str, SegmentPrior]]:
    """Yield a prior and those of its segments, each with the name of its field."""
    if prior is not None:
        yield field, prior
        yield from ((f"{field}.segments.{segment}", one) for segment, one in prior.segments.items())


def _check_weight(field: str, item: Item, prior: SegmentPrior) -> None:
    """Refuse a prior whose weight in the direction of the item's features would hide all feedback."""
    if item.features is None:
        return
    squares = sum(value * value for value in item.features)
    if prior.strength * squares > MAX_PRIOR_WEIGHT:
        limit = f"{MAX_PRIOR_WEIGHT / squares:.3g}"
        accepted = f"at most {limit}, which is {MAX_PRIOR_WEIGHT:g} divided by the squared length of its features"
        raise InvalidInput(field, prior.strength, accepted)


def _scores(prior: Prior | None) -> int:
    """Return the number of scores of a prior: its own and those of segments."""
    return 0 if prior is None else 1 + len(prior.segments)


def prior_scores(items: Iterable[Item]) -> int:
    """Return the number of scores of the priors of items."""
    return sum(_scores(item.prior) for item in items)


def doubled(capacity: int, needed: int) -> int:
    """Return a capacity, doubled until it is at least the number needed."""
    while capacity < needed:
        capacity *= 2
    return capacity


def _require_length(id: str, name: str, length: int, rows: FloatArray) -> None:
    """Refuse a row of another length than the table's, which only a log of other settings has."""
    if length != rows.shape[1]:
        raise InvalidInput(f"{name} of item {id}", Words(f"a list of {length}"), f"a list of {rows.shape[1]}")


class ItemTable:
    """The items by column; a column belongs to one item permanently, even after the item is removed.

    A removed id that is put again is a new item with a new column.
    """

    def __init__(
        self,
        dim: int | None,
        topics: int | None = None,
        capacity: int = INITIAL_COLUMNS,
        features: FeatureSettings | None = None,
        context: int | None = None,
    ) -> None:
        self.encoding = None if features is None else FieldEncoding(features)
        self.dim = dim = dim if self.encoding is None else self.encoding.dim
        self.topics, self.context_width = topics, context if self.encoding is None else self.encoding.context_width
        self.ids: list[str] = []  # of all columns; an id that was removed and put again is here twice
        self.column: dict[str, int] = {}  # of the items that were not removed
        self._x = np.zeros((capacity, dim or 0))
        self._coverage = np.zeros((capacity, topics or 0))
        self._prices = np.zeros(capacity)
        self._enabled = np.zeros(capacity, dtype=np.bool_)
        self._removed = np.zeros(capacity, dtype=np.bool_)
        self._positions = np.zeros(capacity)  # NaN for items without one
        self._scores = np.full(capacity, np.nan)  # NaN for items without one
        self._order: IntArray | None = None
        self._ranks: FloatArray | None = None
        self._is_placed = False
        self._has_scores: bool | None = None
        self.priors: dict[int, Prior] = {}  # of the columns that have one
        self.prior_scores = 0  # of all priors, those of segments included
        self.raw_fields = RawFields()

    @staticmethod
    def capacity_for(columns: int) -> int:
        """Return the capacity of a table with this number of columns in use."""
        return doubled(INITIAL_COLUMNS, columns)

    @classmethod
    def column_bytes(cls, dim: int | None, topics: int | None, features: FeatureSettings | None = None) -> int:
        """Return the bytes that the arrays take for each column."""
        return cls(dim, topics, 1, features).nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self._columns().values())

    def columns_with(self, ids: Iterable[str]) -> int:
        """Return the number of columns after these items are put; removed items keep theirs."""
        return len(self.ids) + sum(not self.has(id) for id in set(ids))

    def prior_scores_with(self, items: Iterable[Item]) -> int:
        """Return the number of prior scores after these items are put."""
        return self.prior_scores + sum(
            _scores(item.prior) - _scores(self.prior(item.id)) for item in items if item.prior is not None
        )

    @property
    def capacity(self) -> int:
        """Number of columns that the arrays have room for."""
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
        """Which columns may be listed, [capacity]."""
        return self._enabled

    @property
    def present(self) -> IntArray:
        """Columns of the items that were not removed, in the order of arrival."""
        return np.flatnonzero(~self._removed[: len(self.ids)])

    @property
    def scores(self) -> FloatArray | None:
        """The caller's own scores of all columns, [capacity], NaN where there is none; None if no item has one."""
        if self._has_scores is None:
            self._has_scores = bool(np.isfinite(self._scores[self.present]).any())
        return self._scores if self._has_scores else None

    @property
    def default_order(self) -> IntArray:
        """All columns by `default_keys`, those without one last, ties in the order of arrival.

        Cached until the table changes.
        """
        if self._order is None:
            self._order = np.argsort(self.default_keys[: len(self.ids)], kind="stable")
        return self._order

    @property
    def default_keys(self) -> FloatArray:
        """Sort keys of the default order, [capacity]: default positions, or falling scores where no item has one."""
        scores = self.scores
        return self._positions if scores is None or self.default_ranks is not None else -scores

    @property
    def default_ranks(self) -> FloatArray | None:
        """Ranks 0, 1, … of the present items by default position, [capacity], NaN without one; None if all are NaN.

        Cached until the table changes.
        """
        if self._ranks is None:
            present = self.present
            placed = present[~np.isnan(self._positions[present])]
            self._ranks = np.full(self.capacity, np.nan)
            self._ranks[placed[np.argsort(self._positions[placed], kind="stable")]] = np.arange(float(len(placed)))
            self._is_placed = len(placed) > 0
        return self._ranks if self._is_placed else None

    def _forget_order(self) -> None:
        """Forget what was derived from positions and scores."""
        self._order, self._ranks, self._has_scores = None, None, None

    def check(self, items: Sequence[Item]) -> None:
        """Refuse a repeated id."""
        seen: set[str] = set()
        for i, item in enumerate(items):
            if item.id in seen:
                raise InvalidInput(f"items[{i}].id", item.id, "every id once")
            seen.add(item.id)

    def changes_row(self, item: Item) -> bool:
        """Return whether an item changes the features that its id has now."""
        at = self.column[item.id]
        if self.encoding is None:
            return item.features is not None and item.features != self.get(item.id).features
        return item.fields is not None and item.fields != self.raw_fields.get(at)

    def put(self, items: Iterable[Item], position: int = 0) -> None:
        """Add new items and update existing ones, by the event at a position of the log."""
        self._forget_order()
        encoded: list[tuple[int, Fields]] = []
        for item in items:
            at = self.column.get(item.id)
            if at is None:
                at = self.column[item.id] = len(self.ids)
                self.ids.append(item.id)
                if at >= self.capacity:
                    self._grow()
            if self.encoding is not None and (item.fields is not None or at == len(self.ids) - 1):
                encoded.append((at, item.fields or {}))
            elif item.features is not None:
                _require_length(item.id, "features", len(item.features), self._x)
                self._x[at] = item.features
            if item.coverage is not None:
                _require_length(item.id, "coverage", len(item.coverage), self._coverage)
                self._coverage[at] = item.coverage
            if item.prior is not None:
                self.prior_scores += _scores(item.prior) - _scores(self.priors.get(at))
                self.priors[at] = item.prior
            if item.fields is not None:
                self.raw_fields.put(at, item.fields)
            self._prices[at], self._enabled[at] = item.price, item.enabled
            self._positions[at] = np.nan if item.default_position is None else item.default_position
            self._scores[at] = np.nan if item.score is None else item.score
        if self.encoding is not None and encoded:
            columns, mappings = [list(one) for one in zip(*encoded, strict=True)]
            self.encoding.items.learn(mappings, position)
            self._x[columns] = self.encoding.items.rows(mappings)

    def __len__(self) -> int:
        """Return the number of items that were not removed."""
        return len(self.column)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove items; an unknown id is no error, since two callers may remove the same item at once."""
        self._forget_order()
        for id in ids:
            at = self.column.pop(id, None)
            if at is not None:
                self._enabled[at], self._removed[at] = False, True
                self.prior_scores -= _scores(self.priors.pop(at, None))
                self.raw_fields.remove(at)

    def prior(self, id: str) -> Prior | None:
        """Return the prior of an item, or None."""
        at = self.column.get(id)
        return None if at is None else self.priors.get(at)

    def known(self, field: str, id: str) -> int:
        """Return the column of an item; refuse an id that the table does not have."""
        if not self.has(id):
            raise InvalidInput(field, id, "the id of an item of this ranker")
        return self.column[id]

    def has(self, id: str) -> bool:
        """Return whether the table has an item that was not removed."""
        return id in self.column

    def columns(self, field: str, ids: Sequence[str]) -> IntArray:
        """Return the columns of some items; refuse ids that the table does not have."""
        return np.array([self.known(f"{field}[{i}]", id) for i, id in enumerate(ids)], dtype=np.int64)

    def all(self) -> list[Item]:
        """Return every item that was not removed."""
        return [self._item(at) for at in self.present.tolist()]

    def get(self, id: str) -> Item:
        """Return the current item of an id."""
        return self._item(self.known("id", id))

    def _item(self, at: int) -> Item:
        x = None if self.dim is None or self.encoding is not None else tuple(self._x[at].tolist())
        topics = None if self.topics is None else tuple(self._coverage[at].tolist())
        position, score = (None if np.isnan(v) else float(v) for v in (self._positions[at], self._scores[at]))
        price, enabled, prior = float(self._prices[at]), bool(self._enabled[at]), self.priors.get(at)
        fields = self.raw_fields.get(at)
        return Item.logged(self.ids[at], x, price, enabled, prior, topics, position, score, fields)

    def arrays(self) -> dict[str, Array]:
        """Return the whole table as arrays, for a snapshot."""
        n = len(self.ids)
        return {
            "ids": np.array(self.ids, dtype=np.str_),
            **{name: array[:n].copy() for name, array in self._columns().items()},
            "priors": np.array([(at, one.score, one.strength) for at, one in self.priors.items()]).reshape(-1, 3),
            "segment_priors": np.frombuffer(
                msgspec.json.encode({at: one.segments for at, one in self.priors.items() if one.segments}), np.uint8
            ),
            **self.raw_fields.arrays(),
            **({} if self.encoding is None else self.encoding.arrays()),
        }

    def _columns(self) -> dict[str, Array]:
        return {name: getattr(self, f"_{name}") for name in PER_COLUMN}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the table that `arrays` returned."""
        ids = [str(id) for id in arrays["ids"]]
        removed = arrays["removed"].tolist()
        self.ids, self.column = ids, {id: at for at, id in enumerate(ids) if not removed[at]}
        segments = msgspec.json.decode(arrays["segment_priors"].tobytes(), type=dict[int, dict[str, dict[str, float]]])
        self.priors = {
            int(at): logged_prior(score, strength, segments.get(int(at), {}))
            for at, score, strength in arrays["priors"].tolist()
        }
        self.prior_scores = sum(_scores(prior) for prior in self.priors.values())
        self.raw_fields.restore(arrays)
        if self.encoding is not None:
            self.encoding.restore(arrays)
        self._forget_order()
        while self.capacity < len(ids):
            self._grow()
        for name, array in self._columns().items():
            array[: len(ids)] = arrays[name]

    def _grow(self) -> None:
        for name, array in self._columns().items():
            added = np.full_like(array, np.nan) if name == "scores" else np.zeros_like(array)
            setattr(self, f"_{name}", np.concatenate([array, added]))
