"""Bytes of data files: every packing gives the same lines, and damage is named."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_files import cut, write, zipped
from rankloop.datasets import BadData, MissingData
from rankloop.datasets.text_files import blocks, number_rows, opened, text_lines, word_columns

WORD = st.text("abcXYZ019-_", min_size=1, max_size=5)
NUMBER = st.one_of(st.integers(-(10**9), 10**9).map(float), st.floats(-1e12, 1e12, allow_nan=False))


@given(
    st.lists(st.text("ab,# ", min_size=1)), st.integers(1, 40), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans()
)
def test_blocks_of_any_size_hold_the_same_lines(lines: list[str], size: int, end: str, closed: bool) -> None:
    text = end.join(lines) + (end if closed else "")
    found = list(blocks(io.BytesIO(text.encode()), size))
    assert b"".join(found).decode().splitlines() == lines
    assert all(block.endswith(b"\n") for block in found)


@given(st.lists(st.tuples(NUMBER, NUMBER, NUMBER)), st.sampled_from([b",", b"::", b"\t"]))
def test_numbers_come_back(rows: list[tuple[float, float, float]], separator: bytes) -> None:
    text = b"".join(separator.join(repr(v).encode() for v in row) + b"\n" for row in rows)
    found = list(number_rows(io.BytesIO(text), "f", 3, separator))
    np.testing.assert_array_equal(np.concatenate([*found, np.empty((0, 3))]), np.array(rows).reshape(-1, 3))


@given(st.lists(st.tuples(WORD, WORD)))
def test_words_come_back(rows: list[tuple[str, str]]) -> None:
    text = "".join("\t".join(row) + "\n" for row in rows)
    found = [zip(*columns, strict=True) for columns in word_columns(io.BytesIO(text.encode()), "f", 2, b"\t")]
    assert [(a.decode(), b.decode()) for block in found for a, b in block] == rows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2,3\n4,5\n", "line 2 is '4,5', not 3 numbers"),
        ("1,2,3\n4,5,6,7\n1,2\n", "line 2 is '4,5,6,7'"),
        ("1,2,x\n", "line 1"),
        ("1,nan,3\n", "line 1"),
        ("1,2 2,3\n", "line 1"),
        ("1,,3\n", "a field that is no number, at or after line 1"),
        ("1,2,3\n1,.,3\n", "no number"),
        ("1,2,3\n1,2", "line 2 is '1,2'"),
    ],
)
def test_a_bad_row_is_named(text: str, said: str) -> None:
    with pytest.raises(BadData, match=re.escape(said)):
        list(number_rows(io.BytesIO(text.encode()), "f", 3, b","))


def test_every_packing_gives_the_same_stream(tmp_path: Path) -> None:
    text = "one\ntwo\n"
    plain, packed = write(tmp_path / "a" / "f.txt", text), write(tmp_path / "b" / "f.txt", text, gz=True)
    misnamed = write(tmp_path / "c" / "f.txt.gz", text)
    for path, names in (
        (plain, ()),
        (packed, ()),
        (misnamed, ()),
        (plain.parent, ("f.txt",)),
        (packed.parent, ("f.txt",)),
        (packed.parent, ("g.txt", "f.txt")),
        (zipped(plain.parent), ("f.txt",)),
        (zipped(packed.parent), ("f.txt",)),
    ):
        with opened(path, *names) as stream:
            assert list(text_lines(stream)) == ["one", "two"], path
    single = tmp_path / "f.txt.zip"
    with zipfile.ZipFile(single, "w") as archive:
        archive.writestr("f.txt", text)
    with opened(single) as stream:
        assert stream.read() == text.encode()


def test_missing_files_are_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "a" / "f.txt", "x").parent
    write(folder / "g.txt", "x")
    for path, names in ((folder, ("h.txt",)), (zipped(folder), ("h.txt",)), (tmp_path / "h.txt", ())):
        with pytest.raises(MissingData, match=r"h\.txt"), opened(path, *names):
            pass
    with pytest.raises(MissingData, match="single file"), opened(zipped(folder)):
        pass


def read_all(path: Path, *names: str) -> None:
    with opened(path, *names) as stream:
        stream.read()


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(10_000)
    packed = cut(write(tmp_path / "f", noise, gz=True))
    with pytest.raises(BadData, match=r"f\.gz is damaged or truncated"):
        read_all(packed)
    with pytest.raises(BadData, match="truncated"):
        read_all(cut(zipped(write(tmp_path / "a" / "f", noise).parent)), "f")


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(10_000)
    for path in (write(tmp_path / "f", noise, gz=True), zipped(write(tmp_path / "a" / "f", noise).parent)):
        raw = bytearray(path.read_bytes())
        raw[5000] ^= 1
        path.write_bytes(raw)
        with pytest.raises(BadData, match="damaged"):
            read_all(path, *(["f"] if path.suffix == ".zip" else []))


def test_a_file_in_place_of_a_zip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="not a zip file"):
        read_all(write(tmp_path / "a.zip", "x"), "f")


def test_text_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.txt", "é".encode("latin-1"))
    with pytest.raises(BadData, match="damaged"), opened(path) as stream:
        list(text_lines(stream))
