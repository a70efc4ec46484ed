"""The data sets that can be read: their files, sources and licences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rankloop.datasets import readers
from rankloop.datasets.layout import FileLayout

Files = Mapping[str, Path]
"""Role -> path."""

FOLDS = range(1, 6)


@dataclass(frozen=True)
class DataSet:
    """A data set that users download themselves."""

    id: str
    title: str
    patterns: tuple[FileLayout, ...]  # in order of preference
    what: str  # the files to download
    where: str  # the site of the owner
    licence: str
    read: Callable[[Files], object]
    counts: Callable[[Files], dict[str, int]]
    put: str = "put it there"
    also: str | None = None  # a data set that is read with it, if present


def _movielens(id: str, title: str, name: str, suffix: str, licence: str) -> DataSet:
    """Return a MovieLens data set: a zip file of GroupLens, or the extracted folder."""
    files = {"ratings": f"{name}/ratings.{suffix}", "movies": f"{name}/movies.{suffix}"}
    read = readers.movielens_dat if suffix == "dat" else readers.movielens_csv
    patterns = (FileLayout({"zip": f"{name}.zip"}), FileLayout(files))
    where = "grouplens.org/datasets/movielens"
    return DataSet(id, title, patterns, f"{name}.zip", where, licence, read, readers.count_ratings(read))


def _folds(under: str = "", width: int | None = None) -> tuple[FileLayout, ...]:
    """Return the layouts of the five folds of MSLR-WEB and LETOR; the first fold is preferred."""
    return tuple(
        FileLayout({role: f"Fold{fold}/{role}.txt" for role in ("train", "vali", "test")}, ("vali",), under, width)
        for fold in FOLDS
    )


def _copies(name: str) -> tuple[FileLayout, ...]:
    """Return layouts of files such as web30k_fold1_train.txt; folds of different collections are never mixed."""
    return tuple(
        FileLayout({role: f"{name}_fold{fold}_{role}*.txt" for role in ("train", "vali", "test")}, ("vali",))
        for fold in FOLDS
    )


YELP_JSON = tuple(
    FileLayout({"reviews": f"{name}review.json", "businesses": f"{name}business.json"})
    for name in ("yelp_academic_dataset_", "")
)
YELP_NAMED = FileLayout({"npz": "yelp_core40.npz", "categories": "yelp_core40_categories.csv"})
YELP = ("yelp_academic_dataset_review.json and yelp_academic_dataset_business.json", "www.yelp.com/dataset")
YELP_LICENCE = "Yelp's dataset terms: academic use, no redistribution"
UNPACK = "unpack it there"
MICROSOFT = "Microsoft's terms: research use"
SPLIT = {"train": "train.txt", "vali": "vali.txt", "test": "test.txt"}
PARTS = {"test": "S5.txt", "vali": "S4.txt", "train 1": "S1.txt", "train 2": "S2.txt", "train 3": "S3.txt"}
DIGITS = {
    f"{part} {kind}": f"{name}-{kind}?idx{rank}-ubyte"
    for part, name in (("train", "train"), ("test", "t10k"))
    for kind, rank in (("images", 3), ("labels", 1))
}
LOGS = {
    f"{behaviour}/{campaign}{role}": f"{behaviour}/{campaign}/{name or campaign}.csv"
    for behaviour in ("random", "bts")
    for campaign in ("all", "men", "women")
    for role, name in (("", ""), (" items", "item_context"))
}

_ALL = (
    _movielens(
        "movielens-1m",
        "MovieLens 1M",
        "ml-1m",
        "dat",
        "research use, no redistribution without permission, no commercial use",
    ),
    _movielens("movielens-25m", "MovieLens 25M", "ml-25m", "csv", "research use, no redistribution, no commercial use"),
    _movielens(
        "movielens-small",
        "MovieLens latest small",
        "ml-latest-small",
        "csv",
        "research use, redistribution under the same conditions, no commercial use",
    ),
    DataSet(
        "yelp",
        "Yelp reviews",
        (*YELP_JSON, FileLayout({"npz": "yelp_hin.npz"}), YELP_NAMED),
        *YELP,
        YELP_LICENCE,
        readers.yelp_reviews,
        readers.count_ratings(readers.yelp_reviews),
    ),
    DataSet(
        "yelp-restaurants",
        "Yelp reviews of restaurants, with named categories",
        (*YELP_JSON, YELP_NAMED),
        *YELP,
        YELP_LICENCE,
        readers.yelp_restaurants,
        readers.count_ratings(readers.yelp_restaurants),
    ),
    DataSet(
        "songs",
        "Million Song, Taste Profile plays",
        tuple(FileLayout({"triplets": f"train_triplets{end}"}) for end in (".txt", ".txt.zip", "*.txt")),
        "train_triplets.txt.zip",
        "millionsongdataset.com/tasteprofile",
        "research use",
        readers.song_plays,
        readers.count_ratings(readers.song_plays, "triplets"),
        also="song-genres",
    ),
    DataSet(
        "song-genres",
        "Million Song, genres",
        tuple(FileLayout({"genres": f"*.cls{end}", "tracks": "unique_tracks.txt"}) for end in ("", ".zip")),
        "msd_tagtraum_cd2c.cls",
        "www.tagtraum.com/msd_genre_datasets.html, and unique_tracks.txt from millionsongdataset.com",
        "research use, see the site",
        readers.song_genres,
        readers.count_genres,
        "put both into one folder there",
    ),
    DataSet(
        "mnist",
        "MNIST digits",
        (FileLayout(DIGITS),),
        "its four idx-ubyte files",
        "yann.lecun.com/exdb/mnist",
        "CC BY-SA 3.0, as it is usually cited",
        readers.mnist_digits,
        readers.count_mnist,
    ),
    DataSet(
        "mslr-web",
        "MSLR-WEB30K, or else WEB10K, one fold",
        (*_folds(under="web30k"), *_copies("web30k"), *_folds(under="web10k"), *_copies("web10k"), *_folds(width=136)),
        "MSLR-WEB30K.zip",
        "www.microsoft.com/en-us/research/project/mslr",
        MICROSOFT,
        readers.mslr,
        readers.count_mslr,
        UNPACK,
    ),
    DataSet(
        "letor",
        "LETOR 4.0 MQ2007 or MQ2008, one fold",
        (
            *_folds(under="mq2007", width=46),
            *_folds(width=46),
            FileLayout(PARTS, ("vali", "train 1", "train 2", "train 3")),
        ),
        "MQ2007 or MQ2008",
        "www.microsoft.com/en-us/research/project/letor-learning-rank-information-retrieval",
        MICROSOFT,
        readers.letor,
        readers.count_letor,
        UNPACK,
    ),
    DataSet(
        "istella",
        "Istella LETOR",
        (FileLayout(SPLIT, ("vali",), under="istella"), FileLayout(SPLIT, ("vali",), width=220)),
        "istella-letor.tar.gz",
        "istella.ai/datasets/letor-dataset",
        "Istella's licence: no commercial use",
        readers.istella,
        readers.count_istella,
        UNPACK,
    ),
    DataSet(
        "open-bandit",
        "Open Bandit Dataset",
        (FileLayout(LOGS, tuple(role for role in LOGS if not role.startswith("random/all"))),),
        "open_bandit_dataset.zip",
        "research.zozo.com/data.html",
        "CC BY 4.0",
        readers.open_bandit,
        readers.count_open_bandit,
        UNPACK,
    ),
)

SETS = {known.id: known for known in _ALL}
"""Id -> data set."""
