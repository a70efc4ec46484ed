"""Older formats of stored logs, and how they become the current one.

| format | changed |
|---|---|
| 1 | first format |
| 2 | decisions record the state they were made from |
| 3 | current kinds of events; `group` of a decision instead of `arm`; setting `guardrail` instead of `guard` |
| 4 | `candidates` or `excluded` of a decision instead of `allowed`, a bit for each item; values of the request |

Kinds are renamed in place by a migration of the store, since they are part of its keys. Everything else, including
the kind `guarded`, which became two kinds, is converted when an event is read. `allowed` is read as it is: lists that
were decided with a bit for each item are decided again with one.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankloop.schema.mappings import fields_of

FORMAT = 4
"""Version of the events that this version writes."""
RENAMED_KINDS = {
    "shown": "decision",
    "happened": "feedback",
    "closed": "window-closed",
    "config": "config-changed",
    "skip": "event-skipped",
}
"""Kinds of formats 1 and 2, and what they are called since format 3."""
RENAME_KINDS = "".join(
    [
        "UPDATE log SET kind = CASE kind ",
        *(f"WHEN '{old}' THEN '{new}' " for old, new in RENAMED_KINDS.items()),
        f"END WHERE ranker <> '' AND kind IN ({', '.join(repr(kind) for kind in RENAMED_KINDS)});\n",
        "DELETE FROM snapshot WHERE ranker LIKE '%~other'",  # challengers have other names since format 3
    ]
)
"""The migration of a store, as SQL."""
GROUPS = {"policy": "treatment", "control": "control"}
"""Values of `arm` before format 3, as values of `group`."""


def upgraded_header(fixed: dict[str, object], version: int) -> dict[str, object]:
    """Return the fields of an event's header as the current format has them."""
    if version < 3:
        if "arm" in fixed:
            fixed["group"] = GROUPS[str(fixed.pop("arm"))]
        if "changed" in fixed:
            fixed |= {name: upgraded_settings(fields_of(fixed[name]) or {}) for name in ("config", "changed")}
    return fixed


def upgraded_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Return a ranker's settings with the names of the current format."""
    if "guard" not in settings:
        return dict(settings)
    guard = fields_of(settings["guard"])
    renamed = None if guard is None else {"min_lists" if name == "least" else name: guard[name] for name in guard}
    return {name: value for name, value in settings.items() if name != "guard"} | {"guardrail": renamed}


def upgraded_kind(kind: str, fixed: Mapping[str, object]) -> str:
    """Return the current kind of an event; the guardrail had one kind for two events in format 2."""
    if kind == "guarded":
        return "guardrail-tripped" if fixed["tripped"] else "guardrail-reset"
    return RENAMED_KINDS.get(kind, kind)
