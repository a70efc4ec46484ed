"""A long log: how quickly it is followed, and how quickly a ranker starts. `python -m bench.replay [DECISIONS]`."""

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
REAL = 2_000
AFTER = 20_000
"""Entries after the newest snapshot: as many as the service lets come before it keeps another."""


def visits() -> list[LogEvent]:
    """What a ranker writes while it learns: items, then lists and what happened to them."""
    store, rng = MemoryStore(), np.random.default_rng(0)
    ranker = Ranker(CONFIG, store=store)
    ranker.put_items(items(rng))
    for _ in range(REAL):
        ranker.feedback(ranker.rank().id, clicked=[int(rng.integers(K))] if rng.random() < 0.5 else [])
    ranker.close()
    return [decode(entry) for entry in store.read("ranker")]


def longer(first: list[LogEvent], decisions: int) -> Iterator[LogEvent]:
    """The same visits again and again, as new decisions."""
    start = len(first) - 2 * REAL  # the configuration and the items come first
    yield from first[:start]
    for number in range(decisions):
        shown, happened = first[start + 2 * (number % REAL) :][:2]
        if not isinstance(shown, DecisionMade) or not isinstance(happened, FeedbackReceived):
            raise TypeError("visits are a list and what happened to it")
        id = f"decision-{number}"
        yield replace(shown, id=id, number=number + 1, time=shown.time + number)
        yield replace(happened, decision=id, time=shown.time + number)


def measured(decisions: int) -> None:
    """Write a log, follow all of it, start from a snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        store = SqliteStore(path)
        entries = (("ranker", record.entry()) for record in longer(visits(), decisions))
        while batch := list(islice(entries, 512)):
            store.append(batch)
        start, spent = time.perf_counter(), time.process_time()
        replica = Replica(CONFIG)
        replica.follow(store.read("ranker"))
        took, spent = time.perf_counter() - start, time.process_time() - spent
        size = path.stat().st_size / 1e9
        print(
            f"{decisions:,} decisions with feedback, {size:.1f} GB: followed in {took:.1f} s, {decisions / took:,.0f} "
            f"feedbacks/s ({decisions / spent:,.0f} per second of CPU; 20,000 asked)"
        )
        store.close()
        started(path, replica.position)


def started(path: Path, end: int) -> None:
    """Start a ranker whose newest snapshot is some way back."""
    from rankloop.serving import snapshots

    store = SqliteStore(path)
    behind = Replica(CONFIG)
    behind.follow(store.read("ranker"), until=max(1, end - AFTER))
    store.save_snapshot("ranker", snapshots.packed(snapshots.take(behind)))
    store.close()
    start = time.perf_counter()
    ranker = Ranker.open(path, CONFIG)
    took = time.perf_counter() - start
    print(f"start from a snapshot that is {AFTER:,} entries old: {took:.2f} s (below 5 asked)")
    ranker.close()


def main(decisions: int = 50_000) -> None:
    """Print rates."""
    measured(decisions)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
