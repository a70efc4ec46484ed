"""The events of items: put and removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from rankloop.eventlog.codec import Header, Values, header
from rankloop.eventlog.events.event import LogEvent
from rankloop.eventlog.store import LogEntry
from rankloop.schema import Item
from rankloop.schema.item import logged_prior


@dataclass(frozen=True, slots=True)
class ItemsPut(LogEvent):
    """Items were added or changed."""

    kind = "items-put"
    changes_items = True
    time: float
    items: tuple[Item, ...]

    def entry(self) -> LogEntry:
        """Return an entry with the items as mappings."""
        return LogEntry(self.kind, "", "", self.time, header({"items": [item.as_mapping() for item in self.items]}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the items, without checking again what was accepted once."""
        return cls(entry.time, tuple(_items(header)))


@dataclass(frozen=True, slots=True)
class ItemsRemoved(LogEvent):
    """Items were removed."""

    kind = "items-removed"
    changes_items = True
    time: float
    ids: tuple[str, ...]

    def entry(self) -> LogEntry:
        """Return an entry with the ids."""
        return LogEntry(self.kind, "", "", self.time, header({"ids": self.ids}))

    @classmethod
    def read(cls, entry: LogEntry, header: Header, values: Values) -> Self:
        """Read the ids."""
        return cls(entry.time, tuple(header.fixed["ids"]))


def _items(header: Header) -> Iterator[Item]:
    for given in header.fixed["items"]:
        prior = given.get("prior")
        yield Item.logged(
            given["id"],
            given.get("features"),
            given["price"],
            given["enabled"],
            None if prior is None else logged_prior(prior["score"], prior["strength"], prior.get("segments", {})),
            given.get("coverage"),
            given.get("default_position"),
            given.get("score"),
            given.get("fields"),
        )
