"""The body of a log entry as bytes: a JSON header in one line, then packed numbers, arrays and texts.

The header describes what follows, in this order: `#` maps the names of numbers to their `struct` formats, the field
with the empty name lists the arrays and texts with name, type and shape (a text has type `s`), `v` is the version of
the format. All other fields of the header are values of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from rankloop.eventlog.format_history import FORMAT, upgraded_header

TEXT = "s"
Formats = tuple[tuple[str, str], ...]
Shapes = tuple[tuple[str, str, tuple[int, ...]], ...]
Values = tuple[Any, ...]

_encode = msgspec.json.Encoder(enc_hook=str.__str__).encode  # texts of array libraries are subclasses of str


def header(fixed: Mapping[str, object], formats: Formats = (), shapes: Shapes = ()) -> bytes:
    """Return a header: JSON, padded with spaces to a multiple of eight bytes including the line feed."""
    what = {"#": dict(formats)} if formats else {}
    line = _encode({"v": FORMAT, **fixed, **what, "": shapes})
    return line + b" " * (-(len(line) + 1) % 8) + b"\n"


MAX_CACHED_HEADERS, MAX_CACHED_HEADER_BYTES = 256, 2_000
"""Headers of feedback and decisions are short and alike; that of an event with items has all of them."""


@lru_cache
def numbers(formats: Formats) -> Struct:
    """Return the packing of numbers."""
    return Struct("<" + "".join(format for _, format in formats))


class _Part(NamedTuple):
    """The position of an array or a text behind the header."""

    name: str
    type: str
    shape: tuple[int, ...]
    start: int  # in bytes
    stop: int
    words: slice | None  # the same in words of eight bytes, where it is aligned


@dataclass(frozen=True, eq=False)
class Header:
    """A header that was parsed."""

    fixed: Mapping[str, Any]
    names: tuple[str, ...]  # of the numbers, then of the arrays and texts
    numbers: Struct
    parts: tuple[_Part, ...]
    words: int  # words of eight bytes behind the header, up to the end of the last aligned array


def unpack(body: bytes) -> tuple[Header, Values]:
    """Return the header and the values that follow it; arrays are views of the bytes."""
    end = body.index(b"\n") + 1
    parsed = _parse_header(body[:end])
    return parsed, _values(parsed, body, end)


def _values(parsed: Header, body: bytes, end: int) -> Values:
    """Return the values that follow a header of `end` bytes."""
    # Slices of one array over all words take half the time of one array each.
    block = np.frombuffer(body, np.float64, parsed.words, end) if parsed.words else None
    values: list[Any] = []
    for _, type, shape, start, stop, words in parsed.parts:
        if words is not None and block is not None:
            array: NDArray[Any] = block[words] if type == "d" else block[words].view(np.int64)
        elif type == TEXT:
            values.append(body[end + start : end + stop].decode())
            continue
        else:
            array = np.frombuffer(body, type, math.prod(shape), end + start)
        values.append(array if len(shape) == 1 else array.reshape(shape))
    return (*parsed.numbers.unpack_from(body, end), *values)


def unpack_all(bodies: Sequence[bytes]) -> list[tuple[Header, Values]]:
    """Do as `unpack` for many bodies in half the time: equal headers are parsed once, arrays share one block."""
    alike: dict[tuple[bytes, int], list[int]] = {}
    for i, body in enumerate(bodies):
        alike.setdefault((body[: body.index(b"\n") + 1], len(body)), []).append(i)
    unpacked: list[Any] = [None] * len(bodies)
    for (line, length), which in alike.items():
        n, end, parsed = len(which), len(line), _known_header(line)
        if length % 8 or not parsed.parts or any(part.words is None for part in parsed.parts):
            for i in which:
                unpacked[i] = parsed, _values(parsed, bodies[i], end)
            continue
        block = np.frombuffer(b"".join([bodies[i] for i in which])).reshape(n, length // 8)[:, end // 8 :]
        columns = [
            (block[:, part.words] if part.type == "d" else block[:, part.words].view(np.int64)).reshape(n, *part.shape)
            for part in parsed.parts
        ]
        read = parsed.numbers.unpack_from
        for i, arrays in zip(which, zip(*columns, strict=True), strict=True):
            unpacked[i] = parsed, read(bodies[i], end) + arrays
    return unpacked


def _known_header(line: bytes) -> Header:
    """Return a parsed header, the same for equal ones: a process that follows others reads a few entries at a time."""
    return _recent_header(line) if len(line) <= MAX_CACHED_HEADER_BYTES else _parse_header(line)


@lru_cache(MAX_CACHED_HEADERS)
def _recent_header(line: bytes) -> Header:
    return _parse_header(line)


def _parse_header(line: bytes) -> Header:
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
