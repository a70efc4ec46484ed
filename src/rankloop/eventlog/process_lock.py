"""A lock that lets only one process serve a log file: two would each learn only half of the feedback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Self

from rankloop.errors import RankloopError
from rankloop.eventlog.store import ClaimLost, StoreUnavailable
from rankloop.files import create_private

try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment]  # a system without file locks: appends alone tell two processes apart


class ProcessLock:
    """Locks a log file from construction until it is closed or the process ends, also by a crash.

    The lock is that of a file beside the log, which can be deleted or replaced by mistake; `confirm` notices.

    Args:
        log: path of the log; a symbolic link names the log that it points to.
    """

    def __init__(self, log: Path) -> None:
        self._log, self._path = log, Path(f"{log.resolve()}.lock")
        self._file = self._locked()
        if self._file is None:
            raise RankloopError(f"{log} is being served by another process; stop that process, or use another file.")

    def _locked(self) -> IO[str] | None:
        """Return the locked file; None if another process has locked it."""
        while True:
            try:
                create_private(self._path)
                file = self._path.open("a", encoding="utf-8")
            except OSError as error:
                raise StoreUnavailable(f"{self._log} cannot be opened as a log ({error.strerror}).") from None
            if fcntl is None:  # pragma: no cover
                return file
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return None
            if self._is_current(file):
                return file
            file.close()  # the file was deleted between opening and locking it

    def _is_current(self, file: IO[str]) -> bool:
        """Return whether the path still names the locked file: otherwise another process could lock a new one."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except OSError:
            return False

    @property
    def held(self) -> bool:
        """Whether the lock still excludes other processes."""
        return self._file is not None and not self._file.closed and self._is_current(self._file)

    def confirm(self) -> None:
        """Check that the lock still excludes other processes; lock again if its file was deleted, else `ClaimLost`."""
        if self._file is not None and self._is_current(self._file):
            return
        renewed = self._locked()
        if renewed is None:
            raise ClaimLost(f"the log {self._log.name} is being served by another process.")
        self.close()
        self._file = renewed

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
