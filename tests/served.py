"""`rankloop serve` in a process of its own, which the tests may kill, and disks that are too small for it."""

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
    "linear": COMMON | {"policy": "cascade-lin-ts", "dim": 3},  # lists are answered before they are in the log
}


def item(ranker: str, id: str, features: list[float]) -> dict[str, Any]:
    """An item for one of the rankers, with features where that one has them."""
    return {"id": id} | ({"features": features} if "dim" in RANKERS[ranker] else {})


Room = Callable[[int], None]
"""Give a disk so many bytes."""


def until(met: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    """Wait for something that must come; how long it takes is not judged."""
    end = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < end, f"it did not happen: {what}"
        time.sleep(0.01)


class Served:
    """A service over a log; it may be started again and again, each time on a free port."""

    def __init__(self, folder: Path, log: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = log or str(folder / "log.db")
        self.url = ""
        self.folder, self.arguments, self.environment = folder, list[str](), dict[str, str]()
        self._settings, self._says = folder / "settings.yaml", folder / "says"
        given = {"log": self.log, "port": 0, "rankers": RANKERS, "snapshots": {"entries": 20}}
        self._settings.write_text(json.dumps(given))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def says(self) -> str:
        """What it wrote since its last start."""
        return self._says.read_text()

    def start(self) -> None:
        """Start, and wait until it answers."""
        assert self.tries(), self.says

    def tries(self) -> bool:
        """Start, and wait until it answers or gives up; whether it answers."""
        self.launch()
        until(lambda: self._listens() or not self.runs, "the service listens")
        return self.runs

    def launch(self) -> None:
        """Start, and do not wait."""
        assert not self.runs
        with_it = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []  # it ends when the tests do
        command = [
            *with_it,
            sys.executable,
            "-m",
            "rankloop",
            "serve",
            "--config",
            str(self._settings),
            *self.arguments,
        ]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RANKLOOP_")}
        with self._says.open("wb") as says:
            environment = clean | self.environment
            self._process = subprocess.Popen(command, stdout=says, stderr=says, env=environment, cwd=self.folder)

    def _listens(self) -> bool:
        found = re.search(r"running on (http://\S+)", self.says)
        self.url = found[1] if found else ""
        return bool(found)

    def status(self, path: str) -> int:
        """The status of a question."""
        return httpx.get(self.url + path, timeout=60.0).status_code

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._ended(signal.SIGKILL, -signal.SIGKILL)

    def stop(self) -> None:
        """Let it end by itself; it keeps snapshots."""
        self._ended(signal.SIGTERM, 0, -signal.SIGTERM)

    def _ended(self, how: signal.Signals, *accepted: int) -> None:
        assert self._process is not None
        assert self.runs, f"it ended by itself: {self.says}"
        self._process.send_signal(how)
        assert self._process.wait(timeout=60) in accepted, self.says

    def close(self) -> None:
        """Leave no process behind."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Makes services in folders of their own, and ends them."""
    made: list[Served] = []

    def make(name: str = "served", **options: Any) -> Served:
        made.append(Served(tmp_path / name, **options))
        return made[-1]

    yield make
    for served in made:
        served.close()


@contextmanager
def small_disk(place: Path, size: int = 600_000) -> Iterator[Room]:
    """A disk of so many bytes, where we may mount one, and how to make it larger; skips elsewhere."""

    def mount(size: int, *more: str) -> bool:
        options = ",".join([f"size={size}", *more])
        return (
            subprocess.run(["mount", "-o", options, "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode == 0
        )

    place.mkdir(exist_ok=True)
    if os.geteuid() != 0 or shutil.which("mount") is None or not mount(size):
        pytest.skip("no small disk can be mounted here")
    try:
        yield lambda size: None if mount(size, "remount") else pytest.fail("the disk cannot be made larger")
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # a test that failed may still hold files


def limit_files(pid: int, size: int) -> None:
    """From now on a process may not write a file beyond so many bytes."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
