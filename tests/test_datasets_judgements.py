"""Judgements: text comes back as it was written, whatever its line ends; anything else is refused by line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from data_files import cut, random_svmlight, svmlight, write
from rankloop.datasets import BadData, Judgements
from rankloop.datasets import text_files as text_module
from rankloop.datasets.judgements import count_judgements, join, read_judgements, scaled
from rankloop.datasets.splits import count_split, read_split
from rankloop.datasets.svmlight import first_width
from rankloop.errors import InvalidInput

ENDS = ["\n", " \n", "\r\n", " \r\n", " #docid = GX000-00 inc = 1 prob = 0.5\n", "\t# x:1 2:3\r\n"]


@st.composite
def judgements(draw: st.DrawFn) -> Judgements:
    """Up to four queries of up to three documents."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    ids = draw(st.lists(st.integers(0, 10**6), min_size=len(sizes), max_size=len(sizes), unique=True))
    n, d = sum(sizes), draw(st.integers(1, 4))
    grade = draw(arrays(np.int64, n, elements=st.integers(0, 4)))
    x = draw(arrays(np.float64, (n, d), elements=st.floats(-1e9, 1e9) | st.sampled_from([0.0, 1e-8, 1e20])))
    return Judgements(grade, np.repeat(ids, sizes), x)


def text_of(given: Judgements, end: str = "\n") -> str:
    return svmlight(given.grade.tolist(), given.query.tolist(), given.x, end)


def same(a: Judgements, b: Judgements) -> None:
    for name in ("grade", "query", "x"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=judgements(), end=st.sampled_from(ENDS), gz=st.booleans())
def test_text_comes_back(tmp_path: Path, given: Judgements, end: str, gz: bool) -> None:
    path = write(tmp_path / "f.txt", text_of(given, end), gz=gz)
    same(read_judgements(path), given)
    count = count_judgements(path)
    assert (count.queries, count.rows, count.features) == (len(given.starts), *given.x.shape)
    assert first_width(path) == given.x.shape[1]


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = random_svmlight(tmp_path / "f.txt", [5, 3, 9, 1], 6, end=" #docid\r\n")
    whole = read_judgements(path)
    monkeypatch.setattr(text_module.blocks, "__defaults__", (50,))
    same(read_judgements(path), whole)
    assert count_judgements(path).queries == 4
    for queries in (1, 2, 4, 5):
        same(read_judgements(path, queries=queries), whole.of(np.arange(min(queries, 4))))


def test_features_left_out_are_zero(tmp_path: Path) -> None:
    path = write(tmp_path / "f.txt", "2 qid:1 2:0.5\n0 qid:1\n1 qid:7 1:3 4:1 # 9\n")
    found = read_judgements(path, features=4, sparse=True)
    assert found.x.tolist() == [[0, 0.5, 0, 0], [0, 0, 0, 0], [3, 0, 0, 1]]
    assert (found.grade.tolist(), found.query.tolist()) == ([2, 0, 1], [1, 1, 7])
    with pytest.raises(BadData, match="line 1"):
        read_judgements(path, features=4)


def test_the_largest_double_stands_for_no_value(tmp_path: Path) -> None:
    path = write(tmp_path / "f.txt", "2 qid:1 1:1.79769313486232e+308 2:-1.7976931348623157E308 3:4\n")
    assert read_judgements(path).x.tolist() == [[0.0, 0.0, 4.0]]


GOOD = "0 qid:3 1:0.5 2:1\n"


