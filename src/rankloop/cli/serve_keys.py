"""Options of `rankloop serve` that create, rotate and revoke API keys."""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

from rankloop.errors import InvalidInput, Words

ROLES = ("rank", "feedback", "read", "admin")
UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
MAX_SECONDS = 100 * 365 * 86_400


def add_key_options(command: argparse.ArgumentParser) -> None:
    """Add the options."""
    command.add_argument(
        "--new-key",
        metavar="NAME:ROLE,…",
        help="Print a new API key and its entry for the settings file, then exit; with --config, add the entry to the "
        "file. Older keys with this name expire after --overlap, so that this also rotates a key. "
        f"Roles: {', '.join(ROLES)}.",
    )
    command.add_argument(
        "--expires", metavar="TIME", help="Validity of the new key, such as 12h, 90d or 52w (default: without end)."
    )
    command.add_argument(
        "--overlap",
        metavar="TIME",
        default="1d",
        help="Time for which older keys with the same name stay valid (default: %(default)s).",
    )
    command.add_argument(
        "--revoke", metavar="NAME", help="Remove the API keys with this name from the file of --config, then exit."
    )


def run_key_command(args: argparse.Namespace) -> bool:
    """Create or revoke a key if the options say so; return whether they did."""
    if args.revoke is not None:
        _revoke(args)
        return True
    if args.new_key is not None:
        _create(args)
        return True
    if args.expires is not None:
        raise InvalidInput("--expires", args.expires, "this option together with --new-key")
    return False


def _create(args: argparse.Namespace) -> None:
    from rankloop.schema.api_key import ApiKey, iso_time
    from rankloop.service.access.auth import make_key
    from rankloop.service.access.key_edit import add_key

    name, _, roles = args.new_key.partition(":")
    chosen = [role.strip() for role in roles.split(",")]
    if not name or not set(chosen) <= set(ROLES):
        accepted = f"NAME:ROLE with one or more of the roles {', '.join(ROLES)}, separated by commas"
        raise InvalidInput("--new-key", args.new_key, accepted)
    overlap = _seconds("--overlap", args.overlap)
    expires = None if args.expires is None else iso_time(time.time() + _seconds("--expires", args.expires))
    key, entry = make_key(name, chosen, expires)
    ApiKey.of(entry)
    shown = f"API key (it is not shown again):\n\n  {key}\n\n"
    if args.config is None:
        print(f"{shown}Entry for `keys:` in the settings file:\n\n  - {json.dumps(entry)}")
        return
    older = add_key(Path(args.config), entry, overlap)
    print(f"{shown}It was added to {args.config}; a running service accepts it within seconds.")
    for expiry in older:
        print(f"An older key {name} expires at {expiry}.")


def _revoke(args: argparse.Namespace) -> None:
    from rankloop.service.access.key_edit import revoke_key

    if args.config is None:
        raise InvalidInput("--config", Words("missing"), "the settings file from which the key is removed")
    count = revoke_key(Path(args.config), args.revoke)
    keys = "1 key was" if count == 1 else f"{count} keys were"
    print(f"{keys} removed from {args.config}; a running service refuses requests with them within seconds.")


def _seconds(option: str, text: str) -> int:
    """Return a duration in seconds."""
    match = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip())
    seconds = int(match[1]) * UNIT_SECONDS[match[2]] if match else 0
    if not match or seconds > MAX_SECONDS:
        raise InvalidInput(option, text, "a number and a unit (s, m, h, d or w), such as 90d, up to 100 years")
    return seconds
