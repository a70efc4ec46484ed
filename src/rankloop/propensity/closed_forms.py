"""Exact probabilities of one list, by how the lists are drawn. Shapes: k slots, n of them filled by a planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankloop.math.fair_ties import count_larger_equal, pairing, tied_ranks
from rankloop.math.random_lines import heights
from rankloop.types import EMPTY, BoolArray, Decision, FloatArray, IntArray


class ListProbabilities(NamedTuple):
    """Exact probabilities of a list."""

    prefix: FloatArray  # [k] of the list up to and including each slot
    slot: FloatArray  # [k] of the item in each slot, whatever the others show


CERTAIN = ListProbabilities(np.array(1.0), np.array(1.0))
"""The probabilities of a list that was the only possible one, whatever its length."""


@dataclass(frozen=True, slots=True)
class PlannedList:
    """A list of one learner with the planner's task: which slots it had to fill, from which items."""

    shown: IntArray  # [k] the list, EMPTY where nothing is shown
    slots: IntArray  # [n] the free slots that are filled
    right: BoolArray  # [k] False where a pinned item is missing or a slot that must be empty is not
    may: BoolArray  # [L] items that a free slot may show
    count: int  # number of these items
    held: int  # number of pinned slots

    @classmethod
    def of(cls, decision: Decision, length: int | None = None) -> PlannedList:
        """Return the planned list of a decision; `length` free slots are filled, by default as many as possible."""
        request, shown = decision.request, decision.items[0]
        may = np.ones(request.items, dtype=np.bool_) if request.allowed is None else request.allowed.reshape(-1)
        if request.pinned is None:
            free, must = np.arange(request.k), np.full(request.k, EMPTY)
        else:
            free, must = np.flatnonzero(request.pinned == EMPTY), request.pinned
            may = may.copy()
            may[must[must != EMPTY]] = False
        count = int(np.count_nonzero(may))
        slots = free[: count if length is None else length]
        right = shown == must
        right[slots] = True
        return cls(shown, slots, right, may, count, request.k - len(free))

    @property
    def listed(self) -> IntArray:
        """The items in the filled slots, [n]; EMPTY where one is missing."""
        return self.shown[self.slots]

    @property
    def valid(self) -> BoolArray:
        """Whether the item in each filled slot is allowed, [n]."""
        listed = self.listed
        return np.asarray((listed != EMPTY) & self.may[listed])

    def probabilities(self, prefix: FloatArray, slot: FloatArray) -> ListProbabilities:
        """Return the probabilities of the whole list from those of the filled slots, each [n]."""
        k = len(self.shown)
        if len(self.slots) == k:
            return ListProbabilities(prefix, slot)
        before = np.searchsorted(self.slots, np.arange(k), side="right")
        right = self.right.astype(np.float64)
        whole = np.concatenate([np.ones(1), prefix])[before] * np.multiply.accumulate(right)
        right[self.slots] = slot
        return ListProbabilities(whole, right)


def uniform(planned: PlannedList) -> ListProbabilities:
    """Return the probabilities where every possible list is equally likely."""
    valid = planned.valid.astype(np.float64)
    drawn = np.multiply.accumulate(valid / (planned.count - np.arange(len(valid))))
    return planned.probabilities(drawn, valid / max(planned.count, 1))


def any_length(planned: PlannedList) -> ListProbabilities:
    """Return the probabilities of a `uniform` list cut to a length uniform on 0 … its length.

    The length includes pinned items, which stay.
    """
    n, total = len(planned.slots), len(planned.slots) + planned.held
    lengths = total + 1
    longer = total - planned.slots  # for each filled slot, how many of the lengths include it
    there, valid = planned.listed != EMPTY, planned.valid.astype(np.float64)
    drawn = np.multiply.accumulate(valid / (planned.count - np.arange(n)))
    prefix = drawn * longer / lengths
    if not there.all():
        cut = int(np.argmin(there))  # the first empty slot: the list was cut between it and the slot before
        just = (longer[cut - 1] if cut else lengths) - longer[cut]
        gone = np.logical_and.accumulate(~there[cut:])
        prefix[cut:] = gone * (drawn[cut - 1] if cut else 1.0) * just / lengths
    slot = np.where(there, valid * longer / max(planned.count, 1), lengths - longer) / lengths
    return planned.probabilities(prefix, slot)


def ranked(planned: PlannedList, start: IntArray, size: IntArray, bias: FloatArray | None = None) -> ListProbabilities:
    """Return the probabilities of items in order of score in slots in order of bias, ties of either in random order.

    Args:
        planned: the list.
        start: [n] how many items have a larger score than the item of each slot.
        size: [n] how many items have the same score, itself included; 0 where the item is not allowed.
        bias: [n] of the slots; None where they are filled from the top.
    """
    n = len(planned.slots)
    first, width = (np.arange(n), np.ones(n, dtype=np.int64)) if bias is None else tied_ranks(bias)
    prefix, slot = np.empty((2, n))
    pairing(start, size, first, width, prefix, slot)
    return planned.probabilities(prefix, slot)


def by_scores(planned: PlannedList, scores: FloatArray, bias: FloatArray | None = None) -> ListProbabilities:
    """Return the probabilities of `ranked`, from the scores [L] of all items."""
    start, size = np.empty((2, len(planned.slots)), dtype=np.int64)
    count_larger_equal(scores, planned.may, planned.listed, start, size)
    return ranked(planned, start, size, bias)


def by_lines(planned: PlannedList, level: FloatArray, slope: FloatArray) -> ListProbabilities:
    """Return the probabilities of the highest lines level + slope·Z, each [L], at one standard normal Z.

    Ties are in random order.
    """
    prefix, slot = np.empty((2, len(planned.slots)))
    heights(level, slope, planned.may, planned.listed, prefix, slot)
    return planned.probabilities(prefix, slot)


def point_mass(shown: IntArray, other: IntArray) -> ListProbabilities:
    """Return the probabilities of the list `shown` where `other` is shown with probability 1, each [k]."""
    equal = shown == other
    if equal.all():
        return CERTAIN
    return ListProbabilities(np.logical_and.accumulate(equal).astype(np.float64), equal.astype(np.float64))


def mixture(chance: float, one: ListProbabilities, other: ListProbabilities) -> ListProbabilities:
    """Return the probabilities under `one` with this probability, and under `other` otherwise."""
    rest = 1.0 - chance
    return ListProbabilities(chance * one.prefix + rest * other.prefix, chance * one.slot + rest * other.slot)
