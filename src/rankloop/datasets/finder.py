"""Find and read the data sets below a folder."""

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
    """The files of one data set that were found below a folder."""

    data: DataSet
    files: dict[str, Path]  # role -> path; empty if the data set is missing
    counts: dict[str, int]
    problem: str | None = None  # what is wrong with the files


def root(given: str | None = None) -> Path:
    """Return the folder of the data: `given`, or else the environment variable RANKLOOP_DATA."""
    field, name = ("--data", given) if given is not None else (VARIABLE, os.environ.get(VARIABLE))
    if name is None:
        raise MissingData(f"the folder of the data sets is unknown; give --data DIR or set {VARIABLE}.")
    if not name.strip() or not Path(name).is_dir():
        raise InvalidInput(field, name, "an existing folder")
    return Path(name)


def find(root: str | Path, id: str) -> dict[str, Path]:
    """Return the files of a data set below the root, role -> path; if it is missing, the error says how to get it."""
    found = _search(walk(Path(root).absolute()), id)
    if not found:
        raise MissingData(f"data set {id} is not in {root}: {how_to_get(SETS[id])}.")
    return found


def read(root: str | Path, id: str, kind: type[T]) -> T:
    """Return a data set below the root as `Ratings`, `Digits`, `Split`, `BanditLog`, or a `dict` of song -> genres."""
    return of_kind(kind, id, SETS[id].read(find(root, id)))


def of_kind(kind: type[T], id: str, found: object) -> T:
    """Return the content of a data set; refuse one of another type."""
    if not isinstance(found, kind):
        raise InvalidInput("data set", id, f"one that is read as {kind.__name__}")
    return found


def how_to_get(data: DataSet) -> str:
    """Return how to obtain a data set, as text."""
    return f"get {data.what} from {data.where} ({data.licence}) and {data.put}"


def survey(root: str | Path, ids: Sequence[str] = tuple(SETS)) -> list[FoundDataSet]:
    """Return the files, counts and problems of every data set."""
    tree = walk(Path(root).absolute())
    return [_survey_one(_search(tree, id), SETS[id]) for id in ids]


def _survey_one(files: dict[str, Path], data: DataSet) -> FoundDataSet:
    try:
        return FoundDataSet(data, files, data.counts(files) if files else {})
    except RankloopError as error:
        return FoundDataSet(data, files, {}, str(error))


def _search(tree: Sequence[Path], id: str) -> dict[str, Path]:
    """Return role -> path of the preferred layout in a tree; empty if there is none."""
    data = SETS[validate.choice("data set", id, SETS)]
    for pattern in data.patterns:
        found = pattern.find(tree)
        if found is not None:
            return found | (_search(tree, data.also) if data.also else {})
    return {}
