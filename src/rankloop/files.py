"""Files that appear complete or not at all, and files that only their owner may read."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

PRIVATE_MODE = 0o600


def replace_file(path: Path, write: Callable[[Path], Any], *, private: bool = False) -> None:
    """Write to a temporary file in the same folder, then rename it: a reader never sees a partial file.

    Args:
        path: the file to create or to replace.
        write: writes the content to the path that it is given.
        private: only the owner may read a new file; an existing one keeps its mode and its owner.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if private:
            create_private(temporary)
            _adopt_permissions(path, temporary)
        write(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    """Flush the content of a file to disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the new name of a file to disk, on systems where folders can be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def create_private(path: str | Path) -> None:
    """Create an empty file that only its owner may read; an existing file stays as it is."""
    with contextlib.suppress(FileExistsError):
        # A symbolic link is followed: its target would otherwise be created with the mode of the umask.
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_MODE))


def _adopt_permissions(existing: Path, new: Path) -> None:
    if not existing.exists():
        return
    shutil.copymode(existing, new)
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):  # only the superuser can give a file away
            os.chown(new, existing.stat().st_uid, existing.stat().st_gid)
