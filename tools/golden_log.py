"""Write the log and the archive that every later version must open: tests/fixtures/format-N.db and format-N-archive.

python -m tools.golden_log FOLDER

The log has two rankers and a challenger, lists of every kind of request, feedback of every kind, a promotion, changes
of items and settings, and is pruned, so that it has base states. tests/test_format_history.py opens the fixtures. Run
this once for each format, with the last version that writes it, and never again.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import closing
from pathlib import Path

import numpy as np

from rankloop.eventlog import SqliteStore, Writer
from rankloop.eventlog.events.pruning import BASE
from rankloop.eventlog.format_history import FORMAT
from rankloop.eventlog.retention.archive import archive
from rankloop.serving import Ranker, RankerConfig, snapshots
from rankloop.serving.retention.pruning import prune

DAY = 86400.0
START = 20_000 * DAY
VISITS, VISITS_A_DAY = 80, 20
CARDS = {"policy": "cascade-lin-ts", "slots": 3, "dim": 2, "traffic": 0.7, "window": 3600.0, "seed": 3}
OTHER = {"policy": "cascade-lin-ucb", "slots": 3, "dim": 2, "rounds": 1000, "traffic": 0.7, "window": 3600.0, "seed": 3}
BOOKS = {
    "policy": "hybrid",
    "slots": 3,
    "window": 2 * DAY,
    "aggregate": "sum",
    "guardrail": {"drop": 0.5},
    "traffic": 0.5,
}


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def main(folder: Path) -> None:
    """Write both fixtures into a folder."""
    clock, rng, path = Clock(), np.random.default_rng(0), folder / f"format-{FORMAT}.db"
    store = SqliteStore(path, exclusive=True)
    writer = Writer(store)
    rankers = [
        Ranker(RankerConfig.of(settings), writer=writer, clock=clock, name=name)
        for name, settings in (("cards", CARDS), ("books", BOOKS))
    ]
    for ranker in rankers:
        ranker.put_items([{"id": f"{ranker.name}-{i}", "price": 1.0 + i, **_features(ranker, i)} for i in range(5)])
    for n in range(VISITS):
        if n == VISITS // 2:
            rankers[0].add_challenger(snapshots.start(RankerConfig.of(OTHER), store, "cards"))
        elif n == 3 * VISITS // 4:
            rankers[0].promote("operator")
        for ranker in rankers:
            _visit(ranker, clock, rng, n)
        clock.now += DAY / VISITS_A_DAY
    writer.close()
    archive(store, folder / f"format-{FORMAT}-archive", clock.now + DAY)
    prune(store, folder / f"format-{FORMAT}-archive", START + 2 * DAY, {"cards": CARDS}, now=clock.now + DAY)
    with store.rewriting() as rewriting:  # only the base states are left: these must be usable for good
        for name in rewriting.snapshots():
            if BASE not in name:
                rewriting.delete_snapshot(name)
    store.purge()
    shutil.rmtree(folder / f"format-{FORMAT}-archive" / "decisions")  # the entries are enough
    store.close()
    Path(f"{path}.lock").unlink(missing_ok=True)
    with closing(SqliteStore(path)) as written:
        print(f"{written.last_position()} entries were written; {path} has {path.stat().st_size:,} bytes.")


def _visit(ranker: Ranker, clock: Clock, rng: np.random.Generator, n: int) -> None:
    """Make one list, and give it the feedback that its number says."""
    ids = [item.id for item in ranker.items()]
    extra = ({}, {"candidates": ids[:4]}, {"exclude": ids[:1]}, {"propensity": 20}, {"order": ids})[n % 5]
    ranking = ranker.rank(visitor=f"visitor {n % 9}", segment="de" if n % 4 == 0 else "", **extra)
    if n % 7 == 0:
        ranker.withdraw(ranking.id)
    elif n % 7 < 5:
        clicked = [int(rng.integers(3))] if n % 3 else []
        ranker.feedback(ranking.id, clicked=clicked, event=f"{ranker.name} event {n}", final=n % 2 == 0)
    if n % 20 == 11:
        features = _features(ranker, n)
        ranker.put_items([{"id": f"new-{n}", **features}, {"id": ids[1], "price": 9.0, **features}])
    if n == 33:
        ranker.remove_items([ids[0]])
    ranker.tick()


def _features(ranker: Ranker, n: int) -> dict[str, list[float]]:
    return {"features": [0.1 * (n % 7), 1.0]} if ranker.config.dim else {}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
