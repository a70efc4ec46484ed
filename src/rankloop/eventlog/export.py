"""Export a log to a Parquet table and import it again: one row for each slot of each decision.

Columns are named as in the Open Bandit Pipeline. A column `pscore…` is the estimated propensity: of the whole list, of
the list down to this slot (`_cascade`), of this item in this slot (`_item_position`). It is null if it was not
requested, and if the policy is deterministic given its state; `pscore_kind` distinguishes the two. Late feedback is not
exported.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from types import ModuleType
from typing import Literal, TypeVar

import numpy as np

from rankloop.arrays import Array
from rankloop.errors import InvalidInput, MissingExtra
from rankloop.eventlog import request_columns
from rankloop.eventlog.events import (
    DecisionMade,
    FeedbackReceived,
    LogEvent,
    WindowClosed,
    Withdrawn,
    decode,
    skipped_positions,
)
from rankloop.eventlog.request_columns import RequestRow
from rankloop.eventlog.settled_decisions import SettledDecision, SettledDecisions
from rankloop.eventlog.store import LogEntry, Store
from rankloop.files import replace_file
from rankloop.propensity import Propensity
from rankloop.schema import RankerSettings
from rankloop.types import EMPTY, FloatArray

COLUMNS = {
    "slate_id": "int64",  # number of the decision, plus that of its process times `PROCESS`
    "position": "int64",  # slot, from 0
    "action": "int64",  # number of the item, null for an empty slot
    "reward": "float64",  # null while it is unknown
    "seen": "bool",  # whether the slot was visible, null if the feedback does not say it
    "kinds": "string",  # values of the slot by kind of feedback as JSON, null if there are no kinds
    "pscore": "float64",
    "pscore_cascade": "float64",
    "pscore_item_position": "float64",
    "pscore_error": "float64",  # standard errors
    "pscore_cascade_error": "float64",
    "pscore_item_position_error": "float64",
    "pscore_kind": "string",  # deterministic or monte-carlo, null if it was not requested
    "pscore_draws": "int64",
    "decision": "string",
    "item": "string",
    "segment": "string",
    "status": "string",
    "time": "float64",
    "feedback_time": "float64",  # when the outcome became known
    "score": "float64",
    "pinned": "bool",
    "features": "list",  # as they were scored
    "context": "list",
    "policy": "string",
    "version": "string",
    "seed": "int64",
    "group": "string",  # treatment or control
    "visitor": "string",
    "estimate": "float64",
    "uncertainty": "float64",
    "prior_share": "float64",
    "exploring": "float64",  # exploration's share of the scores, summed over `judged` slots
    "judged": "int64",
    "explored": "bool",
    "regret": "float64",
    "price": "float64",  # value of a click, if the objective has prices
    **request_columns.COLUMNS,
    "decision_order": "int64",  # among all decisions and settlements of the log
    "feedback_order": "int64",
}


class Row(RequestRow):
    """The columns that an import reads."""

    slate_id: int
    position: int
    action: int | None
    reward: float | None
    seen: bool | None
    kinds: str | None
    pscore: float | None
    pscore_cascade: float | None
    pscore_item_position: float | None
    pscore_error: float | None
    pscore_cascade_error: float | None
    pscore_item_position_error: float | None
    pscore_kind: str | None
    pscore_draws: int | None
    decision: str
    segment: str
    status: str
    time: float
    feedback_time: float
    score: float | None
    pinned: bool
    features: list[float] | None
    context: list[float] | None
    policy: str
    version: str
    seed: int
    group: str
    visitor: str | None
    estimate: float | None
    uncertainty: float | None
    prior_share: float | None
    exploring: float
    judged: int
    explored: bool
    regret: float | None
    price: float | None
    decision_order: int
    feedback_order: int | None


V = TypeVar("V")
PROCESS = 2**40
"""Factor of the process in a slate's id: two processes may give the same number to decisions of one log."""
STATUSES = ("learned", "nothing", "ignored", "withdrawn", "open")
"""`learned` had feedback; `nothing` had none and was learned as no click; `ignored` had none and was not learned;
`withdrawn` was never shown; `open` may still get feedback."""
EVENT_FIELDS = ("policy", "version", "seed", "group", "visitor", "exploring", "judged", "explored")
"""Columns that are fields of the decision event."""
EXPLANATION: tuple[Literal["estimate", "uncertainty", "prior_share"], ...] = ("estimate", "uncertainty", "prior_share")
CHUNK_DECISIONS = 5000
"""Decisions in memory at a time, in addition to the open ones."""
ITEMS_KEY = b"rankloop.items"
"""Key of the item changes in the metadata of the file."""


