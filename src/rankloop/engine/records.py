"""What stands in the log: each thing that changes a ranker, as bytes and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.engine.items import Item
from rankloop.engine.propensity import Propensity
from rankloop.store.base import Entry
from rankloop.types import FloatArray, IntArray

Arrays = Mapping[str, NDArray[Any]]


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


@dataclass(frozen=True, slots=True, eq=False)
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


Record = ItemsPut | ItemsRemoved | Shown | Happened | Closed | Withdrawn | Guarded
ARRAYS = ("items", "x", "context", "scores", "why", "proposed", "allowed")
"""Of what was shown."""
SELDOM = ("pinned", "visitor", "explored", "arm")
"""What is said of a list only where it is not as usual."""


def encode(record: Record) -> Entry:
    """The entry of a record."""
    match record:
        case ItemsPut(time, items):
            return Entry("items-put", "", "", time, _pack({"items": [item.as_mapping() for item in items]}, {}))
        case ItemsRemoved(time, ids):
            return Entry("items-removed", "", "", time, _pack({"ids": ids}, {}))
        case Shown():
            meta: dict[str, Any] = {"number": record.number, "segment": record.segment, "policy": record.policy}
            meta |= {"version": record.version, "seed": record.seed}
            meta |= {"exploring": record.exploring, "judged": record.judged}
            if record.pinned or record.visitor is not None or record.explored or record.arm != "policy":
                meta |= {name: v for name in SELDOM if (v := getattr(record, name))}
            if record.propensity is not None:
                meta["propensity"] = plain(record.propensity)
            arrays = {name: array for name in ARRAYS if (array := getattr(record, name)) is not None}
            return Entry("shown", record.id, record.id, record.time, _pack(meta, arrays))
        case Happened():
            told = {"final": record.final} | ({} if record.regret is None else {"regret": record.regret})
            body = _pack(told, {"outcome": record.outcome})
            return Entry("happened", record.event, record.decision, record.time, body)
        case Closed(time, decisions):
            return Entry("closed", "", "", time, _pack({"decisions": decisions}, {}))
        case Withdrawn(time, decision):
            return Entry("withdrawn", decision, decision, time, _pack({}, {}))
        case Guarded(time, tripped, why):
            return Entry("guarded", "", "", time, _pack({"tripped": tripped, "why": why}, {}))


def decode(entry: Entry) -> Record:
    """The record of an entry."""
    meta, arrays = _unpack(entry.body)
    match entry.kind:
        case "items-put":
            return ItemsPut(entry.time, tuple(_item(one) for one in meta["items"]))
        case "items-removed":
            return ItemsRemoved(entry.time, tuple(meta["ids"]))
        case "shown":
            if "propensity" in meta:
                meta["propensity"] = _propensity(meta["propensity"])
            if "pinned" in meta:
                meta["pinned"] = tuple(meta["pinned"])
            found: dict[str, Any] = {**meta, **arrays}
            return Shown(entry.time, entry.key, **found)
        case "happened":
            return Happened(entry.time, entry.key, entry.subject, arrays["outcome"], meta["final"], meta.get("regret"))
        case "closed":
            return Closed(entry.time, tuple(meta["decisions"]))
        case "withdrawn":
            return Withdrawn(entry.time, entry.subject)
        case "guarded":
            return Guarded(entry.time, meta["tripped"], meta["why"])
    raise ValueError(f"an entry of kind {entry.kind!r}, which this version does not know")


def plain(propensity: Propensity) -> dict[str, Any]:
    """A propensity as plain values, what is not known left out."""
    values = {field.name: getattr(propensity, field.name) for field in fields(propensity)}
    return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items() if v is not None}


def _propensity(given: Mapping[str, Any]) -> Propensity:
    values: dict[str, Any] = {name: np.array(v) if isinstance(v, list) else v for name, v in given.items()}
    return Propensity(**values)


def _item(given: Mapping[str, Any]) -> Item:
    features, prior, coverage = given["features"], given.get("prior"), given.get("coverage")
    return Item(
        given["id"],
        None if features is None else tuple(features),
        given["price"],
        given["enabled"],
        None if prior is None else (prior["score"], prior["strength"]),
        None if coverage is None else tuple(coverage),
    )


_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_read = json.JSONDecoder().raw_decode


def _pack(meta: Mapping[str, Any], arrays: Arrays) -> bytes:
    """A line of JSON, spaces up to a multiple of eight bytes, then the arrays one after the other."""
    shapes = [(name, array.dtype.char, array.shape) for name, array in arrays.items()]
    head = _json({**meta, "": shapes}).encode()
    filled = b" " * (-(len(head) + 1) % 8) + b"\n"
    return b"".join([head, filled, *(array.tobytes() for array in arrays.values())])


def _unpack(body: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    end = body.index(b"\n")
    meta, _ = _read(body[:end].decode())
    arrays: dict[str, NDArray[Any]] = {}
    at = end + 1
    whole: FloatArray | None = None
    for name, type, shape in meta.pop(""):
        count = shape[0] if len(shape) == 1 else math.prod(shape)
        if type in "dl" and at % 8 == 0:
            # One array over the numbers of eight bytes, and slices of it: half the time of one array for each.
            if whole is None:
                whole = np.frombuffer(body, np.float64, (len(body) - at) // 8, at)
                start = at
            array: NDArray[Any] = whole[(at - start) // 8 : (at - start) // 8 + count]
            array = array if type == "d" else array.view(np.int64)
        else:
            array = np.frombuffer(body, type, count, at)
        arrays[name] = array if len(shape) == 1 else array.reshape(shape)
        at += array.nbytes
    return meta, arrays
