"""`rankloop serve`: the HTTP service."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankloop.cli.log_address import LOG_HELP_DEFAULT, log_address
from rankloop.cli.options import Commands, add_policies, load_policies
from rankloop.cli.serve_keys import add_key_options, run_key_command
from rankloop.cli.serve_workers import add_worker_options, given_socket, run_workers
from rankloop.errors import MissingExtra

if TYPE_CHECKING:
    import asyncio
    import socket

    from fastapi import FastAPI
    from uvicorn.config import HTTPProtocolType

    from rankloop.schema.service_settings import ServiceSettings

    HttpProtocol = type[asyncio.Protocol] | HTTPProtocolType

OVERRIDES = ("host", "port", "log", "workers", "shared")
"""Settings that the command line may override."""
SWITCH_INTERVAL_SECONDS = 0.0002
"""Time for which one thread may hold the interpreter while others wait: a commit acquires it four or five times."""
GC_THRESHOLDS = (20_000, 20, 50)
"""Allocations before a garbage collection of each generation. A collection pauses every thread, and there are few
reference cycles here."""


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "serve",
        help="Serve rankings over HTTP and learn from feedback.",
        description="Start the HTTP service. Its state is one SQLite file (with a write-ahead log while it runs; back "
        "it up with `rankloop log backup`), which one process serves, or a PostgreSQL database, which several may "
        "serve. Without API keys it listens on a loopback address only.",
    )
    command.add_argument(
        "--config", metavar="FILE", help="YAML file with the settings; RANKLOOP_… variables override it."
    )
    command.add_argument("--host", help="Address to listen on (default: 127.0.0.1).")
    command.add_argument("--port", type=int, help="Port to listen on (default: 8080).")
    command.add_argument("--log", metavar="LOG", type=log_address, help=LOG_HELP_DEFAULT)
    add_worker_options(command)
    add_policies(command, "Load a policy of your own, in addition to `policies` of the settings.")
    add_key_options(command)
    command.set_defaults(run=run, on_interrupt="everything acknowledged is in the log")


def run(args: argparse.Namespace) -> None:
    """Serve until interrupted, or create or revoke an API key."""
    try:
        from rankloop.service import app, settings
    except ModuleNotFoundError:
        raise MissingExtra("the serve command", "serve") from None
    if run_key_command(args):
        return
    load_policies(args)
    overrides = {name: getattr(args, name) for name in OVERRIDES}
    chosen = settings.load(args.config, overrides=overrides)
    listening = given_socket()
    if chosen.workers > 1 and listening is None:
        run_workers(chosen, sys.argv[1:])
        return
    if chosen.audit is None:
        _print_audit_records()
    key_file = None if args.config is None else Path(args.config)
    serve_until_interrupted(app.create_app(chosen, key_file), chosen, "info", listening=listening)


def serve_until_interrupted(
    app: FastAPI,
    settings: ServiceSettings,
    log_level: str,
    *,
    http: HttpProtocol | None = None,
    listening: socket.socket | None = None,
) -> None:
    """Run the application in this process, with the interpreter tuned for it.

    Args:
        app: the application.
        settings: its settings.
        log_level: of uvicorn.
        http: uvicorn's HTTP protocol; the default limits connections and sends every answer with one system call.
        listening: the socket to listen on, instead of one at the address of the settings.
    """
    import scipy.special  # noqa: F401  (loaded at its first use, which would delay the first request)
    import uvicorn

    from rankloop.service.transport.watched_http import WatchedHttp

    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    gc.collect()
    gc.freeze()  # the objects of the start live until the end; no collection needs to traverse them
    gc.set_threshold(*GC_THRESHOLDS)
    options: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "workers": 1,
        "http": WatchedHttp if http is None else http,
        "access_log": False,
        "log_level": log_level,
        "server_header": False,
        "proxy_headers": False,
        "timeout_graceful_shutdown": 10,
    }
    if listening is None:
        uvicorn.run(app, **options)
    else:
        uvicorn.Server(uvicorn.Config(app, **options)).run(sockets=[listening])


def _print_audit_records() -> None:
    """Write audit records to standard error, one JSON object in each line."""
    records, handler = logging.getLogger("rankloop.audit"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    records.addHandler(handler)
    records.setLevel(logging.INFO)
    records.propagate = False
