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


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A list was decided."""

    time: float
    id: str
    number: int  # of the decision, from 1; its random numbers follow from it
    segment: str
    items: IntArray  # [k] columns of the table, -1 where nothing is shown
    x: FloatArray | None  # [k, d] features as they were scored
    context: FloatArray | None  # [dx]
    scores: FloatArray | None  # [k]
    pinned: tuple[int, ...]  # slots that were pinned
    propensity: Propensity | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Happened:
    """Something happened to a list."""

    time: float
    event: str
    decision: str
    outcome: FloatArray  # [k] clicks, or values
    final: bool  # nothing more will come


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


Record = ItemsPut | ItemsRemoved | Shown | Happened | Closed | Withdrawn


def encode(record: Record) -> Entry:
    """The entry of a record."""
    match record:
        case ItemsPut(time, items):
            return Entry("items-put", "", "", time, _pack({"items": [item.as_mapping() for item in items]}, {}))
        case ItemsRemoved(time, ids):
            return Entry("items-removed", "", "", time, _pack({"ids": ids}, {}))
        case Shown():
            meta = {"number": record.number, "segment": record.segment, "pinned": record.pinned}
            meta |= {} if record.propensity is None else {"propensity": _likely(record.propensity)}
            arrays = {
                name: array
                for name in ("items", "x", "context", "scores")
                if (array := getattr(record, name)) is not None
            }
            return Entry("shown", record.id, record.id, record.time, _pack(meta, arrays))
        case Happened():
            body = _pack({"final": record.final}, {"outcome": record.outcome})
            return Entry("happened", record.event, record.decision, record.time, body)
        case Closed(time, decisions):
            return Entry("closed", "", "", time, _pack({"decisions": decisions}, {}))
        case Withdrawn(time, decision):
            return Entry("withdrawn", decision, decision, time, _pack({}, {}))


def decode(entry: Entry) -> Record:
    """The record of an entry."""
    meta, arrays = _unpack(entry.body)
    match entry.kind:
        case "items-put":
            return ItemsPut(entry.time, tuple(_item(one) for one in meta["items"]))
        case "items-removed":
            return ItemsRemoved(entry.time, tuple(meta["ids"]))
        case "shown":
            return Shown(
                entry.time,
                entry.key,
                meta["number"],
                meta["segment"],
                arrays["items"],
                arrays.get("x"),
                arrays.get("context"),
                arrays.get("scores"),
                tuple(meta["pinned"]),
                _propensity(meta.get("propensity")),
            )
        case "happened":
            return Happened(entry.time, entry.key, entry.subject, arrays["outcome"], meta["final"])
        case "closed":
            return Closed(entry.time, tuple(meta["decisions"]))
        case "withdrawn":
            return Withdrawn(entry.time, entry.subject)
    raise ValueError(f"an entry of kind {entry.kind!r}, which this version does not know")


def _likely(propensity: Propensity) -> dict[str, Any]:
    """A propensity as plain values."""
    values = {field.name: getattr(propensity, field.name) for field in fields(propensity)}
    return {name: v.tolist() if isinstance(v, np.ndarray) else v for name, v in values.items() if v is not None}


def _propensity(given: Mapping[str, Any] | None) -> Propensity | None:
    if given is None:
        return None
    values: dict[str, Any] = {name: np.array(v) if isinstance(v, list) else v for name, v in given.items()}
    return Propensity(**values)


def _item(given: Mapping[str, Any]) -> Item:
    features, prior = given["features"], given.get("prior")
    return Item(
        given["id"],
        None if features is None else tuple(features),
        given["price"],
        given["enabled"],
        None if prior is None else (prior["score"], prior["strength"]),
    )


def _pack(meta: Mapping[str, Any], arrays: Arrays) -> bytes:
    """A line of JSON, then the arrays one after the other."""
    shapes = [(name, array.dtype.str, array.shape) for name, array in arrays.items()]
    head = json.dumps({**meta, "": shapes}, separators=(",", ":"), ensure_ascii=False)
    return head.encode() + b"\n" + b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())


def _unpack(body: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    end = body.index(b"\n")
    meta = json.loads(body[:end])
    arrays: dict[str, NDArray[Any]] = {}
    at = end + 1
    for name, dtype, shape in meta.pop(""):
        array = np.frombuffer(body, dtype=dtype, count=math.prod(shape), offset=at).reshape(shape)
        arrays[name] = array
        at += array.nbytes
    return meta, arrays
