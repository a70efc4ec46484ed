"""A list that was decided, as a record of the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankloop.eventlog.codec import REMEMBERED, TEXT, Fixed, Formats, Header, Values, cached_header, numbers
from rankloop.eventlog.event import EventFollower, LogEvent, R
from rankloop.eventlog.store import LogEntry
from rankloop.propensity import Propensity
from rankloop.types import FloatArray, IntArray

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


@dataclass(slots=True, eq=False)  # not frozen, though nobody changes it: that would take three times as long
class DecisionMade(LogEvent):
    """A list was decided."""

    kind = "decision"
    light = True
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
    group: str = "treatment"  # or control: the caller's own order, or the default order
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

    def alone(self) -> DecisionMade:
        """The same with arrays of its own, that hold nothing else in memory."""
        arrays = {name: array.copy() for name in ARRAYS if (array := getattr(self, name)) is not None}
        return replace(self, **arrays)

    def entry(self) -> LogEntry:
        """Under the id of the decision."""
        return LogEntry(self.kind, self.id, self.id, self.time, _packed(self))

    @classmethod
    def read(cls, entry: LogEntry, head: Header, values: Values) -> Self:
        """The list; its arrays are those that were unpacked."""
        same, fields_of = _placing(head)
        shown = cls(*fields_of((entry.time, entry.key, *same, *values)))
        if "kind" in head.fixed:
            shown.propensity = _propensity(head, values)
        return shown

    def dispatch(self, follower: EventFollower[R]) -> R | None:
        """By `on_decision`."""
        return follower.on_decision(self)


def _packed(record: DecisionMade) -> bytes:
    """The body of a list's entry."""
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
    if record.group != "treatment":
        fixed += (("group", record.group),)
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
    return b"".join([cached_header(fixed, formats, shapes), numbers(formats).pack(*values), *parts])


@lru_cache(REMEMBERED)
def _placing(head: Header) -> tuple[Values, Callable[[Values], Values]]:
    """Return the values that decisions with this header share, and a getter for the fields of `DecisionMade`."""
    same: dict[str, Any] = {field.name: field.default for field in fields(DecisionMade)} | dict(head.fixed)
    same["pinned"] = tuple(same["pinned"])
    order = ["time", "id", *same, *head.names]
    places = {name: at for at, name in enumerate(order)} | {"time": 0, "id": 1}
    return tuple(same.values()), itemgetter(*(places[field.name] for field in fields(DecisionMade)))


def _propensity(head: Header, values: Values) -> Propensity:
    """What was said of a propensity, among the rest."""
    found = dict(zip(head.names, values, strict=True))
    own = {name: found[name] for name in ("list", "list_error", *CHANCES) if name in found}
    return Propensity(head.fixed["kind"], head.fixed["draws"], **own)
