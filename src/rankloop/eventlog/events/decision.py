"""The event of a decision, and its form as a log entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankloop.eventlog.codec import TEXT, Formats, Header, Values, header, numbers
from rankloop.eventlog.events.event import LogEvent
from rankloop.eventlog.store import LogEntry
from rankloop.propensity import Propensity
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray

OF_REQUEST = ("rows", "given_scores", "given_prices", "rewards", "losses", "candidates", "excluded", "order")
"""Fields that are arrays which the request determined."""
ARRAYS = ("items", "x", "context", "scores", "why", "proposed", "prices", *OF_REQUEST, "allowed")
"""Fields that are arrays; those with numbers of less than eight bytes come last, so that the others stay aligned."""
TEXTS = ("visitor", "asked", "context_fields", "item_fields")
"""Fields that are optional texts."""
NUMBERS = (
    ("number", "q"),
    ("position", "q"),
    ("exploring", "d"),
    ("judged", "q"),
    ("explored", "?3x"),
    ("withheld", "?3x"),
)
"""Fields that are packed as numbers, with their `struct` formats."""
MAX_CACHED_GETTERS = 64
"""Headers of a page of entries; `decode_all` parses equal headers once, so that they are the same object."""
PROPENSITY_ARRAYS = ("prefix", "slot", "prefix_error", "slot_error")
"""Fields of a propensity that are arrays."""


@dataclass(slots=True, eq=False)  # never changed; `frozen` would make construction three times as slow
class DecisionMade(LogEvent):
    """A list was decided."""

    kind = "decision"
    time: float
    id: str
    number: int  # from 1; the random numbers of the decision follow from it, the process and the seed
    segment: str
    items: IntArray  # [k] columns of the item table, -1 in an empty slot
    x: FloatArray | None = None  # [k, d] features as they were scored
    context: FloatArray | None = None  # [dx]
    scores: FloatArray | None = None  # [k]
    pinned: tuple[int, ...] = ()  # slots that were pinned
    propensity: Propensity | None = None
    policy: str = ""  # id of the policy
    version: str = ""  # of the package
    seed: int = 0
    group: str = "treatment"  # or control: the caller's own order, or the default order
    visitor: str | None = None
    why: FloatArray | None = None  # [3, k] estimate, uncertainty, prior share; NaN where there is none
    proposed: IntArray | None = None  # [k] the policy's list where the control ranking was shown instead
    candidates: NDArray[np.int32] | None = None  # [C] columns that could be listed, rising; None: all enabled ones
    excluded: NDArray[np.int32] | None = None  # enabled columns that could not be listed, where there are no candidates
    rows: FloatArray | None = None  # [C, d] features of all candidates, where the request brought some
    given_scores: FloatArray | None = None  # [C] scores that the request brought, NaN where it brought none
    given_prices: FloatArray | None = None  # [C] prices that the request brought, NaN where it brought none
    order: NDArray[np.int32] | None = None  # columns in the caller's order, where the policy reads it
    rewards: FloatArray | None = None  # [K] rewards of this request
    losses: FloatArray | None = None  # [K + 1] losses of this request
    prices: FloatArray | None = None  # [k] what a click on each listed item was worth, where the objective has prices
    allowed: NDArray[np.uint8] | None = None  # before format 4: columns that could be listed, as packed bits
    exploring: float = 0.0  # exploration shares summed over the slots that have one
    judged: int = 0  # slots that have an exploration share
    explored: bool = False  # exploration changed the list, where that was checked
    position: int = 0  # log position of the state that decided
    config: int = 0  # version of the configuration
    numerics: str = ""  # everything that can change a last bit, see `math.numerics`
    withheld: bool = False  # today's exploration was spent, so the list is the one estimated to be best
    asked: str | None = None  # of an idempotent request: its fingerprint, then the ignored ids, one per line
    context_fields: str | None = None  # fields of the request's context, as JSON
    item_fields: str | None = None  # fields that the request brought for each candidate or null, as a JSON list
    process: int = 0  # number of the process that decided, from 1; 0 where one process has the log for itself
    erased: bool = False  # the visitor, to whom the group was assigned, `asked` and fields were erased
    approximate: bool = False  # caps were kept greedily, so that a better list may exist
    partly_seen: bool = False  # not stored: slots that nobody saw are empty here, see `as_seen`

    @property
    def opens(self) -> str:
        """The id of the decision."""
        return self.id

    def candidate_columns(self) -> IntArray | None:
        """Return the columns that could be listed; None: all enabled ones, but for those that were excluded."""
        if self.candidates is None and self.allowed is not None:
            return np.flatnonzero(np.unpackbits(self.allowed))
        return None if self.candidates is None else self.candidates.astype(np.int64)

    def as_seen(self, visible: BoolArray) -> DecisionMade:
        """Return the list that the visitor saw: the slots that were not visible [k] are empty."""
        if (visible | (self.items == EMPTY)).all():
            return self
        return replace(self, items=np.where(visible, self.items, EMPTY), partly_seen=True)

    def detached(self) -> DecisionMade:
        """Return the same event with copies of its arrays, which keep no page of the log in memory."""
        arrays = {name: array.copy() for name in ARRAYS if (array := getattr(self, name)) is not None}
        return replace(self, **arrays)

    def entry(self) -> LogEntry:
        """Return an entry whose key is the decision id."""
        return LogEntry(self.kind, self.id, self.id, self.time, _packed(self))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the decision; its arrays stay views of the entry's bytes."""
        shared, fields_of = _field_getter(header)
        event = cls(*fields_of((entry.time, entry.key, *shared, *values)))
        if "kind" in header.fixed:
            event.propensity = _propensity(header, values)
        return event


