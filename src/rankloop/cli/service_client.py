"""How commands connect to a running service: its address and the API key."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankloop.client import Client

URL_VARIABLE, KEY_VARIABLE = "RANKLOOP_URL", "RANKLOOP_KEY"
DEFAULT_URL = "http://127.0.0.1:8080"
CONNECTION = f"The command sends requests to the service at --url, with the API key in ${KEY_VARIABLE}."
"""A sentence for the description of such a command."""


def add_url(command: argparse.ArgumentParser) -> None:
    """Add --url."""
    command.add_argument("--url", help=f"Address of the service (default: ${URL_VARIABLE}, or {DEFAULT_URL}).")


def service_url(args: argparse.Namespace) -> str:
    """Return the address of --url, of the environment, or the default."""
    url: str = args.url or os.environ.get(URL_VARIABLE) or DEFAULT_URL
    return url


def client(args: argparse.Namespace) -> Client:
    """Return a client of the service that the options and the environment name."""
    from rankloop.client import Client

    return Client(service_url(args), os.environ.get(KEY_VARIABLE))
