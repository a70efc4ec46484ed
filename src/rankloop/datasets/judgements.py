"""Relevance judgements, i.e. graded documents of queries: MSLR-WEB, LETOR and Istella."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rankloop.datasets.errors import BadData
from rankloop.datasets.svmlight import SvmlightRows, row_blocks
from rankloop.errors import InvalidInput, Words
from rankloop.types import BoolArray, FloatArray, IntArray

MIN_STANDARD_DEVIATION = 1e-6


@dataclass(frozen=True)
class Queries:
    """Documents of Q queries, padded with 0 to the longest; `present` marks the real entries."""

    grade: IntArray  # [Q, L]
    x: FloatArray  # [Q, L, d]
    present: BoolArray  # [Q, L]
    id: IntArray  # [Q]


@dataclass(frozen=True)
class Judgements:
    """n judged documents, grouped by query."""

    grade: IntArray  # [n], 0 is irrelevant
    query: IntArray  # [n], the query's id in the file
    x: FloatArray  # [n, d]

    @property
    def starts(self) -> IntArray:
        """Return the first row of each query, [Q]."""
        return _starts(self.query)

    def of(self, queries: IntArray) -> Judgements:
        """Return the documents of some queries, given as indices from 0 to Q-1, in the order of the file."""
        starts = self.starts
        wanted = np.zeros(len(starts), dtype=np.bool_)
        wanted[queries] = True
        rows = np.repeat(wanted, np.diff(starts, append=len(self.query)))
        return Judgements(self.grade[rows], self.query[rows], self.x[rows])

    def by_query(self) -> Queries:
        """Return one padded row for each query, in the order of the file."""
        starts = self.starts
        sizes = np.diff(starts, append=len(self.query))
        present = np.arange(sizes.max(initial=0)) < sizes[:, None]
        grade = np.zeros(present.shape, dtype=np.int64)
        x = np.zeros((*present.shape, self.x.shape[1]))
        grade[present], x[present] = self.grade, self.x
        return Queries(grade, x, present, self.query[starts])


class JudgementCount:
    """Count queries, rows and features; refuse a query whose rows are not contiguous."""

    def __init__(self, name: str) -> None:
        self.name, self.rows, self.features = name, 0, 0
        self._seen: set[int] = set()
        self._last = -1

    @property
    def queries(self) -> int:
        """Return the number of queries."""
        return len(self._seen)

    def add(self, query: IntArray, x: FloatArray) -> None:
        """Count the next rows, [n] and [n, d]."""
        self.rows, self.features = self.rows + len(query), x.shape[1]
        for id in query[_starts(query)].tolist():
            if id in self._seen and id != self._last:
                raise BadData(
                    f"{self.name} has rows of query {id} in two locations; give rows sorted by query, once each."
                )
            self._seen.add(id)
            self._last = id


def read_judgements(
    path: str | Path, *, features: int | None = None, sparse: bool = False, queries: int | None = None
) -> Judgements:
    """Return the judgements of an SVMlight file, plain or gz.

    Args:
        path: the file.
        features: d; None for the number of features in the first line.
        sparse: accept lines that omit features, which are then 0; otherwise every line has features 1 to d.
        queries: maximum number of queries to read, for files that do not fit into memory.
    """
    path = Path(path)
    parts: list[SvmlightRows] = []
    count = JudgementCount(path.name)
    for part in row_blocks(path, features, sparse):
        parts.append(part)
        count.add(part.query, part.x)
        if queries is not None and count.queries > queries:
            break
    if not parts:
        raise BadData(f"{path.name} holds no judgement; download it again.")
    whole = _stack(parts)
    return whole if queries is None else whole.of(np.arange(min(queries, count.queries)))


def count_judgements(path: str | Path, *, features: int | None = None, sparse: bool = False) -> JudgementCount:
    """Count the queries, rows and features of a file, which need not fit into memory."""
    count = JudgementCount(Path(path).name)
    for part in row_blocks(Path(path), features, sparse):
        count.add(part.query, part.x)
    return count


def join(many: Sequence[Judgements]) -> Judgements:
    """Return the concatenated rows of several files of one data set."""
    widths = sorted({part.x.shape[1] for part in many})
    if len(widths) != 1:
        raise InvalidInput(
            "judgements", Words(f"files with {widths} features"), "one file or more, all with the same features"
        )
    ids = np.concatenate([part.query[part.starts] for part in many])
    if len(np.unique(ids)) < len(ids):
        raise InvalidInput("judgements", Words("files that share a query"), "files with different queries")
    return _stack([SvmlightRows(part.grade, part.query, part.x) for part in many])


def scaled(*parts: Judgements) -> tuple[Judgements, ...]:
    """Scale features to [0, 1] over all parts, and drop features whose standard deviation is then below 1e-6.

    Paper `prior`, Appendix F.
    """
    x = np.concatenate([part.x for part in parts])
    low, high = x.min(axis=0), x.max(axis=0)
    x = (x - low) / np.where(high > low, high - low, 1.0)
    x = x[:, x.std(axis=0) >= MIN_STANDARD_DEVIATION]
    cuts = np.cumsum([len(part.x) for part in parts])[:-1]
    return tuple(replace(part, x=columns) for part, columns in zip(parts, np.split(x, cuts), strict=True))


def standardised(*parts: Judgements) -> tuple[Judgements, ...]:
    """Give features mean 0 and standard deviation 1 over all parts; those that `scaled` drops are dropped here too."""
    parts = scaled(*parts)
    x = np.concatenate([part.x for part in parts])
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    return tuple(replace(part, x=(part.x - mean) / deviation) for part in parts)


def _starts(ids: IntArray) -> IntArray:
    return np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))


def _stack(parts: list[SvmlightRows]) -> Judgements:
    """Return all rows; parts are released one by one, so that memory never holds a large file twice."""
    grade, query = np.concatenate([part.grade for part in parts]), np.concatenate([part.query for part in parts])
    x = np.empty((len(grade), parts[0].x.shape[1]))
    end = len(grade)
    while parts:
        part = parts.pop()
        x[end - len(part.x) : end] = part.x
        end -= len(part.x)
    return Judgements(grade, query, x)
