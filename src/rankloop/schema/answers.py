"""What a ranker answers, in process and over HTTP alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field

from rankloop.errors import Quarantined


class RankedItem(Struct, frozen=True, gc=False):
    """One place of a list, and why this item stands there.

    `score` is what the place was given for: `estimate` plus what exploring added. `uncertainty` is one standard
    deviation of the estimate; `prior_share` how much of it is still what was believed before the first click;
    `exploration_share` how much of the score is exploring.
    None where a policy has no such number.
    """

    item: str
    rule: str  # ranked, pinned, random, or control: the caller's order, or the default order
    score: float | None = None
    estimate: float | None = None
    uncertainty: float | None = None
    prior_share: float | None = None
    exploration_share: float | None = None


class PropensityAnswer(Struct, frozen=True, omit_defaults=True):
    """Probabilities of a list under its policy and state.

    `deterministic`: no other list was possible, all of them are 1 and are not written down. `exact`: computed, without
    errors. `monte-carlo`: counted in so many draws, with standard errors.
    """

    kind: str
    draws: int
    list: float | None = None  # that the whole list is shown
    prefix: tuple[float, ...] | None = None  # that it begins like this, to each slot
    slot: tuple[float, ...] | None = None  # that each slot shows what it shows
    list_error: float | None = None
    prefix_error: tuple[float, ...] | None = None
    slot_error: tuple[float, ...] | None = None


class RankAnswer(Struct, frozen=True):
    """A decided list."""

    id: str = field(name="decision")
    segment: str
    policy: str
    group: str  # treatment, or control: the caller's own order, or the default order
    items: tuple[RankedItem, ...]
    propensity: PropensityAnswer | None = None
    ignored: tuple[str, ...] = ()  # ids of the request that said nothing: of no item, or of one that may not be listed

    @property
    def ids(self) -> tuple[str, ...]:
        """The items in order."""
        return tuple(listed.item for listed in self.items)


class Receipt(Struct, frozen=True, gc=False):
    """What became of feedback.

    `learned`; `counted`: a list of the control group that teaches nothing; `kept`: waits for the window; `late`;
    `duplicate`; or `withdrawn`.
    """

    decision: str
    status: str


class BulkAnswer(Struct, frozen=True):
    """What became of one of many: its receipt, or why it was refused."""

    decision: str
    status: str
    problem: str | None = None


class BulkAnswers(Struct, frozen=True):
    """In the order of the events."""

    results: list[BulkAnswer]


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Lists of the policy, or of the control group."""

    lists: int
    settled: int  # their outcome is known
    clicked: int
    click_through: float | None  # clicked of settled
    low: float | None  # a 95 % interval
    high: float | None
    value: float
    regret: float | None  # lost against the best list, over all lists where that is known
    regret_lists: int  # how many those are
    exploration_share: float | None
    explored: int  # lists that exploring changed, where that was looked at


@dataclass(frozen=True, slots=True)
class Lift:
    """Click-through of the policy beside the control group's: the difference with a 95 % interval."""

    difference: float
    low: float
    high: float
    share: float | None  # the difference as a share of control's
    better: float  # probability that the policy is better


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Where and why a ranker was set aside: it answers no more, and all others do."""

    position: int  # of the event that could not be applied
    reason: str

    def error(self) -> Quarantined:
        """The error of every request to this ranker."""
        return Quarantined(f"the ranker is quarantined at log position {self.position}: {self.reason}.")


class RankerAnswer(Struct, frozen=True):
    """A ranker, how far it is, and how it does."""

    name: str
    config: dict[str, Any]
    items: int
    segments: int
    decisions: int
    open_decisions: int
    position: int
    guardrail_tripped: str | None = None  # why the guard fell back to the control order, if it did
    groups: dict[str, GroupSummary] = {}
    lift: Lift | None = None
    version: int = 0  # of the configuration
    quarantine: Quarantine | None = None  # where and why it was set aside, if it was


class RankersAnswer(Struct, frozen=True):
    """All rankers."""

    rankers: list[RankerAnswer]


class Problem(Struct, frozen=True, omit_defaults=True):
    """What went wrong (RFC 9457), with all that makes the same error of it at the other end."""

    title: str
    status: int
    detail: str
    field: str | None = None  # dotted name of what was wrong
    type: str = "about:blank"
    kind: str | None = None  # the class of the error
    given: str | None = None  # the value that was wrong, shortened
    accepted: str | None = None  # what would have been fine
    meant: str | None = None  # the name that was probably meant
