"""Tiny made data sets in the layouts of the real ones."""

from __future__ import annotations

import gzip
import json
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

MOVIES = {
    1: ("Émigré, The (1995)", "Adventure|Comedy"),
    7: ("Sea :: Storm (1996)", "Drama"),
    30: ("Quiet (1997)", "Adventure"),
    31: ("Unseen (1998)", "Horror"),
}
STARS = [(2, 30, 5.0), (2, 1, 3.0), (5, 1, 4.0), (5, 7, 1.0), (9, 30, 2.0)]
"""User, movie, stars: users 2, 5, 9; movies 1, 7, 30 rated, 31 not."""

TRIPLETS = [("u1", "SOA", 3), ("u1", "SOB", 1), ("u2", "SOB", 7), ("u3", "SOC", 2)]
REVIEWS = [("a", "x", 5), ("b", "y", 2), ("a", "y", 4), ("a", "x", 3)]


def write(path: Path, content: str | bytes, *, gz: bool = False) -> Path:
    """A file, with .gz added to its name where compressed."""
    raw = content.encode() if isinstance(content, str) else content
    path = path.with_name(path.name + ".gz") if gz else path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if gz else raw)
    return path


def cut(path: Path, share: float = 0.5) -> Path:
    """The same file without its end."""
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    return path


def zipped(folder: Path) -> Path:
    """A zip beside a folder, with the folder in it, as its owners pack it."""
    path = folder.with_name(folder.name + ".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent).as_posix())
    return path


def movielens_dat(folder: Path, *, gz: bool = False) -> Path:
    """ratings.dat and movies.dat; no title has :: in the real files."""
    rows = "".join(f"{u}::{m}::{int(v)}::978300760\n" for u, m, v in STARS)
    movies = "".join(f"{m}::{title.replace(' :: ', ' ')}::{genres}\n" for m, (title, genres) in MOVIES.items())
    write(folder / "ratings.dat", rows, gz=gz)
    write(folder / "movies.dat", movies.encode("latin-1"), gz=gz)
    return folder


def movielens_csv(folder: Path, *, gz: bool = False) -> Path:
    """ratings.csv and movies.csv, with CR LF."""
    rows = "".join(f"{u},{m},{v - 0.5},1147880044\r\n" for u, m, v in STARS)
    movies = "".join(f'{m},"{title}",{genres}\r\n' for m, (title, genres) in MOVIES.items())
    write(folder / "ratings.csv", "userId,movieId,rating,timestamp\r\n" + rows, gz=gz)
    write(folder / "movies.csv", "movieId,title,genres\r\n" + movies.replace("Drama", "(no genres listed)"), gz=gz)
    return folder


def triplets(path: Path, *, gz: bool = False) -> Path:
    return write(path, "".join(f"{user}\t{song}\t{plays}\n" for user, song, plays in TRIPLETS), gz=gz)


def genres(folder: Path) -> tuple[Path, Path]:
    """Tagtraum's genres and the list of tracks: song SOB has two tracks, SOC none."""
    cls = write(folder / "msd_tagtraum_cd1.cls", "# MSD\n#\nTRA\tRock\nTRB\tPop\tRock\nTRC\tJazz\n")
    tracks = ["TRA<SEP>SOA<SEP>Ängel<SEP>One", "TRB<SEP>SOB<SEP>B<SEP>Two", "TRC<SEP>SOB<SEP>B<SEP>Two (live)"]
    return cls, write(folder / "unique_tracks.txt", "\n".join([*tracks, "TRD<SEP>SOC<SEP>C<SEP>Three"]) + "\n")


def yelp_json(folder: Path, prefix: str = "yelp_academic_dataset_") -> Path:
    reviews = [{"review_id": "r", "user_id": u, "business_id": b, "stars": s, "text": "ok\n"} for u, b, s in REVIEWS]
    businesses = [
        {"business_id": "x", "name": "X", "categories": "Restaurants, American (New)"},
        {"business_id": "z", "name": "Z", "categories": "Restaurants"},
        {"business_id": "y", "name": "Y", "categories": None},
    ]
    write(folder / f"{prefix}review.json", "".join(json.dumps(r) + "\n" for r in reviews))
    write(folder / f"{prefix}business.json", "".join(json.dumps(b) + "\n" for b in businesses))
    return folder


def mnist(folder: Path, sizes: tuple[int, int] = (5, 3), *, gz: bool = True, seed: int = 0) -> Path:
    """The four files with random images; labels 0, 1, 2, ..."""
    rng = np.random.default_rng(seed)
    for part, n in zip(("train", "t10k"), sizes, strict=True):
        images = rng.integers(256, size=(n, 784), dtype=np.uint8)
        write(folder / f"{part}-images-idx3-ubyte", struct.pack(">4I", 2051, n, 28, 28) + images.tobytes(), gz=gz)
        labels = (np.arange(n) % 10).astype(np.uint8)
        write(folder / f"{part}-labels-idx1-ubyte", struct.pack(">2I", 2049, n) + labels.tobytes(), gz=gz)
    return folder


def svmlight(grade: Sequence[int], query: Sequence[int], x: NDArray[np.float64], end: str = " \r\n") -> str:
    """Lines as in MSLR-WEB; `end` may hold a comment."""
    lines = zip(grade, query, x.tolist(), strict=True)
    return "".join(f"{g} qid:{q} " + " ".join(f"{i}:{v!r}" for i, v in enumerate(row, 1)) + end for g, q, row in lines)


def random_svmlight(path: Path, queries: Sequence[int], features: int, *, gz: bool = False, end: str = "\n") -> Path:
    """Three documents for each query."""
    rng = np.random.default_rng(len(queries) + features)
    query = np.repeat(queries, 3).tolist()
    x = rng.random((len(query), features)).round(6)
    return write(path, svmlight(rng.integers(3, size=len(query)).tolist(), query, x, end), gz=gz)


def bandit_log(folder: Path, rows: Mapping[str, str] | None = None, *, gz: bool = True) -> Path:
    """Logs of three rows and two items for both policies and all campaigns."""
    head = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,user_feature_2"
    head += ",user_feature_3,user-item_affinity_0,user-item_affinity_1\n"
    log = "0,2019-11-24 00:00:34+00:00,1,3,0,0.5,aa,b,c,d,0.0,0.0\n"
    log += "1,2019-11-24 00:00:35+00:00,0,1,1,0.5,ab,b,,d,0.0,1.0\n"
    log += "2,2019-11-24 00:00:36+00:00,1,2,0,0.25,aa,b,c,e,0.0,1.0\n"
    items = ",item_id,item_feature_0,item_feature_1,item_feature_2,item_feature_3\n"
    items += "0,1,-0.5,p,q,r\n1,0,2.5,o,q,s\n"
    for behaviour in ("random", "bts"):
        for campaign in ("all", "men", "women"):
            place = folder / behaviour / campaign
            write(place / f"{campaign}.csv", head + (rows or {}).get(f"{behaviour}/{campaign}", log), gz=gz)
            write(place / "item_context.csv", items, gz=gz)
    return folder
