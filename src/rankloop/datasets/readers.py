"""Read and count each data set, given its files as role -> path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rankloop.datasets import bandit_log, million_song, mnist, movielens, yelp
from rankloop.datasets.ratings import Ratings
from rankloop.datasets.splits import Split, count_split, read_split

Files = Mapping[str, Path]

MSLR_FEATURES, ISTELLA_FEATURES = 136, 220


def movielens_dat(files: Files) -> Ratings:
    """Return the ratings of MovieLens 1M."""
    return movielens.read_dat(_zip_or_folder(files))


def movielens_csv(files: Files) -> Ratings:
    """Return the ratings of MovieLens 25M or latest small."""
    return movielens.read_csv(_zip_or_folder(files))


def _zip_or_folder(files: Files) -> Path:
    return files["zip"] if "zip" in files else files["ratings"].parent


def yelp_reviews(files: Files) -> Ratings:
    """Return the reviews of all businesses."""
    if "npz" in files:
        return yelp.read_npz(files["npz"], files.get("categories"))
    return yelp.read_json(files["reviews"].parent)


def yelp_restaurants(files: Files) -> Ratings:
    """Return the reviews of restaurants, and the users who reviewed one."""
    return yelp_reviews(files).within("Restaurants").active()


def song_plays(files: Files) -> Ratings:
    """Return play counts, with genres if their files exist."""
    return million_song.read_triplets(files["triplets"], genres=files.get("genres"), tracks=files.get("tracks"))


def song_genres(files: Files) -> dict[str, tuple[str, ...]]:
    """Return the genres of each song, song -> genres."""
    return million_song.read_genres(files["genres"], files["tracks"])


def mnist_digits(files: Files) -> mnist.Digits:
    """Return all digits."""
    return mnist.read_mnist(files["train images"].parent)


def mslr(files: Files) -> Split:
    """Return one fold."""
    return read_split(files, features=MSLR_FEATURES)


def letor(files: Files) -> Split:
    """Return one fold, or S1 to S3 for training, S4 for validation and S5 for testing, as in Fold 1."""
    return read_split(files)


def istella(files: Files) -> Split:
    """Return the split of the two or three files."""
    return read_split(files, features=ISTELLA_FEATURES, sparse=True)


def open_bandit(files: Files) -> bandit_log.BanditLog:
    """Return the log of the random policy over all items; `read_log` reads the other logs."""
    return bandit_log.read_log(files["random/all"].parents[2])


def count_ratings(read: Callable[[Files], Ratings], rows: str = "ratings") -> Callable[[Files], dict[str, int]]:
    """Return a function that counts users, items, rows, and categories if there are any."""

    def counts(files: Files) -> dict[str, int]:
        found = read(files)
        sizes = {"users": found.users, "items": found.items, rows: len(found.value)}
        return sizes | ({"categories": len(found.categories)} if found.categories else {})

    return counts


def count_genres(files: Files) -> dict[str, int]:
    """Count songs and genres."""
    genres = song_genres(files)
    return {"songs": len(genres), "genres": len({name for names in genres.values() for name in names})}


def count_mnist(files: Files) -> dict[str, int]:
    """Count images."""
    found = mnist_digits(files)
    return {"images": len(found.labels), "train images": found.train}


def count_mslr(files: Files) -> dict[str, int]:
    """Count queries and rows."""
    return count_split(files, features=MSLR_FEATURES)


def count_letor(files: Files) -> dict[str, int]:
    """Count queries and rows."""
    return count_split(files)


def count_istella(files: Files) -> dict[str, int]:
    """Count queries and rows."""
    return count_split(files, features=ISTELLA_FEATURES, sparse=True)


def count_open_bandit(files: Files) -> dict[str, int]:
    """Count logs, rows and clicks."""
    logs = [path for role, path in files.items() if not role.endswith(" items")]
    clicks = [
        row[0] == "1"
        for path in logs
        for row in bandit_log.rows(path.parent, path.name.removesuffix(".gz"), ("click",))
    ]
    return {"logs": len(logs), "rows": len(clicks), "clicks": sum(clicks)}
