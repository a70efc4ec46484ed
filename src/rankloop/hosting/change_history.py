"""The changes of a ranker, with their time and API key, as the log records them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from rankloop.eventlog import LogEntry, Store
from rankloop.eventlog.events import (
    CannotReplay,
    ConfigChanged,
    EventSkipped,
    HistoryPruned,
    LogEvent,
    VisitorsErased,
    decode,
)
from rankloop.hosting.registry_log import DELETED, RESERVED, decode_deleted, decode_put


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change of a ranker.

    `kind` is `config` (settings changed), `skip` (an event was excluded), `challenger` (a challenger was added,
    replaced or discarded), `erasure` (visitors were erased), `deleted`, or `damaged` (an event of the log that cannot
    be read). `pruning` says that entries were removed.
    """

    time: float
    kind: str
    version: int | None = None  # of the configuration, from 1
    by: str | None = None  # name of the API key
    changed: Mapping[str, Any] | None = None  # settings with their new values
    position: int | None = None  # of the excluded or damaged event, or up to which entries were removed
    reason: str | None = None  # why an event was excluded
    decisions: int | None = None  # number of those whose visitors were erased
    reset: bool = False  # whether everything learned before was discarded


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """All changes of a ranker, oldest first."""

    ranker: str
    events: list[LoggedChange]


def change_history(store: Store, name: str) -> ChangeHistory:
    """Return all changes of the ranker of this name."""
    return ChangeHistory(name, sorted(_changes(store, name), key=lambda change: change.time))


def _changes(store: Store, name: str) -> Iterator[LoggedChange]:
    logs: list[str] = []  # since the ranker was created
    challenger: Mapping[str, Any] | None = None
    for entry in store.about(RESERVED, name):
        if entry.kind == DELETED:
            logs, challenger = [], None
            yield LoggedChange(entry.time, "deleted", by=decode_deleted(entry).by)
        elif (put := decode_put(entry)) is None:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            if put.challenger != challenger and not (challenger and put.log not in logs):
                yield LoggedChange(entry.time, "challenger", by=put.by, changed=put.challenger or {})
            challenger = put.challenger
            if put.log not in logs:
                logs.append(put.log)
                yield from _changes_in_log(store, put.log, reset=len(logs) > 1)


def _changes_in_log(store: Store, log: str, *, reset: bool) -> Iterator[LoggedChange]:
    configs = store.of_kind(log, ConfigChanged.kind)
    for entry in configs:
        if (event := cast("ConfigChanged | None", _decode(entry))) is None:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            is_reset = reset and entry is configs[0]
            yield LoggedChange(event.time, "config", event.version, event.by, event.changed, reset=is_reset)
    for entry in store.of_kind(log, EventSkipped.kind):
        if (skip := cast("EventSkipped | None", _decode(entry))) is None:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            yield LoggedChange(skip.time, "skip", position=skip.position, reason=skip.reason)
    for entry in store.of_kind(log, VisitorsErased.kind):
        if (erased := cast("VisitorsErased | None", _decode(entry))) is None:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            yield LoggedChange(erased.time, "erasure", decisions=erased.decisions)
    for entry in store.of_kind(log, HistoryPruned.kind):
        if (pruned := cast("HistoryPruned | None", _decode(entry))) is None:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            yield LoggedChange(pruned.time, "pruning", position=pruned.position)


def _decode(entry: LogEntry) -> LogEvent | None:
    """Return the event of an entry, or None if it is damaged."""
    try:
        return decode(entry)
    except CannotReplay:
        return None
