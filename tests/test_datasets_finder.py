"""Data sets are found by the names their owners give them; what is missing says how to get it."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import data_files
from data_files import cut, random_svmlight, write, zipped
from rankloop.cli import datasets as command
from rankloop.datasets import SETS, BanditLog, Digits, MissingData, Ratings, Split, find, read, root, survey
from rankloop.errors import InvalidInput, RankloopError

Capture = pytest.CaptureFixture[str]


def split(folder: Path, features: int, names: str = "{}.txt", first: int = 1, *, vali: bool = True) -> Path:
    """Files for training, choosing and testing, two queries each."""
    for i, role in enumerate(("train", "vali", "test") if vali else ("train", "test")):
        random_svmlight(folder / names.format(role), [first + 2 * i, first + 2 * i + 1], features, gz=i == 1)
    return folder


def everything(place: Path) -> Path:
    """One of each data set, some deep, some shallow."""
    zipped(data_files.movielens_dat(place / "movies" / "ml-1m"))
    data_files.movielens_csv(place / "ml-25m")
    zipped(data_files.movielens_csv(place / "a" / "b" / "ml-latest-small"))
    data_files.yelp_json(place / "yelp")
    data_files.triplets(place / "train_triplets.txt", gz=True)
    data_files.genres(place / "genres")
    data_files.mnist(place / "digits")
    split(place / "MSLR-WEB30K" / "Fold1", 136)
    split(place / "letor" / "MQ2008" / "Fold1", 46)
    split(place / "istella-letor" / "full", 220, vali=False)
    data_files.bandit_log(place / "obd")
    return place


COUNTS = {
    "movielens-1m": {"users": 3, "items": 3, "ratings": 5, "categories": 3},
    "movielens-25m": {"users": 3, "items": 3, "ratings": 5, "categories": 2},
    "movielens-small": {"users": 3, "items": 3, "ratings": 5, "categories": 2},
    "yelp": {"users": 2, "items": 2, "ratings": 4, "categories": 2},
    "yelp-restaurants": {"users": 1, "items": 1, "ratings": 2, "categories": 2},
    "songs": {"users": 3, "items": 3, "triplets": 4, "categories": 3},
    "song-genres": {"songs": 2, "genres": 3},
    "mnist": {"images": 8, "train images": 5},
    "mslr-web": {"queries": 6, "rows": 18, "features": 136, "train queries": 2, "test queries": 2},
    "letor": {"queries": 6, "rows": 18, "features": 46, "train queries": 2, "test queries": 2},
    "istella": {"queries": 4, "rows": 12, "features": 220, "train queries": 2, "test queries": 2},
    "open-bandit": {"logs": 6, "rows": 18, "clicks": 6},
}


def test_everything_is_found_and_counted(tmp_path: Path) -> None:
    findings = survey(everything(tmp_path))
    assert {finding.data.id: finding.counts for finding in findings} == COUNTS
    assert [finding.problem for finding in findings] == [None] * len(SETS)


def test_everything_is_read(tmp_path: Path) -> None:
    place = everything(tmp_path)
    kinds: dict[str, type[object]] = {"mnist": Digits, "song-genres": dict, "open-bandit": BanditLog}
    kinds |= dict.fromkeys(("mslr-web", "letor", "istella"), Split)
    for id in SETS:
        kind = kinds.get(id, Ratings)
        assert isinstance(read(place, id, kind), kind), id
        with pytest.raises(InvalidInput, match=f"data set is {id!r}; accepted: one that is read as Path"):
            read(place, id, Path)


@pytest.mark.parametrize("id", SETS)
def test_a_missing_data_set_says_how_to_get_it(tmp_path: Path, id: str) -> None:
    with pytest.raises(MissingData) as error:
        find(tmp_path, id)
    said = str(error.value)
    assert said.startswith(f"data set {id} is not in {tmp_path}: get ")
    assert SETS[id].where in said
    assert SETS[id].licence in said
    assert said.endswith("there.")
    assert "\n" not in said


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="data set is 'netflix'; accepted: one of movielens-1m"):
        find(tmp_path, "netflix")


# Where files lie


@pytest.mark.parametrize("depth", [0, 1, 2, 3, 4])
def test_files_are_looked_for_three_folders_deep(tmp_path: Path, depth: int) -> None:
    path = zipped(data_files.movielens_dat(tmp_path.joinpath(*"wxyz"[:depth]) / "ml-1m"))
    for file in path.with_suffix("").iterdir():
        file.unlink()
    if depth <= 3:
        assert find(tmp_path, "movielens-1m") == {"zip": path}
    else:
        with pytest.raises(MissingData):
            find(tmp_path, "movielens-1m")


def test_the_folder_itself_may_be_the_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = data_files.movielens_dat(tmp_path / "ml-1m")
    assert set(find(folder, "movielens-1m")) == {"ratings", "movies"}
    monkeypatch.chdir(folder)
    assert read(".", "movielens-1m", Ratings).items == 3


def test_a_sample_of_the_triplets_is_second_best(tmp_path: Path) -> None:
    sample = data_files.triplets(tmp_path / "a" / "train_triplets_sample.txt", gz=True)
    assert find(tmp_path, "songs") == {"triplets": sample}
    whole = data_files.triplets(tmp_path / "b" / "train_triplets.txt")
    assert find(tmp_path, "songs") == {"triplets": whole}


def test_yelp_prefers_the_original_then_the_larger_cut(tmp_path: Path) -> None:
    arrays = {"user": np.array([1, 1]), "business": np.array([1, 2]), "rating": np.array([5, 1])}
    for name in ("hin", "core40"):
        np.savez(tmp_path / f"yelp_{name}.npz", **arrays)  # type: ignore[arg-type]
    assert find(tmp_path, "yelp") == {"npz": tmp_path / "yelp_hin.npz"}
    with pytest.raises(MissingData):
        find(tmp_path, "yelp-restaurants")
    names = write(tmp_path / "yelp_core40_categories.csv", "business,category\n2,Restaurants\n", gz=True)
    assert find(tmp_path, "yelp-restaurants") == {"npz": tmp_path / "yelp_core40.npz", "categories": names}
    assert read(tmp_path, "yelp-restaurants", Ratings).item_ids == ("2",)
    data_files.yelp_json(tmp_path / "original", "")
    assert set(find(tmp_path, "yelp")) == set(find(tmp_path, "yelp-restaurants")) == {"reviews", "businesses"}


def names_of(found: dict[str, Path]) -> dict[str, str]:
    return {role: path.name.removesuffix(".gz") for role, path in found.items()}


def test_web10k_is_no_test_for_web30k(tmp_path: Path) -> None:
    random_svmlight(tmp_path / "web30k_fold1_train_sample.txt", [1], 136)
    split(tmp_path, 136, "web10k_fold1_{}_5k.txt", vali=False)
    expected = {"train": "web10k_fold1_train_5k.txt", "test": "web10k_fold1_test_5k.txt"}
    assert names_of(find(tmp_path, "mslr-web")) == expected
    random_svmlight(tmp_path / "web30k_fold2_test.txt", [2], 136)
    assert names_of(find(tmp_path, "mslr-web")) == expected
    random_svmlight(tmp_path / "web30k_fold1_test_sample.txt", [2], 136, gz=True)
    assert names_of(find(tmp_path, "mslr-web")) == {
        "train": "web30k_fold1_train_sample.txt",
        "test": "web30k_fold1_test_sample.txt",
    }


def test_folds_are_distinguished_by_their_features(tmp_path: Path) -> None:
    letor, mslr, istella = (split(tmp_path / name / "Fold1", d) for name, d in (("a", 46), ("b", 136), ("c", 220)))
    for id, folder in (("letor", letor), ("mslr-web", mslr), ("istella", istella)):
        assert find(tmp_path, id)["train"] == folder / "train.txt", id


def test_parts_of_letor_are_its_first_fold(tmp_path: Path) -> None:
    for i in (1, 4, 5):
        random_svmlight(tmp_path / f"S{i}.txt", [10 * i, 10 * i + 1], 46, gz=True, end=" #docid = G1\r\n")
    found = read(tmp_path, "letor", Split)
    assert [set(part.query.tolist()) for part in (found.train, found.vali, found.test) if part] == [
        {10, 11},
        {40, 41},
        {50, 51},
    ]


def test_a_mislabelled_fold_is_refused(tmp_path: Path) -> None:
    split(tmp_path, 46, "web30k_fold1_{}.txt")
    with pytest.raises(RankloopError, match=re.escape("not a grade, a qid and the features 1 to 136")):
        read(tmp_path, "mslr-web", Split)


# The root


def test_the_root_is_given_or_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKLOOP_DATA", raising=False)
    with pytest.raises(
        MissingData, match="the folder of the data sets is unknown; give --data DIR or set RANKLOOP_DATA"
    ):
        root()
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    assert root() == tmp_path
    (tmp_path / "other").mkdir()
    assert root(str(tmp_path / "other")) == tmp_path / "other"
    for wrong in ("", str(tmp_path / "none"), str(write(tmp_path / "file", "x"))):
        with pytest.raises(InvalidInput, match=r"--data is .*; accepted: an existing folder"):
            root(wrong)
        monkeypatch.setenv("RANKLOOP_DATA", wrong)
        with pytest.raises(InvalidInput, match=r"RANKLOOP_DATA is .*; accepted: an existing folder"):
            root()


# The command


def run(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    command.add_to(parser.add_subparsers())
    given = parser.parse_args(["data", *arguments])
    given.run(given)


def test_the_command_lists_what_is_there_and_what_is_not(tmp_path: Path, capsys: Capture) -> None:
    zipped(data_files.movielens_dat(tmp_path / "movies" / "ml-1m"))
    cut(data_files.mnist(tmp_path / "digits") / "train-images-idx3-ubyte.gz")
    run("--data", str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    said = dict(line.split(maxsplit=1) for line in lines[: len(SETS)])
    assert list(said) == list(SETS)
    assert said["movielens-1m"] == "found    3 users, 3 items, 5 ratings, 3 categories: movies/ml-1m.zip"
    assert said["mnist"].startswith("damaged  ")
    assert "truncated" in said["mnist"]
    assert said["movielens-25m"].startswith(
        "missing  get ml-25m.zip from grouplens.org/datasets/movielens (research use"
    )
    assert lines[-1] == f"2 of {len(SETS)} data sets are in {tmp_path}. rankloop downloads nothing."


def test_the_command_prints_json(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    split(tmp_path / "web30k" / "Fold1", 136)
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    run("--json")
    found: dict[str, Any] = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(found) == list(SETS)
    row = found["mslr-web"]
    assert (row["state"], row["counts"], row["problem"]) == ("found", COUNTS["mslr-web"], None)
    assert row["files"] == {
        "train": "web30k/Fold1/train.txt",
        "vali": "web30k/Fold1/vali.txt.gz",
        "test": "web30k/Fold1/test.txt",
    }
    assert (found["yelp"]["state"], found["yelp"]["files"], found["yelp"]["counts"]) == ("missing", {}, {})
    assert all(row["where"] and row["licence"] and row["get"] and row["title"] for row in found.values())


def test_looking_changes_nothing(tmp_path: Path) -> None:
    place = everything(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    survey(place)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
