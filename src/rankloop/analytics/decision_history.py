"""One decision, looked up: what was shown and why, and what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import asdict

from rankloop.eventlog.events import DecisionMade, EventFollower, FeedbackReceived, LogEvent, Withdrawn
from rankloop.schema import PropensityAnswer, RankedItem
from rankloop.types import EMPTY


@dataclass(frozen=True, slots=True)
class ExplainedSlot:
    """One slot of a list, and why this item stood there."""

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
    """What happened to a list."""

    time: float
    kind: str  # feedback or withdrawn
    event: str | None = None
    outcome: list[float] | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class DecisionHistory:
    """What was shown and why, and what happened."""

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
    candidates: list[str] | None  # where the caller said which
    slots: list[ExplainedSlot]
    proposed: list[str] | None  # what the policy would have shown instead
    events: list[DecisionEvent]
    summary: str
    propensity: PropensityAnswer | None = None
    position: int = 0  # in the log, of the state that it was made from
    config: int = 0  # version of the configuration
    numerics: str = ""  # what can change a last bit of it


class _ToEvent(EventFollower[DecisionEvent]):
    """Makes an event of a record that says what happened to a list; of another, nothing."""

    def on_feedback(self, record: FeedbackReceived) -> DecisionEvent:
        """Feedback."""
        return DecisionEvent(record.time, "feedback", record.event or None, record.outcome.tolist(), record.final)

    def on_withdrawn(self, record: Withdrawn) -> DecisionEvent:
        """The list was never shown."""
        return DecisionEvent(record.time, "withdrawn")


TO_EVENT = _ToEvent()


def history(
    records: Sequence[LogEvent],
    shown: DecisionMade,
    ids: Sequence[str],
    listed: Sequence[RankedItem],
    *,
    is_open: bool,
) -> DecisionHistory:
    """Describe a decision and the events that concern it.

    Args:
        records: all events of the decision, in log order.
        shown: the decision itself.
        ids: the item of each column.
        listed: the items of the list with their explanations.
        is_open: whether feedback may still settle it.
    """
    events = [event for record in records if (event := record.dispatch(TO_EVENT)) is not None]
    state = "open" if is_open else "closed"
    if not is_open and events:
        state = "withdrawn" if events[0].kind == "withdrawn" else "settled"
    allowed = None if shown.allowed is None else np.flatnonzero(np.unpackbits(shown.allowed)[: len(ids)])
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
        candidates=None if allowed is None else [ids[at] for at in allowed.tolist()],
        slots=_slots(shown, listed),
        proposed=None if shown.proposed is None else [ids[at] for at in shown.proposed.tolist() if at != EMPTY],
        events=events,
        summary=_summary(shown, events, state),
        propensity=None if shown.propensity is None else shown.propensity.answer(),
        position=shown.position,
        config=shown.config,
        numerics=shown.numerics,
    )


def _slots(shown: DecisionMade, places: Sequence[RankedItem]) -> list[ExplainedSlot]:
    left = iter(places)
    slots = []
    for slot, column in enumerate(shown.items.tolist()):
        if column == EMPTY:
            slots.append(ExplainedSlot(slot, None, None, None, None, None, None, None, None, "Nothing stood here."))
            continue
        one = next(left)
        features = None if shown.x is None else shown.x[slot].tolist()
        slots.append(ExplainedSlot(slot, **asdict(one), features=features, reason=explain_slot(one)))
    return slots


def explain_slot(one: RankedItem) -> str:
    """Why an item stands where it stands, in a sentence."""
    if one.rule == "control":
        return "This visitor sees the control ranking: the caller's order, or the default order."
    if one.rule == "pinned":
        return "It was pinned to this slot."
    if one.rule == "random":
        return "It was drawn at random."
    if one.estimate is None:
        return "It had the best score left." if one.score is None else f"Its score {one.score:.3g} was the best left."
    words = f"It is believed to be worth {one.estimate:.3g}"
    if one.uncertainty is not None:
        words += f" ± {one.uncertainty:.2g}"
    if one.score is None:
        words += "; nobody had seen it, so it had to be tried"
    elif one.exploration_share is not None:
        added = one.score - one.estimate
        words += f"; exploring {'added' if added >= 0 else 'took'} {abs(added):.2g}, which made {one.score:.3g}"
        words += ", the best score left"
    if one.prior_share is not None:
        words += (
            f". {one.prior_share:.0%} of the uncertainty of the start is left"
            if one.prior_share < 1
            else (". Nothing is known of it but the prior")
        )
    return f"{words}."


def _summary(shown: DecisionMade, events: Sequence[DecisionEvent], state: str) -> str:
    length = int((shown.items != EMPTY).sum())
    who = "the control ranking" if shown.group == "control" else f"{shown.policy}"
    words = f"Decision {shown.number}: {length} item{'' if length == 1 else 's'}, by {who}."
    told = [event for event in events if event.outcome is not None]
    if state == "open" and not told:
        return f"{words} Its feedback may still come."
    if state == "withdrawn":
        return f"{words} It was withdrawn: never shown, and nothing was learned from it."
    if not told:
        return f"{words} No feedback came before its window closed."
    clicked = [slot for slot, value in enumerate(told[0].outcome or ()) if value]
    where = "nothing" if not clicked else "slot " + ", ".join(map(str, clicked))
    lag = told[0].time - shown.time
    return f"{words} {lag:.1f} s later the visitor clicked {where}."
