"""A file that keeps room on the disk of a log, to be released when the disk is full."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

CHUNK_BYTES = 1 << 20
NO_LINKS = 0 if sys.platform == "win32" else os.O_NOFOLLOW


class DiskReserve:
    """Allocated blocks in a file beside the log; only the log's owner may read it, and it contains zeros.

    Args:
        log: the file of the log.
    """

    def __init__(self, log: Path) -> None:
        self.path = Path(f"{log}.reserve")
        self._allocated = False  # by this process: a reader must not delete the reserve of the process that serves

    @property
    def size(self) -> int:
        """Return the number of bytes kept."""
        return size_of(self.path)

    def keep(self, size: int) -> bool:
        """Allocate at least this number of bytes; return False, with nothing kept, if the disk has no room for them."""
        kept = self.size
        if kept >= size:
            return True
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | NO_LINKS, 0o600)
            self._allocated = True
            try:
                _allocate(descriptor, kept, size - kept)
            finally:
                os.close(descriptor)
        except OSError:
            self.release()
            return False
        return True

    def shrink(self, size: int) -> None:
        """Keep at most this number of bytes."""
        if self.size > size:
            with suppress(OSError):
                os.truncate(self.path, size)

    def close(self) -> None:
        """Delete the file if this process has allocated it."""
        if self._allocated:
            self.release()

    def release(self) -> int:
        """Delete the file; return the number of bytes that became free."""
        size = self.size
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        return size


def size_of(path: Path) -> int:
    """Return the size of a file in bytes; 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _allocate(descriptor: int, start: int, length: int) -> None:
    """Allocate blocks, not only a size: a file with holes would keep no room."""
    try:
        os.posix_fallocate(descriptor, start, length)
    except AttributeError:  # this system has no such call
        os.lseek(descriptor, start, os.SEEK_SET)
        while length > 0:
            length -= os.write(descriptor, bytes(min(length, CHUNK_BYTES)))
