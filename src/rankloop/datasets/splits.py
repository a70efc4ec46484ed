"""Relevance judgements for training, validation and testing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rankloop.datasets.judgements import Judgements, count_judgements, join, read_judgements


@dataclass(frozen=True)
class Split:
    """Training, validation and test judgements, with disjoint queries."""

    train: Judgements
    vali: Judgements | None
    test: Judgements


def read_split(
    files: Mapping[str, Path], *, features: int | None = None, sparse: bool = False, queries: int | None = None
) -> Split:
    """Return the split from files by role: `train` (or `train 1`, `train 2`, ...), `vali` if any, and `test`.

    Args:
        files: role -> path.
        features: d, where known.
        sparse: accept lines that omit features.
        queries: maximum number of queries to read from each file.
    """
    parts = {
        role: read_judgements(path, features=features, sparse=sparse, queries=queries) for role, path in files.items()
    }
    train = join([part for role, part in parts.items() if role.startswith("train")])
    return Split(train, parts.get("vali"), parts["test"])


def count_split(files: Mapping[str, Path], *, features: int | None = None, sparse: bool = False) -> dict[str, int]:
    """Count queries, rows and features, and the queries for training and testing."""
    counts = {role: count_judgements(path, features=features, sparse=sparse) for role, path in files.items()}
    return {
        "queries": sum(count.queries for count in counts.values()),
        "rows": sum(count.rows for count in counts.values()),
        "features": max(count.features for count in counts.values()),
        "train queries": sum(count.queries for role, count in counts.items() if role.startswith("train")),
        "test queries": counts["test"].queries,
    }
