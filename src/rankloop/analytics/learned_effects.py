"""What a policy has learned besides its items: what its slots are worth, and how far it trusts the caller's scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rankloop.analytics.intervals import NORMAL_95
from rankloop.analytics.ranker_state import RankerState

MISLEADING_TRUST = 0.25
"""Scores mislead if the 95 % interval of their coefficient lies below this: less than a quarter of what they claim."""


@dataclass(frozen=True, slots=True)
class SlotWorth:
    """The learned position bias of a slot, relative to slot 0, with a 95 % interval."""

    slot: int
    effect: float
    low: float | None  # None where the slots cannot be compared yet
    high: float | None


@dataclass(frozen=True, slots=True)
class TrustSummary:
    """The coefficient of the caller's scores with a 95 % interval: 1 is full trust, 0 none, negative the reverse."""

    mean: float
    low: float
    high: float
    misleading: bool  # the whole interval is below `MISLEADING_TRUST`


def slot_worths(state: RankerState, segment: str) -> list[SlotWorth]:
    """Return what the learner of a segment knows about the slots; nothing if its policy learns no position bias."""
    learners = state.learners
    effects = learners.policy.slot_effects(learners.of(segment))
    if effects is None:
        return []
    columns = (effects.mean[0].tolist(), effects.low[0].tolist(), effects.high[0].tolist())
    return [
        SlotWorth(slot, effect, _finite(low), _finite(high))
        for slot, (effect, low, high) in enumerate(zip(*columns, strict=True))
    ]


def score_trust(state: RankerState, segment: str) -> TrustSummary | None:
    """Return how far the learner of a segment trusts the caller's scores; None if its policy does not weigh them."""
    learners = state.learners
    trust = learners.policy.score_trust(learners.of(segment))
    if trust is None:
        return None
    mean, half = float(trust.mean[0]), NORMAL_95 * float(trust.deviation[0])
    if not math.isfinite(mean + half):
        return None
    return TrustSummary(mean, mean - half, mean + half, mean + half < MISLEADING_TRUST)


def busiest_segment(state: RankerState) -> str:
    """Return the segment that has learned from most rounds; the one without a name if there is none."""
    learners = state.learners
    return max(learners.segments, key=lambda segment: int(learners.of(segment).t[0]), default="")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
