"""The items that a list may need, where it would cost too much to score all of them."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Some candidates with their scores; every other candidate scores less than the k-th largest of them."""

    items: IntArray  # [B, n], candidates of the request
    scores: FloatArray  # [B, n]
    ordered: bool = False  # the scores fall, and no two are equal
