"""Read arrays from .npz files that users provide."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import InvalidInput


def read_arrays(
    file: object, required: Sequence[str], optional: Sequence[str] = (), *, accepted: str
) -> dict[str, NDArray[np.generic]]:
    """Return numeric arrays by name; refuse a file that cannot be read or lacks a required one."""
    found: dict[str, NDArray[np.generic]] = {}
    if not isinstance(file, str | os.PathLike):
        raise InvalidInput("world.file", file, accepted)
    try:
        with Path(file).open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            for name in (*required, *optional):
                if name in required or name in arrays.files:
                    found[name] = arrays[name]
    except (
        OSError,
        EOFError,
        KeyError,
        ValueError,
        TypeError,
        AttributeError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        raise InvalidInput("world.file", file, accepted) from None
    for array in found.values():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise InvalidInput("world.file", file, accepted)
    return found
