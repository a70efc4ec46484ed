"""A connection that hears when other processes append, and holds the lease if no other process does."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rankloop.eventlog.postgres_connection import APPEND_LOCK, connection_info, first_line, psycopg_modules
from rankloop.eventlog.shared.postgres import CHANNEL
from rankloop.eventlog.store import StoreUnavailable

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

LEASE_LOCK = APPEND_LOCK + 2
"""Advisory lock of the process that closes windows, watches the guardrail and stores snapshots."""
CHANGE_LOCK = APPEND_LOCK + 3
"""Advisory lock of a process that creates, changes or deletes rankers, while it does."""
LEASE_SECONDS = 1.0
"""Time between two attempts to get the lease, or two signs of life of the process that has it."""
MAX_SILENCE = "5s"
"""Time after which the server takes the lease from a process that gives no sign of life: it was stopped."""
LISTEN_SECONDS = 0.25
"""Time after which a listening thread sees that it shall end."""
CHANGE_TIMEOUT = "60s"
"""How long a change of rankers waits for that of another process."""
CONNECT_SECONDS = 5.0
log = logging.getLogger("rankloop.eventlog")


class PostgresWatch:
    """Listens to the notifications of a log, and keeps the lease.

    The lease is an advisory lock of the connection: the server gives it to one process, and frees it when that process
    ends or says nothing for some seconds. Nothing wrong happens while two processes believe that they have it: what
    the lease is for is decided by the order of the log, or checked in it.

    Args:
        dsn: address of the database.
        process: number of this process, whose own notifications are ignored.
    """

    def __init__(self, dsn: str, process: int) -> None:
        self._pg, _ = psycopg_modules()
        self._info, self._name = connection_info(self._pg, dsn, CONNECT_SECONDS)
        self._own = str(process)
        self._ring: Callable[[], None] = _nothing
        self._stop = threading.Event()
        self._first = threading.Event()  # the first attempt to get the lease is over
        self.leads = self.listens = False
        self._thread = threading.Thread(target=self._run, name="rankloop-watch", daemon=True)

    def start(self, ring: Callable[[], None]) -> None:
        """Start to listen and to ask for the lease; wait for the first answer."""
        self._ring = ring
        self._thread.start()
        self._first.wait(CONNECT_SECONDS)

    def close(self) -> None:
        """Stop listening, and give up the lease."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with contextlib.closing(self._pg.connect(self._info, autocommit=True)) as connection:
                    self._watch(connection)
            except Exception as error:
                if self.leads or self.listens:
                    log.warning("the watch over the log %s is interrupted (%s).", self._name, first_line(error))
            finally:
                self.leads = self.listens = False
            self._first.set()
            self._stop.wait(LEASE_SECONDS)

    def _watch(self, connection: Connection[TupleRow]) -> None:
        if connection.info.server_version >= 140_000:
            connection.execute("SELECT set_config('idle_session_timeout', %s, false)", (MAX_SILENCE,))
        connection.execute(f"LISTEN {CHANNEL}".encode())
        self.listens, next_sign = True, 0.0
        self._ring()  # what was appended before is not announced
        while not self._stop.is_set():
            if time.monotonic() >= next_sign:
                self._ask_for_lease(connection)
                self._first.set()
                next_sign = time.monotonic() + LEASE_SECONDS
            for note in connection.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                if note.payload != self._own:
                    self._ring()
        if self.leads:
            connection.execute("SELECT pg_advisory_unlock(%s)", (LEASE_LOCK,))

    def _ask_for_lease(self, connection: Connection[TupleRow]) -> None:
        if self.leads:
            connection.execute("SELECT 1")
            return
        (self.leads,) = connection.execute("SELECT pg_try_advisory_lock(%s)", (LEASE_LOCK,)).fetchone() or (False,)
        if self.leads:
            log.info("this process has the lease of the log %s: it closes windows and stores snapshots", self._name)

    @contextmanager
    def changing_rankers(self) -> Iterator[None]:
        """Exclude other processes from creating, changing and deleting rankers in the block."""
        try:
            connection = self._pg.connect(self._info, autocommit=True)
            connection.execute("SELECT set_config('lock_timeout', %s, false)", (CHANGE_TIMEOUT,))
            connection.execute("SELECT pg_advisory_lock(%s)", (CHANGE_LOCK,))
        except self._pg.Error as error:
            message = f"the log {self._name} cannot be changed now ({first_line(error)})."
            raise StoreUnavailable(message) from None
        try:
            yield
        finally:
            with contextlib.suppress(self._pg.Error):
                connection.execute("SELECT pg_advisory_unlock(%s)", (CHANGE_LOCK,))
            connection.close()


def _nothing() -> None: ...
