"""How large a log grows, for each visit (a decision and its feedback): `python -m bench.log_size [VISITS]`.

Sizes do not depend on the machine. A SQLite file includes its indexes.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.eventlog import SqliteStore
from rankloop.eventlog.retention.archive import archive
from rankloop.serving import Ranker, RankerConfig

ITEMS, SLOTS = 100, 10
SHAPES: dict[str, dict[str, Any]] = {
    "10 slots, no features": {"policy": "gts"},
    "10 slots, hybrid": {},
    "10 slots, 16 features": {"policy": "cascade-lin-ts", "dim": 16},
    "10 slots, 64 features": {"policy": "cascade-lin-ts", "dim": 64},
}
VISITS = 3000
SECONDS_PER_DAY = 86400


def main() -> None:
    """Print one line for each shape of a ranker."""
    visits = int(sys.argv[1]) if len(sys.argv) > 1 else VISITS
    print(f"{visits:,} visits; bytes for each visit, and GB for a visit each second over 30 days")
    print(f"{'':24}{'decision':>10}{'feedback':>10}{'SQLite':>10}{'archive':>10}{'GB of SQLite':>14}")
    for name, settings in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            decision, feedback, file, parquet = _sizes(Path(folder), settings, visits)
        month = file * SECONDS_PER_DAY * 30 / 1e9
        print(f"{name:24}{decision:10,.0f}{feedback:10,.0f}{file:10,.0f}{parquet:10,.0f}{month:14,.1f}")


def _sizes(folder: Path, settings: dict[str, Any], visits: int) -> tuple[float, float, float, float]:
    """Return the bytes of a decision, of its feedback, of a visit in the file, and of a visit in an archive."""
    rng = np.random.default_rng(0)
    ranker = Ranker.open(folder / "log.db", RankerConfig.of({"slots": SLOTS, **settings}))
    dim = settings.get("dim")
    ranker.put_items(
        [{"id": f"item-{i}", **({"features": rng.standard_normal(dim).tolist()} if dim else {})} for i in range(ITEMS)]
    )
    for n in range(visits):
        ranking = ranker.rank(visitor=f"visitor-{n}")
        ranker.feedback(ranking.id, clicked=[int(rng.integers(SLOTS))], event=f"event-{n}")
    ranker.close()
    with closing(SqliteStore(folder / "log.db")) as store:
        bodies: dict[str, int] = {}
        for entry in store.read("ranker"):
            bodies[entry.kind] = bodies.get(entry.kind, 0) + len(entry.body)
        parts = archive(store, folder / "archive", float("inf")).parts
        parquet = sum(part.path.stat().st_size for part in parts)
    file = (folder / "log.db").stat().st_size
    return tuple(size / visits for size in (bodies["decision"], bodies["feedback"], file, parquet))  # type: ignore[return-value]


if __name__ == "__main__":
    main()
