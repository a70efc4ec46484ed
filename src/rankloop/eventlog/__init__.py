"""The durable log: what was asked, shown and done, in order."""

from rankloop.eventlog.memory import MemoryStore
from rankloop.eventlog.sqlite import SqliteStore
from rankloop.eventlog.store import LogEntry, Store, StoreUnavailable
from rankloop.eventlog.writer import Writer

__all__ = ["LogEntry", "MemoryStore", "SqliteStore", "Store", "StoreUnavailable", "Writer"]
