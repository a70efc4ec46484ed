"""Open Bandit: columns by name, categories as one-hot columns, wrong files named."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_files import bandit_log, cut, write
from rankloop.datasets import BadData, MissingData
from rankloop.datasets.bandit_log import read_log
from rankloop.errors import InvalidInput


@pytest.mark.parametrize("gz", [True, False])
def test_a_log_comes_back(tmp_path: Path, gz: bool) -> None:
    log = read_log(bandit_log(tmp_path, gz=gz), "bts", "men")
    assert log.item.tolist() == [1, 0, 1]
    assert log.position.tolist() == [3, 1, 2]
    assert log.click.tolist() == [False, True, False]
    assert log.propensity.tolist() == [0.5, 0.5, 0.25]
    assert log.user_columns == (
        "user_feature_0=aa",
        "user_feature_0=ab",
        "user_feature_1=b",
        "user_feature_2=c",
        "user_feature_3=d",
        "user_feature_3=e",
    )
    assert log.user.tolist() == [[1, 0, 1, 1, 1, 0], [0, 1, 1, 0, 1, 0], [1, 0, 1, 1, 0, 1]]
    assert log.item_columns == (
        "item_feature_0",
        "item_feature_1=o",
        "item_feature_1=p",
        "item_feature_2=q",
        "item_feature_3=r",
        "item_feature_3=s",
    )
    assert log.item_features.tolist() == [[2.5, 1, 0, 1, 0, 1], [-0.5, 0, 1, 1, 1, 0]]


def test_users_in_the_columns_of_another_log(tmp_path: Path) -> None:
    log = read_log(bandit_log(tmp_path))
    assert log.users(log.user_columns).tolist() == log.user.tolist()
    assert log.users(["user_feature_9=z", "user_feature_0=ab"]).tolist() == [[0, 0], [0, 1], [0, 0]]


ROW = "0,2019,1,3,0,0.5,a,b,c,d,0.0,0.0\n"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (ROW + "1,2019,1,3,0,0.5,a,b\n", "truncated at line 3"),
        (ROW.replace("0.5", "x"), "truncated at line 2"),
        (ROW.replace("0.5", "nan"), "truncated at line 2"),
        (ROW.replace("0.5", "0"), "a propensity outside"),
        (ROW.replace(",1,3,", ",2,3,"), "an item not in"),
        (ROW.replace(",1,3,", ",1,4,"), "a position outside 1 to 3"),
        (ROW.replace(",3,0,", ",3,2,"), "a click other than 0 or 1"),
        ("", "has no rows"),
    ],
)
def test_bad_rows_are_refused(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(BadData, match=said):
        read_log(bandit_log(tmp_path, {"random/all": rows}))


def test_wrong_and_missing_files_are_named(tmp_path: Path) -> None:
    place = bandit_log(tmp_path) / "random"
    cut(place / "men" / "men.csv.gz", 0.7)
    with pytest.raises(BadData, match=r"men\.csv\.gz|truncated"):
        read_log(tmp_path, "random", "men")
    write(place / "women" / "women.csv", "a,b\n1,2\n")
    with pytest.raises(BadData, match="lacks a column of item_id, position"):
        read_log(tmp_path, "random", "women")
    (place / "all" / "item_context.csv.gz").unlink()
    with pytest.raises(MissingData, match="item_context"):
        read_log(tmp_path)
    write(
        place / "all" / "item_context.csv",
        "item_id," + ",".join(f"item_feature_{i}" for i in range(4)) + "\n1,0,a,b,c\n",
    )
    with pytest.raises(BadData, match="does not list the items 0, 1"):
        read_log(tmp_path)


def test_unknown_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="behaviour is 'ucb'; accepted: one of random, bts"):
        read_log(tmp_path, "ucb")
    with pytest.raises(InvalidInput, match="campaign is 'kids'"):
        read_log(tmp_path, "bts", "kids")
