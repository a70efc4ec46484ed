"""Measure the replication-rounds per second of every policy in the setting of its paper.

python -m bench.catalogue
"""

from __future__ import annotations

from typing import Any

from rankloop import catalogue, simulate
from rankloop.worlds import from_spec

LOGISTIC = {"kind": "cascade", "attraction": {"logistic": {"items": 30, "dim": 5}}, "k": 3}
WEIGHTS = [1.0, -1.0, 0.5, 2.0, -0.5, 1.5, -2.0, 0.0, 1.0, -1.5]
FRESH = {"items": 100, "dim": 10}
SETTINGS: dict[str, tuple[dict[str, Any], int, str]] = {
    "cascade": ({"kind": "cascade", "attraction": {"linear": {"items": 256, "dim": 20}}, "k": 4}, 64, "L=256 d=20 K=4"),
    "baseline": (LOGISTIC, 100, "L=30 d=5 K=3"),
    "prior": (LOGISTIC, 100, "L=30 d=5 K=3"),
    "long-sequences": (
        {"kind": "cascade-rewards", "fresh": FRESH, "weights": WEIGHTS, "budget": 10},
        20,
        "L=100 d=10 b=10",
    ),
    "dep": ({"kind": "coverage-rewards", "fresh": FRESH, "weights": WEIGHTS, "budget": 10}, 20, "L=100 d=10 b=10"),
    "select-rank": ({"kind": "item-position", "items": 10, "dim": 7, "k": 5}, 100, "N=10 d=7 K=5"),
    "choice": (
        {"kind": "choice", "attraction": [0.3, 0.28, 0.26, 0.24, 0.22, 0.2], "bias": [1.0, 0.3, 0.2, 0.1]},
        40,
        "J=6 K=4",
    ),
}


def main(rounds: int = 200) -> None:
    """Time the policies one by one in one process."""
    rows = []
    for entry in catalogue.entries():
        spec, replications, setting = SETTINGS.get(entry.id, SETTINGS[entry.paper])
        world = from_spec(spec)
        simulate([entry.id], world, rounds=2, replications=2)  # compile before the clock starts
        trace = simulate([entry.id], world, rounds=rounds, replications=replications, seed=1).traces[0]
        rows.append((trace.rounds_per_second, entry.id, f"{setting} B={replications}"))
    fastest = max(rows)[0]
    print(f"{'policy':<20}{'setting':<24}{'rounds/s':>10}{'µs/round':>10}{'of fastest':>12}")
    for speed, id, setting in sorted(rows):
        print(f"{id:<20}{setting:<24}{speed:>10,.0f}{1e6 / speed:>10.1f}{speed / fastest:>12.1%}")


if __name__ == "__main__":
    main()
