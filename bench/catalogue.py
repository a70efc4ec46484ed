"""Every policy at its paper's setting: replication-rounds per second, in order of cost.

    python -m bench.catalogue

Paper `cascade`: L=256, d=20, K=4, 64 replications. Paper `prior`: L=30, d=5, K=3, 100 replications.
"""

from __future__ import annotations

from rankloop import catalogue, simulate
from rankloop.worlds import from_spec

PROBLEM_A = {"attraction": [0.3, 0.28, 0.26, 0.24, 0.22, 0.2], "bias": [1.0, 0.3, 0.2, 0.1]}
SETTINGS = {
    "cascade": ({"linear": {"items": 256, "dim": 20}}, 4, 64),
    "baseline": ({"logistic": {"items": 30, "dim": 5}}, 3, 100),
    "prior": ({"logistic": {"items": 30, "dim": 5}}, 3, 100),
}


def main(rounds: int = 400) -> None:
    """Time each policy alone, on one process."""
    rows = []
    for entry in catalogue.entries():
        attraction, k, replications = SETTINGS[entry.paper]
        world = from_spec({"kind": "cascade", "attraction": attraction, "k": k})
        simulate([entry.id], world, rounds=2, replications=2)  # compile before the clock starts
        trace = simulate([entry.id], world, rounds=rounds, replications=replications, seed=1).traces[0]
        L = next(iter(attraction.values()))["items"]
        rows.append((trace.rounds_per_second, entry.id, f"L={L} K={k} B={replications}"))
    fastest = max(rows)[0]
    print(f"{'policy':<18}{'setting':<20}{'rounds/s':>10}{'µs/round':>10}{'of fastest':>12}")
    for speed, id, setting in sorted(rows):
        print(f"{id:<18}{setting:<20}{speed:>10,.0f}{1e6 / speed:>10.1f}{speed / fastest:>12.1%}")


if __name__ == "__main__":
    main()
