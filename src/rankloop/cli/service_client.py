"""How commands find a running service: where it is, and the key."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankloop.client import Client

URL, KEY = "RANKLOOP_URL", "RANKLOOP_KEY"
DEFAULT = "http://127.0.0.1:8080"
ASKS = f"Asks the service at --url (default: ${URL}, or {DEFAULT}) with the API key in ${KEY}."


def add_url(command: argparse.ArgumentParser) -> None:
    """Where the service is."""
    command.add_argument("--url", help=f"where the service is (default: ${URL}, or {DEFAULT})")


def client(given: argparse.Namespace) -> Client:
    """A client of the service that the options and the environment name."""
    from rankloop.client import Client

    return Client(given.url or os.environ.get(URL) or DEFAULT, os.environ.get(KEY))
