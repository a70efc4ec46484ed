"""Answers of a ranker, the same in process and over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from rankloop.errors import Quarantined
from rankloop.schema.feature_settings import FeatureSettings


class RankedItem(Struct, frozen=True, gc=False):
    """One slot of a list: the item, and the numbers that put it there.

    `score` is the number that was ranked: `estimate` plus an exploration bonus or draw. `uncertainty` is one standard
    deviation of the estimate. `prior_share` is the fraction of the estimate that is still the prior's, and
    `exploration_share` the fraction of the score that is exploration. A number is None if the policy has no such
    number.
    """

    item: str
    rule: str  # ranked, pinned, random, or control (the caller's order or the default order)
    score: float | None = None
    estimate: float | None = None
    uncertainty: float | None = None
    prior_share: float | None = None
    exploration_share: float | None = None


class PropensityAnswer(Struct, frozen=True, omit_defaults=True):
    """Probabilities of a list under its policy and state (its propensity).

    `kind` is `deterministic` (no other list was possible; all probabilities are 1 and are omitted), `exact` (computed
    in closed form) or `monte-carlo` (estimated from `draws` draws, with standard errors).
    """

    kind: str
    draws: int
    list: float | None = None  # probability of the whole list
    prefix: tuple[float, ...] | None = None  # probability of the list up to each slot
    slot: tuple[float, ...] | None = None  # probability that each slot shows its item
    list_error: float | None = None
    prefix_error: tuple[float, ...] | None = None
    slot_error: tuple[float, ...] | None = None


class RankAnswer(Struct, frozen=True):
    """A decided list."""

    id: str = field(name="decision")
    segment: str
    policy: str
    group: str  # treatment, or control (the caller's order or the default order)
    items: tuple[RankedItem, ...]
    propensity: PropensityAnswer | None = None
    ignored: tuple[str, ...] = ()  # ids of the request without an item that may be listed
    unknown_fields: tuple[str, ...] = ()  # context.name or items.name: fields that the ranker does not use
    approximate: bool = False  # caps were kept greedily, so that a better list may exist
    position: int | UnsetType = UNSET  # log position of the state that decided, if several processes share the log
    lag: float | UnsetType = UNSET  # seconds since the process knew all of the log, if several processes share it

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids of the items in order."""
        return tuple(listed.item for listed in self.items)


class BatchAnswer(Struct, frozen=True):
    """The list of one request of a batch, or the reason why it was refused."""

    status: str  # ranked, refused, or unavailable: to be repeated later
    list: RankAnswer | None = None
    problem: str | None = None


class BatchAnswers(Struct, frozen=True):
    """Answers to a batch of requests, in their order."""

    results: list[BatchAnswer]


class Receipt(Struct, frozen=True, gc=False):
    """Status of a feedback event.

    `learned`; `amended` (added to what was learned from the list before); `counted` (it changes nothing that is
    learned); `ignored` (the policy does not learn from the control group, or cannot add this event to what it has
    learned); `pending` (until the feedback window closes); `activated` (an impression); `late`; `duplicate`; or
    `withdrawn`.
    """

    decision: str
    status: str
    position: int | UnsetType = UNSET  # in the log, if several processes share it: see `after` of a rank request


class BulkAnswer(Struct, frozen=True):
    """Status of one event of a bulk request, or the reason why it was refused."""

    decision: str
    status: str
    problem: str | None = None


class BulkAnswers(Struct, frozen=True):
    """Answers to a bulk request, in the order of the events."""

    results: list[BulkAnswer]


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Results of one A/B group: treatment or control."""

    lists: int
    settled: int  # decisions whose outcome is known
    clicked: int
    click_through: float | None  # clicked / settled
    low: float | None  # 95 % interval of the click-through
    high: float | None
    value: float  # summed over the settled lists, in the unit of the ranker's objective
    value_per_list: float | None  # value / settled
    value_low: float | None  # 95 % interval of the value per list
    value_high: float | None
    value_squares: float  # summed squares of the values, from which intervals of merged groups follow
    regret: float | None  # mean value lost compared with the best list, where that is known
    regret_lists: int  # decisions with a known regret
    exploration_share: float | None
    explored: int  # lists that exploration changed, among those where this was determined


@dataclass(frozen=True, slots=True)
class Lift:
    """Difference of the value per list between treatment and control, in the objective, with a 95 % interval."""

    difference: float
    low: float
    high: float
    share: float | None  # the difference as a fraction of control's value per list, by its absolute value
    better: float  # probability that treatment is better


@dataclass(frozen=True, slots=True)
class KindGroup:
    """Feedback of one kind for the lists of one A/B group."""

    events: int  # that came in time
    lists: int  # with such an event
    value: float  # summed over all lists, as the kind combines the values of one list
    value_per_list: float | None  # value / lists that were shown
    low: float | None  # 95 % interval of the value per list
    high: float | None


@dataclass(frozen=True, slots=True)
class KindSummary:
    """Feedback of one kind, such as purchases; it is counted as it comes, also for lists that are still open."""

    kind: str
    treatment: KindGroup
    control: KindGroup
    lift: Lift | None  # of the value per list
    late: int  # events that came too late to count
    late_value: float  # their summed values


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Position and reason for which a ranker is quarantined: it refuses all requests; other rankers keep serving."""

    position: int  # of the log event that could not be applied
    reason: str

    def error(self) -> Quarantined:
        """Return the error of every request to this ranker."""
        return Quarantined(f"the ranker is quarantined at log position {self.position}: {self.reason}.")


class FeaturesAnswer(Struct, frozen=True):
    """What a ranker does with the fields of items and contexts."""

    settings: FeatureSettings | None  # those in force, None before they were inferred
    width: int  # numbers of an item's row
    context_width: int | None  # numbers of a context's row, None if fields of contexts have no effect
    covariance: str  # full, or diagonal where rows are sparse
    note: str | None = None  # what else is to be known, in one sentence
    rebuilding: bool = False  # the log is being learned again under other features
    problem: str | None = None  # why the last change of features failed


class RankerAnswer(Struct, frozen=True):
    """A ranker: its settings, counts and results."""

    name: str
    config: dict[str, Any]
    items: int
    segments: int
    decisions: int
    open_decisions: int
    position: int
    guardrail_tripped: str | None = None  # reason why the guardrail fell back to control, if it did
    groups: dict[str, GroupSummary] = {}
    lift: Lift | None = None
    version: int = 0  # of the configuration
    quarantine: Quarantine | None = None
    state_bytes: int = 0  # memory of the state, that of a challenger included
    objective: str = ""  # in which lists are valued: that of the settings, or net-reward
    unit: str = ""  # of the values
    features: FeaturesAnswer | None = None  # None without the setting `features`
    kinds: list[KindSummary] = []  # of feedback, if the ranker declares some


class RankersAnswer(Struct, frozen=True):
    """All rankers."""

    rankers: list[RankerAnswer]


class Problem(Struct, frozen=True, omit_defaults=True):
    """An error (RFC 9457), with everything a client needs to raise the same exception."""

    title: str
    status: int
    detail: str
    field: str | None = None  # dotted name of the invalid field
    type: str = "about:blank"
    kind: str | None = None  # class of the exception
    given: str | None = None  # invalid value, shortened
    accepted: str | None = None  # accepted values in words
    meant: str | None = None  # existing name that is close to the unknown one
