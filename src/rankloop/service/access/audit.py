"""The audit log: who did which administrative action, when, from where, and with which result.

A record is one JSON object in one line. It contains the names of the changed fields, never their values.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from rankloop.errors import InvalidInput
from rankloop.files import create_private
from rankloop.service.problems import RETRY, RequestRefused

MAX_REFUSALS_PER_MINUTE = 60
"""Records of refused requests in one minute; the number of further ones is in the next record."""
MAX_PENDING = 1_000
"""Records that wait until the file can be written again."""
REFUSALS = (401, 403, 429)
records = logging.getLogger("rankloop.audit")
log = logging.getLogger("rankloop.service")


class AuditRecord(Struct, kw_only=True, omit_defaults=True):
    """One administrative action, or the attempt of one."""

    time: str = ""  # UTC
    by: str | None  # name of the API key, "local" without keys, null for an unknown caller
    address: str | None = None  # of the caller
    action: str  # method and route
    ranker: str | None = None
    item: str | None = None
    fields: Collection[str] = ()  # names of the fields that the request contains
    status: int  # of the answer
    omitted: int = 0  # refused requests since the record before that have no record of their own


class AuditLog:
    """Appends records to a file, each flushed to disk, and gives them to the logger `rankloop.audit`. Thread-safe.

    A record that cannot be written is kept, and administrative requests are refused until it is written.

    Args:
        path: the file, created with mode 0600; None gives the records to the logger only.
        clock: seconds since 1970.
    """

    def __init__(self, path: str | None, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = None if path is None else Path(path), clock
        self._lock, self._pending = threading.Lock(), deque[bytes]()
        self._minute, self._refusals, self._omitted = 0, 0, 0
        try:
            self._write(b"")
        except OSError as error:
            accepted = f"a file that can be written ({error.strerror})"
            raise InvalidInput("audit", str(path), accepted) from None

    def require_writable(self) -> None:
        """Refuse an administrative request with 503 while records cannot be written."""
        with self._lock:
            try:
                self._write_pending()
                self._write(b"")
            except OSError as error:
                log.error("the audit log %s cannot be written: %s", self._path, error.strerror)
                detail = "the audit log cannot be written, so administrative requests are refused; nothing was changed."
                raise RequestRefused(503, detail, headers=RETRY) from None

    def record(self, record: AuditRecord) -> None:
        """Write a record; keep it if that is impossible. Only the first refusals of a minute have one of their own."""
        with self._lock:
            now = self._clock()
            if record.status in REFUSALS:
                if now // 60 != self._minute:
                    self._minute, self._refusals = int(now // 60), 0
                self._refusals += 1
                if self._refusals > MAX_REFUSALS_PER_MINUTE or len(self._pending) >= MAX_PENDING:
                    self._omitted += 1
                    return
            record.time, record.omitted, self._omitted = _iso(now), self._omitted, 0
            line = msgspec.json.encode(record)
            records.info("%s", line.decode())
            self._pending.append(line + b"\n")
            try:
                self._write_pending()
            except OSError as error:
                log.error("the audit log %s cannot be written, so the record is kept: %s", self._path, error.strerror)

    def close(self) -> None:
        """Write the number of refused requests that have no record yet."""
        if self._omitted:
            self.record(AuditRecord(by=None, action="close", status=0))

    def _write_pending(self) -> None:
        while self._pending:
            self._write(self._pending[0])
            self._pending.popleft()

    def _write(self, line: bytes) -> None:
        """Append a whole line or nothing; without a line, check that the file can be opened.

        The file is opened each time, so that it can be moved away and rotated.
        """
        if self._path is None:
            return
        create_private(self._path)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            if line:
                _append(descriptor, line)
        finally:
            os.close(descriptor)


append = os.write


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    try:
        if append(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, "the disk is full")
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
