"""The entries of the log that register rankers: which exist, under which log names, with which settings.

They are stored under the reserved name "", which no ranker can have.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from rankloop.eventlog import LogEntry, Store
from rankloop.eventlog.format_history import upgraded_settings
from rankloop.schema import Quarantine
from rankloop.serving import Ranker

T = TypeVar("T")
RESERVED = ""
"""Name of the log that registers rankers."""
PUT, DELETED = "ranker-put", "ranker-deleted"


class RankerPut(Struct):
    """Body of the entry that registers a ranker, or a change of it."""

    log: str
    config: dict[str, Any]
    challenger: dict[str, Any] | None = None
    by: str | None = None
    other: dict[str, Any] | None = None  # the challenger, before format 3


class RankerDeleted(Struct):
    """Body of the entry that deletes a ranker."""

    by: str | None = None


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """A registered ranker: the name of its log, its settings, and those of its challenger."""

    log: str
    config: Mapping[str, Any]
    challenger: Mapping[str, Any] | None = None
    damaged: Quarantine | None = None  # set if the entry cannot be read


def registered_rankers(store: Store) -> tuple[dict[str, RegistryEntry], set[str]]:
    """Return the rankers that were not deleted, by name, and the log names in use, also those of deleted rankers."""
    rankers: dict[str, RegistryEntry] = {}
    logs: set[str] = set()
    for entry in store.read(RESERVED):
        if entry.kind == PUT:
            try:
                put = _read_put(entry)
                logs.add(put.log)
                rankers[entry.subject] = RegistryEntry(put.log, put.config, put.challenger)
            except (ValueError, RecursionError) as error:
                reason = Quarantine(entry.position, f"its entry cannot be read ({error})")
                rankers[entry.subject] = RegistryEntry(entry.subject, {}, damaged=reason)
        elif entry.kind == DELETED:
            rankers.pop(entry.subject, None)
    return rankers, logs


def put_entry(name: str, ranker: Ranker, by: str | None) -> LogEntry:
    """Return the entry that registers a ranker with its log, settings and challenger.

    Args:
        name: name of the ranker.
        ranker: the ranker itself.
        by: name of the API key that made the change.
    """
    challenger = None if ranker.challenger is None else ranker.challenger.plain()
    body = {"log": ranker.name, "config": ranker.config.plain(), "challenger": challenger, "by": by}
    return _entry(PUT, name, body)


def deleted_entry(name: str, by: str | None) -> LogEntry:
    """Return the entry that deletes a ranker."""
    return _entry(DELETED, name, {"by": by})


def _entry(kind: str, name: str, body: Mapping[str, object]) -> LogEntry:
    return LogEntry(kind, "", name, time.time(), json.dumps(body).encode())


def decode_put(entry: LogEntry) -> RankerPut | None:
    """Return the body of a put entry, or None if it is damaged."""
    try:
        return _read_put(entry)
    except (ValueError, RecursionError):
        return None


def _read_put(entry: LogEntry) -> RankerPut:
    """Return the body of a put entry with the names of the current format."""
    put = msgspec.json.decode(entry.body, type=RankerPut)
    challenger = put.other if put.challenger is None else put.challenger
    put.config = upgraded_settings(put.config)
    put.challenger = None if challenger is None else upgraded_settings(challenger)
    return put


def decode_deleted(entry: LogEntry) -> RankerDeleted:
    """Return the body of a deleted entry; one that is damaged has no key."""
    return _decode(entry, RankerDeleted) or RankerDeleted()


def logs_of(store: Store, name: str) -> list[str]:
    """Return the log names of a ranker, newest last: each reset adds one. An unregistered ranker has its own name."""
    logs = [put.log for entry in store.about(RESERVED, name) if entry.kind == PUT and (put := decode_put(entry))]
    return list(dict.fromkeys(logs)) or [name]


def _decode(entry: LogEntry, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(entry.body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
