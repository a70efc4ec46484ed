"""What was changed of a ranker, when and by whom: read from the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct

from rankloop.eventlog import LogEntry, Store
from rankloop.eventlog.events import CannotReplay, ConfigChanged, EventSkipped, LogEvent, decode

T = TypeVar("T")
RESERVED = ""
"""Under this name the log says which rankers there are."""
PUT, DELETED = "ranker-put", "ranker-deleted"


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change of a ranker.

    `config`: its settings; `skip`: an event was excluded; `challenger`: another policy came or went; `deleted`;
    `damaged`: an event of the log that cannot be read.
    """

    time: float
    kind: str
    version: int | None = None  # of the configuration, from 1
    by: str | None = None  # the name of the API key
    changed: Mapping[str, Any] | None = None  # settings with their new values
    position: int | None = None  # that was excluded
    because: str | None = None
    reset: bool = False  # what was learned before was left behind


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """All changes of a ranker, oldest first."""

    ranker: str
    events: list[LoggedChange]


def changes(store: Store, name: str) -> ChangeHistory:
    """All changes of the ranker of this name."""
    return ChangeHistory(name, sorted(_changes(store, name), key=lambda change: change.time))


def logs_of(store: Store, name: str) -> list[str]:
    """The logs of a ranker, the newest last: one that started anew has another. Its own name, where none is noted."""
    found = [put.log for entry in store.about(RESERVED, name) if entry.kind == PUT and (put := _read(entry, RankerPut))]
    return list(dict.fromkeys(found)) or [name]


class RankerPut(Struct):
    """The note of a ranker that was created or changed."""

    log: str
    config: dict[str, Any]
    challenger: dict[str, Any] | None = None
    by: str | None = None


class RankerDeleted(Struct):
    """The note of a ranker that was deleted."""

    by: str | None = None


def _read(entry: LogEntry, kind: type[T]) -> T | None:
    """What a note says; nothing where it is damaged."""
    try:
        return msgspec.json.decode(entry.body, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _changes(store: Store, name: str) -> Iterator[LoggedChange]:
    logs: list[str] = []  # since the ranker was created
    other: Mapping[str, Any] | None = None
    for entry in store.about(RESERVED, name):
        if entry.kind == DELETED:
            logs, other = [], None
            yield LoggedChange(entry.time, "deleted", by=(_read(entry, RankerDeleted) or RankerDeleted()).by)
        elif (put := _read(entry, RankerPut)) is None:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            if put.challenger != other and not (other and put.log not in logs):
                yield LoggedChange(entry.time, "challenger", by=put.by, changed=put.challenger or {})
            other = put.challenger
            if put.log not in logs:
                logs.append(put.log)
                yield from _of_log(store, put.log, reset=len(logs) > 1)


def _of_log(store: Store, log: str, *, reset: bool) -> Iterator[LoggedChange]:
    configs = store.of_kind(log, ConfigChanged.kind)
    for entry in configs:
        if (now := cast("ConfigChanged | None", _decoded(entry))) is None:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            new = reset and entry is configs[0]
            yield LoggedChange(now.time, "config", now.version, now.by, now.changed, reset=new)
    for entry in store.of_kind(log, EventSkipped.kind):
        if (skip := cast("EventSkipped | None", _decoded(entry))) is None:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            yield LoggedChange(skip.time, "skip", position=skip.position, because=skip.reason)


def _decoded(entry: LogEntry) -> LogEvent | None:
    try:
        return decode(entry)
    except CannotReplay:
        return None
