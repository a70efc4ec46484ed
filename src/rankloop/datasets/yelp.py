"""Yelp reviews, from the original JSON lines or from .npz extracts of them."""

from __future__ import annotations

import csv
import json
import zipfile
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from rankloop.datasets.errors import BadData, MissingData
from rankloop.datasets.ratings import Ratings, category_masks, number_ids
from rankloop.datasets.text_files import opened, text_lines

REVIEWS = ("yelp_academic_dataset_review.json", "review.json")
BUSINESSES = ("yelp_academic_dataset_business.json", "business.json")
STARS = (1.0, 5.0)


def read_npz(path: str | Path, categories_csv: str | Path | None = None) -> Ratings:
    """Return the ratings of an extract with `user`, `business` and optional `rating`, each [n]; value 1 if it has none.

    Categories come from a csv of `business,category`, or from the pairs `bc_business`, `bc_category` of the extract,
    which are codes without names. Items are the businesses with a row.
    """
    path = Path(path)
    arrays = _arrays(path)
    user, users = number_ids(arrays["user"].astype(np.int64))
    item, businesses = number_ids(arrays["business"].astype(np.int64))
    value = arrays.get("rating", np.ones(len(user))).astype(np.float64)
    if not ((value >= STARS[0]) & (value <= STARS[1])).all():
        raise BadData(f"{path.name} has a rating outside 1 to 5: it is a file of another kind.")
    of: defaultdict[int, list[str]] = defaultdict(list)
    if categories_csv is not None:
        for business, category in _pairs(Path(categories_csv)):
            of[business].append(category)
    elif "bc_business" in arrays and "bc_category" in arrays:
        for business, code in zip(arrays["bc_business"].tolist(), arrays["bc_category"].tolist(), strict=True):
            of[business].append(str(code))
    ids = businesses.tolist()
    masks = category_masks([of[b] for b in ids])
    return Ratings(user, item, value, len(users), len(ids), tuple(map(str, ids)), masks)


def _arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    if not path.is_file():
        raise MissingData(f"{path} does not exist; give a .npz file with user and business.")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (OSError, EOFError, ValueError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error):
        raise BadData(
            f"{path.name} cannot be read as a .npz file: it is damaged or truncated; download it again."
        ) from None
    rows = [arrays.get(name, np.empty(0)) for name in ("user", "business")]
    rows += [arrays["rating"]] if "rating" in arrays else []
    if any(a.ndim != 1 or a.dtype.kind not in "iu" or len(a) != len(rows[0]) for a in rows):
        raise BadData(
            f"{path.name} lacks whole numbers user and business (and rating) of one length: it is of another kind."
        )
    return arrays


def _pairs(path: Path) -> Iterator[tuple[int, str]]:
    """Yield business and category from a csv."""
    with opened(path) as stream:
        rows = csv.reader(text_lines(stream))
        if next(rows, None) != ["business", "category"]:
            raise BadData(f"{path.name} does not start with business,category: it is a file of another kind.")
        for row in rows:
            if len(row) != 2 or not row[0].isdecimal():
                raise BadData(f"{path.name} has {','.join(row)[:60]!r} for business,category; download it again.")
            yield int(row[0]), row[1]


def read_json(path: str | Path) -> Ratings:
    """Return the reviews of a folder or zip with the original *review.json and *business.json.

    Users and items are numbered in the order of the reviews; items are the reviewed businesses.
    """
    path = Path(path)
    users: defaultdict[str, int] = defaultdict()
    businesses: defaultdict[str, int] = defaultdict()
    users.default_factory, businesses.default_factory = users.__len__, businesses.__len__
    user, item, value = array("i"), array("i"), array("d")
    with opened(path, *REVIEWS) as stream:
        for line, review in enumerate(_objects(stream, "review.json", ("user_id", "business_id", "stars")), 1):
            stars = review["stars"]
            if not isinstance(stars, int | float) or not STARS[0] <= stars <= STARS[1]:
                raise BadData(f"review.json line {line} has {stars!r} stars: it is a file of another kind.")
            user.append(users[str(review["user_id"])])
            item.append(businesses[str(review["business_id"])])
            value.append(stars)
    if not value:
        raise BadData(f"review.json of {path} holds no review; download it again.")
    of: list[list[str]] = [[] for _ in businesses]
    with opened(path, *BUSINESSES) as stream:
        for business in _objects(stream, "business.json", ("business_id", "categories")):
            if business["business_id"] in businesses:
                of[businesses[str(business["business_id"])]] = _categories(business["categories"])
    return Ratings(
        user=np.asarray(user, dtype=np.int64),
        item=np.asarray(item, dtype=np.int64),
        value=np.asarray(value),
        users=len(users),
        items=len(businesses),
        item_ids=tuple(businesses),
        categories=category_masks(of),
    )


def _categories(given: object) -> list[str]:
    """Return the categories of names separated by commas, as in newer files, or of a list of names."""
    if isinstance(given, str):
        return [name.strip() for name in given.split(",")] if given else []
    return [str(name).strip() for name in given] if isinstance(given, list) else []


def _objects(stream: IO[bytes], name: str, fields: tuple[str, ...]) -> Iterator[dict[str, object]]:
    """Yield one JSON object per line, with these fields."""
    for line, text in enumerate(stream, 1):
        try:
            found = json.loads(text)
        except ValueError:
            raise BadData(
                f"{name} line {line} is not JSON: the file is damaged or truncated; download it again."
            ) from None
        if not isinstance(found, dict) or any(field not in found for field in fields):
            raise BadData(f"{name} line {line} lacks {', '.join(fields)}: it is a file of another kind.")
        yield found
