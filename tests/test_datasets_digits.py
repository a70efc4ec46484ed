"""MNIST: the pixels come back, and wrong files are named."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from data_files import cut, mnist, write
from rankloop.datasets import BadData, MissingData
from rankloop.datasets.mnist import read_mnist


@pytest.mark.parametrize("gz", [True, False])
def test_digits_come_back(tmp_path: Path, gz: bool) -> None:
    found = read_mnist(mnist(tmp_path, (5, 3), gz=gz))
    rng = np.random.default_rng(0)
    expected = [rng.integers(256, size=(n, 784), dtype=np.uint8) for n in (5, 3)]
    np.testing.assert_array_equal(found.images, np.concatenate(expected))
    assert found.labels.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]
    assert found.train == 5


def test_names_with_a_dot_are_known(tmp_path: Path) -> None:
    for path in list(mnist(tmp_path, gz=False).iterdir()):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert read_mnist(tmp_path).train == 5


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("train-images-idx3-ubyte", struct.pack(">4I", 2049, 5, 28, 28) + bytes(5 * 784), "another kind"),
        ("train-images-idx3-ubyte", struct.pack(">4I", 2051, 5, 28, 27) + bytes(5 * 756), "another kind"),
        ("train-images-idx3-ubyte", b"", "another kind"),
        (
            "train-images-idx3-ubyte",
            struct.pack(">4I", 2051, 5, 28, 28) + bytes(4 * 784),
            "says it has 5 entries and has 4",
        ),
        ("train-labels-idx1-ubyte", struct.pack(">2I", 2049, 6) + bytes(6), "5 train images and 6 labels"),
        ("train-labels-idx1-ubyte", struct.pack(">2I", 2049, 5) + b"\0\0\0\0\x0a", "a label above 9"),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    write(mnist(tmp_path) / name, content, gz=True)
    with pytest.raises(BadData, match=said):
        read_mnist(tmp_path)


def test_a_truncated_gz_is_refused(tmp_path: Path) -> None:
    path = mnist(tmp_path) / "t10k-images-idx3-ubyte.gz"
    assert gzip.decompress(path.read_bytes())
    cut(path)
    with pytest.raises(BadData, match="damaged or truncated"):
        read_mnist(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (mnist(tmp_path) / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(MissingData, match="t10k-labels-idx1-ubyte"):
        read_mnist(tmp_path)
