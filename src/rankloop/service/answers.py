"""Answers that only the service gives, as they stand in the OpenAPI document; all others are in `rankloop.schema`."""

from __future__ import annotations

from msgspec import Struct

from rankloop.analytics.estimates import ItemEstimate
from rankloop.analytics.overview import ItemSlotCounts, Overview


class RankerChanges(Struct):
    """Some of a ranker's settings; the OpenAPI document says which, as those of a ranker."""


class OverviewAnswer(Struct):
    """How a ranker does, at a glance."""

    ranker: str
    overview: Overview


class SegmentsAnswer(Struct):
    """The segments that have a learner; the one without a name is asked for where none is said."""

    ranker: str
    segments: list[str]


class ReportAnswer(Struct):
    """How a ranker does: at a glance, and its items."""

    ranker: str
    segment: str
    overview: Overview
    items: list[ItemEstimate]
    total: int


class SlotCountsAnswer(Struct):
    """How often items stood in each place, in lists of the policy and of control."""

    ranker: str
    items: list[ItemSlotCounts]


class HealthAnswer(Struct):
    """Whether it is well."""

    status: str


class QuarantinedRanker(Struct):
    """A ranker whose log cannot be replayed."""

    ranker: str
    position: int
    reason: str


class ReadinessAnswer(Struct):
    """Whether it can work, and which rankers cannot."""

    status: str
    quarantined: list[QuarantinedRanker]
