"""`rankloop log`: export a log as a table, import one, and verify that a replay gives what is remembered."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.engine import RankerConfig, export, snapshots
from rankloop.engine.replica import Replica
from rankloop.errors import InvalidInput, MissingExtra, RankloopError, Words
from rankloop.store import Store
from rankloop.store.opening import is_database, open_store

LOG = "an SQLite file, or postgresql://…"
CONFIG = "YAML or JSON: `rankers`, a mapping from names to settings; or one ranker's settings"


class LogDiffers(RankloopError):
    """A replay of the whole log gives another state than the snapshot and the rest of it."""


def add_to(commands: Any) -> None:
    """Add the command and its verbs."""
    command = commands.add_parser("log", help="export, import or verify a log")
    verbs = command.add_subparsers(dest="verb", required=True, metavar="VERB")
    out = verbs.add_parser("export", help="write decisions and outcomes as Parquet: a row for each slot")
    out.add_argument("log", metavar="LOG", help=LOG)
    out.add_argument("out", metavar="OUT.parquet", type=Path)
    out.add_argument("--config", metavar="FILE", required=True, help=CONFIG)
    out.add_argument("--ranker", metavar="NAME", help="whose (default: the only one of the configuration)")
    out.set_defaults(run=run_export)
    back = verbs.add_parser("import", help="write what was exported into a new log")
    back.add_argument("file", metavar="IN.parquet", type=Path)
    back.add_argument("log", metavar="LOG", help=LOG)
    back.add_argument("--ranker", metavar="NAME", default="ranker", help="whose it becomes (default: %(default)s)")
    back.set_defaults(run=run_import, kept="a part may be written")
    verify = verbs.add_parser("verify", help="replay the whole log and compare it with the snapshot and the rest")
    verify.add_argument("log", metavar="LOG", help=LOG)
    verify.add_argument("--config", metavar="FILE", required=True, help=CONFIG)
    verify.add_argument("--ranker", metavar="NAME", help="only this one (default: all of the configuration)")
    verify.set_defaults(run=run_verify)


def run_export(given: argparse.Namespace) -> None:
    """Write a table."""
    ((ranker, config),) = _one(_rankers(given.config, given.ranker))
    if not given.out.parent.is_dir():
        raise InvalidInput("out", str(given.out), "a path in a folder that is there")
    with closing(_existing(given.log)) as store:
        count = export.export(store, ranker, config, given.out)
    print(f"{count:,} decisions of {ranker} are in {given.out}.")


def run_import(given: argparse.Namespace) -> None:
    """Write a log."""
    export.check(given.file)  # before there is a log
    with closing(open_store(given.log)) as store:
        count = export.import_(given.file, store, given.ranker)
    print(f"{count:,} decisions are in {given.log} as those of {given.ranker}.")


def run_verify(given: argparse.Namespace) -> None:
    """Replay, compare, print."""
    rankers = _rankers(given.config, given.ranker)
    with closing(_existing(given.log)) as store:
        findings = [verify(store, ranker, config) for ranker, config in rankers.items()]
    for finding in findings:
        print(finding.says())
    wrong = [finding.ranker for finding in findings if finding.differs]
    if wrong:
        raise LogDiffers(f"a replay of the log gives another state for {', '.join(wrong)}.")


@dataclass(frozen=True)
class Finding:
    """What a replay of one ranker's log gave."""

    ranker: str
    position: int  # of its last entry
    snapshot: int | None  # position of the snapshot
    usable: bool  # it is of this configuration and version
    differs: Sequence[str]

    def says(self) -> str:
        """In one line, and one for each difference."""
        if self.snapshot is None:
            return f"{self.ranker}: no snapshot; the log replays to position {self.position}."
        if not self.usable:
            return (
                f"{self.ranker}: the snapshot at {self.snapshot} is of other settings or another version and is not "
                f"used; the log replays to position {self.position}."
            )
        start = f"{self.ranker}: snapshot at {self.snapshot}, log to {self.position}:"
        if not self.differs:
            return f"{start} equal to a replay of the whole log, bit for bit."
        return "\n".join([f"{start} differs from a replay of the whole log in", *(f"  {one}" for one in self.differs)])


def verify(store: Store, ranker: str, config: RankerConfig) -> Finding:
    """Compare the snapshot and the rest of the log with the whole log."""
    kept = store.load_snapshot(ranker)
    short = Replica(config)
    usable = kept is not None and snapshots.restore(short, kept)
    whole = Replica(config)
    whole.follow(store.read(ranker))
    position = whole.position
    differs: list[str] = []
    if usable:
        short.follow(store.read(ranker, short.position), until=position)
        one, other = _state(short), _state(whole)
        differs = [
            f"{name}: {_difference(one.get(name), other.get(name))}"
            for name in sorted(one.keys() | other.keys())
            if not _same(one.get(name), other.get(name))
        ]
    return Finding(ranker, position, None if kept is None else kept.position, usable, differs)


def _state(replica: Replica) -> dict[str, Any]:
    """All that a replica knows, as arrays."""
    taken = snapshots.packed(snapshots.take(replica))
    with np.load(io.BytesIO(taken.body), allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    head = json.loads(str(found.pop("head")))
    return found | {name: np.array(json.dumps(value)) for name, value in head.items()}


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())


def _difference(one: Any, other: Any) -> str:
    """Where two arrays differ first."""
    if one is None or other is None:
        return "only in the snapshot" if other is None else "only in the replay"
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype}{list(one.shape)} from the snapshot, {other.dtype}{list(other.shape)} by the replay"
    flat = np.flatnonzero([a.tobytes() != b.tobytes() for a, b in zip(one.ravel(), other.ravel(), strict=True)])
    at = int(flat[0])
    where = "" if one.ndim == 0 else f"{len(flat)} of {one.size} numbers, first {_index(one, at)}: "
    return f"{where}{one.ravel()[at]} from the snapshot, {other.ravel()[at]} by the replay"


def _index(array: Any, at: int) -> str:
    return str([int(i) for i in np.unravel_index(at, array.shape)])


def _existing(place: str) -> Store:
    """A log that is there: looking at one must not create it."""
    if not is_database(place) and not Path(place).is_file():
        raise InvalidInput("log", place, "a log that is there")
    return open_store(place)


def _rankers(path: str, only: str | None) -> dict[str, RankerConfig]:
    """The rankers of a configuration."""
    given = _load(Path(path))
    if isinstance(given, dict) and "rankers" not in given and "policy" in given:
        given = {"rankers": {only or "ranker": given}}
    rankers = given.get("rankers") if isinstance(given, dict) else None
    if not isinstance(rankers, dict) or not rankers:
        raise InvalidInput("config", path, CONFIG)
    if only is not None and only not in rankers:
        raise InvalidInput("ranker", only, f"one of {', '.join(map(str, rankers))}")
    return {str(name): RankerConfig.of(one) for name, one in rankers.items() if only in (None, name)}


def _one(rankers: dict[str, RankerConfig]) -> list[tuple[str, RankerConfig]]:
    if len(rankers) > 1:
        raise InvalidInput("ranker", Words("missing"), f"--ranker with one of {', '.join(rankers)}")
    return list(rankers.items())


def _load(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON in UTF-8"
        raise InvalidInput("config", str(path), f"a readable YAML or JSON file ({reason})") from None
    try:
        import yaml
    except ModuleNotFoundError:
        raise MissingExtra("reading a YAML file", "experiments") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise InvalidInput("config", str(path), "a file that is valid YAML") from None
