"""Read graded documents in SVMlight format: `grade qid:Q 1:v 2:v ... # comment`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.datasets.text_files import NUMERIC, bad_line, blocks, opened, parse_numbers
from rankloop.types import FloatArray, IntArray

HEAD, PAIR = b" qid:", b" :"
"""What remains of a line without its numbers: a head, then a pair for each feature."""

ABSENT_ABOVE = 1e300
"""Istella writes the largest double for a missing value; values above this bound are read as 0."""

GRADE_LIMIT = 32
"""Grades are below this; no data set has as many."""


class SvmlightRows(NamedTuple):
    """The rows of some lines of a file."""

    grade: IntArray  # [n]
    query: IntArray  # [n]
    x: FloatArray  # [n, d]


def row_blocks(path: Path, features: int | None, sparse: bool) -> Iterator[SvmlightRows]:
    """Yield the rows of a plain or gz file in blocks; `features` None takes the number of the first line."""
    line = 1
    with opened(path) as stream:
        for text in blocks(stream):
            block = _tidy(text)
            d = block[: block.find(b"\n")].translate(None, NUMERIC).count(PAIR) if features is None else features
            if block:
                rows = _parse(block, d, sparse)
                if rows is None:
                    lines = block.splitlines(keepends=True)
                    bad = next(i for i, row in enumerate(lines) if _parse(row, d, sparse) is None)
                    wanted = f"a grade, a qid and {'some of ' if sparse else ''}the features 1 to {d}"
                    raise bad_line(path.name, line + bad, lines[bad].rstrip(), wanted)
                features = d
                yield rows
            line += text.count(b"\n")


def first_width(path: Path) -> int | None:
    """Return the number of features in the first line; None where it cannot be read."""
    try:
        with opened(path) as stream:
            line = _tidy(stream.readline(1 << 16).strip() + b"\n")
    except ValueError:
        return None
    marks = line.strip().translate(None, NUMERIC)
    return marks.count(PAIR) if marks.startswith(HEAD) else None


def _tidy(text: bytes) -> bytes:
    """Return the text without comments, trailing blanks and repeated blanks."""
    if b"#" in text:
        text = re.sub(rb"#[^\n]*", b"", text)
    text = text.replace(b"\t", b" ")
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    return re.sub(rb"\n\n+", b"\n", text.replace(b" \n", b"\n")).lstrip(b"\n")


def _parse(block: bytes, d: int, sparse: bool) -> SvmlightRows | None:
    """Return the rows of complete lines; None if one of them is malformed."""
    marks = block.translate(None, NUMERIC)
    pairs = np.array([mark.count(PAIR) for mark in marks.splitlines()])
    if marks != b"".join([HEAD + PAIR * k + b"\n" for k in pairs.tolist()]) or (not sparse and (pairs != d).any()):
        return None
    found = parse_numbers(block.replace(b"qid:", b"").replace(b":", b" "))
    head = np.cumsum(2 + 2 * pairs) - (2 + 2 * pairs)
    if d == 0 or found.size != (2 + 2 * pairs).sum():
        return None
    column, value = np.delete(found, np.concatenate([head, head + 1])).reshape(-1, 2).T
    with np.errstate(invalid="ignore"):
        grade, query, index = (a.astype(np.int64) for a in (found[head], found[head + 1], column))
    row = np.repeat(np.arange(len(pairs)), pairs)
    whole = (grade == found[head]) & (query == found[head + 1]) & (query >= 0) & (grade >= 0) & (grade < GRADE_LIMIT)
    ordered = (index == column) & (index >= 1) & (index <= d) & (np.diff(row * (d + 1) + index, prepend=0) > 0)
    if not whole.all() or not ordered.all():
        return None
    x = np.zeros((len(pairs), d))
    x[row, index - 1] = np.where(np.abs(value) < ABSENT_ABOVE, value, 0.0)
    return SvmlightRows(grade, query, x)
