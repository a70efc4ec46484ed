"""A PostgreSQL server that the tests start themselves, and stop and start as they like."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

USERS = ("postgres", "nobody")
"""Whom the server runs as where the tests run as root: it refuses to be root."""


INITDB = ("-A", "trust", "-U", "tests", "-E", "UTF8", "--locale=C", "--no-sync")


class Server:
    """One server in a folder of its own, listening on a socket in it."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="rankloop-pg-", dir="/tmp"))  # a socket's path must be short
        self._user = _user()
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()
        subprocess.run(
            [*self._as_user(), binaries / "initdb", "-D", self.folder / "data", *INITDB],
            check=True,
            capture_output=True,
            cwd="/",
        )
        self.start()

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "fsync": "off"}
        settings |= {"max_connections": "40", "shared_buffers": "16MB"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_user(), self._binaries / "postgres", "-D", self.folder / "data", *options],
                stdout=log,
                stderr=log,
                cwd="/",
            )
        self._wait()

    def stop(self, *, crash: bool = False) -> None:
        """End all connections and stop; or, in a crash, without writing anything more."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._process.wait(timeout=30)
            self._process = None

    @contextmanager
    def hangs(self) -> Iterator[None]:
        """All of its processes stand still in the block: connections stay open, and nothing is answered."""
        assert self._process is not None
        own = [self._process.pid, *_children(self._process.pid)]
        try:
            for pid in own:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in own:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def remove(self) -> None:
        """Stop, and leave nothing behind."""
        self.stop(crash=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self) -> str:
        """The address of a new, empty database."""
        import psycopg

        name = f"log_{next(self._numbers)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self._address(name)

    def _address(self, name: str) -> str:
        return f"postgresql://tests@/{name}?host={self.folder}"

    def _wait(self) -> None:
        import psycopg

        until = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self._address("postgres")).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > until or self._process is None or self._process.poll() is not None:
                    raise RuntimeError((self.folder / "server.log").read_text()[-2000:]) from None
                time.sleep(0.02)

    def _as_user(self) -> list[str]:
        """Not as root; and the server ends when the tests do, however they end."""
        if shutil.which("setpriv") is None:
            return [] if self._user is None else ["su", self._user, "-s", "/bin/sh", "-c", 'exec "$0" "$@"', "--"]
        change = [] if self._user is None else [f"--reuid={self._user}", f"--regid={_group()}", "--clear-groups"]
        return ["setpriv", "--pdeathsig", "QUIT", *change]


def _children(parent: int) -> list[int]:
    """The processes that another has started and that have not ended."""
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def _user() -> str | None:
    import pwd

    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in USERS if name in known), None)


def _group() -> int:
    import pwd

    return pwd.getpwnam(_user() or "root").pw_gid


def _binaries() -> Path | None:
    """Debian's folders first: what stands on the PATH may be a wrapper."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = shutil.which("initdb")
    folders += [Path(on_path).resolve().parent] if on_path else []
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


@functools.cache
def started() -> Server:
    """The server of this process, started when it is first asked for."""
    server = Server(_binaries() or Path())
    atexit.register(server.remove)
    return server


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server; skips where there is none to run."""
    pytest.importorskip("psycopg_pool", reason="psycopg is not installed: pip install '.[serve]'")
    if _binaries() is None:
        pytest.skip("no PostgreSQL server: neither on the PATH nor below /usr/lib/postgresql (Debian: postgresql)")
    if os.geteuid() == 0 and _user() is None:
        pytest.skip(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}")
    yield started()
    if started()._process is None:
        started().start()


@pytest.fixture
def database(server: Server) -> str:
    """The address of an empty database."""
    return server.database()
