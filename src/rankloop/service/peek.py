"""Looks into a ranker that the engine itself has no question for. Nothing is changed here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.engine import Item, Ranker
from rankloop.engine.inside import belief_of
from rankloop.engine.propensity import Propensity
from rankloop.engine.records import Happened, Shown, Withdrawn, decode
from rankloop.errors import InvalidInput
from rankloop.service.problems import Refused
from rankloop.service.schemas import DecisionAnswer, Estimate, Event, Slotted
from rankloop.types import EMPTY, FloatArray, Request

NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Open:
    """An open decision: when it was made, and whether something was told of it."""

    time: float
    answered: bool
    clicked: bool


def open_decision(ranker: Ranker, id: str) -> Open | None:
    """The decision, if its outcome is still open."""
    waiting = ranker._pending.get(id)
    if waiting is None:
        return None
    outcome = waiting.outcome
    return Open(waiting.shown.time, outcome is not None, outcome is not None and bool(outcome.any()))


def item(ranker: Ranker, id: str) -> Item:
    """One item; 404 where there is none."""
    with ranker._lock:
        try:
            return ranker._table.get(id)
        except InvalidInput:
            raise Refused(404, f"item {id!r} is not one of this ranker's.") from None


def counts(ranker: Ranker) -> dict[str, int]:
    """How large a ranker is, and how far."""
    table = ranker._table
    return {
        "items": len(table.ids) - len(table._removed),
        "segments": len(ranker._learners.segments),
        "decisions": ranker._decided,
        "pending": len(ranker._pending),
        "position": ranker.position,
    }


def room(ranker: Ranker, ids: list[str], most: int) -> None:
    """Refuse items for which there is no room: columns of removed items stay taken."""
    new = sum(id not in ranker._table.column for id in set(ids))
    if len(ranker._table.ids) + new > most:
        raise Refused(422, f"the ranker would have {len(ranker._table.ids) + new} items; accepted: at most {most}.")


def new_segment(ranker: Ranker, segment: str, most: int) -> None:
    """Refuse a segment for which there is no room."""
    segments = ranker._learners.segments
    if segment not in segments and len(segments) >= most:
        raise Refused(422, f"segment is a new one; accepted: the {most} that this ranker has.", field="segment")


def estimates(ranker: Ranker, segment: str) -> list[Estimate]:
    """What is believed of every item in the first slot, with an interval; nothing where the policy has no numbers."""
    with ranker._lock:
        learners, table = ranker._learners, ranker._table
        row = learners.segments.get(segment)
        if row is None and segment:
            raise Refused(404, f"segment {segment!r} is not one of this ranker's.")
        state: Any = learners.fresh if row is None else learners.view(row)
        inner, belief = belief_of(learners.policy, state)
        mean: FloatArray | None = None
        width: FloatArray | None = None
        if inner is not None and hasattr(belief, "mean"):
            context = None if ranker.config.context is None else np.zeros((1, ranker.config.context))
            request = Request(1, table.capacity, 1, features=table.features, context=context)
            rows = inner.design.rows(request, np.empty((1, 0), dtype=np.int64), 0)
            shape = (1, table.capacity)
            mean = np.broadcast_to(belief.mean(rows), shape)[0]
            width = np.broadcast_to(belief.width(rows), shape)[0] if hasattr(belief, "width") else None
        found = [(table.column[item.id], item) for item in table.all()]
    return [_estimate(item, column, mean, width) for column, item in found]


def _estimate(item: Item, column: int, mean: FloatArray | None, width: FloatArray | None) -> Estimate:
    middle = None if mean is None else _finite(mean[column])
    half = None if width is None else _finite(NORMAL_95 * width[column])
    bounded = middle is not None and half is not None
    low, high = (middle - half, middle + half) if bounded else (None, None)  # type: ignore[operator]
    return Estimate(item.id, item.enabled, middle, low, high)


def decision(ranker: Ranker, id: str) -> DecisionAnswer:
    """What was shown and why, and what happened; 404 where it was not this ranker's."""
    records = [decode(entry) for entry in ranker.store.about(ranker.name, id)]
    shown = next((record for record in records if isinstance(record, Shown)), None)
    if shown is None:
        raise Refused(404, f"decision {id!r} is not one that this ranker made.")
    events = [_event(record) for record in records if isinstance(record, Happened | Withdrawn)]
    return DecisionAnswer(
        decision=shown.id,
        number=shown.number,
        time=shown.time,
        segment=shown.segment,
        policy=ranker.config.policy,
        state=_state(ranker, id, events),
        context=None if shown.context is None else shown.context.tolist(),
        slots=[_slot(ranker, shown, slot) for slot in range(len(shown.items))],
        events=events,
        propensity=propensity(shown.propensity),
    )


def _state(ranker: Ranker, id: str, events: list[Event]) -> str:
    if ranker._pending.get(id) is not None:
        return "open"
    if any(event.kind == "withdrawn" for event in events):
        return "withdrawn"
    return "settled" if events else "closed"


def _event(record: Happened | Withdrawn) -> Event:
    if isinstance(record, Withdrawn):
        return Event(record.time, "withdrawn")
    return Event(record.time, "feedback", record.event, record.outcome.tolist(), record.final)


def _slot(ranker: Ranker, shown: Shown, slot: int) -> Slotted:
    column = int(shown.items[slot])
    score = None if shown.scores is None else _finite(shown.scores[slot])
    features = None if shown.x is None else shown.x[slot].tolist()
    id = None if column == EMPTY else ranker._table.ids[column]
    return Slotted(slot, id, score, slot in shown.pinned, features)


def propensity(given: Propensity | None) -> dict[str, Any] | None:
    """As plain values, what is not known left out."""
    if given is None:
        return None
    values = {name: getattr(given, name) for name in given.__dataclass_fields__}
    return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items() if v is not None}


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
