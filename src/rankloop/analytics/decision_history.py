"""The history of one decision: the list, the explanation of each slot, and the feedback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import asdict

from rankloop.analytics.list_value import UNITS, is_binary
from rankloop.eventlog.events import (
    DecisionMade,
    EventFollower,
    FeedbackReceived,
    Impression,
    LogEvent,
    Withdrawn,
)
from rankloop.eventlog.outcome_rule import OutcomeRule
from rankloop.schema import PropensityAnswer, RankedItem, RankerSettings
from rankloop.schema.feedback_event import visible_slots
from rankloop.types import EMPTY, FloatArray


@dataclass(frozen=True, slots=True)
class ExplainedSlot:
    """One slot of a list, and why the item was ranked there."""

    slot: int
    item: str | None
    rule: str | None
    score: float | None
    estimate: float | None
    uncertainty: float | None
    prior_share: float | None
    exploration_share: float | None
    features: list[float] | None
    reason: str


@dataclass(frozen=True, slots=True)
class DecisionEvent:
    """A feedback event, the impression or the withdrawal of a decision."""

    time: float
    kind: str  # feedback, impression or withdrawn
    event: str | None = None
    outcome: list[float] | None = None
    final: bool = False
    seen: list[int] | None = None  # slots that were visible; None if the event does not say it
    of_kind: str | None = None  # kind of the feedback, such as click


@dataclass(frozen=True, slots=True)
class DecisionHistory:
    """A decision with explanations and feedback."""

    decision: str
    number: int
    time: float
    segment: str
    visitor: str | None
    group: str
    policy: str
    version: str
    seed: int
    state: str  # open, settled, withdrawn or closed
    context: list[float] | None
    candidates: list[str] | None  # if the request restricted them
    slots: list[ExplainedSlot]
    proposed: list[str] | None  # the policy's list, if the control ranking was shown instead
    events: list[DecisionEvent]
    summary: str
    propensity: PropensityAnswer | None = None
    position: int = 0  # log position of the state from which the decision was made
    config: int = 0  # version of the configuration
    numerics: str = ""  # versions of everything that can change the last bits
    erased: bool = False  # what identified the visitor was erased
    excluded: list[str] | None = None  # items that could not be listed, if the request named no candidates
    objective: str = "any-click"  # in which lists are valued
    unit: str = ""  # of the value
    value: float | None = None  # of the list in the objective; None while it is open, and where nothing was learned


class _ToEvent(EventFollower[DecisionEvent]):
    """Converts log events that concern a decision after it was made; others become None."""

    def on_feedback(self, record: FeedbackReceived) -> DecisionEvent:
        """Return the feedback event."""
        seen = None if record.seen is None else list(visible_slots(record.seen))
        about = record.event or None, record.outcome.tolist(), record.final, seen, record.of_kind
        return DecisionEvent(record.time, "feedback", *about)

    def on_impression(self, record: Impression) -> DecisionEvent:
        """Return the impression."""
        return DecisionEvent(record.time, "impression")

    def on_withdrawn(self, record: Withdrawn) -> DecisionEvent:
        """Return the withdrawal."""
        return DecisionEvent(record.time, "withdrawn")


TO_EVENT = _ToEvent()


Worth = Callable[[Sequence[DecisionEvent]], float | None]
"""Returns the value of a list that is not open any more, from the events of its decision."""


def history(
    records: Sequence[LogEvent],
    shown: DecisionMade,
    ids: Sequence[str],
    listed: Sequence[RankedItem],
    *,
    is_open: bool,
    objective: str,
    worth: Worth,
) -> DecisionHistory:
    """Describe a decision and the events that concern it.

    Args:
        records: all events of the decision, in log order.
        shown: the decision itself.
        ids: the item of each column.
        listed: the items of the list with their explanations.
        is_open: whether feedback may still settle it.
        objective: in which lists are valued.
        worth: returns the value of the list, given its events.
    """
    events = [event for record in records if (event := TO_EVENT.handle(record)) is not None]
    state = "open" if is_open else "closed"
    if not is_open and events:
        state = "settled" if any(event.kind == "feedback" for event in events) else "closed"
        state = "withdrawn" if any(event.kind == "withdrawn" for event in events) and state == "closed" else state
    value = None if is_open else worth(events)
    candidates = shown.candidate_columns()
    return DecisionHistory(
        decision=shown.id,
        number=shown.number,
        time=shown.time,
        segment=shown.segment,
        visitor=shown.visitor,
        group=shown.group,
        policy=shown.policy,
        version=shown.version,
        seed=shown.seed,
        state=state,
        context=None if shown.context is None else shown.context.tolist(),
        candidates=None if candidates is None else [ids[at] for at in candidates.tolist() if at < len(ids)],
        excluded=None if shown.excluded is None else [ids[at] for at in shown.excluded.tolist()],
        slots=_slots(shown, listed),
        proposed=None if shown.proposed is None else [ids[at] for at in shown.proposed.tolist() if at != EMPTY],
        events=events,
        summary=_summary(shown, events, state) + _worth(objective, value),
        propensity=None if shown.propensity is None else shown.propensity.answer(),
        position=shown.position,
        config=shown.config,
        numerics=shown.numerics,
        erased=shown.erased,
        objective=objective,
        unit=UNITS[objective],
        value=value,
    )


def settled_list(
    events: Sequence[DecisionEvent], shown: DecisionMade, settings: RankerSettings
) -> tuple[DecisionMade, FloatArray] | None:
    """Return a closed decision as it was seen, and the outcome [k] with which it was settled; None if with none.

    Feedback that came after the window had ended, by the times in the log, does not count.
    """
    rule, counted = OutcomeRule.of(settings), list[DecisionEvent]()
    since = next((event.time for event in events), None) if settings.activation == "impression" else shown.time
    if since is None:  # it was never shown
        return None
    for event in events:
        if event.kind == "withdrawn":
            break
        if event.outcome is not None and event.time <= since + settings.window:
            counted.append(event)
            if event.final or (rule is None and settings.aggregate == "earliest"):
                break
    if not counted and (any(event.kind != "impression" for event in events) or settings.on_close == "ignore"):
        return None
    outcome = _outcome(counted, len(shown.items), rule, since)
    if outcome is None:
        return None if settings.on_close == "ignore" else (shown, np.zeros(len(shown.items)))
    stated = [event.seen for event in counted if event.seen is not None]
    if not stated:
        return shown, outcome
    visible = outcome != 0.0
    visible[[slot for seen in stated for slot in seen]] = True
    return shown.as_seen(visible), outcome


def _outcome(counted: Sequence[DecisionEvent], slots: int, rule: OutcomeRule | None, since: float) -> FloatArray | None:
    """Return the outcome [k] of some feedback; None if none of it is of a kind that is learned."""
    if rule is None:
        outcomes = np.array([event.outcome for event in counted], dtype=np.float64)
        return np.asarray(outcomes.reshape(len(counted), slots).sum(axis=0))
    combined: FloatArray | None = None
    for event in counted:
        kind = rule.number(event.of_kind or "")
        if kind is not None and rule.in_time(kind, event.time - since):
            combined = rule.added(combined, kind, np.array(event.outcome, dtype=np.float64))
    return None if combined is None else rule.outcome(combined)


def _worth(objective: str, value: float | None) -> str:
    """Return what a list was worth, as a sentence, unless its clicks say it."""
    return "" if value is None or is_binary(objective) else f" Its value is {value:.6g} ({UNITS[objective]})."


def _slots(shown: DecisionMade, listed: Sequence[RankedItem]) -> list[ExplainedSlot]:
    remaining = iter(listed)
    slots = []
    for slot, column in enumerate(shown.items.tolist()):
        if column == EMPTY:
            slots.append(ExplainedSlot(slot, None, None, None, None, None, None, None, None, "The slot was empty."))
            continue
        one = next(remaining)
        features = None if shown.x is None else shown.x[slot].tolist()
        slots.append(ExplainedSlot(slot, **asdict(one), features=features, reason=explain_slot(one)))
    return slots


def explain_slot(one: RankedItem) -> str:
    """Return in one sentence why an item was ranked in its slot."""
    if one.rule == "control":
        return (
            "The visitor is in the control group and sees the control ranking: the caller's order or the default order."
        )
    if one.rule == "pinned":
        return "The request pinned the item to this slot."
    if one.rule == "random":
        return "The item was drawn at random."
    if one.estimate is None:
        return (
            "It had the best remaining score."
            if one.score is None
            else f"Its score {one.score:.3g} was the best remaining."
        )
    text = f"Its estimate is {one.estimate:.3g}"
    if one.uncertainty is not None:
        text += f" ± {one.uncertainty:.2g}"
    if one.score is None:
        text += "; it had never been shown, so it was explored first"
    elif one.exploration_share is not None:
        added = one.score - one.estimate
        text += f"; exploration {'added' if added >= 0 else 'subtracted'} {abs(added):.2g}, "
        text += f"and its score {one.score:.3g} was the best remaining"
    if one.prior_share is not None:
        text += (
            f". {one.prior_share:.0%} of the prior uncertainty remains"
            if one.prior_share < 1
            else ". The estimate is still the prior"
        )
    return f"{text}."


def _summary(shown: DecisionMade, events: Sequence[DecisionEvent], state: str) -> str:
    length = int((shown.items != EMPTY).sum())
    ranked_by = "the control ranking" if shown.group == "control" else shown.policy
    text = f"Decision {shown.number}: {length} item{'' if length == 1 else 's'}, ranked by {ranked_by}."
    if shown.erased:
        text += " Its visitor was erased."
    feedback = [event for event in events if event.outcome is not None]
    if state == "open" and not feedback:
        return f"{text} The decision is open: no feedback yet."
    if state == "withdrawn":
        return f"{text} It was withdrawn, and nothing was learned from it."
    if not feedback:
        return f"{text} Its window closed without feedback."
    clicked = [slot for slot, value in enumerate(feedback[0].outcome or ()) if value]
    slots = "nothing" if not clicked else "slot " + ", ".join(map(str, clicked))
    delay = feedback[0].time - shown.time
    text = f"{text} {delay:.1f} s later the visitor clicked {slots}."
    seen = feedback[0].seen
    return text if seen is None else f"{text} Visible slots: {', '.join(map(str, seen)) or 'none'}."
