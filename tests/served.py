"""Run `rankloop serve` in its own process, which tests may kill, and on disks that are too small."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

COMMON: dict[str, Any] = {"slots": 3, "seed": 7}
RANKERS: dict[str, dict[str, Any]] = {
    "counts": COMMON | {"policy": "cascade-ucb1", "window": 0.5, "commit": "all"},  # windows close under load
    "linear": COMMON | {"policy": "cascade-lin-ts", "dim": 3},  # lists are answered before they are committed
}


def item(ranker: str, id: str, features: list[float]) -> dict[str, Any]:
    """Return an item for one of the rankers, with features if that ranker uses them."""
    return {"id": id} | ({"features": features} if "dim" in RANKERS[ranker] else {})


Room = Callable[[int], None]
"""Resizes a disk to a number of bytes."""


def until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition; fail after a generous timeout."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen: {what}"
        time.sleep(0.01)


class Served:
    """A service over a log that can be restarted, each time on a free port."""

    def __init__(self, folder: Path, log: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = log or str(folder / "log.db")
        self.url = ""
        self.folder, self.arguments, self.environment = folder, list[str](), dict[str, str]()
        self.descriptors: int | None = None  # files that the process may open
        self._settings, self._output = folder / "settings.yaml", folder / "output"
        settings = {"log": self.log, "port": 0, "rankers": RANKERS, "snapshots": {"entries": 20}}
        self._settings.write_text(json.dumps(settings))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the last start."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """Output since the last start."""
        return self._output.read_text()

    def start(self) -> None:
        """Start, and wait until the service listens."""
        assert self.try_start(), self.output

    def try_start(self) -> bool:
        """Start, and wait until the service listens or ends; return whether it listens."""
        self.launch()
        until(lambda: self.listens() or not self.running, "the service listens")
        return self.running

    def launch(self) -> None:
        """Start without waiting."""
        assert not self.running
        wrapper = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # it ends with the tests
        if self.descriptors is not None:
            wrapper += ["sh", "-c", f'ulimit -n {self.descriptors}; exec "$0" "$@"']
        command = [
            *wrapper,
            sys.executable,
            "-m",
            "rankloop",
            "serve",
            "--config",
            str(self._settings),
            *self.arguments,
        ]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RANKLOOP_")}
        with self._output.open("wb") as output:
            environment = clean | self.environment
            self._process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, cwd=self.folder)

    def listens(self) -> bool:
        """Whether the service listens; its address is known then."""
        match = re.search(r"running on (http://\S+)", self.output)
        self.url = match[1] if match else ""
        return bool(match)

    def status(self, path: str) -> int:
        """Return the status code of a GET request."""
        return httpx.get(self.url + path, timeout=60.0).status_code

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._end(signal.SIGKILL, -signal.SIGKILL)

    def stop(self) -> None:
        """Stop the process gracefully; it saves snapshots."""
        self._end(signal.SIGTERM, 0, -signal.SIGTERM)

    def _end(self, how: signal.Signals, *accepted: int) -> None:
        assert self._process is not None
        assert self.running, f"it ended by itself: {self.output}"
        self._process.send_signal(how)
        assert self._process.wait(timeout=60) in accepted, self.output

    def close(self) -> None:
        """Kill the process if it is running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Create services, each in its own folder, and end them after the test."""
    services: list[Served] = []

    def make(name: str = "served", **options: Any) -> Served:
        services.append(Served(tmp_path / name, **options))
        return services[-1]

    yield make
    for served in services:
        served.close()


@contextmanager
def small_disk(path: Path, size: int = 600_000) -> Iterator[Room]:
    """Mount a disk of `size` bytes and give a function that resizes it; skip the test if mounting is not allowed."""

    def mount(size: int, *more: str) -> bool:
        options = ",".join([f"size={size}", *more])
        return (
            subprocess.run(["mount", "-o", options, "-t", "tmpfs", "tmpfs", path], capture_output=True).returncode == 0
        )

    path.mkdir(exist_ok=True)
    if os.geteuid() != 0 or shutil.which("mount") is None or not mount(size):
        pytest.skip("no small disk can be mounted here")
    try:
        yield lambda size: None if mount(size, "remount") else pytest.fail("the disk cannot be made larger")
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)  # a test that failed may still hold files


def limit_files(pid: int, size: int) -> None:
    """Limit the size in bytes of the files that a process writes."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
