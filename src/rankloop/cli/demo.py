"""`rankloop demo`: the service with simulated visitors, to watch it learn."""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from rankloop.cli.options import Commands, add_policies, use_policies
from rankloop.cli.service_client import KEY
from rankloop.errors import InvalidInput, MissingExtra, RankloopError

RANKER, POLICY = "cafe", "cascade-lin-ts"
SETTINGS = {"traffic": 0.5, "window": 60.0}
"""Half of the visitors see the visitors' own order: the control group."""
VISITORS = ("--control", "fixed", "--late", "0.05", "--lost", "0.02", "--rounds", "0", "--quiet")


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "demo",
        help="start the service with simulated visitors, and watch it learn",
        description="Everything is kept in one folder: a second start goes on where the first one ended.",
    )
    command.add_argument("--folder", default="results/demo", metavar="DIR", help="default: %(default)s")
    command.add_argument("--port", type=int, help="default: 8080, or another one where that is taken")
    command.add_argument("--rate", type=float, default=40.0, metavar="R", help="visits per second (%(default)g)")
    add_policies(command, "load a policy of your own, so that rankers can be created with it")
    command.set_defaults(run=run, kept="what was acknowledged is in the log")


def run(given: argparse.Namespace) -> None:
    """Serve, and bring visitors, until interrupted."""
    try:
        from rankloop.cli import serve
        from rankloop.service import app, settings
    except ModuleNotFoundError:
        raise MissingExtra("the demo command", "serve") from None
    use_policies(given)
    folder = Path(given.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("--folder", given.folder, f"a folder that can be made ({error.strerror})") from None
    port = _port(given.port)
    overrides = {"host": "127.0.0.1", "port": port, "log": str(folder / "rankloop.db"), "keys": []}
    chosen = settings.load(None, environment={}, overrides=overrides)
    made = app.create_app(chosen)
    guests = DemoVisitors(f"http://127.0.0.1:{port}", given.rate)
    guests.start()
    try:
        serve.until_the_end(made, chosen, "warning")
    finally:
        guests.close()


def _port(asked: int | None) -> int:
    """The one that was asked for, 8080, or any that is free."""
    for port in (8080, 0) if asked is None else (asked,):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as free:
            found: int = free.getsockname()[1]
            return found
    raise InvalidInput("--port", asked, "a port of this machine that is free")


class DemoVisitors:
    """Visitors in a process of their own, who come as soon as the service answers."""

    def __init__(self, url: str, rate: float) -> None:
        self._url, self._rate = url, rate
        self._process: subprocess.Popen[bytes] | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._bring, name="rankloop-demo", daemon=True)

    def start(self) -> None:
        """Bring them soon."""
        self._thread.start()

    def _bring(self) -> None:
        from rankloop.client import Client, Unavailable
        from rankloop.visitors import Audience, VisitorBehaviour, fit, load_world
        from rankloop.visitors.retry import Retry

        world, seed = load_world()
        with Client(self._url) as service:
            while not self._end.is_set():
                try:
                    service.rankers()
                    break
                except Unavailable:
                    time.sleep(0.1)
            else:
                return
            try:
                fit(
                    service,
                    RANKER,
                    Audience(world, seed=seed, run="demo", behaviour=VisitorBehaviour()),
                    create=POLICY,
                    retry=Retry(10.0),
                )
                service.put_ranker(RANKER, service.ranker(RANKER).config | SETTINGS)
            except RankloopError as error:
                print(f"no visitors come: {error}", file=sys.stderr)
                return
        if self._end.is_set():
            return
        command = [sys.executable, "-m", "rankloop", "visitors", "--ranker", RANKER, "--url", self._url, *VISITORS]
        environment = {name: value for name, value in os.environ.items() if name != KEY}
        self._process = subprocess.Popen(  # noqa: S603  (our own command, and nothing of a stranger in it)
            [*command, "--rate", str(self._rate)],
            env=environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us, and we end them
        )
        print(f"Watch it learn: {self._url}/dashboard/#/ranker/{RANKER}  (Ctrl-C ends everything)", flush=True)

    def close(self) -> None:
        """Send them home."""
        self._end.set()
        self._thread.join()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
