"""A log as a table: a row for each slot of each decision, named as the Open Bandit Pipeline names them; and back.

A column `pscore…` is the estimated probability of what was shown: of the whole list, of the list down to this slot
(`_cascade`), of this item in this slot (`_item_position`). It is null where nobody asked for it, and where the policy
is deterministic given its state; `pscore_kind` tells which. Feedback that came too late is not in the table.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from types import ModuleType
from typing import Literal, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.arrays import Array
from rankloop.errors import InvalidInput, MissingExtra
from rankloop.eventlog.events import (
    DecisionMade,
    FeedbackReceived,
    LogEvent,
    WindowClosed,
    Withdrawn,
    decode,
    skipped_positions,
)
from rankloop.eventlog.settled_decisions import SettledDecision, SettledDecisions
from rankloop.eventlog.store import LogEntry, Store
from rankloop.files import replace_file
from rankloop.propensity import Propensity
from rankloop.schema import RankerSettings
from rankloop.types import EMPTY, FloatArray

COLUMNS = {
    "slate_id": "int64",  # number of the decision
    "position": "int64",  # slot, from 0
    "action": "int64",  # number of the item, null where the slot is empty
    "reward": "float64",  # null where nothing is known
    "pscore": "float64",
    "pscore_cascade": "float64",
    "pscore_item_position": "float64",
    "pscore_error": "float64",  # standard errors
    "pscore_cascade_error": "float64",
    "pscore_item_position_error": "float64",
    "pscore_kind": "string",  # deterministic or monte-carlo, null where it was not asked for
    "pscore_draws": "int64",
    "decision": "string",
    "item": "string",
    "segment": "string",
    "status": "string",
    "time": "float64",
    "told": "float64",  # when its outcome became known
    "score": "float64",
    "pinned": "bool",
    "features": "list",  # as they were scored
    "context": "list",
    "policy": "string",
    "version": "string",
    "seed": "int64",
    "group": "string",  # policy or control
    "visitor": "string",
    "estimate": "float64",
    "uncertainty": "float64",
    "prior_share": "float64",
    "exploring": "float64",  # shares of the scores that explored, summed over so many slots
    "judged": "int64",
    "explored": "bool",
    "regret": "float64",
    "candidates": "list",  # numbers of the items that could be listed, null: all that were enabled
    "decision_order": "int64",  # among all that was shown and settled
    "feedback_order": "int64",
}


class Row(TypedDict):
    """The columns that are read back."""

    slate_id: int
    position: int
    action: int | None
    reward: float | None
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
    told: float
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
    candidates: list[float] | None
    decision_order: int
    feedback_order: int | None


V = TypeVar("V")
STATUSES = ("learned", "nothing", "ignored", "withdrawn", "open")
"""Feedback came; none came and that counts as nothing clicked; or counts for nothing; never shown; may still come."""
PLAIN = ("policy", "version", "seed", "group", "visitor", "exploring", "judged", "explored")
"""Columns that are words of the record."""
WHY: tuple[Literal["estimate", "uncertainty", "prior_share"], ...] = ("estimate", "uncertainty", "prior_share")
CHUNK = 5000
"""Decisions in memory at a time, besides those that are open."""
ITEMS = b"rankloop.items"


def export(store: Store, ranker: str, config: RankerSettings, path: Path) -> int:
    """Write a ranker's decisions to a Parquet file, and what its items were; the number of decisions."""
    pa, pq = _arrow()
    count, skipped = 0, skipped_positions(store, ranker)
    settled = SettledDecisions(config)

    def write(temporary: Path) -> None:
        nonlocal count
        with pq.ParquetWriter(temporary, _schema(pa)) as writer:
            slates = settled.of(entry for entry in store.read(ranker) if entry.position not in skipped)
            while chunk := list(islice(slates, CHUNK)):
                count += len(chunk)
                writer.write_table(_table(pa, chunk))
            writer.add_key_value_metadata({ITEMS: json.dumps(settled.item_changes).encode()})

    replace_file(path, write)
    return count


