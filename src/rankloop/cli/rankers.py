"""`rankloop rankers`: the rankers of a running service."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from rankloop.errors import InvalidInput, MissingExtra

URL, KEY = "RANKLOOP_URL", "RANKLOOP_KEY"
DEFAULT = "http://127.0.0.1:8080"


def add_to(commands: Any) -> None:
    """Add the command with its verbs."""
    command = commands.add_parser(
        "rankers",
        help="list, create, show and delete the rankers of a running service",
        description=f"Asks the service at --url (default: ${URL}, or {DEFAULT}) with the API key in ${KEY}.",
    )
    command.add_argument("--url", help=f"where the service is (default: ${URL}, or {DEFAULT})")
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="all rankers").set_defaults(run=show_all)
    create = verbs.add_parser("create", help="create a ranker, or replace it")
    create.add_argument("name")
    create.add_argument("--config", metavar="FILE", help="its settings as YAML")
    create.add_argument("--policy", help="an id of the catalogue; see rankloop policies")
    create.add_argument("--slots", type=int, help="the longest list that is asked for")
    create.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE", help="another setting, as YAML")
    create.set_defaults(run=put)
    for verb, run, does in (("show", show, "settings and size of a ranker"), ("delete", delete, "delete a ranker")):
        one = verbs.add_parser(verb, help=does)
        one.add_argument("name")
        one.set_defaults(run=run)


def show_all(given: argparse.Namespace) -> None:
    """One line each."""
    with _client(given) as service:
        found = service.rankers()
    head = ("name", "policy", "items", "decisions", "pending")
    rows = [(r["name"], r["config"]["policy"], *(str(r[column]) for column in head[2:])) for r in found]
    widths = [max(len(row[c]) for row in (head, *rows)) for c in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def put(given: argparse.Namespace) -> None:
    """Create or replace."""
    config = {} if given.config is None else _file(given.config)
    config |= {name: value for name in ("policy", "slots") if (value := getattr(given, name)) is not None}
    for setting in given.set:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidInput("--set", setting, "FIELD=VALUE")
        config[name] = _yaml("--set", setting, value)
    with _client(given) as service:
        _print(service.put_ranker(given.name, config))


def show(given: argparse.Namespace) -> None:
    """All that is known of one."""
    with _client(given) as service:
        _print(service.ranker(given.name))


def delete(given: argparse.Namespace) -> None:
    """Delete one."""
    with _client(given) as service:
        service.delete_ranker(given.name)
    print(f"Deleted {given.name}; what it did stays in the log.")


def _client(given: argparse.Namespace) -> Any:
    from rankloop.client import Client

    return Client(given.url or os.environ.get(URL) or DEFAULT, os.environ.get(KEY))


def _print(told: Any) -> None:
    print(json.dumps(told, indent=1, ensure_ascii=False))


def _file(path: str) -> dict[str, Any]:
    try:
        found = _yaml("--config", path, Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("--config", path, "a file that can be read") from None
    if not isinstance(found, dict):
        raise InvalidInput("--config", path, "a mapping of settings")
    return found


def _yaml(field: str, given: str, text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("the rankers command", "serve") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InvalidInput(field, given, "YAML") from None
