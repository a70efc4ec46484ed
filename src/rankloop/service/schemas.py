"""Bodies of requests and answers, as they stand in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from rankloop.engine.estimates import Estimate
from rankloop.engine.items import ID_LENGTH
from rankloop.engine.limits import MAX_AMOUNT, MAX_MAGNITUDE, MAX_POSITION
from rankloop.engine.quarantine import Quarantine
from rankloop.engine.report import Arm, Lift, Overview, Places

Id = Annotated[str, Meta(min_length=1, max_length=ID_LENGTH)]
Number = Annotated[float, Meta(ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)]
Slot = Annotated[int, Meta(ge=0, le=999)]
Position = Annotated[float, Meta(ge=-MAX_POSITION, le=MAX_POSITION, description="in the default order, smaller first")]
Regret = Annotated[float, Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT, description="lost against the best list, where known")]


class Body(Struct, forbid_unknown_fields=True):
    """A request's body: fields that nobody knows are refused."""


class RankBody(Body):
    """Which list is asked for."""

    k: Annotated[int, Meta(ge=0, le=1000, description="how many items; default: the ranker's slots")] | None = None
    context: list[Number] | None = None
    budget: Annotated[int, Meta(ge=0, description="at most so many, where the policy chooses the length")] | None = None
    candidates: Annotated[list[Id], Meta(description="only these items; default: all enabled")] | None = None
    exclude: list[Id] = []
    pin: Annotated[dict[int, Id], Meta(description="slot, from 0, to the item that stands there")] = {}
    segment: Annotated[str, Meta(max_length=ID_LENGTH, description="whose learner decides")] = ""
    propensity: Annotated[int, Meta(ge=0, le=10_000, description="draws that estimate how likely the list was")] = 0
    order: Annotated[list[Id], Meta(description="your own order, which the control group sees")] | None = None
    visitor: Annotated[Id, Meta(description="who asks; the same one is always in the same group")] | None = None
    strict: Annotated[bool, Meta(description="refuse ids of no item; default: ignore them and say so")] = False
    decision: Annotated[Id, Meta(description="your id: the same request with it gets the same list")] | None = None


class FeedbackBody(Body):
    """What happened to a list: clicked slots, or items, or numbers; an empty list: seen, and nothing happened."""

    decision: Id
    clicked: list[Slot] | None = None
    items: list[Id] | None = None
    values: Annotated[list[Number], Meta(description="a number for each slot")] | None = None
    item_values: Annotated[dict[Id, Number], Meta(description="numbers by item of the list")] | None = None
    event: Annotated[Id, Meta(description="the same event twice counts once")] | None = None
    final: Annotated[bool, Meta(description="nothing more will come for this list")] = False
    regret: Regret | None = None


class BulkFeedbackBody(Body):
    """Feedback for many lists."""

    events: list[FeedbackBody]


class WithdrawBody(Body):
    """A list that was never shown."""

    decision: Id


class PriorBody(Body):
    """What another ranker says of an item: its mean outcome in the objective's units, worth so many observations."""

    score: Number
    strength: Annotated[float, Meta(ge=0, le=1e6)]


class ItemBody(Body):
    """An item, its id apart."""

    features: list[Number] | None = None
    price: Annotated[float, Meta(ge=0, le=MAX_AMOUNT)] = 0.0
    enabled: bool = True
    prior: PriorBody | None = None
    coverage: list[Annotated[float, Meta(ge=0, le=1)]] | None = None
    default_position: Position | None = None


class NamedItemBody(ItemBody, kw_only=True):
    """An item."""

    id: Id


class ItemsBody(Body):
    """Items to add or change: all of them, or none."""

    items: list[NamedItemBody]


class ListedAnswer(Struct):
    """One place of a list, and why this item stands there."""

    item: str
    rule: str
    score: float | None
    estimate: float | None
    uncertainty: float | None
    prior_share: float | None
    exploration_share: float | None


class RankAnswer(Struct):
    """A decided list."""

    decision: str
    segment: str
    policy: str
    arm: str  # policy, or control: your own order, or the default order
    items: list[ListedAnswer]
    propensity: dict[str, Any] | None = None
    ignored: list[str] = []  # ids of the request that said nothing: of no item, or of one that may not be listed


class ReceiptAnswer(Struct):
    """What became of feedback: learned, kept, late, duplicate or withdrawn."""

    decision: str
    status: str


class BulkAnswer(Struct):
    """What became of one of many: its receipt, or why it was refused."""

    decision: str
    status: str
    problem: str | None = None


class BulkAnswers(Struct):
    """In the order of the events."""

    results: list[BulkAnswer]


class ItemAnswer(Struct):
    """An item as it is now."""

    id: str
    features: list[float] | None
    price: float
    enabled: bool
    coverage: list[float] | None = None
    prior: dict[str, float] | None = None
    default_position: float | None = None


class ItemsAnswer(Struct):
    """Some items, and how many there are."""

    items: list[ItemAnswer]
    total: int


class RankerAnswer(Struct):
    """A ranker, how far it is, and how it does."""

    name: str
    config: dict[str, Any]
    items: int
    segments: int
    decisions: int
    pending: int
    position: int
    guarded: str | None = None  # why the guard fell back to the control order, if it did
    arms: dict[str, Arm] = {}
    lift: Lift | None = None
    version: int = 0  # of the configuration
    quarantine: Quarantine | None = None  # where and why it was set aside, if it was


class RankersAnswer(Struct):
    """All rankers."""

    rankers: list[RankerAnswer]


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
    items: list[Estimate]
    total: int


class PlacesAnswer(Struct):
    """How often items stood in each place, in lists of the policy and of control."""

    ranker: str
    items: list[Places]


class Health(Struct):
    """Whether it is well."""

    status: str


class SetAside(Struct):
    """A ranker whose log cannot be replayed."""

    ranker: str
    position: int
    reason: str


class Readiness(Struct):
    """Whether it can work, and which rankers cannot."""

    status: str
    quarantined: list[SetAside]
