"""Watches the settings file of a running service, so that new and revoked keys take effect without a restart."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from rankloop.errors import RankloopError
from rankloop.schema.api_key import ApiKey
from rankloop.service.settings import load_keys

INTERVAL_SECONDS = 1.0
log = logging.getLogger("rankloop.service")
Version = tuple[int, ...]
"""Of a file: its inode, the time of its last change, and its size; 0 if it cannot be found."""


class KeyWatch:
    """Reads the keys of a settings file again whenever the file has changed.

    Args:
        path: the settings file.
        use: takes the keys of the file.
    """

    def __init__(self, path: Path, use: Callable[[tuple[ApiKey, ...]], None]) -> None:
        self._path, self._use = path, use
        self._seen: Version = ()  # so that the first look finds what changed since the start
        self._failed: Version = ()  # the last version that could not be read
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankloop-key-watch", daemon=True)

    def start(self) -> None:
        """Look at the file every second from now on."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Give the keys of the file to the service if the file has changed; keep the last ones if it is not valid."""
        version = _version(self._path)
        if version == self._seen:
            return
        try:
            self._use(load_keys(self._path))
            self._seen, self._failed = version, ()
        except RankloopError as error:
            self._note_failure(version, str(error))
        except Exception as error:  # its text might contain a secret
            self._note_failure(version, type(error).__name__)

    def _note_failure(self, version: Version, reason: str) -> None:
        """Say once why a file is not used; it is tried again, since a revoked key must not stay in use."""
        if version != self._failed:
            self._failed = version
            log.error("the API keys of %s cannot be read, so the last ones stay in use: %s", self._path, reason)

    def _run(self) -> None:
        while not self._end.wait(INTERVAL_SECONDS):
            self.look()


def key_changes(before: Sequence[ApiKey], after: Sequence[ApiKey]) -> list[str]:
    """Return what is new in a list of keys, in words that name the keys."""
    old, new = ({key.sha256: key for key in keys} for keys in (before, after))
    return [
        *(f"added {key.name}" for id, key in new.items() if id not in old),
        *(f"changed {key.name}" for id, key in new.items() if id in old and old[id] != key),
        *(f"revoked {key.name}" for id, key in old.items() if id not in new),
    ]


def _version(path: Path) -> Version:
    try:
        status = path.stat()
    except OSError:
        return (0,)
    return status.st_ino, status.st_mtime_ns, status.st_size