def _table(pa: ModuleType, slates: Sequence[SettledDecision]) -> object:
    """Rows of some decisions."""
    sizes = [len(slate.ids) for slate in slates]
    shown = [slate.decision.event for slate in slates]
    likely = [one.propensity or Propensity("") for one in shown]

    def each(values: Sequence[V]) -> list[V]:
        """A value of each decision, for each of its slots."""
        return [value for value, size in zip(values, sizes, strict=True) for _ in range(size)]

    def slots(values: Sequence[Array | None]) -> list[object]:
        """An array [k] of each decision, or None."""
        return [one for v, k in zip(values, sizes, strict=True) for one in ([None] * k if v is None else v.tolist())]

    columns: dict[str, Sequence[object]] = {
        "slate_id": each([one.number for one in shown]),
        "position": [slot for size in sizes for slot in range(size)],
        "action": [None if at == EMPTY else at for at in slots([one.items for one in shown])],
        "reward": slots([slate.outcome for slate in slates]),
        "pscore": each([one.list for one in likely]),
        "pscore_cascade": slots([one.prefix for one in likely]),
        "pscore_item_position": slots([one.slot for one in likely]),
        "pscore_error": each([one.list_error for one in likely]),
        "pscore_cascade_error": slots([one.prefix_error for one in likely]),
        "pscore_item_position_error": slots([one.slot_error for one in likely]),
        "pscore_kind": each([one.kind or None for one in likely]),
        "pscore_draws": each([one.draws if one.kind else None for one in likely]),
        "decision": each([one.id for one in shown]),
        "item": [id for slate in slates for id in slate.ids],
        "segment": each([one.segment for one in shown]),
        "status": each([slate.status for slate in slates]),
        "time": each([one.time for one in shown]),
        "told": each([slate.feedback_time for slate in slates]),
        "score": slots([one.scores for one in shown]),
        "pinned": [slot in one.pinned for one, size in zip(shown, sizes, strict=True) for slot in range(size)],
        "features": slots([one.x for one in shown]),
        "context": each([None if one.context is None else one.context.tolist() for one in shown]),
        **{name: each([getattr(one, name) for one in shown]) for name in PLAIN},
        **{
            name: _known(slots([None if one.why is None else one.why[n] for one in shown]))
            for n, name in enumerate(WHY)
        },
        "regret": each([slate.decision.regret for slate in slates]),
        "candidates": each([_columns(one.allowed) for one in shown]),
        "decision_order": each([slate.order for slate in slates]),
        "feedback_order": each([slate.feedback_order for slate in slates]),
    }
    return pa.table(columns, schema=_schema(pa))


def _known(values: list[object]) -> list[object]:
    """NaN as null."""
    return [None if value is None or value != value else value for value in values]


def _columns(allowed: NDArray[np.uint8] | None) -> list[float] | None:
    """Packed bits as numbers."""
    return None if allowed is None else [float(at) for at in np.flatnonzero(np.unpackbits(allowed))]


def _packed(columns: list[float] | None) -> NDArray[np.uint8] | None:
    """And back; how many bytes there were does not matter."""
    if columns is None:
        return None
    bits = np.zeros(1 + int(max(columns, default=0)), dtype=np.bool_)
    bits[np.array(columns, dtype=np.int64)] = True
    return np.packbits(bits)


def import_(path: Path, store: Store, ranker: str) -> int:
    """Write what `export` wrote into a log that has nothing of this ranker; the number of decisions.

    The new log teaches a ranker what the old one did, in the same order.
    """
    if next(store.read(ranker), None) is not None:
        raise InvalidInput("ranker", ranker, "a name of which the log has nothing yet")
    count = sum(
        record.kind == DecisionMade.kind for record in _records(path)
    )  # read to its end before anything is kept
    records = _records(path)
    while chunk := list(islice(records, CHUNK)):
        store.append([(ranker, record.entry()) for record in chunk])
    return count


def check(path: Path) -> None:
    """Refuse at a glance what is no exported log."""
    with _exported(path):
        pass


@contextmanager
def _exported(path: Path) -> Iterator[tuple[bytes, Iterator[Row]]]:
    """The changes of items and the rows of a Parquet file; whatever is wrong with it is said in one sentence."""
    refused = InvalidInput("file", str(path), "a Parquet file that `rankloop log export` wrote")
    pa, pq = _arrow()
    try:
        with pq.ParquetFile(path) as file:
            if not file.schema_arrow.equals(_schema(pa)) or ITEMS not in file.metadata.metadata:
                raise refused
            yield file.metadata.metadata[ITEMS], (row for batch in file.iter_batches() for row in batch.to_pylist())
    except OSError:
        raise InvalidInput("file", str(path), "a file that is there and can be read") from None
    except InvalidInput as error:
        raise error from None
    except (pa.ArrowException, LookupError, TypeError, ValueError):
        raise refused from None


