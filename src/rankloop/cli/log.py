"""`rankloop log`: export a log as a table, import one, verify it, exclude an event of it, back it up."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

from rankloop.cli import log_backup, log_skip, log_verify
from rankloop.cli.log_verify import LOG
from rankloop.cli.options import Commands, add_policies, use_policies
from rankloop.errors import InvalidInput, MissingExtra, Words
from rankloop.eventlog import Store, export
from rankloop.eventlog.address import open_existing, open_store
from rankloop.hosting.change_history import logs_of
from rankloop.schema.mappings import fields_of
from rankloop.serving import RankerConfig
from rankloop.serving.config import LoggedConfig
from rankloop.serving.verification import last_settings

CONFIG = "YAML or JSON: `rankers`, a mapping from names to settings; or one ranker's settings"


def add_to(commands: Commands) -> None:
    """Add the command and its verbs."""
    command = commands.add_parser("log", help="export, import, verify, repair or back up a log")
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")
    log_backup.add_to(verbs)
    out = verbs.add_parser("export", help="write decisions and outcomes as Parquet: a row for each slot")
    out.add_argument("log", metavar="LOG", help=LOG)
    out.add_argument("out", metavar="OUT.parquet", type=Path)
    out.add_argument("--config", metavar="FILE", help=f"{CONFIG} (default: what the log says)")
    out.add_argument("--ranker", metavar="NAME", help="whose (default: the only one)")
    add_policies(out, "load a policy of your own that made decisions of the log")
    out.set_defaults(run=run_export)
    back = verbs.add_parser("import", help="write what was exported into a new log")
    back.add_argument("file", metavar="IN.parquet", type=Path)
    back.add_argument("log", metavar="LOG", help=LOG)
    back.add_argument("--ranker", metavar="NAME", default="ranker", help="whose it becomes (default: %(default)s)")
    back.set_defaults(run=run_import, kept="a part may be written")
    log_verify.add_to(verbs)
    log_skip.add_to(verbs)


def run_export(given: argparse.Namespace) -> None:
    """Write a table."""
    use_policies(given)
    if not given.out.parent.is_dir():
        raise InvalidInput("out", str(given.out), "a path in a folder that is there")
    with closing(open_existing(given.log)) as store:
        known = _logged(store, given.ranker) if given.config is None else _rankers(given.config, given.ranker)
        ((ranker, config),) = _one(known)
        count = export.export(store, ranker, config, given.out)
    print(f"{count:,} decisions of {ranker} are in {given.out}.")


def run_import(given: argparse.Namespace) -> None:
    """Write a log."""
    export.check(given.file)  # before there is a log
    with closing(open_store(given.log)) as store:
        count = export.import_(given.file, store, given.ranker)
    print(f"{count:,} decisions are in {given.log} as those of {given.ranker}.")


def _logged(store: Store, only: str | None) -> dict[str, RankerConfig]:
    """The rankers of a log, with the settings that it says they have."""
    wanted = [log for log in store.rankers() if log] if only is None else logs_of(store, only)[-1:]
    said = {log: last_settings(store, log) for log in wanted}
    found: dict[str, RankerConfig] = {
        log: LoggedConfig.of(settings) for log, settings in said.items() if settings is not None
    }
    if not found:
        raise InvalidInput("config", Words("missing"), "a file: the log does not say the settings of such a ranker")
    return found


def _rankers(path: str, only: str | None) -> dict[str, RankerConfig]:
    """The rankers of a configuration."""
    given = fields_of(_load(Path(path))) or {}
    alone = "rankers" not in given and "policy" in given
    rankers = {only or "ranker": given} if alone else fields_of(given.get("rankers"))
    if not rankers:
        raise InvalidInput("config", path, CONFIG)
    if only is not None and only not in rankers:
        raise InvalidInput("ranker", only, f"one of {', '.join(rankers)}")
    # Where one is no mapping, `of` says so.
    told = {name: cast("Mapping[str, object]", one) for name, one in rankers.items() if only in (None, name)}
    return {name: LoggedConfig.of(one) for name, one in told.items()}


def _one(rankers: dict[str, RankerConfig]) -> list[tuple[str, RankerConfig]]:
    if len(rankers) > 1:
        raise InvalidInput("ranker", Words("missing"), f"--ranker with one of {', '.join(rankers)}")
    return list(rankers.items())


def _load(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text)
    except OSError as error:
        raise InvalidInput("config", str(path), f"a readable YAML or JSON file ({error.strerror})") from None
    except ValueError:
        accepted = "a readable YAML or JSON file (it is not JSON in UTF-8)"
        raise InvalidInput("config", str(path), accepted) from None
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("reading a YAML file", "experiments") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InvalidInput("config", str(path), "a file that is valid YAML") from None
