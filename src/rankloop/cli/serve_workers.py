"""`rankloop serve --workers N`: a parent that owns the socket, and the processes that answer on it."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from rankloop.schema.service_settings import ServiceSettings

BACKLOG = 2048
"""Connections that wait to be accepted by a worker."""
STOP_SECONDS = 20.0
"""Time that workers have to answer their requests and to end."""
RESTART_SECONDS = 1.0
"""Least time between two starts of one worker."""
CHECK_SECONDS = 0.1
SOCKET, LIFELINE = "RANKLOOP_WORKER_SOCKET", "RANKLOOP_WORKER_LIFELINE"
"""Environment variables of a worker: the descriptors of the listening socket, and of a pipe that its parent holds."""
log = logging.getLogger("rankloop.service")


def run_workers(settings: ServiceSettings, arguments: Sequence[str]) -> None:
    """Start the workers, and another one for each that ends, until this process is told to stop.

    Args:
        settings: of the service.
        arguments: of this command, which the workers get as well.
    """
    with ExitStack() as resources:
        listening = resources.enter_context(_listening(settings))
        theirs, ours = os.pipe()
        environment = worker_environment(settings, listening.fileno(), theirs)
        workers = [_Worker(arguments, environment, (listening.fileno(), theirs)) for _ in range(settings.workers)]
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: _ask_to_stop(stop, number, frame))
        host, port = listening.getsockname()[:2]
        sys.stderr.write(f"rankloop serves in {settings.workers} processes, running on http://{_in_url(host)}:{port}\n")
        sys.stderr.flush()
        try:
            while not stop.wait(CHECK_SECONDS):
                for worker in workers:
                    worker.restart_if_ended()
        finally:
            for worker in workers:
                worker.stop()
            deadline = time.monotonic() + STOP_SECONDS
            for worker in workers:
                worker.wait(deadline)
            os.close(ours)
            os.close(theirs)


def worker_environment(settings: ServiceSettings, listening: int, lifeline: int) -> Mapping[str, str]:
    """Return the environment of the workers: what they must share, and their part of what they divide."""
    from rankloop.serving.memory.budget import DEFAULT_SHARE
    from rankloop.serving.memory.machine import machine_memory

    environment = os.environ | {SOCKET: str(listening), LIFELINE: str(lifeline)}
    if settings.token_secret is None:  # a token that one of them issues must be valid at all of them
        environment["RANKLOOP_TOKEN_SECRET"] = secrets.token_urlsafe(32)
    if settings.limits.memory is None:
        memory = int(DEFAULT_SHARE * machine_memory() / settings.workers)
        environment["RANKLOOP_LIMITS__MEMORY"] = str(memory)
    return environment


def given_socket() -> socket.socket | None:
    """Return the socket that a parent has given to this worker; None in a process of its own."""
    descriptor = os.environ.pop(SOCKET, None)
    if descriptor is None:
        return None
    lifeline = int(os.environ.pop(LIFELINE))
    threading.Thread(target=_end_with_parent, args=(lifeline,), name="rankloop-lifeline", daemon=True).start()
    return socket.socket(fileno=int(descriptor))


def _end_with_parent(lifeline: int) -> None:
    """Stop as on SIGTERM when the parent has ended, however it did."""
    while os.read(lifeline, 1):
        continue
    os.kill(os.getpid(), signal.SIGTERM)


class _Worker:
    """One process, started again whenever it ends."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str], descriptors: tuple[int, ...]) -> None:
        self._command = [sys.executable, "-m", "rankloop", *arguments]
        self._environment, self._descriptors = environment, descriptors
        self._start()

    def _start(self) -> None:
        self._started = time.monotonic()
        # A session of its own: Ctrl-C reaches the parent only, which tells the workers.
        self._process = subprocess.Popen(  # noqa: S603, this program with its own arguments
            self._command, env=self._environment, pass_fds=self._descriptors, start_new_session=True
        )

    def restart_if_ended(self) -> None:
        """Start another process if this one has ended, but not in quick succession."""
        if self._process.poll() is not None and time.monotonic() - self._started >= RESTART_SECONDS:
            log.warning("worker %d ended with %d and is started again", self._process.pid, self._process.returncode)
            self._start()

    def stop(self) -> None:
        """Ask the process to answer its requests and to end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, deadline: float) -> None:
        """Wait for the end of the process; kill it at the deadline."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _listening(settings: ServiceSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((settings.host.strip("[]"), settings.port))
    listening.listen(BACKLOG)
    return listening


def _ask_to_stop(stop: threading.Event, number: int, frame: FrameType | None) -> None:
    stop.set()


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def add_worker_options(command: argparse.ArgumentParser) -> None:
    """Add the options of several processes."""
    command.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="Serve one PostgreSQL log in N processes behind one address (default: 1).",
    )
    command.add_argument(
        "--shared",
        action="store_true",
        default=None,
        help="Serve a PostgreSQL log that processes elsewhere serve too.",
    )
