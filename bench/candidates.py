"""Compare 100 candidates of a ranker with 100,000 items with a ranker that holds only these 100.

python -m bench.candidates [POLICY …]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from rankloop.eventlog import MemoryStore
from rankloop.serving import Ranker, RankerConfig

ITEMS, CANDIDATES, D, K = 100_000, 100, 20, 10
ROUNDS, REPEATS, WARM_UP_VISITS = 50, 15, 200
POLICIES = ("gts", "cascade-ucb1", "cascade-lin-ts", "lin-ts-ltr", "hybrid")
TARGET = 1.3


def open_ranker(policy: str, ids: Sequence[int]) -> Ranker:
    """Open a ranker in memory with some of the items."""
    config = {"policy": policy, "slots": K, "seed": 1}
    features = policy not in ("gts", "cascade-ucb1")
    ranker = Ranker(RankerConfig.of(config | {"dim": D} if features else config), store=MemoryStore())
    rows = np.random.default_rng(0).standard_normal((ITEMS, D)) / np.sqrt(D)
    ranker.put_items([{"id": f"item-{i}"} | ({"features": rows[i].tolist()} if features else {}) for i in ids])
    return ranker


def visits(policy: str) -> list[tuple[str, Callable[[], object]]]:
    """Return a visit to the small ranker, to the large one with candidates, and with features of the request."""
    chosen = sorted(np.random.default_rng(1).choice(ITEMS, CANDIDATES, replace=False).tolist())
    small, large = open_ranker(policy, chosen), open_ranker(policy, range(ITEMS))
    names = [f"item-{i}" for i in chosen]
    kinds: list[tuple[str, Callable[[], object]]] = [
        ("only these", lambda: small.feedback(small.rank().id, clicked=[2])),
        ("candidates", lambda: large.feedback(large.rank(candidates=names).id, clicked=[2])),
    ]
    if large.config.dim is not None:
        rows = np.random.default_rng(2).standard_normal((CANDIDATES, D)).tolist()
        brought = [{"id": id, "features": row} for id, row in zip(names, rows, strict=True)]
        kinds.append(("with features", lambda: large.feedback(large.rank(items=brought).id, clicked=[2])))
    return kinds


def seconds_per_visit(kinds: Sequence[tuple[str, Callable[[], object]]]) -> list[float]:
    """Return the CPU seconds of one visit of each kind, which alternate; medians over repeats."""
    for _ in range(WARM_UP_VISITS):
        for _, visit in kinds:
            visit()
    spent = np.zeros((REPEATS, len(kinds)))
    for repeat in range(REPEATS):
        for _ in range(ROUNDS):
            for n, (_, visit) in enumerate(kinds):
                start = time.process_time()
                visit()
                spent[repeat, n] += time.process_time() - start
    return [float(each) / ROUNDS for each in np.median(spent, axis=0)]


def main(policies: Sequence[str] = ()) -> None:
    """Print the CPU time of rank and feedback, and the ratios."""
    from rankloop import catalogue

    known = {entry.id for entry in catalogue.entries()}
    print(
        f"rank + feedback of {CANDIDATES} candidates of {ITEMS:,} items, in µs of CPU (target: ratio at most {TARGET})"
    )
    for policy in policies or [one for one in POLICIES if one in known]:
        kinds = visits(policy)
        times = seconds_per_visit(kinds)
        words = [
            f"{name} {1e6 * each:.0f} ({each / times[0]:.2f})" for (name, _), each in zip(kinds, times, strict=True)
        ]
        print(f"{policy}: {', '.join(words)}")


if __name__ == "__main__":
    main(sys.argv[1:])
