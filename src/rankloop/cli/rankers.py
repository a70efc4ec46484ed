"""`rankloop rankers`: the rankers of a running service."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rankloop.cli.options import Commands
from rankloop.cli.service_client import ASKS, add_url, client
from rankloop.errors import InvalidInput, MissingExtra, RankloopError
from rankloop.schema import RankerSettings
from rankloop.schema.field_descriptions import described
from rankloop.schema.mappings import fields_of


def add_to(commands: Commands) -> None:
    """Add the command with its verbs."""
    command = commands.add_parser(
        "rankers",
        help="list, create, change, show and delete the rankers of a running service",
        description=ASKS,
    )
    add_url(command)
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="all rankers").set_defaults(run=show_all)
    create = verbs.add_parser("create", help="create a ranker, or adjust one that is there")
    create.set_defaults(run=put)
    change = verbs.add_parser("set", help="change settings of a ranker; what was learned stays")
    change.add_argument("name")
    change.add_argument("set", nargs="*", metavar="FIELD=VALUE", help="a setting as YAML; null: its default")
    change.add_argument("--reset", action="store_true", help="learn anew, with the same items")
    change.set_defaults(run=patch)
    challenger = verbs.add_parser(
        "challenger", help="rebuild a challenger from the log, and compare it with the active policy"
    )
    challenger.add_argument("--promote", action="store_true", help="promote it as soon as it is ready")
    challenger.set_defaults(run=rebuild)
    meaning = {field.name: field.description for field in described(RankerSettings)}
    for one in (create, challenger):
        one.add_argument("name")
        one.add_argument("--config", metavar="FILE", help="its settings as YAML")
        one.add_argument("--policy", help=f"{meaning['policy']}; see rankloop policies")
        one.add_argument("--slots", type=int, help=meaning["slots"])
        others = ", ".join(name for name in meaning if name not in ("policy", "slots"))
        one.add_argument(
            "--set", action="append", default=[], metavar="FIELD=VALUE", help=f"another setting, as YAML: {others}"
        )
    for verb, run, does in (
        ("show", show, "settings and size of a ranker"),
        ("history", history, "every change of a ranker's settings: when, by which key, and what"),
        ("promote", promote, "let the challenger decide; the policy that decided becomes the challenger"),
        ("discard", discard, "discard the challenger"),
        ("reset-guardrail", reset_guardrail, "let the policy decide again after the guardrail was tripped"),
        ("delete", delete, "delete a ranker"),
    ):
        one = verbs.add_parser(verb, help=does)
        one.add_argument("name")
        one.set_defaults(run=run)


def show_all(given: argparse.Namespace) -> None:
    """One line each."""
    with client(given) as service:
        found = service.rankers()
    head = ("name", "policy", "items", "decisions", "open_decisions")
    rows = [
        (r.name, r.config.get("policy", "unknown"), *(str(getattr(r, column)) for column in head[2:])) for r in found
    ]
    aside = [(r.name, r.quarantine) for r in found if r.quarantine is not None]
    widths = [max(len(row[c]) for row in (head, *rows)) for c in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for name, quarantine in aside:
        print(f"{name} is quarantined at log position {quarantine.position}: {quarantine.reason}.")


def put(given: argparse.Namespace) -> None:
    """Create or replace."""
    with client(given) as service:
        _print(service.put_ranker(given.name, _config(given)))


def patch(given: argparse.Namespace) -> None:
    """Change named settings."""
    with client(given) as service:
        _print(service.patch_ranker(given.name, _named("FIELD=VALUE", given.set), reset=given.reset))


def history(given: argparse.Namespace) -> None:
    """One line for each change."""
    with client(given) as service:
        events = service.history(given.name)
    for event in events:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["time"]))
        what = json.dumps(event["changed"], ensure_ascii=False) if event["changed"] is not None else ""
        told = {"version": event["version"], "by": event["by"], "position": event["position"]}
        known = " ".join(f"{name} {value}" for name, value in told.items() if value is not None)
        print(" ".join(part for part in (at, event["kind"], known, what, event["because"] or "") if part))


def rebuild(given: argparse.Namespace) -> None:
    """Rebuild another policy from the log, compare, and switch where that is wished."""
    with client(given) as service:
        # What is not said of the new policy stays as it is.
        before = service.ranker(given.name).config
        config = _config(given)
        if config.get("policy", before["policy"]) != before["policy"]:
            from rankloop.catalogue.setting_use import unread_by  # loads the catalogue, which other commands do without

            before.pop("params", None)
            params = fields_of(config.get("params")) or {}
            for name in unread_by(str(config["policy"]), params, list(before)):
                before.pop(name)
        standing = service.put_challenger(given.name, before | config)
        while standing["state"] == "rebuilding":
            time.sleep(0.1)
            standing = service.challenger(given.name)
        if standing["state"] == "failed":
            raise RankloopError(standing["problem"])
        if standing["comparison"] is not None:
            print(_compared(standing["comparison"]))
        if given.promote:
            service.promote(given.name)
    print(
        f"{given.name} is decided by {standing['config']['policy']} now." if given.promote else _what_next(given.name)
    )


def _compared(told: Mapping[str, object]) -> str:
    """A verdict in words, with the numbers behind it."""
    challenger, active, verdict = (
        f"the challenger {told['challenger']}",
        f"the active {told['active']}",
        told["verdict"],
    )
    if verdict == "cannot tell":
        words = f"Cannot tell whether {challenger} predicts clicks better than {active}. {told['reason']}"
    else:
        words = f"T{challenger[1:]} predicts clicks {verdict} than {active}."
    if told["difference"] is None:
        return words
    sure = "" if told["low"] is None else f" (95 % interval {told['low']:+.4f} to {told['high']:+.4f})"
    return (
        f"{words}\nDifference of log-likelihood per list: {told['difference']:+.4f}{sure} over {told['lists']:,} lists."
    )


def _what_next(name: str) -> str:
    return f"The challenger follows the log; `rankloop rankers promote {name}` lets it decide."


def promote(given: argparse.Namespace) -> None:
    """Let the policy that stands by decide."""
    with client(given) as service:
        told = service.promote(given.name)
    print(f"{given.name} is decided by {told.config['policy']} now; `promote` again takes it back.")


def discard(given: argparse.Namespace) -> None:
    """Discard the challenger."""
    with client(given) as service:
        service.discard_challenger(given.name)
    print(f"The challenger of {given.name} is discarded.")


def reset_guardrail(given: argparse.Namespace) -> None:
    """Let the policy decide again."""
    with client(given) as service:
        service.reset_guardrail(given.name)
    print(f"{given.name} decides again.")


def _config(given: argparse.Namespace) -> dict[str, object]:
    """Settings of a file and of options."""
    config = {} if given.config is None else _file(given.config)
    config |= {name: value for name in ("policy", "slots") if (value := getattr(given, name)) is not None}
    return config | _named("--set", given.set)


def _named(field: str, settings: list[str]) -> dict[str, object]:
    """Settings given as FIELD=VALUE."""
    found: dict[str, object] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InvalidInput(field, setting, "FIELD=VALUE")
        found[name] = _yaml(field, setting, value)
    return found


def show(given: argparse.Namespace) -> None:
    """All that is known of one."""
    with client(given) as service:
        _print(service.ranker(given.name))


def delete(given: argparse.Namespace) -> None:
    """Delete one."""
    with client(given) as service:
        service.delete_ranker(given.name)
    print(f"Deleted {given.name}; what it did stays in the log.")


def _print(told: object) -> None:
    print(json.dumps(msgspec.to_builtins(told), indent=1, ensure_ascii=False))


def _file(path: str) -> dict[str, object]:
    try:
        found = _yaml("--config", path, Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("--config", path, "a file that can be read") from None
    settings = fields_of(found)
    if settings is None:
        raise InvalidInput("--config", path, "a mapping of settings")
    return settings


def _yaml(field: str, given: str, text: str) -> object:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("the rankers command", "serve") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InvalidInput(field, given, "YAML") from None
