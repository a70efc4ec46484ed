"""The address of a log as an argument: never with a password, which every user could read in the process list."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from urllib.parse import parse_qsl

LOG_VARIABLE = "RANKLOOP_LOG"
LOG = (
    "SQLite file or postgresql://… address of the log, without a password; @FILE reads the address from a file, "
    f"@ from ${LOG_VARIABLE}"
)
LOG_HELP = f"{LOG}."
LOG_HELP_DEFAULT = f"{LOG} (default: @ if that variable is set, otherwise rankloop.db)."
REFUSED = (
    "the address contains a password, which other users could read in the process list; accepted: an address without "
    "one, with the password in PGPASSWORD or in ~/.pgpass; or the whole address in a file, as @FILE, or in "
    f"{LOG_VARIABLE}, as @"
)
_DATABASE = re.compile(r"(postgres(?:ql)?://)(\S+)")
_SECRET_PARAMETERS = ("password", "sslpassword")


def log_address(argument: str) -> str:
    """Return the address that an argument names; for argparse, which reports the refusals.

    >>> log_address("shop.db")
    'shop.db'
    """
    if argument == "@":
        address = os.environ.get(LOG_VARIABLE, "")
        if not address:
            raise argparse.ArgumentTypeError(f"@ needs the address of the log in the variable {LOG_VARIABLE}")
        return address
    if argument.startswith("@"):
        return _read(Path(argument[1:]))
    if without_passwords(argument) != argument:
        raise argparse.ArgumentTypeError(REFUSED)
    return argument


def default_log_address() -> str:
    """Return the address that the environment names, or the default of the service."""
    return "@" if os.environ.get(LOG_VARIABLE) else "rankloop.db"


def without_passwords(text: str) -> str:
    """Return a text with the passwords of its database addresses replaced by dots.

    >>> without_passwords("cannot open postgresql://me:secret@db/shop?sslpassword=x")
    'cannot open postgresql://me:…@db/shop?sslpassword=…'
    """
    return _DATABASE.sub(lambda match: match[1] + _without_password(match[2]), text)


def _without_password(address: str) -> str:
    # A password may contain a slash that should have been encoded, so everything before the last @ may be a part of it.
    place, mark, query = address.partition("?")
    user, at, host = place.rpartition("@")
    name, _, password = user.partition(":")
    place = f"{name}:…@{host}" if password else f"{user}{at}{host}"
    for parameter, value in parse_qsl(query):
        if value and parameter.lower() in _SECRET_PARAMETERS:
            query = re.sub(rf"(?i)(^|&)({parameter})=[^&]*", r"\1\2=…", query)
    return place + mark + query


def _read(path: Path) -> str:
    """Return the first line of a file."""
    try:
        address, *_ = path.read_text(encoding="utf-8").splitlines() or [""]
    except OSError as error:
        raise argparse.ArgumentTypeError(f"the file {path} cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"the file {path} is not text in UTF-8") from None
    if not address.strip():
        raise argparse.ArgumentTypeError(f"the first line of {path} is empty; accepted: the address of a log")
    return address.strip()
