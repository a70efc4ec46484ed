"""Probabilities of one list under the ways in which lists are drawn. Shapes: k slots, n of them filled by a planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rankloop.math.fair_ties import pairing, tied_ranks, count_larger_equal
from rankloop.math.random_lines import heights
from rankloop.types import EMPTY, BoolArray, Decision, FloatArray, IntArray


class ListProbabilities(NamedTuple):
    """Probabilities of a list, exact."""

    prefix: FloatArray  # [k] that it begins like this, to each slot
    slot: FloatArray  # [k] that each slot shows what it shows


CERTAIN = ListProbabilities(np.array(1.0), np.array(1.0))
"""Of a list that could not have been another, whatever its length."""


@dataclass(frozen=True, slots=True)
class PlannedList:
    """A list of one learner, and what a planner had to do: fill these slots with some of these items."""

    shown: IntArray  # [k] the list, EMPTY where nothing is shown
    slots: IntArray  # [n] the free slots that are filled
    right: BoolArray  # [k] nothing else is wrong: pinned items stand where they must, other slots are empty
    may: BoolArray  # [L] items that a free slot may show
    count: int  # of them
    held: int  # slots that are pinned

    @classmethod
    def of(cls, decision: Decision, length: int | None = None) -> PlannedList:
        """The planned of a decision; `length` free slots are filled, or else as many as can be."""
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
        """The items in the slots that are filled, [n]; EMPTY where one is missing."""
        return self.shown[self.slots]

    @property
    def fine(self) -> BoolArray:
        """Whether the items there are some that may be, [n]."""
        listed = self.listed
        return np.asarray((listed != EMPTY) & self.may[listed])

    def probabilities(self, prefix: FloatArray, slot: FloatArray) -> ListProbabilities:
        """Chances of the whole list, from those of the slots that are filled, each [n]."""
        k = len(self.shown)
        if len(self.slots) == k:
            return ListProbabilities(prefix, slot)
        before = np.searchsorted(self.slots, np.arange(k), side="right")
        right = self.right.astype(np.float64)
        whole = np.concatenate([np.ones(1), prefix])[before] * np.multiply.accumulate(right)
        right[self.slots] = slot
        return ListProbabilities(whole, right)


def uniform(planned: PlannedList) -> ListProbabilities:
    """Every list that fills the planned is equally likely."""
    fine = planned.fine.astype(np.float64)
    drawn = np.multiply.accumulate(fine / (planned.count - np.arange(len(fine))))
    return planned.probabilities(drawn, fine / max(planned.count, 1))


def any_length(planned: PlannedList) -> ListProbabilities:
    """As `even`, and then cut to a length uniform on 0 … the slots that are not empty; pinned items stay."""
    n, total = len(planned.slots), len(planned.slots) + planned.held
    lengths = total + 1
    longer = total - planned.slots  # how many of the lengths leave slot i of the planned in the list
    there, fine = planned.listed != EMPTY, planned.fine.astype(np.float64)
    drawn = np.multiply.accumulate(fine / (planned.count - np.arange(n)))
    prefix = drawn * longer / lengths
    if not there.all():
        cut = int(np.argmin(there))  # the first that is empty: the length fell between the slot before and this one
        just = (longer[cut - 1] if cut else lengths) - longer[cut]
        gone = np.logical_and.accumulate(~there[cut:])
        prefix[cut:] = gone * (drawn[cut - 1] if cut else 1.0) * just / lengths
    slot = np.where(there, fine * longer / max(planned.count, 1), lengths - longer) / lengths
    return planned.probabilities(prefix, slot)


def ranked(planned: PlannedList, start: IntArray, size: IntArray, bias: FloatArray | None = None) -> ListProbabilities:
    """Items in order of their scores, equal ones in random order, into slots in order of bias, equal ones alike.

    Args:
        planned: the list.
        start: [n] how many items have a larger score than that of each slot.
        size: [n] how many have the same, itself among them; 0 where it is none that may be.
        bias: [n] of the slots, where they are not filled from the top.
    """
    n = len(planned.slots)
    first, width = (np.arange(n), np.ones(n, dtype=np.int64)) if bias is None else tied_ranks(bias)
    prefix, slot = np.empty((2, n))
    pairing(start, size, first, width, prefix, slot)
    return planned.probabilities(prefix, slot)


def by_scores(planned: PlannedList, scores: FloatArray, bias: FloatArray | None = None) -> ListProbabilities:
    """As `ranked`, by the scores [L] of all items."""
    start, size = np.empty((2, len(planned.slots)), dtype=np.int64)
    count_larger_equal(scores, planned.may, planned.listed, start, size)
    return ranked(planned, start, size, bias)


def by_lines(planned: PlannedList, level: FloatArray, slope: FloatArray) -> ListProbabilities:
    """The highest lines level + slope·Z, each [L], at one standard normal Z, equal ones in random order."""
    prefix, slot = np.empty((2, len(planned.slots)))
    heights(level, slope, planned.may, planned.listed, prefix, slot)
    return planned.probabilities(prefix, slot)


def point_mass(shown: IntArray, other: IntArray) -> ListProbabilities:
    """Of one list where the other, each [k], is shown for certain."""
    equal = shown == other
    if equal.all():
        return CERTAIN
    return ListProbabilities(np.logical_and.accumulate(equal).astype(np.float64), equal.astype(np.float64))


def mixture(chance: float, one: ListProbabilities, other: ListProbabilities) -> ListProbabilities:
    """One with this probability, or else the other."""
    rest = 1.0 - chance
    return ListProbabilities(chance * one.prefix + rest * other.prefix, chance * one.slot + rest * other.slot)
