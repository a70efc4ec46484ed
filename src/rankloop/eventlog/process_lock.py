"""A lock that lets only one process serve a log file: two would each learn only half of the feedback."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from rankloop.errors import RankloopError
from rankloop.eventlog.store import StoreUnavailable
from rankloop.files import create_private


def lock_log(log: str | Path) -> IO[str] | None:
    """Lock a log file until the returned file is closed or the process ends, also by a crash."""
    try:
        import fcntl
    except ModuleNotFoundError:  # pragma: no cover
        return None  # a system without file locks
    path = Path(f"{Path(log).resolve()}.lock")  # resolved, since a symbolic link names the same log
    try:
        create_private(path)
        lock = path.open("a", encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(f"{log} cannot be opened as a log ({error.strerror}).") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise RankloopError(
            f"{log} is being served by another process; stop that process, or use another file."
        ) from None
    return lock
