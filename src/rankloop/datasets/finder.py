"""Finding and reading the data sets below a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rankloop import validate
from rankloop.datasets.errors import MissingData
from rankloop.datasets.layout import walk
from rankloop.datasets.registry import SETS, DataSet
from rankloop.errors import InvalidInput, RankloopError

VARIABLE = "RANKLOOP_DATA"
T = TypeVar("T")


@dataclass(frozen=True)
class FoundDataSet:
    """What is below a folder of one data set."""

    data: DataSet
    files: dict[str, Path]  # role -> path; none where it is missing
    counts: dict[str, int]
    problem: str | None = None  # what is wrong with the files


def root(given: str | None = None) -> Path:
    """The folder of the data: the one given, or else the one that RANKLOOP_DATA names."""
    field, name = ("--data", given) if given is not None else (VARIABLE, os.environ.get(VARIABLE))
    if name is None:
        raise MissingData(f"nobody said where the data lie; give --data DIR or set {VARIABLE}.")
    if not name.strip() or not Path(name).is_dir():
        raise InvalidInput(field, name, "a folder that is there")
    return Path(name)


def find(root: str | Path, id: str) -> dict[str, Path]:
    """The files of a data set below the root, role -> path; where it is missing, how to get it."""
    found = _search(walk(Path(root).absolute()), id)
    if not found:
        raise MissingData(f"data set {id} is not in {root}: {how_to_get(SETS[id])}.")
    return found


def read(root: str | Path, id: str, kind: type[T]) -> T:
    """A data set below the root: `Ratings`, `Digits`, `Split`, `BanditLog`, or a `dict` of song -> genres."""
    return of_kind(kind, id, SETS[id].read(find(root, id)))


def of_kind(kind: type[T], id: str, found: object) -> T:
    """What was read of a data set; refused where it is of another kind."""
    if not isinstance(found, kind):
        raise InvalidInput("data set", id, f"one that is read as {kind.__name__}")
    return found


def how_to_get(data: DataSet) -> str:
    """What a person does to get it."""
    return f"get {data.what} from {data.where} ({data.licence}) and {data.put}"


def survey(root: str | Path, ids: Sequence[str] = tuple(SETS)) -> list[FoundDataSet]:
    """Every data set: its files and counts, what is wrong with them, or nothing where it is missing."""
    tree = walk(Path(root).absolute())
    return [_survey_one(_search(tree, id), SETS[id]) for id in ids]


def _survey_one(files: dict[str, Path], data: DataSet) -> FoundDataSet:
    try:
        return FoundDataSet(data, files, data.counts(files) if files else {})
    except RankloopError as error:
        return FoundDataSet(data, files, {}, str(error))


def _search(tree: Sequence[Path], id: str) -> dict[str, Path]:
    """Role -> path of the most wanted layout in a tree; nothing where there is none."""
    data = SETS[validate.choice("data set", id, SETS)]
    for pattern in data.patterns:
        found = pattern.find(tree)
        if found is not None:
            return found | (_search(tree, data.also) if data.also else {})
    return {}
