"""What stands in the log: each thing that changes a ranker, as bytes and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from rankloop.engine.items import logged_prior
from rankloop.engine.packing import Formats, Head, Values, head, numbers, unpack, unpack_all, usual_head
from rankloop.engine.record import Follower as Follower
from rankloop.engine.record import R
from rankloop.engine.record import Record as Record
from rankloop.engine.shown import Shown as Shown
from rankloop.errors import RankloopError
from rankloop.schema import Item
from rankloop.store.base import Entry
from rankloop.types import FloatArray

Kind = TypeVar("Kind", bound=Record)


@dataclass(frozen=True, slots=True)
class ItemsPut(Record):
    """Items were added or changed."""

    kind = "items-put"
    changes_items = True
    time: float
    items: tuple[Item, ...]

    def entry(self) -> Entry:
        """The items as they were given."""
        return Entry(self.kind, "", "", self.time, head({"items": [item.as_mapping() for item in self.items]}))

    @classmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """The items as they were accepted; what is not known may be left out."""
        return cls(entry.time, tuple(_items(head)))

    def tell(self, follower: Follower[R]) -> R | None:
        """By `on_items_put`."""
        return follower.on_items_put(self)


@dataclass(frozen=True, slots=True)
class ItemsRemoved(Record):
    """Items were removed."""

    kind = "items-removed"
    changes_items = True
    time: float
    ids: tuple[str, ...]

    def entry(self) -> Entry:
        """The ids."""
        return Entry(self.kind, "", "", self.time, head({"ids": self.ids}))

    @classmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """The ids."""
        return cls(entry.time, tuple(head.fixed["ids"]))

    def tell(self, follower: Follower[R]) -> R | None:
        """By `on_items_removed`."""
        return follower.on_items_removed(self)


@dataclass(slots=True, eq=False)
class Happened(Record):
    """Something happened to a list."""

    kind = "happened"
    light = True
    time: float
    event: str
    decision: str
    outcome: FloatArray  # [k] clicks, or values
    final: bool  # nothing more will come
    regret: float | None = None  # against the best list, where the teller knows

    def entry(self) -> Entry:
        """Under the id of the event, where it has one."""
        formats: Formats = () if self.regret is None else (("regret", "d"),)
        outcome = self.outcome
        start = usual_head((("final", self.final),), formats, (("outcome", outcome.dtype.char, outcome.shape),))
        told = b"" if self.regret is None else numbers(formats).pack(self.regret)
        return Entry(self.kind, self.event, self.decision, self.time, start + told + outcome.tobytes())

    @classmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """What happened; the array is the one that was unpacked."""
        regret = values[0] if len(values) > 1 else None
        return cls(entry.time, entry.key, entry.subject, values[-1], head.fixed["final"], regret)

    def tell(self, follower: Follower[R]) -> R | None:
        """By `on_happened`."""
        return follower.on_happened(self)


@dataclass(frozen=True, slots=True)
class Closed(Record):
    """The windows of these decisions have closed."""

    kind = "closed"
    time: float
    decisions: tuple[str, ...]

    def entry(self) -> Entry:
        """The ids of the decisions."""
        return Entry(self.kind, "", "", self.time, head({"decisions": self.decisions}))

    @classmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """The ids of the decisions."""
        return cls(entry.time, tuple(head.fixed["decisions"]))

    def tell(self, follower: Follower[R]) -> R | None:
        """By `on_closed`."""
        return follower.on_closed(self)


@dataclass(frozen=True, slots=True)
class Withdrawn(Record):
    """A list was never shown."""

    kind = "withdrawn"
    time: float
    decision: str

    def entry(self) -> Entry:
        """Under the id of the decision: a list is withdrawn once."""
        return Entry(self.kind, self.decision, self.decision, self.time, head({}))

    @classmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """The id of the decision."""
        return cls(entry.time, entry.subject)

    def tell(self, follower: Follower[R]) -> R | None:
        """By `on_withdrawn`."""
        return follower.on_withdrawn(self)


@dataclass(frozen=True, slots=True)
class Guarded(Record):
    """The guard fell back to the control order, or was told to stand down."""

    kind = "guarded"
    time: float
    tripped: bool
    why: str

    def entry(self) -> Entry:
        """What the guard did, and why."""
        return Entry(self.kind, "", "", self.time, head({"tripped": self.tripped, "why": self.why}))

    @classmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """What the guard did, and why."""
        return cls(entry.time, head.fixed["tripped"], head.fixed["why"])

    def tell(self, follower: Follower[R]) -> R | None:
        """By `on_guarded`."""
        return follower.on_guarded(self)


@dataclass(frozen=True, slots=True)
class ConfigChanged(Record):
    """The ranker has other settings from here on. The first event of a log says which it began with."""

    kind = "config"
    time: float
    version: int  # from 1
    config: Mapping[str, Any]  # all settings, as plain values
    changed: Mapping[str, Any]  # those that changed, with their new values
    by: str | None = None  # name of the API key, where there was one

    def entry(self) -> Entry:
        """Under the version."""
        what = {"config": dict(self.config), "changed": dict(self.changed), "by": self.by}
        return Entry(self.kind, str(self.version), "", self.time, head(what))

    @classmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """The settings."""
        fixed = head.fixed
        return cls(entry.time, int(entry.key), fixed["config"], fixed["changed"], fixed["by"])

    def tell(self, follower: Follower[R]) -> R | None:
        """By `on_config_changed`."""
        return follower.on_config_changed(self)


@dataclass(frozen=True, slots=True)
class Skipped(Record):
    """An operator has excluded the event at a position: no replay applies it."""

    kind = "skip"
    time: float
    position: int
    because: str

    def entry(self) -> Entry:
        """Under the position: an event is excluded once."""
        return Entry(self.kind, str(self.position), "", self.time, head({"because": self.because}))

    @classmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """The position, and why."""
        return cls(entry.time, int(entry.key), head.fixed["because"])

    def tell(self, follower: Follower[R]) -> R | None:
        """By `on_skipped`."""
        return follower.on_skipped(self)


def _items(head: Head) -> Iterator[Item]:
    for given in head.fixed["items"]:
        prior = given.get("prior")
        yield Item.logged(
            given["id"],
            given.get("features"),
            given["price"],
            given["enabled"],
            None if prior is None else logged_prior(prior["score"], prior["strength"], prior.get("segments", {})),
            given.get("coverage"),
            given.get("default_position"),
        )


KINDS: Mapping[str, type[Record]] = {
    record.kind: record
    for record in (ItemsPut, ItemsRemoved, Shown, Happened, Closed, Withdrawn, Guarded, ConfigChanged, Skipped)
}
"""All records, by the kind of their entries."""


class CannotReplay(RankloopError):
    """An event of a log cannot be applied: the log is damaged, or was written by a version with a fault."""

    status = 503

    def __init__(self, position: int, kind: str, cause: Exception) -> None:
        self.position = position
        self.reason = f"the {kind} event cannot be applied ({type(cause).__name__}: {cause})"
        super().__init__(f"the log cannot be replayed at position {position}: {self.reason}.")


def decode(entry: Entry) -> Record:
    """The record of an entry; one that is damaged, or of a newer version, says where it stands."""
    return _careful(_read, entry)


def decode_as(record: type[Kind], entry: Entry) -> Kind:
    """As `decode`, for an entry whose kind is known."""
    return _careful(record.read, entry)


def decode_all(entries: Sequence[Entry]) -> list[Record]:
    """The records of many entries, quicker than one by one; arrays of a record hold the bytes of all in memory."""
    bodies = unpack_all([entry.body for entry in entries])
    return [_read(entry, *body) for entry, body in zip(entries, bodies, strict=True)]


def decode_all_as(record: type[Kind], entries: Sequence[Entry]) -> list[Kind]:
    """As `decode_all`, for entries of one kind."""
    bodies = unpack_all([entry.body for entry in entries])
    return [record.read(entry, *body) for entry, body in zip(entries, bodies, strict=True)]


def _read(entry: Entry, head: Head, values: Values) -> Record:
    known = KINDS.get(entry.kind)
    if known is None:
        raise ValueError(f"an entry of kind {entry.kind!r}, which this version does not know")
    return known.read(entry, head, values)


def _careful(read: Callable[[Entry, Head, Values], R], entry: Entry) -> R:
    try:
        return read(entry, *unpack(entry.body))
    except Exception as error:  # whatever damaged bytes do to their reader
        raise CannotReplay(entry.position, entry.kind, error) from error
