"""What was changed of a ranker, when and by whom: read from the log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rankloop.engine.records import CannotReplay, ConfigChanged, Record, Skipped, decode
from rankloop.store import Entry, Store

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
    found = [body["log"] for entry in store.about(RESERVED, name) if entry.kind == PUT and (body := _body(entry))]
    return list(dict.fromkeys(found)) or [name]


def _body(entry: Entry) -> dict[str, Any]:
    """What a note says; nothing where it is damaged."""
    try:
        body: dict[str, Any] = json.loads(entry.body)
        return body if isinstance(body, dict) and (entry.kind == DELETED or {"log", "config"} <= body.keys()) else {}
    except ValueError:
        return {}


def _changes(store: Store, name: str) -> Iterator[LoggedChange]:
    logs: list[str] = []  # since the ranker was created
    other: Any = None
    for entry in store.about(RESERVED, name):
        body = _body(entry)
        if entry.kind == DELETED:
            logs, other = [], None
            yield LoggedChange(entry.time, "deleted", by=body.get("by"))
        elif not body:
            yield LoggedChange(entry.time, "damaged", position=entry.position)
        else:
            if body.get("other") != other and not (other and body["log"] not in logs):
                yield LoggedChange(entry.time, "challenger", by=body.get("by"), changed=body.get("other") or {})
            other = body.get("other")
            if body["log"] not in logs:
                logs.append(body["log"])
                yield from _of_log(store, body["log"], reset=len(logs) > 1)


def _of_log(store: Store, log: str, *, reset: bool) -> Iterator[LoggedChange]:
    configs = store.of_kind(log, "config")
    for entry in (*configs, *store.of_kind(log, "skip")):
        match _decoded(entry):
            case None:
                yield LoggedChange(entry.time, "damaged", position=entry.position)
            case ConfigChanged(time, version, _, changed, by):
                yield LoggedChange(time, "config", version, by, changed, reset=reset and entry is configs[0])
            case Skipped(time, position, because):
                yield LoggedChange(time, "skip", position=position, because=because)


def _decoded(entry: Entry) -> Record | None:
    try:
        return decode(entry)
    except CannotReplay:
        return None