def export(store: Store, ranker: str, config: RankerSettings, path: Path) -> int:
    """Write the decisions and item changes of a ranker to a Parquet file; return the number of decisions."""
    pa, pq = arrow()
    count, skipped = 0, skipped_positions(store, ranker)
    settled = SettledDecisions(config)

    def write(temporary: Path) -> None:
        nonlocal count
        with pq.ParquetWriter(temporary, schema(pa)) as writer:
            slates = settled.of(entry for entry in store.read(ranker) if entry.position not in skipped)
            while chunk := list(islice(slates, CHUNK_DECISIONS)):
                count += len(chunk)
                writer.write_table(table(pa, chunk))
            writer.add_key_value_metadata({ITEMS_KEY: json.dumps(settled.item_changes).encode()})

    replace_file(path, write, private=True)  # it names visitors
    return count


def table(pa: ModuleType, slates: Sequence[SettledDecision]) -> object:
    """Return the rows of some decisions."""
    sizes = [len(slate.ids) for slate in slates]
    decisions = [slate.event for slate in slates]
    propensities = [one.propensity or Propensity("") for one in decisions]

    def each(values: Sequence[V]) -> list[V]:
        """Repeat the value of each decision for each of its slots."""
        return [value for value, size in zip(values, sizes, strict=True) for _ in range(size)]

    def slots(values: Sequence[Array | None]) -> list[object]:
        """Concatenate an array [k] of each decision, or k times None."""
        return [one for v, k in zip(values, sizes, strict=True) for one in ([None] * k if v is None else v.tolist())]

    columns: dict[str, Sequence[object]] = {
        "slate_id": each([one.number + PROCESS * one.process for one in decisions]),
        "position": [slot for size in sizes for slot in range(size)],
        "action": [None if item == EMPTY else item for item in slots([one.items for one in decisions])],
        "reward": slots([slate.outcome for slate in slates]),
        "seen": slots([slate.seen for slate in slates]),
        "kinds": [one for slate in slates for one in slate.values_of_slots()],
        "pscore": each([one.list for one in propensities]),
        "pscore_cascade": slots([one.prefix for one in propensities]),
        "pscore_item_position": slots([one.slot for one in propensities]),
        "pscore_error": each([one.list_error for one in propensities]),
        "pscore_cascade_error": slots([one.prefix_error for one in propensities]),
        "pscore_item_position_error": slots([one.slot_error for one in propensities]),
        "pscore_kind": each([one.kind or None for one in propensities]),
        "pscore_draws": each([one.draws if one.kind else None for one in propensities]),
        "decision": each([one.id for one in decisions]),
        "item": [id for slate in slates for id in slate.ids],
        "segment": each([one.segment for one in decisions]),
        "status": each([slate.status for slate in slates]),
        "time": each([one.time for one in decisions]),
        "feedback_time": each([slate.feedback_time for slate in slates]),
        "score": slots([one.scores for one in decisions]),
        "pinned": [slot in one.pinned for one, size in zip(decisions, sizes, strict=True) for slot in range(size)],
        "features": slots([one.x for one in decisions]),
        "context": each([None if one.context is None else one.context.tolist() for one in decisions]),
        **{name: each([getattr(one, name) for one in decisions]) for name in EVENT_FIELDS},
        **{
            name: _nan_to_none(slots([None if one.why is None else one.why[n] for one in decisions]))
            for n, name in enumerate(EXPLANATION)
        },
        "regret": each([slate.regret for slate in slates]),
        "price": slots([one.prices for one in decisions]),
        **request_columns.write(decisions, sizes),
        "decision_order": each([slate.order for slate in slates]),
        "feedback_order": each([slate.feedback_order for slate in slates]),
    }
    return pa.table(columns, schema=schema(pa))


