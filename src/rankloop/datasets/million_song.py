"""Million Song Dataset: play counts of the Taste Profile, and genres of songs."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from rankloop.datasets.errors import BadData
from rankloop.datasets.ratings import Ratings, category_masks
from rankloop.datasets.text_files import opened, text_lines, word_columns

SEP = "<SEP>"


def read_triplets(path: str | Path, *, genres: str | Path | None = None, tracks: str | Path | None = None) -> Ratings:
    """Return play counts from lines `user<TAB>song<TAB>plays`, plain, gz or zip; ids are numbered in file order.

    With `genres` and `tracks` (see `read_genres`), categories are genres.
    """
    path = Path(path)
    users: defaultdict[bytes, int] = defaultdict()
    songs: defaultdict[bytes, int] = defaultdict()
    users.default_factory, songs.default_factory = users.__len__, songs.__len__
    parts = []
    with opened(path) as stream:
        for user, song, plays in word_columns(stream, path.name, 3, b"\t"):
            n = len(user)
            if not b"".join(plays).isdigit() or b"" in plays:
                raise BadData(
                    f"{path.name} has a play count that is no whole number: the file is damaged or of another kind."
                )
            parts.append(
                (
                    np.fromiter(map(users.__getitem__, user), dtype=np.int32, count=n),
                    np.fromiter(map(songs.__getitem__, song), dtype=np.int32, count=n),
                    np.array(plays).astype(np.float64),
                )
            )
    if not parts:
        raise BadData(f"{path.name} holds no triplet; download it again.")
    ids = tuple(song.decode("ascii") for song in songs)
    of = read_genres(genres, tracks) if genres is not None and tracks is not None else {}
    return Ratings(
        user=np.concatenate([part[0] for part in parts], dtype=np.int64),
        item=np.concatenate([part[1] for part in parts], dtype=np.int64),
        value=np.concatenate([part[2] for part in parts]),
        users=len(users),
        items=len(songs),
        item_ids=ids,
        categories=category_masks([of.get(song, ()) for song in ids]),
    )


def read_genres(genres: str | Path, tracks: str | Path) -> dict[str, tuple[str, ...]]:
    """Return the genres of each song's tracks, song -> genres.

    Args:
        genres: lines `track<TAB>genre` or `track<TAB>genre<TAB>second genre`, # before comments (tagtraum's .cls).
        tracks: lines `track<SEP>song<SEP>artist<SEP>title` (unique_tracks.txt).
    """
    genres, tracks = Path(genres), Path(tracks)
    of_track: dict[str, list[str]] = {}
    with opened(genres) as stream:
        for line in text_lines(stream):
            fields = line.rstrip().split("\t")
            if not line.strip() or line.startswith("#"):
                continue
            if len(fields) not in (2, 3):
                raise BadData(
                    f"{genres.name} has {line[:60]!r} for a track and one or two genres: it is a file of another kind."
                )
            of_track[fields[0]] = fields[1:]
    found: defaultdict[str, set[str]] = defaultdict(set)
    with opened(tracks) as stream:
        for line in text_lines(stream):
            fields = line.split(SEP)
            if len(fields) != 4:
                raise BadData(f"{tracks.name} has {line[:60]!r} for track<SEP>song<SEP>artist<SEP>title: wrong file.")
            if fields[0] in of_track:
                found[fields[1]].update(of_track[fields[0]])
    return {song: tuple(sorted(names)) for song, names in found.items()}
