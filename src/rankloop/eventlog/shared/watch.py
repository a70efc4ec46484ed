"""Two connections: one hears when other processes append, one holds the lease if no other process does."""

from __future__ import annotations

import contextlib
import logging
import threading
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
TRY_LEASE = "SELECT pg_try_advisory_lock(%s)"
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
        # Two connections: the server blocks while it sends notifications to a process that stands still, and a session
        # that is blocked is not ended for its silence.
        self._threads = [
            threading.Thread(target=self._keep, args=(work,), name=name, daemon=True)
            for work, name in ((self._lease, "rankloop-lease"), (self._listen, "rankloop-bell"))
        ]

    def start(self, ring: Callable[[], None]) -> None:
        """Start to listen and to ask for the lease; wait for the first answer."""
        self._ring = ring
        for thread in self._threads:
            thread.start()
        self._first.wait(CONNECT_SECONDS)

    def close(self) -> None:
        """Stop listening, and give up the lease."""
        self._stop.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _keep(self, work: Callable[[Connection[TupleRow]], None]) -> None:
        """Do something with a connection, and again with another one after it was lost."""
        lost = False
        while not self._stop.is_set():
            try:
                with contextlib.closing(self._pg.connect(self._info, autocommit=True)) as connection:
                    if lost:
                        log.info("%s is connected again", threading.current_thread().name)
                    lost = False
                    work(connection)
            except Exception as error:
                if not lost:
                    log.warning("%s has lost its connection: %s.", threading.current_thread().name, first_line(error))
                lost = True
            self._first.set()
            self._stop.wait(LEASE_SECONDS)

    def _lease(self, connection: Connection[TupleRow]) -> None:
        """Ask for the lease, and give signs of life once this process has it."""
        try:
            if connection.info.server_version >= 140_000:
                connection.execute("SELECT set_config('idle_session_timeout', %s, false)", (MAX_SILENCE,))
            while True:
                query, parameters = ("SELECT true", ()) if self.leads else (TRY_LEASE, (LEASE_LOCK,))
                (leads,) = connection.execute(query, parameters).fetchone() or (False,)
                if leads and not self.leads:
                    log.info("this process has the lease of the log %s: it closes windows", self._name)
                self.leads = leads
                self._first.set()
                if self._stop.wait(LEASE_SECONDS):
                    connection.execute("SELECT pg_advisory_unlock_all()")
                    return
        finally:
            self.leads = False

    def _listen(self, connection: Connection[TupleRow]) -> None:
        """Ring when another process has appended."""
        try:
            connection.execute(f"LISTEN {CHANNEL}".encode())
            self.listens = True
            self._ring()  # what was appended before is not announced
            while not self._stop.is_set():
                for note in connection.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                    if note.payload != self._own:
                        self._ring()
        finally:
            self.listens = False

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
