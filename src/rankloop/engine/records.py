"""What stands in the log: each thing that changes a ranker, as bytes and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.engine.packing import (
    REMEMBERED,
    TEXT,
    Fixed,
    Formats,
    Head,
    Values,
    head,
    numbers,
    unpack,
    unpack_all,
    usual_head,
)
from rankloop.errors import RankloopError
from rankloop.propensity import Propensity
from rankloop.schema import Item, Prior
from rankloop.schema.base import unchecked
from rankloop.store.base import Entry
from rankloop.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ItemsPut:
    """Items were added or changed."""

    time: float
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class ItemsRemoved:
    """Items were removed."""

    time: float
    ids: tuple[str, ...]


@dataclass(slots=True, eq=False)  # not frozen, though nobody changes it: that would take three times as long
class Shown:
    """A list was decided."""

    time: float
    id: str
    number: int  # of the decision, from 1; its random numbers follow from it
    segment: str
    items: IntArray  # [k] columns of the table, -1 where nothing is shown
    x: FloatArray | None = None  # [k, d] features as they were scored
    context: FloatArray | None = None  # [dx]
    scores: FloatArray | None = None  # [k]
    pinned: tuple[int, ...] = ()  # slots that were pinned
    propensity: Propensity | None = None
    policy: str = ""  # that decided, its version and the seed of all its decisions
    version: str = ""
    seed: int = 0
    arm: str = "policy"  # or control: the caller's own order
    visitor: str | None = None
    why: FloatArray | None = None  # [3, k] estimate, uncertainty, prior share; NaN where there is none
    proposed: IntArray | None = None  # [k] what the policy would have shown instead of the caller's order
    allowed: NDArray[np.uint8] | None = None  # columns that could be listed, as packed bits; None: all enabled ones
    exploring: float = 0.0  # shares of scores that explored, summed over `judged` slots
    judged: int = 0
    explored: bool = False  # exploring changed the list, where that was looked at
    position: int = 0  # of the last event that the state had learned from when it decided
    config: int = 0  # version of the configuration
    numerics: str = ""  # what can change a last bit, see `math.numerics`
    withheld: bool = False  # the day's exploration was spent, so the list is the one believed best
    asked: str | None = None  # where the caller brought the id: a fingerprint of the request, then lines of ignored ids

    def alone(self) -> Shown:
        """The same with arrays of its own, that hold nothing else in memory."""
        arrays = {name: array.copy() for name in ARRAYS if (array := getattr(self, name)) is not None}
        return replace(self, **arrays)


@dataclass(slots=True, eq=False)
class Happened:
    """Something happened to a list."""

    time: float
    event: str
    decision: str
    outcome: FloatArray  # [k] clicks, or values
    final: bool  # nothing more will come
    regret: float | None = None  # against the best list, where the teller knows


@dataclass(frozen=True, slots=True)
class Closed:
    """The windows of these decisions have closed."""

    time: float
    decisions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A list was never shown."""

    time: float
    decision: str


@dataclass(frozen=True, slots=True)
class Guarded:
    """The guard fell back to the control order, or was told to stand down."""

    time: float
    tripped: bool
    why: str


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """The ranker has other settings from here on. The first event of a log says which it began with."""

    time: float
    version: int  # from 1
    config: Mapping[str, Any]  # all settings, as plain values
    changed: Mapping[str, Any]  # those that changed, with their new values
    by: str | None = None  # name of the API key, where there was one


@dataclass(frozen=True, slots=True)
class Skipped:
    """An operator has excluded the event at a position: no replay applies it."""

    time: float
    position: int
    because: str


Record = ItemsPut | ItemsRemoved | Shown | Happened | Closed | Withdrawn | Guarded | ConfigChanged | Skipped
ARRAYS = ("items", "x", "context", "scores", "why", "proposed", "allowed")
"""Of what was shown."""
TEXTS = ("visitor", "asked")
"""Of what was shown, too."""
COUNTED = (
    ("number", "q"),
    ("position", "q"),
    ("exploring", "d"),
    ("judged", "q"),
    ("explored", "?3x"),
    ("withheld", "?3x"),
)
"""Numbers of what was shown."""
CHANCES = ("prefix", "slot", "prefix_error", "slot_error")
"""Arrays of a propensity."""


class CannotReplay(RankloopError):
    """An event of a log cannot be applied: the log is damaged, or was written by a version with a fault."""

    status = 503

    def __init__(self, position: int, kind: str, cause: Exception) -> None:
        self.position = position
        self.reason = f"the {kind} event cannot be applied ({type(cause).__name__}: {cause})"
        super().__init__(f"the log cannot be replayed at position {position}: {self.reason}.")


def encode(record: Record) -> Entry:
    """The entry of a record."""
    match record:
        case Shown():
            return Entry("shown", record.id, record.id, record.time, _shown(record))
        case Happened():
            return Entry("happened", record.event, record.decision, record.time, _happened(record))
        case ItemsPut(time, items):
            return Entry("items-put", "", "", time, head({"items": [item.as_mapping() for item in items]}))
        case ItemsRemoved(time, ids):
            return Entry("items-removed", "", "", time, head({"ids": ids}))
        case Closed(time, decisions):
            return Entry("closed", "", "", time, head({"decisions": decisions}))
        case Withdrawn(time, decision):
            return Entry("withdrawn", decision, decision, time, head({}))
        case Guarded(time, tripped, why):
            return Entry("guarded", "", "", time, head({"tripped": tripped, "why": why}))
        case ConfigChanged(time, version, config, changed, by):
            what = {"config": dict(config), "changed": dict(changed), "by": by}
            return Entry("config", str(version), "", time, head(what))
        case Skipped(time, position, because):
            return Entry("skip", str(position), "", time, head({"because": because}))