def _records(path: Path) -> Iterator[LogEvent]:
    """The log of a file, in order."""
    with _exported(path) as (items, rows):
        changes = [(order, _change(*change)) for order, *change in json.loads(items)]
        slates = (list(slots) for _, slots in groupby(rows, key=lambda row: row["decision"]))
        yield from _in_order(slates, changes)


def _in_order(slates: Iterator[list[Row]], changes: list[tuple[int, LogEvent]]) -> Iterator[LogEvent]:
    """What was shown, settled and changed, by its place among all."""
    later: list[tuple[int, int, LogEvent]] = []  # the place, and a number that settles ties
    for n, (order, change) in enumerate(changes):
        heapq.heappush(later, (order, n - len(changes), change))
    last: list[LogEvent] = []
    for slots in slates:
        first = slots[0]
        while later and later[0][0] <= first["decision_order"]:
            yield heapq.heappop(later)[2]
        yield _shown(slots)
        outcome = _settling(slots)
        told = first["feedback_order"]
        if outcome is not None and told is None:
            last.append(outcome)
        elif outcome is not None and told is not None:
            heapq.heappush(later, (told, 0, outcome))
    while later:
        yield heapq.heappop(later)[2]
    yield from last


def _shown(slots: list[Row]) -> DecisionMade:
    first = slots[0]
    likely = None
    if first["pscore_kind"] is not None:
        likely = Propensity(
            first["pscore_kind"],
            first["pscore_draws"] or 0,
            first["pscore"],
            _floats([slot["pscore_cascade"] for slot in slots]),
            _floats([slot["pscore_item_position"] for slot in slots]),
            first["pscore_error"],
            _floats([slot["pscore_cascade_error"] for slot in slots]),
            _floats([slot["pscore_item_position_error"] for slot in slots]),
        )
    return DecisionMade(
        time=first["time"],
        id=first["decision"],
        number=first["slate_id"],
        segment=first["segment"],
        items=np.array([EMPTY if slot["action"] is None else slot["action"] for slot in slots], dtype=np.int64),
        x=_floats([slot["features"] for slot in slots]),
        context=None if first["context"] is None else np.array(first["context"], dtype=np.float64),
        scores=_floats([slot["score"] for slot in slots]),
        pinned=tuple(slot["position"] for slot in slots if slot["pinned"]),
        propensity=likely,
        why=_why(slots),
        allowed=_packed(first["candidates"]),
        policy=first["policy"],
        version=first["version"],
        seed=first["seed"],
        group=first["group"],
        visitor=first["visitor"],
        exploring=first["exploring"],
        judged=first["judged"],
        explored=first["explored"],
    )


def _floats(values: Sequence[float | list[float] | None]) -> FloatArray | None:
    """A column of one decision, [k] or [k, d]; None where it has none."""
    return None if values[0] is None else np.array(values, dtype=np.float64)


def _why(slots: list[Row]) -> FloatArray | None:
    known = [[slot[name] for slot in slots] for name in WHY]
    nothing = all(value is None for row in known for value in row)
    return None if nothing else np.array(known, dtype=np.float64)


def _settling(slots: list[Row]) -> LogEvent | None:
    """What settled a decision; for an open one, what has happened so far."""
    id, status, told = slots[0]["decision"], slots[0]["status"], slots[0]["told"]
    if status not in STATUSES:
        raise ValueError(status)
    if status == "withdrawn":
        return Withdrawn(told, id)
    if status in ("nothing", "ignored"):
        return WindowClosed(told, (id,))
    if slots[0]["reward"] is None:
        return None
    outcome = np.array([slot["reward"] for slot in slots], dtype=np.float64)
    return FeedbackReceived(told, f"imported {id}", id, outcome, status == "learned", slots[0]["regret"])


def _change(kind: str, time: float, body: str) -> LogEvent:
    return decode(LogEntry(kind, "", "", time, body.encode()))


def _schema(pa: ModuleType) -> object:
    types: Mapping[str, object] = {
        "int64": pa.int64(),
        "float64": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
    }
    return pa.schema([(name, types.get(type) or pa.list_(pa.float64())) for name, type in COLUMNS.items()])


def _arrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingExtra("exporting or importing a log", "experiments") from None
    return pyarrow, pyarrow.parquet
