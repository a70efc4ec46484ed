"""docs/reference/events.md: every event of the log, and the versions of the log's format."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from rankloop.eventlog import format_history
from rankloop.eventlog.events import KINDS
from tools.reference.markdown import code, docstring, escaped, page, sentence, table
from tools.reference.signatures import annotation, default
from tools.reference.source import field_comments


def events_page() -> str:
    """Return the page of log events: kind, fields and meaning of each."""
    intro = [
        "The log is the only durable state of a ranker: a replay of its events rebuilds everything else.",
        "`rankloop log export` writes events in a readable form; [Reliability](../explanation/reliability.md) explains",
        "when they are durable.",
    ]
    rows = [(f"[`{kind}`](#{kind})", code(event.__name__), _summary(event)) for kind, event in KINDS.items()]
    overview = table(("kind", "class", "meaning"), rows)
    return page("Log events", "`rankloop.eventlog`", intro, overview, *map(_event, KINDS), _formats())


def _summary(event: type) -> str:
    return sentence(escaped((inspect.getdoc(event) or "").split("\n")[0]))


def _event(kind: str) -> Iterator[str]:
    event: Any = KINDS[kind]
    comments = field_comments(event)
    yield from (f"## {kind}", "", *docstring(event), "")
    rows = []
    for one in stored_fields(event):
        usual = "required" if one.default is dataclasses.MISSING else code(default(one.default))
        rows.append((code(one.name), code(annotation(one.type)), usual, sentence(escaped(comments.get(one.name, "")))))
    yield from table(("field", "type", "default", "meaning"), rows)


def stored_fields(event: Any) -> list[dataclasses.Field[Any]]:
    """Return the fields of an event that its entry has."""
    return [one for one in dataclasses.fields(event) if one.metadata.get("stored", True)]


def _formats() -> Iterator[str]:
    yield from ("## Format versions", "", *docstring(format_history))