def _packed(event: DecisionMade) -> bytes:
    """Return the body of the entry."""
    fixed: dict[str, object] = {
        "segment": event.segment,
        "policy": event.policy,
        "version": event.version,
        "seed": event.seed,
        "config": event.config,
        "numerics": event.numerics,
    }
    if event.pinned:
        fixed["pinned"] = event.pinned
    if event.group != "treatment":
        fixed["group"] = event.group
    if event.process:
        fixed["process"] = event.process
    if event.erased:
        fixed["erased"] = True
    if event.approximate:
        fixed["approximate"] = True
    formats: Formats = NUMBERS
    counted = (event.number, event.position, event.exploring, event.judged, event.explored, event.withheld)
    values: tuple[float, ...] = counted
    arrays = [(name, array) for name in ARRAYS if (array := getattr(event, name)) is not None]
    likely = event.propensity
    if likely is not None:
        fixed |= {"kind": likely.kind, "draws": likely.draws}
        known = [(name, value) for name in ("list", "list_error") if (value := getattr(likely, name)) is not None]
        formats += tuple((name, "d") for name, _ in known)
        values += tuple(value for _, value in known)
        arrays[1:1] = [(name, array) for name in PROPENSITY_ARRAYS if (array := getattr(likely, name)) is not None]
    shapes = tuple((name, array.dtype.char, array.shape) for name, array in arrays)
    parts = [array.tobytes() for _, array in arrays]
    for name in TEXTS:
        if (text := getattr(event, name)) is not None:
            parts.append(text.encode())
            shapes += ((name, TEXT, (len(parts[-1]),)),)
    return b"".join([header(fixed, formats, shapes), numbers(formats).pack(*values), *parts])


@lru_cache(MAX_CACHED_GETTERS)
def _field_getter(header: Header) -> tuple[Values, Callable[[Values], Values]]:
    """Return the values that decisions with this header share, and a getter for the fields of `DecisionMade`."""
    shared: dict[str, Any] = {field.name: field.default for field in fields(DecisionMade)} | dict(header.fixed)
    shared["pinned"] = tuple(shared["pinned"])
    order = ["time", "id", *shared, *header.names]
    positions = {name: at for at, name in enumerate(order)} | {"time": 0, "id": 1}
    return tuple(shared.values()), itemgetter(*(positions[field.name] for field in fields(DecisionMade)))


def _propensity(header: Header, values: Values) -> Propensity:
    """Return the propensity that the entry has."""
    named = dict(zip(header.names, values, strict=True))
    arrays = {name: named[name] for name in ("list", "list_error", *PROPENSITY_ARRAYS) if name in named}
    return Propensity(header.fixed["kind"], header.fixed["draws"], **arrays)
