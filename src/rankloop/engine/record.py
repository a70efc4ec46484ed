"""What all records of a log have in common, and how somebody who follows the log hears of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

if TYPE_CHECKING:
    from rankloop.engine.packing import Head, Values
    from rankloop.engine.records import (
        Closed,
        ConfigChanged,
        Guarded,
        Happened,
        ItemsPut,
        ItemsRemoved,
        Shown,
        Skipped,
        Withdrawn,
    )
    from rankloop.store.base import Entry

R = TypeVar("R")


class Record(ABC):
    """Something that changes a ranker. It knows its bytes, and by which method a follower of the log hears of it."""

    __slots__ = ()
    kind: ClassVar[str]  # of its entries
    light: ClassVar[bool] = False  # it is soon applied
    changes_items: ClassVar[bool] = False

    @abstractmethod
    def entry(self) -> Entry:
        """The record as an entry of a log."""

    @classmethod
    @abstractmethod
    def read(cls, entry: Entry, head: Head, values: Values) -> Self:
        """The record of an entry, whose body was unpacked."""

    @abstractmethod
    def tell(self, follower: Follower[R]) -> R | None:
        """Tell a follower of this record, by the method for its kind; gives what the method gives."""


class Follower(Generic[R]):
    """Somebody who follows a log: a method for each kind of record, which does nothing unless it is overridden."""

    def on_shown(self, record: Shown) -> R | None:
        """A list was decided."""
        return None

    def on_happened(self, record: Happened) -> R | None:
        """Something happened to a list."""
        return None

    def on_items_put(self, record: ItemsPut) -> R | None:
        """Items were added or changed."""
        return None

    def on_items_removed(self, record: ItemsRemoved) -> R | None:
        """Items were removed."""
        return None

    def on_closed(self, record: Closed) -> R | None:
        """The windows of some decisions have closed."""
        return None

    def on_withdrawn(self, record: Withdrawn) -> R | None:
        """A list was never shown."""
        return None

    def on_guarded(self, record: Guarded) -> R | None:
        """The guard fell back, or was told to stand down."""
        return None

    def on_config_changed(self, record: ConfigChanged) -> R | None:
        """The settings are others from here on."""
        return None

    def on_skipped(self, record: Skipped) -> R | None:
        """An event was excluded; exclusions are read before a replay starts."""
        return None
