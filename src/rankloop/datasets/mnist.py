"""MNIST digits, from the IDX files."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankloop.datasets.errors import BadData
from rankloop.datasets.text_files import opened
from rankloop.types import IntArray

IMAGES, LABELS = 2051, 2049
"""Magic numbers of IDX files."""

SIDE = 28


@dataclass(frozen=True)
class Digits:
    """Images of digits, the training images first."""

    images: NDArray[np.uint8]  # [n, 784]
    labels: IntArray  # [n], 0 to 9
    train: int  # number of training images


def read_mnist(folder: str | Path) -> Digits:
    """Return all digits from the four files, gz or not."""
    folder = Path(folder)
    images, labels = [], []
    for part in ("train", "t10k"):
        images.append(_read(folder, f"{part}-images", "idx3-ubyte", IMAGES, (SIDE, SIDE)))
        labels.append(_read(folder, f"{part}-labels", "idx1-ubyte", LABELS, ()))
        if len(images[-1]) != len(labels[-1]):
            raise BadData(
                f"{folder} has {len(images[-1])} {part} images and {len(labels[-1])} labels: "
                "the files do not belong together; download all four again."
            )
        if labels[-1].max(initial=0) > 9:
            raise BadData(f"{part}-labels of {folder} has a label above 9; download it again.")
    return Digits(np.concatenate(images), np.concatenate(labels)[:, 0].astype(np.int64), len(labels[0]))


def _read(folder: Path, stem: str, kind: str, magic: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the entries [n, size] of one file."""
    head = struct.Struct(f">{2 + len(shape)}I")
    with opened(folder, f"{stem}-{kind}", f"{stem}.{kind}") as stream:
        content = stream.read()
    found = head.unpack_from(content) if len(content) >= head.size else (0,)
    if found[0] != magic or found[2:] != shape:
        raise BadData(
            f"{stem}-{kind} of {folder} does not start as an IDX file of MNIST: it is a file of another kind."
        )
    size = int(np.prod(shape, dtype=np.int64))
    if len(content) != head.size + found[1] * size:
        raise BadData(
            f"{stem}-{kind} of {folder} says it has {found[1]} entries and has "
            f"{(len(content) - head.size) / size:g}: it is truncated or damaged; download it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=head.size).reshape(found[1], size)
