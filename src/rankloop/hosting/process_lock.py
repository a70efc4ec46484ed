"""One process serves a log: two would each know only half of what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from rankloop.errors import RankloopError
from rankloop.eventlog import StoreUnavailable


def hold(log: str) -> IO[str] | None:
    """A claim on a log file, until it is closed or the process ends, however it ends."""
    try:
        import fcntl
    except ModuleNotFoundError:  # pragma: no cover
        return None  # a system without such claims
    place = Path(f"{Path(log).resolve()}.lock")  # a link is the same log
    try:
        claim = place.open("a", encoding="utf-8")
    except OSError as error:
        raise StoreUnavailable(f"{log} cannot be opened as a log ({error.strerror}).") from None
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        claim.close()
        raise RankloopError(f"{log} is being served by another process; end that one, or name another file.") from None
    return claim
