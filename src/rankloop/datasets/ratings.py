"""Ratings, reviews or play counts of items by users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from rankloop import validate
from rankloop.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Ratings:
    """n rows of user, item and value; users and items are numbered from 0 and may have no rows."""

    user: IntArray  # [n]
    item: IntArray  # [n]
    value: FloatArray  # [n] stars, plays, or 1
    users: int
    items: int
    item_ids: tuple[str, ...]  # [items], as in the original files
    categories: Mapping[str, BoolArray]  # genre or category -> [items]

    def liked(self, above: float) -> BoolArray:
        """Return whether a user has rated an item above a value, [users, items]."""
        W = np.zeros((self.users, self.items), dtype=np.bool_)
        keep = self.value > above
        W[self.user[keep], self.item[keep]] = True
        return W

    def binary(self) -> BoolArray:
        """Return whether user and item have a row, [users, items]."""
        return self.liked(-np.inf)

    def sparse(self) -> csr_matrix[np.float64]:
        """Return the values, [users, items]; the mean where a pair has several rows."""
        shape = (self.users, self.items)
        R = csr_matrix(coo_matrix((self.value, (self.user, self.item)), shape=shape))
        if R.nnz < len(self.value):
            R.data /= csr_matrix(coo_matrix((np.ones(len(self.value)), (self.user, self.item)), shape=shape)).data
        return R

    def most(self, users: int | None = None, items: int | None = None) -> Ratings:
        """Return the users and the items with the most rows, both counted before the cut, ties by index."""
        return self._cut(_most(self.user, self.users, users), _most(self.item, self.items, items))

    def within(self, category: str) -> Ratings:
        """Return the items of a category, with all users."""
        validate.choice("category", category, self.categories)
        return self.only(self.categories[category])

    def only(self, items: BoolArray) -> Ratings:
        """Return the items of a mask [items], with all users."""
        return self._cut(np.ones(self.users, dtype=np.bool_), items)

    def active(self) -> Ratings:
        """Return the ratings without users and items that have no rows."""
        return self._cut(
            np.bincount(self.user, minlength=self.users) > 0, np.bincount(self.item, minlength=self.items) > 0
        )

    def _cut(self, users: BoolArray, items: BoolArray) -> Ratings:
        """Return the users and items of two masks, [users] and [items]."""
        keep = users[self.user] & items[self.item]
        return replace(
            self,
            user=(np.cumsum(users) - 1)[self.user[keep]],
            item=(np.cumsum(items) - 1)[self.item[keep]],
            value=self.value[keep],
            users=int(users.sum()),
            items=int(items.sum()),
            item_ids=tuple(np.array(self.item_ids, dtype=object)[items]),
            categories={name: mask[items] for name, mask in self.categories.items() if mask[items].any()},
        )


def _most(index: IntArray, size: int, wanted: int | None) -> BoolArray:
    if wanted is None:
        return np.ones(size, dtype=np.bool_)
    keep = np.zeros(size, dtype=np.bool_)
    keep[np.argsort(-np.bincount(index, minlength=size), kind="stable")[:wanted]] = True
    return keep


def number_ids(ids: IntArray) -> tuple[IntArray, IntArray]:
    """Return ids [n] as indices [n] into the sorted distinct ids [m]; by a lookup table where the largest id allows."""
    if not len(ids) or ids.min() < 0 or ids.max() > 10 * len(ids) + 10_000:
        distinct, index = np.unique(ids, return_inverse=True)
        return index.astype(np.int64), distinct
    occurs = np.zeros(int(ids.max()) + 1, dtype=np.bool_)
    occurs[ids] = True
    return (np.cumsum(occurs) - 1)[ids], np.flatnonzero(occurs)


def category_masks(of_items: Sequence[Iterable[str]]) -> dict[str, BoolArray]:
    """Return category -> mask [items], from the categories of each item; names are sorted."""
    masks: dict[str, BoolArray] = {}
    for item, names in enumerate(of_items):
        for name in names:
            masks.setdefault(name, np.zeros(len(of_items), dtype=np.bool_))[item] = True
    return dict(sorted(masks.items()))
