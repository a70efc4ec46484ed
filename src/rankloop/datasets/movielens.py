"""MovieLens ratings, from the .dat files of 1M and the .csv files of 25M and latest-small."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from rankloop.datasets.errors import BadData
from rankloop.datasets.ratings import Ratings, category_masks, number_ids
from rankloop.datasets.text_files import number_rows, opened, text_lines
from rankloop.types import FloatArray

HEAD = b"userId,movieId,rating"
NONE = "(no genres listed)"


def read_dat(path: str | Path) -> Ratings:
    """Return ratings and genres from a folder or zip with ratings.dat and movies.dat; items are the rated movies."""
    path = Path(path)
    with opened(path, "movies.dat") as stream:
        genres = {}
        for line in text_lines(stream, "latin-1"):
            fields = line.split("::")
            if len(fields) != 3 or not fields[0].isdecimal():
                raise BadData(f"movies.dat of {path} has {line[:60]!r} for MovieID::Title::Genres; download it again.")
            genres[int(fields[0])] = fields[2]
    with opened(path, "ratings.dat") as stream:
        return _ratings(f"ratings.dat of {path}", number_rows(stream, "ratings.dat", 4, b"::"), genres)


def read_csv(path: str | Path) -> Ratings:
    """Return ratings and genres from a folder or zip with ratings.csv and movies.csv; items are the rated movies."""
    path = Path(path)
    with opened(path, "movies.csv") as stream:
        rows = csv.reader(text_lines(stream))
        if next(rows, None) != ["movieId", "title", "genres"]:
            raise BadData(
                f"movies.csv of {path} does not start with movieId,title,genres: it is a file of another kind."
            )
        genres = {}
        for row in rows:
            if len(row) != 3 or not row[0].isdecimal():
                raise BadData(
                    f"movies.csv of {path} has {','.join(row)[:60]!r} for movieId,title,genres; download it again."
                )
            genres[int(row[0])] = row[2]
    with opened(path, "ratings.csv") as stream:
        head = stream.readline().strip()
        if not head.startswith(HEAD):
            raise BadData(f"ratings.csv of {path} does not start with {HEAD.decode()}: it is a file of another kind.")
        columns = head.count(b",") + 1
        return _ratings(f"ratings.csv of {path}", number_rows(stream, "ratings.csv", columns, b","), genres)


def _ratings(name: str, rows: Iterator[FloatArray], genres: Mapping[int, str]) -> Ratings:
    """Return ratings from rows of user, movie, stars, … and the genres of each movie."""
    parts = []
    for block in rows:
        ids = block[:, :2].astype(np.int32)
        if (ids != block[:, :2]).any() or (ids < 0).any() or not ((block[:, 2] >= 0.5) & (block[:, 2] <= 5)).all():
            raise BadData(
                f"{name} has an id that is no whole number or stars outside 0.5 to 5: it is a file of another kind."
            )
        parts.append((ids[:, 0].copy(), ids[:, 1].copy(), block[:, 2].astype(np.float32)))
    if not parts:
        raise BadData(f"{name} holds no rating; download it again.")
    user, users = number_ids(np.concatenate([part[0] for part in parts]))
    item, movies = number_ids(np.concatenate([part[1] for part in parts]))
    unknown = [m for m in movies.tolist() if m not in genres]
    if unknown:
        raise BadData(
            f"{name} rates movie {unknown[0]}, which the list of movies lacks: the two files do not belong together."
        )
    return Ratings(
        user=user,
        item=item,
        value=np.concatenate([part[2] for part in parts]).astype(np.float64),
        users=len(users),
        items=len(movies),
        item_ids=tuple(map(str, movies.tolist())),
        categories=category_masks([[g for g in genres[m].split("|") if g not in ("", NONE)] for m in movies.tolist()]),
    )
