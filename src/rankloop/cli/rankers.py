"""`rankloop rankers`: the rankers of a running service."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path

from rankloop.cli.options import Commands
from rankloop.cli.service_client import CONNECTION, add_url, client
from rankloop.errors import InvalidInput, MissingExtra, RankloopError

POLL_SECONDS = 0.1
"""Time between two requests for the status of a rebuild."""


def add_to(commands: Commands) -> None:
    """Add the command with its verbs."""
    command = commands.add_parser(
        "rankers",
        help="List, create, change, show and delete the rankers of a running service.",
        description=f"Administer the rankers of a running service. {CONNECTION}",
    )
    add_url(command)
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")
    _verb(verbs, "list", "List all rankers.", named=False).set_defaults(run=show_all)
    create = _verb(verbs, "create", "Create a ranker, or change the settings of an existing one.")
    _add_settings(create)
    create.set_defaults(run=put)
    change = _verb(verbs, "set", "Change settings of a ranker and keep what it has learned.")
    change.add_argument(
        "set", nargs="*", metavar="FIELD=VALUE", help="Setting and its value in YAML; null restores the default."
    )
    change.add_argument("--reset", action="store_true", help="Discard everything learned and keep the items.")
    change.set_defaults(run=patch)
    challenger = _verb(
        verbs, "challenger", "Rebuild a challenger policy from the log and compare it with the active policy."
    )
    _add_settings(challenger)
    challenger.add_argument("--promote", action="store_true", help="Promote the challenger as soon as it is ready.")
    challenger.set_defaults(run=rebuild)
    for verb, run, purpose in (
        ("show", show, "Show the settings and counts of a ranker."),
        ("history", history, "List every change of a ranker's settings with its time and API key."),
        ("promote", promote, "Let the challenger decide; the active policy becomes the challenger."),
        ("discard", discard, "Discard the challenger."),
        ("reset-guardrail", reset_guardrail, "Let the policy decide again after the guardrail has tripped."),
        ("delete", delete, "Delete a ranker; its log is kept."),
    ):
        _verb(verbs, verb, purpose).set_defaults(run=run)


def _verb(verbs: Commands, name: str, purpose: str, *, named: bool = True) -> argparse.ArgumentParser:
    verb = verbs.add_parser(name, help=purpose, description=f"{purpose} {CONNECTION}")
    if named:
        verb.add_argument("name", metavar="NAME", help="Name of the ranker.")
    return verb


def _add_settings(verb: argparse.ArgumentParser) -> None:
    from rankloop.schema import RankerSettings
    from rankloop.schema.field_descriptions import describe_fields
    from rankloop.schema.ranker_settings import DEFAULT_POLICY

    descriptions = {field.name: field.description for field in describe_fields(RankerSettings)}
    others = ", ".join(name for name in descriptions if name not in ("policy", "slots"))
    verb.add_argument("--config", metavar="FILE", help="YAML file with the settings of the ranker.")
    about = f"{descriptions['policy']} `rankloop policies` lists them (default {DEFAULT_POLICY})."
    verb.add_argument("--policy", metavar="ID", help=about)
    verb.add_argument("--slots", type=int, metavar="K", help=descriptions["slots"])
    verb.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help=f"Another setting and its value in YAML. Repeatable. Fields: {others}.",
    )


def show_all(args: argparse.Namespace) -> None:
    """Print one line for each ranker."""
    with client(args) as service:
        rankers = service.rankers()
    head = ("name", "policy", "items", "decisions", "open_decisions")
    rows = [
        (r.name, r.config.get("policy", "unknown"), *(str(getattr(r, column)) for column in head[2:])) for r in rankers
    ]
    quarantined = [(r.name, r.quarantine) for r in rankers if r.quarantine is not None]
    widths = [max(len(row[c]) for row in (head, *rows)) for c in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for name, quarantine in quarantined:
        print(f"{name} is quarantined at log position {quarantine.position}: {quarantine.reason}.")


def put(args: argparse.Namespace) -> None:
    """Create a ranker or change its settings."""
    with client(args) as service:
        _print(service.put_ranker(args.name, _config(args)))


def patch(args: argparse.Namespace) -> None:
    """Change the named settings."""
    with client(args) as service:
        _print(service.patch_ranker(args.name, _settings_of("FIELD=VALUE", args.set), reset=args.reset))


def history(args: argparse.Namespace) -> None:
    """Print one line for each change."""
    with client(args) as service:
        events = service.history(args.name)
    for event in events:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["time"]))
        changed = json.dumps(event["changed"], ensure_ascii=False) if event["changed"] is not None else ""
        origin = " ".join(f"{name} {event[name]}" for name in ("version", "by", "position") if event[name] is not None)
        print(" ".join(part for part in (at, event["kind"], origin, changed, event["reason"] or "") if part))


def rebuild(args: argparse.Namespace) -> None:
    """Rebuild a challenger from the log, print the comparison, and promote it if --promote is given."""
    from rankloop.schema.mappings import fields_of

    with client(args) as service:
        # Settings that are not given keep the active policy's values.
        current = service.ranker(args.name).config
        config = _config(args)
        if config.get("policy", current["policy"]) != current["policy"]:
            from rankloop.catalogue.setting_use import unread_by  # loads the catalogue; other commands do not need it

            current.pop("params", None)
            params = fields_of(config.get("params")) or {}
            for name in unread_by(str(config["policy"]), params, list(current)):
                current.pop(name)
        status = service.put_challenger(args.name, current | config)
        while status["state"] == "rebuilding":
            time.sleep(POLL_SECONDS)
            status = service.challenger(args.name)
        if status["state"] == "failed":
            raise RankloopError(status["problem"])
        if status["comparison"] is not None:
            print(_comparison_text(status["comparison"]))
        if args.promote:
            service.promote(args.name)
    if args.promote:
        print(f"The active policy of {args.name} is now {status['config']['policy']}.")
    else:
        print(f"The challenger follows the log; `rankloop rankers promote {args.name}` lets it decide.")


def _comparison_text(comparison: Mapping[str, object]) -> str:
    """Return the verdict in words, with the numbers behind it."""
    challenger, active = f"the challenger {comparison['challenger']}", f"the active {comparison['active']}"
    verdict = comparison["verdict"]
    if verdict == "cannot tell":
        words = f"Cannot tell whether {challenger} predicts clicks better than {active}. {comparison['reason']}"
    else:
        words = f"T{challenger[1:]} predicts clicks {verdict} than {active}."
    if comparison["difference"] is None:
        return words
    low, high = comparison["low"], comparison["high"]
    interval = "" if low is None else f" (95 % interval {low:+.4f} to {high:+.4f})"
    difference = f"{comparison['difference']:+.4f}{interval} over {comparison['lists']:,} lists"
    return f"{words}\nDifference of log-likelihood per list: {difference}."


def promote(args: argparse.Namespace) -> None:
    """Promote the challenger."""
    with client(args) as service:
        ranker = service.promote(args.name)
    print(f"The active policy of {args.name} is now {ranker.config['policy']}; `promote` again reverts this.")


def discard(args: argparse.Namespace) -> None:
    """Discard the challenger."""
    with client(args) as service:
        service.discard_challenger(args.name)
    print(f"The challenger of {args.name} is discarded.")


def reset_guardrail(args: argparse.Namespace) -> None:
    """Let the policy decide again."""
    with client(args) as service:
        service.reset_guardrail(args.name)
    print(f"The guardrail of {args.name} is reset; the policy decides again.")


def show(args: argparse.Namespace) -> None:
    """Print the settings and counts of one ranker."""
    with client(args) as service:
        _print(service.ranker(args.name))


def delete(args: argparse.Namespace) -> None:
    """Delete a ranker."""
    with client(args) as service:
        service.delete_ranker(args.name)
    print(f"Deleted {args.name}; its log is kept.")


def _config(args: argparse.Namespace) -> dict[str, object]:
    """Return the settings of the file, overridden by those of the options."""
    config = {} if args.config is None else _read_file(args.config)
    config |= {name: value for name in ("policy", "slots") if (value := getattr(args, name)) is not None}
    return config | _settings_of("--set", args.set)


def _settings_of(field: str, texts: list[str]) -> dict[str, object]:
    """Return the settings of texts in the form FIELD=VALUE."""
    settings: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput(field, text, "FIELD=VALUE")
        settings[name] = _yaml(field, text, value)
    return settings


def _print(answer: object) -> None:
    import msgspec

    print(json.dumps(msgspec.to_builtins(answer), indent=1, ensure_ascii=False))


def _read_file(path: str) -> dict[str, object]:
    from rankloop.schema.mappings import fields_of

    try:
        document = _yaml("--config", path, Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("--config", path, "a file that can be read") from None
    settings = fields_of(document)
    if settings is None:
        raise InvalidInput("--config", path, "a mapping of settings")
    return settings


def _yaml(field: str, value: str, text: str) -> object:
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("the rankers command", "serve") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise InvalidInput(field, value, "YAML") from None
