"""`rankloop serve`: the HTTP service."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rankloop.errors import InvalidInput, MissingExtra

ROLES = ("rank", "feedback", "read", "admin")


def add_to(commands: Any) -> None:
    """Add the command."""
    command = commands.add_parser(
        "serve",
        help="answer over HTTP: rank lists, take feedback, learn",
        description="One process, one file of state. Without API keys it listens on this machine only.",
    )
    command.add_argument("--config", metavar="FILE", help="settings as YAML; RANKLOOP_… variables override them")
    command.add_argument("--host", help="default: 127.0.0.1")
    command.add_argument("--port", type=int, help="default: 8080")
    command.add_argument("--log", metavar="FILE", help="where everything is kept (default: rankloop.db)")
    command.add_argument(
        "--new-key",
        metavar="NAME:ROLE,…",
        help=f"print a new API key and the lines for the settings, then end; roles: {', '.join(ROLES)}",
    )
    command.set_defaults(run=run, kept="what was acknowledged is in the log")


def run(given: argparse.Namespace) -> None:
    """Serve until interrupted."""
    try:
        import uvicorn

        from rankloop.service import app, settings
    except ModuleNotFoundError:
        raise MissingExtra("the serve command", "serve") from None
    if given.new_key is not None:
        _print_key(given.new_key)
        return
    overrides = {"host": given.host, "port": given.port, "log": given.log}
    chosen = settings.load(given.config, overrides=overrides)
    made = app.create_app(chosen)
    uvicorn.run(
        made,
        host=chosen.host,
        port=chosen.port,
        workers=1,
        access_log=False,
        log_level="info",
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