def _shown(record: Shown) -> bytes:
    fixed: Fixed = (
        ("segment", record.segment),
        ("policy", record.policy),
        ("version", record.version),
        ("seed", record.seed),
        ("config", record.config),
        ("numerics", record.numerics),
    )
    if record.pinned:
        fixed += (("pinned", record.pinned),)
    if record.arm != "policy":
        fixed += (("arm", record.arm),)
    formats: Formats = COUNTED
    counted = (record.number, record.position, record.exploring, record.judged, record.explored, record.withheld)
    values: tuple[float, ...] = counted
    arrays = [(name, array) for name in ARRAYS if (array := getattr(record, name)) is not None]
    likely = record.propensity
    if likely is not None:
        fixed += (("kind", likely.kind), ("draws", likely.draws))
        known = [(name, value) for name in ("list", "list_error") if (value := getattr(likely, name)) is not None]
        formats += tuple((name, "d") for name, _ in known)
        values += tuple(value for _, value in known)
        arrays[1:1] = [(name, array) for name in CHANCES if (array := getattr(likely, name)) is not None]
    shapes = tuple((name, array.dtype.char, array.shape) for name, array in arrays)
    parts = [array.tobytes() for _, array in arrays]
    for name in TEXTS:
        if (text := getattr(record, name)) is not None:
            parts.append(text.encode())
            shapes += ((name, TEXT, (len(parts[-1]),)),)
    return b"".join([usual_head(fixed, formats, shapes), numbers(formats).pack(*values), *parts])


def _happened(record: Happened) -> bytes:
    formats: Formats = () if record.regret is None else (("regret", "d"),)
    outcome = record.outcome
    start = usual_head((("final", record.final),), formats, (("outcome", outcome.dtype.char, outcome.shape),))
    told = b"" if record.regret is None else numbers(formats).pack(record.regret)
    return start + told + outcome.tobytes()


def decode(entry: Entry) -> Record:
    """The record of an entry; one that is damaged, or of a newer version, says where it stands."""
    try:
        return _record(entry, *unpack(entry.body))
    except Exception as error:  # whatever damaged bytes do to their reader
        raise CannotReplay(entry.position, entry.kind, error) from error


def decode_all(entries: Sequence[Entry]) -> list[Record]:
    """The records of many entries, quicker than one by one; arrays of a record hold the bytes of all in memory."""
    bodies = unpack_all([entry.body for entry in entries])
    return [_record(entry, *body) for entry, body in zip(entries, bodies, strict=True)]


def _record(entry: Entry, head: Head, values: Values) -> Record:
    fixed = head.fixed
    match entry.kind:
        case "shown":
            same, fields_of = _placing(head)
            shown = Shown(*fields_of((entry.time, entry.key, *same, *values)))
            if "kind" in fixed:
                shown.propensity = _propensity(fixed, dict(zip(head.names, values, strict=True)))
            return shown
        case "happened":
            regret = values[0] if len(values) > 1 else None
            return Happened(entry.time, entry.key, entry.subject, values[-1], fixed["final"], regret)
        case "items-put":
            return ItemsPut(entry.time, tuple(_item(one) for one in fixed["items"]))
        case "items-removed":
            return ItemsRemoved(entry.time, tuple(fixed["ids"]))
        case "closed":
            return Closed(entry.time, tuple(fixed["decisions"]))
        case "withdrawn":
            return Withdrawn(entry.time, entry.subject)
        case "guarded":
            return Guarded(entry.time, fixed["tripped"], fixed["why"])
        case "config":
            return ConfigChanged(entry.time, int(entry.key), fixed["config"], fixed["changed"], fixed["by"])
        case "skip":
            return Skipped(entry.time, int(entry.key), fixed["because"])
    raise ValueError(f"an entry of kind {entry.kind!r}, which this version does not know")


@lru_cache(REMEMBERED)
def _placing(head: Head) -> tuple[Values, Callable[[Values], Values]]:
    """What all lists of a head have in common, and how the fields of `Shown` are found behind time, id and that."""
    same: dict[str, Any] = {field.name: field.default for field in fields(Shown)} | dict(head.fixed)
    same["pinned"] = tuple(same["pinned"])
    order = ["time", "id", *same, *head.names]
    places = {name: at for at, name in enumerate(order)} | {"time": 0, "id": 1}
    return tuple(same.values()), itemgetter(*(places[field.name] for field in fields(Shown)))


def plain(propensity: Propensity) -> dict[str, Any]:
    """A propensity as plain values, what is not known left out."""
    values = {field.name: getattr(propensity, field.name) for field in fields(propensity)}
    return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items() if v is not None}


def _propensity(fixed: Mapping[str, Any], found: Mapping[str, Any]) -> Propensity:
    """What was said of a propensity, among the rest."""
    own = {name: found[name] for name in ("list", "list_error", *CHANCES) if name in found}
    return Propensity(fixed["kind"], fixed["draws"], **own)


def _item(given: Mapping[str, Any]) -> Item:
    """An item as an event has it; what is not known may be left out."""
    prior = given.get("prior")
    return Item.logged(
        given["id"],
        given.get("features"),
        given["price"],
        given["enabled"],
        None if prior is None else unchecked(Prior, score=prior["score"], strength=prior["strength"]),
        given.get("coverage"),
        given.get("default_position"),
    )
