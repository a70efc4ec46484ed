"""Bytes of an entry: a head of JSON that most entries have in common, then numbers, arrays and texts.

The head says what follows, in this order: under `#` the numbers by name with their `struct` formats, under `` the
arrays and texts by name with type and shape (a text is of type `s`), under `v` the version of the format. Most heads
repeat, so they are written and read once and remembered. Whatever else stands in a head are values of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.eventlog.format_history import FORMAT, upgraded_header

REMEMBERED, SHORT = 2048, 4096
"""Heads that are remembered, and their bytes at most: those of many items come once."""
TEXT = "s"
Fixed = tuple[tuple[str, Any], ...]
Formats = tuple[tuple[str, str], ...]
Shapes = tuple[tuple[str, str, tuple[int, ...]], ...]
Values = tuple[Any, ...]

_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def header(fixed: Mapping[str, object], formats: Formats = (), shapes: Shapes = ()) -> bytes:
    """The head of an entry: JSON, spaces up to a multiple of eight bytes with the end of the line."""
    what = {"#": dict(formats)} if formats else {}
    line = _json({"v": FORMAT, **fixed, **what, "": shapes}).encode()
    return line + b" " * (-(len(line) + 1) % 8) + b"\n"


@lru_cache(REMEMBERED)
def cached_header(fixed: Fixed, formats: Formats, shapes: Shapes) -> bytes:
    """A head that is likely to come again; its values are hashable."""
    return header(dict(fixed), formats, shapes)


@lru_cache
def numbers(formats: Formats) -> Struct:
    """How numbers are packed, and unpacked."""
    return Struct("<" + "".join(format for _, format in formats))


class _Part(NamedTuple):
    """Where an array or a text stands behind the head."""

    name: str
    type: str
    shape: tuple[int, ...]
    start: int  # in bytes
    stop: int
    words: slice | None  # among numbers of eight bytes, where it is of those


@dataclass(frozen=True, eq=False)
class Header:
    """What a head says. Equal heads are the same object, as long as they are remembered."""

    fixed: Mapping[str, Any]
    names: tuple[str, ...]  # of what follows: numbers, then arrays and texts
    numbers: Struct
    parts: tuple[_Part, ...]
    words: int  # numbers of eight bytes behind the head, up to the last that an array needs


def unpack(body: bytes) -> tuple[Header, Values]:
    """The head, and what follows; arrays are views of the bytes."""
    end = body.index(b"\n") + 1
    known = _understood(body[:end]) if end <= SHORT else _read_head(body[:end])
    # One array over the numbers of eight bytes, and slices of it: half the time of one array for each.
    whole = np.frombuffer(body, np.float64, known.words, end) if known.words else None
    found: list[Any] = []
    for _, type, shape, start, stop, words in known.parts:
        if words is not None and whole is not None:
            array: NDArray[Any] = whole[words] if type == "d" else whole[words].view(np.int64)
        elif type == TEXT:
            found.append(body[end + start : end + stop].decode())
            continue
        else:
            array = np.frombuffer(body, type, math.prod(shape), end + start)
        found.append(array if len(shape) == 1 else array.reshape(shape))
    return known, (*known.numbers.unpack_from(body, end), *found)


def unpack_all(bodies: Sequence[bytes]) -> list[tuple[Header, Values]]:
    """As `unpack` for each, in half the time for many: arrays are views of all bytes together."""
    alike: dict[tuple[bytes, int], list[int]] = {}
    for i, body in enumerate(bodies):
        alike.setdefault((body[: body.index(b"\n") + 1], len(body)), []).append(i)
    unpacked: list[Any] = [None] * len(bodies)
    for (line, length), which in alike.items():
        n, end = len(which), len(line)
        known = _understood(line) if end <= SHORT else None
        if known is None or length % 8 or not known.parts or any(part.words is None for part in known.parts):
            for i in which:
                unpacked[i] = unpack(bodies[i])
            continue
        block = np.frombuffer(b"".join([bodies[i] for i in which])).reshape(n, length // 8)[:, end // 8 :]
        columns = [
            (block[:, part.words] if part.type == "d" else block[:, part.words].view(np.int64)).reshape(n, *part.shape)
            for part in known.parts
        ]
        read = known.numbers.unpack_from
        for i, arrays in zip(which, zip(*columns, strict=True), strict=True):
            unpacked[i] = known, read(bodies[i], end) + arrays
    return unpacked


def _read_head(line: bytes) -> Header:
    fixed = json.loads(line)
    version = fixed.pop("v", 1)
    if version > FORMAT:
        raise ValueError(f"an event of a newer format than {FORMAT}, the newest that this version reads")
    formats = fixed.pop("#", {})
    given: Sequence[Any] = fixed.pop("")
    packed = numbers(tuple(formats.items()))
    parts, at, last = [], packed.size, 0
    for name, type, shape in given:
        size = shape[0] if type == TEXT else math.prod(shape) * np.dtype(type).itemsize
        aligned = type in "dl" and at % 8 == 0 and len(line) % 8 == 0
        words = slice(at // 8, (at + size) // 8) if aligned else None
        parts.append(_Part(name, type, tuple(shape), at, at + size, words))
        at += size
        last = at // 8 if aligned else last
    names = (*formats, *(part.name for part in parts))
    return Header(upgraded_header(fixed, version), names, packed, tuple(parts), last)


_understood = lru_cache(REMEMBERED)(_read_head)
