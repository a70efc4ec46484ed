"""`rankloop demo`: the service with simulated visitors."""

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
from typing import TYPE_CHECKING

from rankloop.cli.options import Commands, add_policies, load_policies
from rankloop.cli.service_client import KEY_VARIABLE
from rankloop.errors import InvalidInput, MissingExtra, RankloopError

if TYPE_CHECKING:
    from rankloop.client import Client

RANKER, POLICY = "cafe", "hybrid"
SETTINGS = {"traffic": 0.5, "window": 60.0}
"""Half of the visitors see the fixed order that they send: the control group."""
VISITORS_OPTIONS = ("--control", "fixed", "--late", "0.05", "--lost", "0.02", "--rounds", "0", "--quiet")


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "demo",
        help="Start the service with simulated visitors and watch it learn.",
        description="Start the service with one ranker and simulated visitors. The state is saved in one folder; a "
        "second start continues from it.",
    )
    command.add_argument(
        "--folder", default="results/demo", metavar="DIR", help="Folder for the state (default: %(default)s)."
    )
    command.add_argument("--port", type=int, help="Port to listen on (default: 8080, or a free one if it is in use).")
    command.add_argument(
        "--rate", type=float, default=40.0, metavar="R", help="Number of visits per second (default: %(default)g)."
    )
    add_policies(command, "Load a policy of your own, so that rankers can use it.")
    command.set_defaults(run=run, on_interrupt="everything acknowledged is in the log")


def run(args: argparse.Namespace) -> None:
    """Serve with simulated visitors until interrupted."""
    try:
        from rankloop.cli import serve
        from rankloop.service import app, settings
    except ModuleNotFoundError:
        raise MissingExtra("the demo command", "serve") from None
    load_policies(args)
    folder = Path(args.folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("--folder", args.folder, f"a folder that can be created ({error.strerror})") from None
    port = _free_port(args.port)
    overrides = {"host": "127.0.0.1", "port": port, "log": str(folder / "rankloop.db"), "keys": []}
    chosen = settings.load(None, environment={}, overrides=overrides)
    application = app.create_app(chosen)
    visitors = DemoVisitors(f"http://127.0.0.1:{port}", args.rate)
    visitors.start()
    try:
        serve.serve_until_interrupted(application, chosen, "warning")
    finally:
        visitors.close()


def _free_port(requested: int | None) -> int:
    """Return the requested port if it is free; without a request, 8080 or any free port."""
    for port in (8080, 0) if requested is None else (requested,):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)) as free:
            number: int = free.getsockname()[1]
            return number
    raise InvalidInput("--port", requested, "a free port of this machine")


class DemoVisitors:
    """A process of simulated visitors, started as soon as the service responds."""

    def __init__(self, url: str, rate: float) -> None:
        self._url, self._rate = url, rate
        self._process: subprocess.Popen[bytes] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankloop-demo", daemon=True)

    def start(self) -> None:
        """Wait for the service in the background, then start the process."""
        self._thread.start()

    def _run(self) -> None:
        if not self._create_ranker() or self._stop.is_set():
            return
        command = [sys.executable, "-m", "rankloop", "visitors", "--ranker", RANKER, "--url", self._url]
        environment = {name: value for name, value in os.environ.items() if name != KEY_VARIABLE}
        self._process = subprocess.Popen(  # noqa: S603  (a fixed command without input from outside)
            [*command, *VISITORS_OPTIONS, "--rate", str(self._rate)],
            env=environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C reaches this process only, which then ends the other
        )
        print(f"Watch it learn: {self._url}/dashboard/#/ranker/{RANKER}  (Ctrl-C ends everything)", flush=True)

    def _create_ranker(self) -> bool:
        """Create the ranker with its items once the service responds; return whether that succeeded."""
        from rankloop.client import Client
        from rankloop.visitors import Audience, VisitorBehaviour, fit, load_world
        from rankloop.visitors.retry import Retry

        world, seed = load_world()
        with Client(self._url) as service:
            if not self._wait_for(service):
                return False
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
                print(f"the simulated visitors could not start: {error}", file=sys.stderr)
                return False
        return True

    def _wait_for(self, service: Client) -> bool:
        from rankloop.client import Unavailable

        while not self._stop.is_set():
            try:
                service.rankers()
                return True
            except Unavailable:
                time.sleep(0.1)
        return False

    def close(self) -> None:
        """End the process of visitors."""
        self._stop.set()
        self._thread.join()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
