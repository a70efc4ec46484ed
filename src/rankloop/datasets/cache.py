"""A cache of prepared arrays, in files whose names are a hash of inputs and parameters."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.datasets.errors import MissingData
from rankloop.errors import InvalidInput
from rankloop.files import replace_file
from rankloop.version import __version__

Arrays = dict[str, NDArray[Any]]


class Cache:
    """A folder of .npz files, created at the first write."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, name: str, key: Mapping[str, object]) -> Path:
        """Return the file of an entry: its name, and a hash of its key and the version of this package."""
        words = json.dumps({"key": key, "version": __version__}, sort_keys=True, default=_plain)
        return self.folder / f"{name}-{hashlib.sha256(words.encode()).hexdigest()[:16]}.npz"

    def get(self, name: str, key: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
        """Return the cached arrays of a key; compute and store them with `make` if they are missing or damaged.

        The key contains everything that the arrays depend on: parameters, seeds and the `fingerprint` of every input.
        """
        path = self.path(name, key)
        arrays = _load(path)
        if arrays is None:
            made = arrays = make()
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, lambda temporary: _save(temporary, made))
        return arrays


def fingerprint(*paths: str | Path) -> str:
    """Return the total size and a hash of files; a folder counts with the names and contents of all its files."""
    whole = hashlib.sha256()
    size = 0
    for path in map(Path, paths):
        if not path.exists():
            raise MissingData(f"{path} does not exist.")
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            with file.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").digest()
            name = file.relative_to(path).as_posix() if file != path else ""
            whole.update(name.encode() + b"\0" + content)
            size += file.stat().st_size
    return f"{size}-{whole.hexdigest()}"


def _plain(value: object) -> object:
    """Return NumPy numbers and arrays in a form that JSON can encode."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return [str(value.dtype), value.shape, content]
    raise InvalidInput("key", value, "numbers, strings, arrays, and lists and mappings of them")


def _save(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def _load(path: Path) -> Arrays | None:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (
        OSError,
        EOFError,
        ValueError,
        KeyError,
        AttributeError,
        TypeError,
        RuntimeError,
        zipfile.BadZipFile,
        zlib.error,
    ):
        return None
