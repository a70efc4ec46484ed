"""Ratings: cuts and matrices agree with their definitions, and every layout gives the same rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import data_files
from data_files import REVIEWS, STARS, TRIPLETS, cut, write, zipped
from rankloop.datasets import BadData, MissingData, Ratings
from rankloop.datasets.million_song import read_genres, read_triplets
from rankloop.datasets.movielens import read_csv, read_dat
from rankloop.datasets.ratings import category_masks, number_ids
from rankloop.datasets.yelp import read_json, read_npz
from rankloop.errors import InvalidInput

Rows = list[tuple[int, int, float]]


@st.composite
def ratings(draw: st.DrawFn) -> Ratings:
    """Up to five users and six items; a pair may come twice, a user or item not at all."""
    users, items = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    row = st.tuples(st.integers(0, users - 1), st.integers(0, items - 1), st.sampled_from([0.0, 1.0, 2.5, 5.0]))
    rows = draw(st.lists(row, max_size=12))
    user, item, value = (np.array([r[i] for r in rows]) for i in range(3))
    mask = np.array(draw(st.lists(st.booleans(), min_size=items, max_size=items)))
    ids = tuple(f"i{i}" for i in range(items))
    return Ratings(user.astype(int), item.astype(int), value.astype(float), users, items, ids, {"some": mask})


def rows_of(given: Ratings) -> list[tuple[int, str, float]]:
    return [(int(u), given.item_ids[i], float(v)) for u, i, v in zip(given.user, given.item, given.value, strict=True)]


@given(ratings(), st.sampled_from([0.0, 1.0, 2.5]))
def test_matrices_say_what_the_rows_say(given: Ratings, above: float) -> None:
    liked, seen, R = given.liked(above), given.binary(), given.sparse().toarray()
    for u in range(given.users):
        for i in range(given.items):
            values = given.value[(given.user == u) & (given.item == i)]
            assert liked[u, i] == (values > above).any()
            assert seen[u, i] == bool(len(values))
            assert R[u, i] == pytest.approx(values.mean() if len(values) else 0.0)


@given(ratings(), st.integers(0, 6), st.integers(0, 7))
def test_the_most_active_stay(given: Ratings, users: int, items: int) -> None:
    who = sorted(sorted(range(given.users), key=lambda u: (-(given.user == u).sum(), u))[:users])
    what = sorted(sorted(range(given.items), key=lambda i: (-(given.item == i).sum(), i))[:items])
    kept = given.most(users, items)
    assert kept.item_ids == tuple(given.item_ids[i] for i in what)
    assert (kept.users, kept.items) == (len(who), len(what))
    expected = [
        (who.index(u), given.item_ids[i], v)
        for u, i, v in zip(given.user, given.item, given.value, strict=True)
        if u in who and i in what
    ]
    assert rows_of(kept) == expected
    assert rows_of(given.most()) == rows_of(given)


@given(ratings())
def test_a_category_keeps_its_items_and_all_users(given: Ratings) -> None:
    kept = given.within("some")
    assert kept.users == given.users
    assert set(kept.item_ids) == {given.item_ids[i] for i in np.flatnonzero(given.categories["some"])}
    assert rows_of(kept) == [row for row in rows_of(given) if row[1] in kept.item_ids]
    assert all(mask.shape == (kept.items,) and mask.all() for mask in kept.categories.values())


@given(ratings())
def test_active_drops_exactly_those_without_rows(given: Ratings) -> None:
    kept = given.active()
    assert kept.users == len(set(given.user.tolist()))
    assert kept.items == len(set(given.item.tolist()))
    assert [row[1:] for row in rows_of(kept)] == [row[1:] for row in rows_of(given)]


def test_an_unknown_category_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="category is 'Rock'; accepted: one of Adventure, Comedy, Drama"):
        read_dat(data_files.movielens_dat(tmp_path)).within("Rock")


@given(st.lists(st.integers(-5, 10**9)) | st.lists(st.integers(0, 40), min_size=1))
def test_ids_are_numbered_in_order(ids: list[int]) -> None:
    index, distinct = number_ids(np.array(ids, dtype=np.int64))
    assert distinct.tolist() == sorted(set(ids))
    assert distinct[index].tolist() == ids


def test_masks_are_in_order_of_names() -> None:
    masks = category_masks([["b", "a"], [], ["a"]])
    assert {name: mask.tolist() for name, mask in masks.items()} == {
        "a": [True, False, True],
        "b": [True, False, False],
    }
    assert list(masks) == ["a", "b"]


# MovieLens


def movielens(folder: Path, kind: str, packing: str) -> Ratings:
    make: Callable[..., Path] = data_files.movielens_dat if kind == "dat" else data_files.movielens_csv
    made = make(folder / "ml", gz=packing == "gz")
    return (read_dat if kind == "dat" else read_csv)(zipped(made) if packing == "zip" else made)


@pytest.mark.parametrize("kind", ["dat", "csv"])
@pytest.mark.parametrize("packing", ["folder", "gz", "zip"])
def test_movielens(tmp_path: Path, kind: str, packing: str) -> None:
    found = movielens(tmp_path, kind, packing)
    less = 0.0 if kind == "dat" else 0.5
    user = {2: 0, 5: 1, 9: 2}
    assert rows_of(found) == [(user[u], str(m), v - less) for u, m, v in STARS]
    assert (found.users, found.items, found.item_ids) == (3, 3, ("1", "7", "30"))
    expected = {"Adventure": [True, False, True], "Comedy": [True, False, False]}
    expected |= {"Drama": [False, True, False]} if kind == "dat" else {}
    assert {name: mask.tolist() for name, mask in found.categories.items()} == expected


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("ratings.dat", "1::7::5\n", "line 1 is '1::7::5', not 4 numbers"),
        ("ratings.dat", "1::7::6::0\n", "stars outside 0.5 to 5"),
        ("ratings.dat", "1::7.5::5::0\n", "no whole number"),
        ("ratings.dat", "1::8::5::0\n", "rates movie 8, which the list of movies lacks"),
        ("ratings.dat", "", "holds no rating"),
        ("ratings.dat", "userId,movieId,rating,timestamp\n", "line 1"),
        ("movies.dat", "1::A\n", "for MovieID::Title::Genres"),
    ],
)
def test_bad_dat_files_are_refused(tmp_path: Path, file: str, content: str, said: str) -> None:
    write(data_files.movielens_dat(tmp_path) / file, content)
    with pytest.raises(BadData, match=re.escape(said)):
        read_dat(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("ratings.csv", "user,item,rating\n1,1,5\n", "does not start with userId,movieId,rating"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n1,1,5\n", "line 1 is '1,1,5', not 4 numbers"),
        ("movies.csv", "id,title\n1,A\n", "does not start with movieId,title,genres"),
        ("movies.csv", "movieId,title,genres\n1,A, B,Drama\n", "for movieId,title,genres"),
    ],
)
def test_bad_csv_files_are_refused(tmp_path: Path, file: str, content: str, said: str) -> None:
    write(data_files.movielens_csv(tmp_path) / file, content)
    with pytest.raises(BadData, match=re.escape(said)):
        read_csv(tmp_path)


def test_a_missing_movielens_file_is_named(tmp_path: Path) -> None:
    (data_files.movielens_dat(tmp_path) / "movies.dat").unlink()
    with pytest.raises(MissingData, match=r"has no movies\.dat; give the folder or zip"):
        read_dat(tmp_path)


def test_a_truncated_zip_is_refused(tmp_path: Path) -> None:
    path = cut(zipped(data_files.movielens_csv(tmp_path / "ml")), 0.8)
    with pytest.raises(BadData, match=r"ml\.zip is damaged or truncated"):
        read_csv(path)


# Songs


@pytest.mark.parametrize("gz", [False, True])
def test_triplets(tmp_path: Path, gz: bool) -> None:
    found = read_triplets(data_files.triplets(tmp_path / "train_triplets.txt", gz=gz))
    assert rows_of(found) == [(int(user[1]) - 1, song, plays) for user, song, plays in TRIPLETS]
    assert (found.users, found.item_ids, found.categories) == (3, ("SOA", "SOB", "SOC"), {})


def test_genres_of_songs(tmp_path: Path) -> None:
    genres, tracks = data_files.genres(tmp_path)
    assert read_genres(genres, tracks) == {"SOA": ("Rock",), "SOB": ("Jazz", "Pop", "Rock")}
    found = read_triplets(data_files.triplets(tmp_path / "t.txt"), genres=genres, tracks=tracks)
    assert {name: mask.tolist() for name, mask in found.categories.items()} == {
        "Jazz": [False, True, False],
        "Pop": [False, True, False],
        "Rock": [True, True, False],
    }
    assert found.within("Rock").item_ids == ("SOA", "SOB")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("u\ts\t1\nu\ts\n", "line 2"),
        ("u\ts\tx\n", "no whole number"),
        ("u\ts\t\n", "no whole number"),
        ("", "no triplet"),
    ],
)
def test_bad_triplets_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadData, match=said):
        read_triplets(write(tmp_path / "t.txt", text))


def test_bad_genres_are_refused(tmp_path: Path) -> None:
    genres, tracks = data_files.genres(tmp_path)
    with pytest.raises(BadData, match="for a track and one or two genres"):
        read_genres(tracks, tracks)
    with pytest.raises(BadData, match="for track<SEP>song<SEP>artist<SEP>title"):
        read_genres(genres, genres)


# Yelp


def npz(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


USER, BUSINESS = np.array([3, 3, 9], dtype=np.uint16), np.array([40, 2, 2], dtype=np.uint16)


def test_a_cut_with_ratings_and_codes(tmp_path: Path) -> None:
    pairs = {"bc_business": np.array([2, 40, 2, 99]), "bc_category": np.array([7, 8, 8, 7])}
    found = read_npz(npz(tmp_path / "c.npz", user=USER, business=BUSINESS, rating=np.array([5, 1, 2]), **pairs))
    assert rows_of(found) == [(0, "40", 5.0), (0, "2", 1.0), (1, "2", 2.0)]
    assert {name: mask.tolist() for name, mask in found.categories.items()} == {"7": [True, False], "8": [True, True]}


def test_a_cut_without_ratings_and_with_named_categories(tmp_path: Path) -> None:
    names = write(tmp_path / "c.csv", 'business,category\n2,"Bars, Pubs"\n40,Food\n77,None\n', gz=True)
    found = read_npz(npz(tmp_path / "c.npz", user=USER, business=BUSINESS), names)
    assert found.value.tolist() == [1.0, 1.0, 1.0]
    assert list(found.categories) == ["Bars, Pubs", "Food"]


@pytest.mark.parametrize(
    "arrays",
    [
        {"user": USER},
        {"user": USER, "business": BUSINESS[:2]},
        {"user": USER, "business": BUSINESS / 2},
        {"user": USER, "business": BUSINESS, "rating": np.array([1, 2, 6])},
    ],
)
def test_another_npz_is_refused(tmp_path: Path, arrays: dict[str, Any]) -> None:
    with pytest.raises(BadData, match="another kind"):
        read_npz(npz(tmp_path / "c.npz", **arrays))


def test_a_damaged_npz_or_csv_is_refused(tmp_path: Path) -> None:
    path = npz(tmp_path / "c.npz", user=USER, business=BUSINESS)
    for content in ("business\n1\n", "business,category\n1\n", "business,category\nx,Food\n"):
        with pytest.raises(BadData, match="business,category"):
            read_npz(path, write(tmp_path / "c.csv", content))
    with pytest.raises(BadData, match="damaged or truncated"):
        read_npz(cut(path))
    with pytest.raises(MissingData, match="does not exist"):
        read_npz(tmp_path / "d.npz")


@pytest.mark.parametrize("prefix", ["yelp_academic_dataset_", ""])
@pytest.mark.parametrize("packing", ["folder", "zip"])
def test_the_original_yelp(tmp_path: Path, prefix: str, packing: str) -> None:
    folder = data_files.yelp_json(tmp_path / "yelp", prefix)
    found = read_json(zipped(folder) if packing == "zip" else folder)
    assert rows_of(found) == [("ab".index(user), business, stars) for user, business, stars in REVIEWS]
    assert list(found.categories) == ["American (New)", "Restaurants"]
    assert found.within("Restaurants").active().item_ids == ("x",)
    assert found.sparse()[0, 0] == (5 + 3) / 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"user_id": "a", "busi', "line 1 is not JSON: the file is damaged or truncated"),
        ('{"user_id": "a", "stars": 3}', "lacks user_id, business_id, stars"),
        ('{"user_id": "a", "business_id": "b", "stars": 9}', "9 stars"),
        ("", "holds no review"),
    ],
)
def test_bad_reviews_are_refused(tmp_path: Path, line: str, said: str) -> None:
    write(data_files.yelp_json(tmp_path, "") / "review.json", line)
    with pytest.raises(BadData, match=said):
        read_json(tmp_path)
