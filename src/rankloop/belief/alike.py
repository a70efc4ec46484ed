"""Items that nobody has seen yet have equal records, so that a decision need not look at each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.math.exchangeable import apart, largest_of_equals
from rankloop.shortlist import Search, Shortlist
from rankloop.types import BoolArray, FloatArray, IntArray, Rows

ALIKE_FROM = 10_000
"""Number of items from which it pays to look for equal records."""
EVERYTHING = Rows(slice(None))


@dataclass(frozen=True, slots=True)
class Alike:
    """The allowed items of one learner: some one by one, and the number of all others, which have one record."""

    tables: tuple[FloatArray, ...]  # each [L]
    record: FloatArray  # the common record, one number of each table
    allowed: BoolArray | None  # [L]
    others: IntArray  # [n], the items with other records
    count: int  # items with the common record
    example: int  # one of them
    needed: int  # how many of these items a list may need

    def models(self) -> IntArray:
        """Return the items with other records, and last one of those with the common record."""
        return np.append(self.others, self.example)

    def sample(self, rng: np.random.Generator) -> IntArray:
        """Return `needed` different items with the common record, in random order."""
        found = np.empty(0, dtype=np.int64)
        while len(found) < self.needed:  # at least half of all items qualify
            drawn = rng.integers(len(self.tables[0]), size=4 * self.needed)
            fits = np.ones(len(drawn), dtype=np.bool_) if self.allowed is None else self.allowed[drawn]
            for table, value in zip(self.tables, self.record, strict=True):
                fits = fits & (table[drawn] == value)
            found = np.concatenate([found, drawn[fits]])
            found = found[np.sort(np.unique(found, return_index=True)[1])]
        return found[: self.needed]

    def largest_tails(self, rng: np.random.Generator) -> FloatArray:
        """Return the probabilities above the largest independent draws of these items, the largest draw first."""
        return largest_of_equals(rng, self.count, self.needed)

    def drawn(self, scores: FloatArray, largest: FloatArray, rng: np.random.Generator) -> Shortlist:
        """Return the shortlist of drawn scores [1, n] of the other items, and [needed] of random ones of the rest."""
        items = np.concatenate([self.others, self.sample(rng)])
        return Shortlist(items[None], np.concatenate([scores[0], largest])[None])

    def scored(self, scores: FloatArray, rng: np.random.Generator) -> Shortlist | None:
        """Return the shortlist of scores [1, n + 1], the last one that of all items with the common record.

        None where another item happens to have that score.
        """
        own = scores[0, -1]
        if (scores[0, :-1] == own).any():
            return None
        items = np.concatenate([self.others, self.sample(rng)])
        every = np.concatenate([scores[0], np.full(self.needed - 1, own)])
        return Shortlist(items[None], every[None], unlisted=self.count - self.needed)


def find_alike(tables: tuple[FloatArray, ...], search: Search) -> Alike | None:
    """Return what most allowed items of one learner have in common, from tables [B, L]; None where it is of no use."""
    learners, items = tables[0].shape
    if learners > 1 or items < ALIKE_FROM or len(search.rows().chosen()):
        return None
    flat = tuple(table[0] for table in tables)
    allowed = None if search.allowed is None else np.reshape(search.allowed, -1)
    example = _usual(flat)
    record = np.array([table[example] for table in flat])
    others, count = apart(flat, record, allowed)
    if 2 * count < items or count < 4 * search.needed:
        return None
    return Alike(flat, record, allowed, others, count, example, search.needed)


def _usual(tables: tuple[FloatArray, ...]) -> int:
    """Return an item whose record is the most frequent one of a few items."""
    some = (len(tables[0]) * (2 * np.arange(9) + 1)) // 18
    records = np.stack([table[some] for table in tables])
    same = (records[:, :, None] == records[:, None, :]).all(axis=0).sum(axis=1)
    return int(some[same.argmax()])