def _nan_to_none(values: list[object]) -> list[object]:
    """Replace NaN by None."""
    return [None if value is None or value != value else value for value in values]


def import_(path: Path, store: Store, ranker: str) -> int:
    """Import an exported file into a log without entries of this ranker; return the number of decisions.

    A ranker learns the same from the new log as from the old one, in the same order.
    """
    if next(store.read(ranker), None) is not None:
        raise InvalidInput("ranker", ranker, "a name that has no entries in the log")
    # The whole file is read once before the first event is stored, so that a damaged file stores nothing.
    count = sum(event.kind == DecisionMade.kind for event in _events(path))
    events = _events(path)
    while chunk := list(islice(events, CHUNK_DECISIONS)):
        store.append([(ranker, event.entry()) for event in chunk])
    return count


def check(path: Path) -> None:
    """Refuse a file that is not an exported log; reads its metadata only."""
    with _open_exported(path):
        pass


@contextmanager
def _open_exported(path: Path) -> Iterator[tuple[bytes, Iterator[Row]]]:
    """Give the item changes and the rows of a Parquet file; turn every error of it into one sentence."""
    not_exported = InvalidInput("file", str(path), "a Parquet file that `rankloop log export` of this version wrote")
    pa, pq = arrow()
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(schema(pa)) or ITEMS_KEY not in file.metadata.metadata:
                raise not_exported
            yield file.metadata.metadata[ITEMS_KEY], (row for batch in file.iter_batches() for row in batch.to_pylist())
    except OSError:
        raise InvalidInput("file", str(path), "an existing file that can be read") from None
    except InvalidInput as error:
        raise error from None
    except (pa.ArrowException, LookupError, TypeError, ValueError):
        raise not_exported from None


def _events(path: Path) -> Iterator[LogEvent]:
    """Yield the log events of a file, in order."""
    with _open_exported(path) as (items, rows):
        changes = [(order, _change(*change)) for order, *change in json.loads(items)]
        slates = (list(slots) for _, slots in groupby(rows, key=lambda row: row["decision"]))
        yield from _in_order(slates, changes)


def _in_order(slates: Iterator[list[Row]], changes: list[tuple[int, LogEvent]]) -> Iterator[LogEvent]:
    """Merge decisions, outcomes and item changes in their original order."""
    later: list[tuple[int, int, LogEvent]] = []  # a heap of order, tie-breaker and event
    for n, (order, change) in enumerate(changes):
        heapq.heappush(later, (order, n - len(changes), change))
    unordered: list[LogEvent] = []  # feedback of decisions that are still open
    for slots in slates:
        first = slots[0]
        while later and later[0][0] <= first["decision_order"]:
            yield heapq.heappop(later)[2]
        yield _decision(slots)
        feedback_order = first["feedback_order"]
        for n, outcome in enumerate(_outcomes(slots)):
            if feedback_order is None:
                unordered.append(outcome)
            else:
                heapq.heappush(later, (feedback_order, n, outcome))
    while later:
        yield heapq.heappop(later)[2]
    yield from unordered