@pytest.mark.parametrize(
    "line",
    [
        "0 qid:3 1:0.5",
        "0 qid:3 1:0.5 2:1 3:2",
        "0 qid:3 1:0.5 2:nan",
        "0 qid:3 1:0.5 2:inf",
        "0 qid:3 1:0.5 2:NULL",
        "0 qid:3 1:0.5 2:",
        "0 qid:3 1:0.5 3:1",
        "0 qid:3 2:0.5 1:1",
        "0 qid:3 1:0.5 1:1",
        "0 qid:3 0:0.5 1:1",
        "0 1:0.5 2:1",
        "0 qid: 1:0.5 2:1",
        "0 qid:3.5 1:0.5 2:1",
        "-1 qid:3 1:0.5 2:1",
        "1.5 qid:3 1:0.5 2:1",
        "99 qid:3 1:0.5 2:1",
        "qid:3 0 1:0.5 2:1",
        "0,3,0.5,1",
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "f.txt", GOOD + GOOD + line + "\n" + GOOD)
    with pytest.raises(
        BadData, match=re.escape(f"f.txt line 3 is '{line}', not a grade, a qid and the features 1 to 2")
    ):
        read_judgements(path)


def test_a_scattered_query_is_refused(tmp_path: Path) -> None:
    text = "".join(f"0 qid:{q} 1:1\n" for q in (1, 1, 2, 1))
    for read in (read_judgements, count_judgements):
        with pytest.raises(BadData, match="query 1 in two locations"):
            read(write(tmp_path / "f.txt", text))


def test_truncated_and_empty_files_are_refused(tmp_path: Path) -> None:
    path = random_svmlight(tmp_path / "f.txt", range(50), 10, gz=True)
    with pytest.raises(BadData, match="truncated"):
        read_judgements(cut(path))
    with pytest.raises(BadData, match=r"line \d+ is .* the features 1 to 10"):
        read_judgements(cut(random_svmlight(tmp_path / "g.txt", range(5), 10), 0.97))
    with pytest.raises(BadData, match="no judgement"):
        read_judgements(write(tmp_path / "h.txt", "# nothing\n"))
    assert first_width(write(tmp_path / "h.txt", "id,name\n")) is None


@given(judgements())
def test_padding_keeps_every_document(given: Judgements) -> None:
    found = given.by_query()
    sizes = found.present.sum(axis=1)
    assert found.id.tolist() == list(dict.fromkeys(given.query.tolist()))
    assert found.x.shape == (*found.present.shape, given.x.shape[1])
    np.testing.assert_array_equal(found.x[found.present], given.x)
    np.testing.assert_array_equal(found.grade[found.present], given.grade)
    np.testing.assert_array_equal(np.repeat(found.id, sizes), given.query)
    assert not found.x[~found.present].any()
    assert sizes.max() == found.present.shape[1]


@given(judgements())
def test_joining_the_parts_gives_the_whole(given: Judgements) -> None:
    same(join([given.of(np.array([q])) for q in range(len(given.starts))]), given)
    with pytest.raises(InvalidInput, match="files that share a query"):
        join([given, given])


def test_files_with_other_features_are_not_joined(tmp_path: Path) -> None:
    parts = [read_judgements(random_svmlight(tmp_path / f"{d}.txt", [d], d)) for d in (2, 3)]
    with pytest.raises(InvalidInput, match="all with the same features"):
        join(parts)


def test_features_are_scaled_over_all_rows_and_constant_ones_dropped() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, [2.0, 0.0, 5.0, 0.0], size=(40, 4))
    train = Judgements(np.zeros(40, dtype=np.int64), np.zeros(40, dtype=np.int64), x)
    test = Judgements(train.grade[:3], train.query[:3], x[:3] + np.array([100.0, 0.0, 100.0, 0.0]))
    a, b = scaled(train, test)
    assert a.x.shape[1] == b.x.shape[1] == 2
    both = np.concatenate([a.x, b.x])
    assert both.min(axis=0).tolist() == [0.0, 0.0]
    assert both.max(axis=0).tolist() == [1.0, 1.0]
    assert (np.argsort(a.x[:, 0]) == np.argsort(x[:, 0])).all()


def test_a_split_joins_what_is_for_training(tmp_path: Path) -> None:
    queries = {"test": [5, 6], "train 1": [1, 2, 3], "train 2": [4]}
    files = {role: random_svmlight(tmp_path / f"{role}.txt", ids, 3) for role, ids in queries.items()}
    split = read_split(files)
    assert split.train.query[split.train.starts].tolist() == [1, 2, 3, 4]
    assert split.test.query[split.test.starts].tolist() == [5, 6]
    assert split.vali is None
    expected = {"queries": 6, "rows": 18, "features": 3, "train queries": 4, "test queries": 2}
    assert count_split(files) == expected
    with pytest.raises(BadData, match="features 1 to 4"):
        read_split(files, features=4)
