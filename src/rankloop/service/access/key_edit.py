"""Adds and revokes API keys in a settings file; all other lines of the file stay as they are, with their comments."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rankloop.errors import InvalidInput, RankloopError
from rankloop.files import replace_file
from rankloop.schema.api_key import ApiKey, iso_time
from rankloop.service.settings import load_keys, read_file
from rankloop.yaml_reader import load_yaml

Entry = dict[str, object]


def add_key(path: Path, entry: Entry, overlap_seconds: float, clock: Callable[[], float] = time.time) -> list[str]:
    """Add a key to a settings file; return the expiry of each older key with this name.

    Args:
        path: the file; it is created if it does not exist, readable for its owner only.
        entry: of the new key.
        overlap_seconds: for how long older keys with the same name stay valid.
        clock: seconds since 1970.
    """
    now, kept, expiries = clock(), list[Entry](), list[str]()
    for key, old in _keys(path):
        if key.name == entry["name"]:
            if key.expires_at <= now:
                continue
            expires_at = min(key.expires_at, now + overlap_seconds)
            old = old | {"expires": iso_time(expires_at)}
            expiries.append(iso_time(expires_at))
        kept.append(old)
    _write(path, [*kept, entry])
    return expiries


def revoke_key(path: Path, name: str) -> int:
    """Remove all keys with a name from a settings file; return how many there were."""
    keys = _keys(path)
    kept = [entry for key, entry in keys if key.name != name]
    if len(kept) == len(keys):
        names = sorted({key.name for key, _ in keys})
        raise InvalidInput("--revoke", name, f"one of the keys {', '.join(names)}" if names else "a key; there is none")
    _write(path, kept)
    return len(keys) - len(kept)


def _keys(path: Path) -> list[tuple[ApiKey, Entry]]:
    """Return the keys of a file with their entries; refuse a file whose keys are not valid before it is changed."""
    if not path.exists():
        return []
    keys, document = load_keys(path, environment={}), read_file(path)
    return [(key, dict(entry)) for key, entry in zip(keys, document.get("keys") or [], strict=True)]  # type: ignore[call-overload]


def _write(path: Path, keys: Sequence[Entry]) -> None:
    """Replace the list of keys; the text is checked to mean the same settings before the file is replaced."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = with_keys(before, keys)
    target = path.resolve()  # a symbolic link stays one
    replace_file(target, lambda part: part.write_text(text, encoding="utf-8"), private=True)


def _row(entry: Entry) -> str:
    """Return an entry in one line: as JSON, so that a file in JSON stays one, unless YAML reads that differently."""
    text = json.dumps(entry)
    if load_yaml(text) == entry:
        return text
    return yaml.safe_dump(entry, default_flow_style=True, width=math.inf, allow_unicode=True).strip()


class _Place(NamedTuple):
    """Where a list of keys belongs in the text of a document: between these indices, after the words `before`."""

    start: int
    end: int
    before: str = ""
    after: str = ""


def with_keys(text: str, keys: Sequence[Mapping[str, object]]) -> str:
    r"""Return the text of a settings file with other keys.

    >>> print(with_keys("port: 1 # ours\n", [{"name": "a"}]), end="")
    port: 1 # ours
    keys: [
        {"name": "a"}
      ]
    """
    rows = ",\n".join(f"    {_row(dict(key))}" for key in keys)
    place = _place(text)
    block = f"[\n{rows}\n  ]" if rows else "[]"
    edited = text[: place.start] + place.before + block + place.after + text[place.end :]
    expected = (load_yaml(text) or {}) | {"keys": [dict(key) for key in keys]}  # type: ignore[operator]
    if load_yaml(edited) != expected:
        raise RankloopError("the keys of this settings file cannot be changed by the command; change them by hand.")
    return edited


def _end(node: yaml.Node) -> int:
    """Return where the text of a node ends: that of its last part, since a block extends to the next one."""
    last: Any = node
    while last.id != "scalar" and not last.flow_style and last.value:
        last = last.value[-1][1] if last.id == "mapping" else last.value[-1]
    return int(last.end_mark.index)


def _place(text: str) -> _Place:
    root = yaml.compose(text, yaml.SafeLoader)
    if root is None:
        end = "" if not text or text.endswith("\n") else "\n"
        return _Place(len(text), len(text), f"{end}keys: ", "\n")
    for name, value in root.value:
        if name.value == "keys":
            start = text.index(":", name.end_mark.index) + 1
            return _Place(start, max(start, _end(value)), " ")
    if root.flow_style:
        start = root.start_mark.index + 1
        return _Place(start, start, '"keys": ', ", " if root.value else "")
    end = root.end_mark.index
    gap = "" if text[:end].endswith("\n") else "\n"
    return _Place(end, end, f"{gap}keys: ", "\n")
