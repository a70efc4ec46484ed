"""The items that a list may need, where it would cost too much to score all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rankloop.types import BoolArray, FloatArray, IntArray, Rows

MIN_ITEMS = 1_000
"""Number of candidates from which it pays to look for a shortlist."""


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Some candidates with their scores; every other one that is allowed scores less than the k-th largest of them."""

    items: IntArray  # [B, n], candidates of the request
    scores: FloatArray  # [B, n], -inf where an item is not allowed
    ordered: bool = False  # the scores fall, and no two are equal
    unlisted: int = 0  # number of other candidates whose score is that of the last item, which is one of them by chance


@dataclass(frozen=True, slots=True)
class Search:
    """Which scores a shortlist must hold."""

    rows: Callable[[], Rows]  # makes the rows of all candidates
    needed: int  # how many of the largest scores, at most the number of candidates
    allowed: BoolArray | None = None  # [L] or [B, L]; None: every candidate