def _decision(slots: list[Row]) -> DecisionMade:
    first = slots[0]
    propensity = None
    if first["pscore_kind"] is not None:
        propensity = Propensity(
            first["pscore_kind"],
            first["pscore_draws"] or 0,
            first["pscore"],
            _floats([slot["pscore_cascade"] for slot in slots]),
            _floats([slot["pscore_item_position"] for slot in slots]),
            first["pscore_error"],
            _floats([slot["pscore_cascade_error"] for slot in slots]),
            _floats([slot["pscore_item_position_error"] for slot in slots]),
        )
    event = DecisionMade(
        time=first["time"],
        id=first["decision"],
        number=first["slate_id"] % PROCESS,
        process=first["slate_id"] // PROCESS,
        segment=first["segment"],
        items=np.array([EMPTY if slot["action"] is None else slot["action"] for slot in slots], dtype=np.int64),
        x=_floats([slot["features"] for slot in slots]),
        context=None if first["context"] is None else np.array(first["context"], dtype=np.float64),
        scores=_floats([slot["score"] for slot in slots]),
        pinned=tuple(slot["position"] for slot in slots if slot["pinned"]),
        propensity=propensity,
        why=_explanation(slots),
        prices=_floats([slot["price"] for slot in slots]),
        policy=first["policy"],
        version=first["version"],
        seed=first["seed"],
        group=first["group"],
        visitor=first["visitor"],
        exploring=first["exploring"],
        judged=first["judged"],
        explored=first["explored"],
    )
    return request_columns.with_request(event, first)


def _floats(values: Sequence[float | list[float] | None]) -> FloatArray | None:
    """Return a column of one decision, [k] or [k, d]; None if its values are null."""
    return None if values[0] is None else np.array(values, dtype=np.float64)


def _explanation(slots: list[Row]) -> FloatArray | None:
    values = [[slot[name] for slot in slots] for name in EXPLANATION]
    missing = all(value is None for row in values for value in row)
    return None if missing else np.array(values, dtype=np.float64)


def _outcomes(slots: list[Row]) -> list[LogEvent]:
    """Return the event that settled a decision, one for each kind of feedback; for an open one, its feedback so far."""
    id, status, time = slots[0]["decision"], slots[0]["status"], slots[0]["feedback_time"]
    if status not in STATUSES:
        raise ValueError(status)
    if status == "withdrawn":
        return [Withdrawn(time, id)]
    seen = None if slots[0]["seen"] is None else [slot["position"] for slot in slots if slot["seen"]]
    more = slots[0]["regret"], seen
    if slots[0]["kinds"] is not None and status in ("learned", "open"):
        values = [json.loads(slot["kinds"] or "{}") for slot in slots]
        events: list[LogEvent] = []
        for n, kind in enumerate(values[0], 1):
            outcome = np.array([one[kind] for one in values], dtype=np.float64)
            final, key = status == "learned" and n == len(values[0]), f"imported {id} {kind}"
            # At the time of the decision, which is within the window of every kind.
            events.append(FeedbackReceived(slots[0]["time"], key, id, outcome, final, *more, of_kind=kind))
        return events
    if status in ("nothing", "ignored"):
        return [WindowClosed(time, (id,))]
    if slots[0]["reward"] is None:
        return []
    outcome = np.array([slot["reward"] for slot in slots], dtype=np.float64)
    return [FeedbackReceived(time, f"imported {id}", id, outcome, status == "learned", *more)]


def _change(kind: str, time: float, body: str) -> LogEvent:
    return decode(LogEntry(kind, "", "", time, body.encode()))


def schema(pa: ModuleType) -> object:
    """Return the columns of a file with their types."""
    types: Mapping[str, object] = {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
    }
    return pa.schema([(name, types.get(type) or pa.list_(pa.float64())) for name, type in COLUMNS.items()])


def arrow() -> tuple[ModuleType, ModuleType]:
    """Return the modules that read and write Parquet files; refuse with the name of the extra to install."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingExtra("exporting or importing a log", "experiments") from None
    return pyarrow, pyarrow.parquet
