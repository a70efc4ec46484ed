"""`rankloop serve`: the HTTP service."""

from __future__ import annotations

import argparse
import gc
import json
import sys
from typing import TYPE_CHECKING

from rankloop.cli.options import Commands, add_policies, use_policies
from rankloop.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from fastapi import FastAPI

    from rankloop.schema.service_settings import ServiceSettings

SWITCH = 0.0002
"""Seconds for which one thread may keep the interpreter while others wait: a commit asks for it four or five times."""
COLLECT = (20_000, 20, 50)
"""New objects after which Python looks for circles: each look stops everybody, and there are few circles here."""
ROLES = ("rank", "feedback", "read", "admin")


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "serve",
        help="answer over HTTP: rank lists, take feedback, learn",
        description="One process; its state is one file, plus a write-ahead log while it runs (back it up with"
        " `rankloop log backup`). Without API keys it listens on this machine only.",
    )
    command.add_argument("--config", metavar="FILE", help="settings as YAML; RANKLOOP_… variables override them")
    command.add_argument("--host", help="default: 127.0.0.1")
    command.add_argument("--port", type=int, help="default: 8080")
    command.add_argument("--log", metavar="FILE", help="where everything is kept (default: rankloop.db)")
    add_policies(command, "load a policy of your own, beside `policies` of the settings")
    command.add_argument(
        "--new-key",
        metavar="NAME:ROLE,…",
        help=f"print a new API key and the lines for the settings, then end; roles: {', '.join(ROLES)}",
    )
    command.set_defaults(run=run, kept="what was acknowledged is in the log")


def run(given: argparse.Namespace) -> None:
    """Serve until interrupted."""
    try:
        from rankloop.service import app, settings
    except ModuleNotFoundError:
        raise MissingExtra("the serve command", "serve") from None
    if given.new_key is not None:
        _print_key(given.new_key)
        return
    use_policies(given)
    overrides = {"host": given.host, "port": given.port, "log": given.log}
    chosen = settings.load(given.config, overrides=overrides)
    until_the_end(app.create_app(chosen), chosen, "info")


def until_the_end(made: FastAPI, chosen: ServiceSettings, level: str) -> None:
    """Answer until interrupted, in a process of its own."""
    import uvicorn

    from rankloop.service.answer_transport import BufferedHttp

    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # what is there now stays: it need not be looked through again and again
    gc.set_threshold(*COLLECT)
    uvicorn.run(
        made,
        host=chosen.host,
        port=chosen.port,
        workers=1,
        http=BufferedHttp,
        access_log=False,
        log_level=level,
        server_header=False,
        timeout_graceful_shutdown=10,
    )


def _print_key(asked: str) -> None:
    from rankloop.service.auth import make_key

    name, _, roles = asked.partition(":")
    chosen = [role.strip() for role in roles.split(",")]
    if not name or not set(chosen) <= set(ROLES):
        raise InvalidInput("--new-key", asked, f"a name, a colon and roles among {', '.join(ROLES)}, with commas")
    key, kept = make_key(name, chosen)
    print(f"The key, shown only now:\n\n  {key}\n\nFor the settings file, below `keys:`\n\n  - {json.dumps(kept)}")
