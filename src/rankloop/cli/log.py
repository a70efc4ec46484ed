"""`rankloop log`: back up, archive, export, verify and repair a log, and erase visitors in it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rankloop.cli import log_archive, log_backup, log_erase, log_prune, log_restore, log_skip, log_verify
from rankloop.cli.log_address import LOG_HELP, log_address, without_passwords
from rankloop.cli.options import Commands, add_policies, load_policies
from rankloop.errors import InvalidInput, MissingExtra, Words

if TYPE_CHECKING:
    from rankloop.eventlog import Store
    from rankloop.serving import RankerConfig

CONFIG = "YAML or JSON: `rankers`, a mapping from names to settings; or the settings of one ranker"


def add_to(commands: Commands) -> None:
    """Add the command with its verbs."""
    command = commands.add_parser(
        "log",
        help="Back up, restore, archive, prune, export, verify or repair a log, or erase visitors in it.",
        description="Back up, restore, archive, prune, export, import, verify or repair the log of a service or of an "
        "in-process ranker, or erase visitors in it.",
    )
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")
    log_backup.add_to(verbs)
    log_restore.add_to(verbs)
    log_archive.add_to(verbs)
    log_prune.add_to(verbs)
    out = verbs.add_parser(
        "export",
        help="Write decisions and feedback to a Parquet file.",
        description="Write the decisions of one ranker and their feedback to a Parquet file, one row for each slot.",
    )
    out.add_argument("log", metavar="LOG", type=log_address, help=LOG_HELP)
    out.add_argument("out", metavar="OUT.parquet", type=Path, help="File to write.")
    out.add_argument(
        "--config", metavar="FILE", help=f"Settings in {CONFIG} (default: the settings stored in the log)."
    )
    out.add_argument("--ranker", metavar="NAME", help="Name of the ranker (default: the only one of the log).")
    add_policies(out, "Load a policy of your own that made decisions in the log.")
    out.set_defaults(run=run_export)
    back = verbs.add_parser(
        "import",
        help="Write an exported Parquet file, or an archive, to a new log.",
        description="Write the decisions and feedback of an exported Parquet file to a new log, or all entries of an "
        "archive.",
    )
    back.add_argument(
        "file",
        metavar="IN",
        type=Path,
        help="File that `rankloop log export` wrote, or folder that `rankloop log archive` wrote.",
    )
    back.add_argument("log", metavar="LOG", type=log_address, help=LOG_HELP)
    back.add_argument(
        "--ranker", metavar="NAME", default="ranker", help="Name of the ranker in the new log (default: %(default)s)."
    )
    back.set_defaults(run=run_import, on_interrupt="a part of the log may have been written")
    log_verify.add_to(verbs)
    log_skip.add_to(verbs)
    log_erase.add_to(verbs)


def run_export(args: argparse.Namespace) -> None:
    """Write a Parquet file."""
    from rankloop.eventlog import export
    from rankloop.eventlog.address import open_existing

    load_policies(args)
    if not args.out.parent.is_dir():
        raise InvalidInput("out", str(args.out), "a path in an existing folder")
    with closing(open_existing(args.log)) as store:
        known = _logged_configs(store, args.ranker) if args.config is None else _file_configs(args.config, args.ranker)
        ((ranker, config),) = _only_one(known)
        count = export.export(store, ranker, config, args.out)
    print(f"{count:,} decisions of {ranker} are in {args.out}.")


def run_import(args: argparse.Namespace) -> None:
    """Write a log."""
    from rankloop.eventlog import export
    from rankloop.eventlog.address import open_store

    if args.file.is_dir():
        _import_archive(args.file, args.log)
        return
    export.check(args.file)  # before a log is created
    with closing(open_store(args.log, exclusive=True)) as store:
        count = export.import_(args.file, store, args.ranker)
    print(f"{count:,} decisions of {args.ranker} are in {without_passwords(args.log)}.")


def _import_archive(folder: Path, log: str) -> None:
    from rankloop.eventlog.address import open_store
    from rankloop.eventlog.retention.import_archive import existing_parts, import_archive

    existing_parts(folder)  # before a log is created
    with closing(open_store(log, exclusive=True)) as store:
        count = import_archive(folder, store)
    print(f"{count:,} entries are in {without_passwords(log)}, verified.")


def _logged_configs(store: Store, only: str | None) -> dict[str, RankerConfig]:
    """Return the rankers of a log with the last settings that it contains."""
    from rankloop.hosting.registry_log import logs_of
    from rankloop.serving.config import LoggedConfig
    from rankloop.serving.verification import last_settings

    logs = [log for log in store.rankers() if log] if only is None else logs_of(store, only)[-1:]
    settings = {log: last_settings(store, log) for log in logs}
    configs: dict[str, RankerConfig] = {
        log: LoggedConfig.of(logged) for log, logged in settings.items() if logged is not None
    }
    if not configs:
        accepted = "a file: the log does not contain the settings of such a ranker"
        raise InvalidInput("config", Words("missing"), accepted)
    return configs


def _file_configs(path: str, only: str | None) -> dict[str, RankerConfig]:
    """Return the rankers of a configuration file."""
    from rankloop.schema.mappings import fields_of
    from rankloop.serving.config import LoggedConfig

    document = fields_of(_load(Path(path))) or {}
    is_one_ranker = "rankers" not in document and "policy" in document
    rankers = {only or "ranker": document} if is_one_ranker else fields_of(document.get("rankers"))
    if not rankers:
        raise InvalidInput("config", path, CONFIG)
    if only is not None and only not in rankers:
        raise InvalidInput("ranker", only, f"one of {', '.join(rankers)}")
    # `of` refuses settings that are not a mapping.
    settings = {name: cast("Mapping[str, object]", one) for name, one in rankers.items() if only in (None, name)}
    return {name: LoggedConfig.of(one) for name, one in settings.items()}


def _only_one(rankers: dict[str, RankerConfig]) -> list[tuple[str, RankerConfig]]:
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
