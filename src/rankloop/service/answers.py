"""Answers that only the service gives; all others are in `rankloop.schema`."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType

from rankloop.analytics.estimates import ItemEstimate
from rankloop.analytics.learned_effects import SlotWorth, TrustSummary
from rankloop.analytics.overview import ItemSlotCounts, Overview


class RankerChanges(Struct):
    """Body of a PATCH request; the OpenAPI document derives its fields from the settings of a ranker."""


class OverviewAnswer(Struct):
    """Counts and results of a ranker over time."""

    ranker: str
    overview: Overview


class SegmentsAnswer(Struct):
    """The segments that have a learner; the empty name is the segment of requests that name none."""

    ranker: str
    segments: list[str]


class ReportAnswer(Struct):
    """Counts and results of a ranker over time, and one page of its items."""

    ranker: str
    segment: str
    overview: Overview
    items: list[ItemEstimate]
    total: int
    slot_worths: list[SlotWorth] = []  # learned position biases; empty if the policy learns none
    score_trust: TrustSummary | None = None  # how far the caller's scores are trusted; None if they are not weighed


class SlotCountsAnswer(Struct):
    """How often items were shown and clicked in each slot, in treatment and in control."""

    ranker: str
    items: list[ItemSlotCounts]


class HealthAnswer(Struct):
    """Confirmation that the process responds."""

    status: str


class QuarantinedRanker(Struct):
    """A ranker whose log cannot be replayed."""

    ranker: str
    position: int
    reason: str


class ReadinessAnswer(Struct):
    """Confirmation that the log can be used, and the quarantined rankers."""

    status: str
    quarantined: list[QuarantinedRanker]
    lag: float | UnsetType = UNSET  # seconds since this process knew all of the log, if several processes share it
    leads: bool | UnsetType = UNSET  # whether this one closes windows and stores snapshots, if several share the log
