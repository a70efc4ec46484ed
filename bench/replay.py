"""Measure the replay of a long log and the start of a ranker. `python -m bench.replay [DECISIONS]`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from bench.engine import D, K, items
from rankloop.eventlog import MemoryStore, SqliteStore
from rankloop.eventlog.events import DecisionMade, FeedbackReceived, LogEvent, decode
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.replica import Replica

CONFIG = RankerConfig.of({"policy": "cascade-lin-ts", "slots": K, "dim": D, "seed": 1})
REAL_VISITS = 2_000
"""Visits that a ranker really serves; longer logs repeat them."""
ENTRIES_AFTER_SNAPSHOT = 20_000
"""As many as the service writes between two snapshots."""


def visits() -> list[LogEvent]:
    """Return the events of a ranker that learns: items, then decisions and their feedback."""
    store, rng = MemoryStore(), np.random.default_rng(0)
    ranker = Ranker(CONFIG, store=store)
    ranker.put_items(items(rng))
    for _ in range(REAL_VISITS):
        ranker.feedback(ranker.rank().id, clicked=[int(rng.integers(K))] if rng.random() < 0.5 else [])
    ranker.close()
    return [decode(entry) for entry in store.read("ranker")]


def longer(first: list[LogEvent], decisions: int) -> Iterator[LogEvent]:
    """Repeat the same visits as new decisions."""
    setup = len(first) - 2 * REAL_VISITS  # the configuration and the items
    yield from first[:setup]
    for number in range(decisions):
        decision, feedback = first[setup + 2 * (number % REAL_VISITS) :][:2]
        if not isinstance(decision, DecisionMade) or not isinstance(feedback, FeedbackReceived):
            raise TypeError("a visit is a decision followed by its feedback")
        id = f"decision-{number}"
        yield replace(decision, id=id, number=number + 1, time=decision.time + number)
        yield replace(feedback, decision=id, time=decision.time + number)


def measure(decisions: int) -> None:
    """Write a log, replay all of it, and start from a snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        store = SqliteStore(path)
        entries = (("ranker", event.entry()) for event in longer(visits(), decisions))
        while batch := list(islice(entries, 512)):
            store.append(batch)
        start, spent = time.perf_counter(), time.process_time()
        replica = Replica(CONFIG)
        replica.follow(store.read("ranker"))
        took, spent = time.perf_counter() - start, time.process_time() - spent
        size = path.stat().st_size / 1e9
        print(
            f"{decisions:,} decisions with feedback, {size:.1f} GB: replayed in {took:.1f} s, {decisions / took:,.0f} "
            f"feedback events/s ({decisions / spent:,.0f} per second of CPU; target: 20,000)"
        )
        store.close()
        measure_start(path, replica.position)


def measure_start(path: Path, end: int) -> None:
    """Start a ranker whose newest snapshot is ENTRIES_AFTER_SNAPSHOT old."""
    from rankloop.serving import snapshots

    store = SqliteStore(path)
    replica = Replica(CONFIG)
    replica.follow(store.read("ranker"), until=max(1, end - ENTRIES_AFTER_SNAPSHOT))
    store.save_snapshot("ranker", snapshots.packed(snapshots.take(replica)))
    store.close()
    start = time.perf_counter()
    ranker = Ranker.open(path, CONFIG)
    took = time.perf_counter() - start
    print(f"start from a snapshot that is {ENTRIES_AFTER_SNAPSHOT:,} entries old: {took:.2f} s (target: below 5)")
    ranker.close()


def main(decisions: int = 50_000) -> None:
    """Print the rates."""
    measure(decisions)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
