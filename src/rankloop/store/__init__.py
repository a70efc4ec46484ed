"""The durable log: what was asked, shown and done, in order."""

from rankloop.store.base import Entry, Log, Store, StoreUnavailable
from rankloop.store.memory import MemoryStore
from rankloop.store.sqlite import SqliteStore
from rankloop.store.writer import Writer

__all__ = ["Entry", "Log", "MemoryStore", "SqliteStore", "Store", "StoreUnavailable", "Writer"]
