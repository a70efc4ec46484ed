"""Replay equals live, for every policy of the catalogue, on every store; and a replay in one go equals one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from postgres_server import Server, database, server  # noqa: F401
from rankloop.eventlog import MemoryStore, SqliteStore
from rankloop.eventlog.events import decode
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.store import Store
from rankloop.serving import Ranker
from rankloop.serving.replica import Replica
from rankloop.serving.snapshots import take
from test_ranker import IDS, Clock, config, contents, items, live

ROUNDS = 40


def lived(store: Store, id: str, name: str = "ranker", **more: Any) -> tuple[Ranker, Clock]:
    """A ranker after items came, changed and went, late and doubled feedback, windows that closed."""
    clock = Clock()
    ranker = Ranker(config(id, **more), name=name, store=store, clock=clock)
    ranker.put_items(items(6, topics=ranker.config.coverage))
    live(ranker, clock, ROUNDS)
    ranker.flush()
    return ranker, clock


def same_again(ranker: Ranker, clock: Clock) -> None:
    """Another ranker on the same log knows the same, bit for bit, and decides alike."""
    again = Ranker(ranker.config, name=ranker.name, store=ranker.store, clock=clock)
    assert contents(again) == contents(ranker)
    context = [0.1, 0.2] if ranker.config.context else None
    assert again.rank(context=context, segment="de").items == ranker.rank(context=context, segment="de").items


@pytest.mark.parametrize("id", IDS)
def test_replay_equals_live_in_sqlite(id: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    same_again(*lived(store, id))
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_replay_equals_live_in_postgresql(id: str, database: str) -> None:  # noqa: F811
    store = PostgresStore(database)
    same_again(*lived(store, id, name=f"of {id}"))
    store.close()


@pytest.mark.parametrize("id", IDS)
def test_a_replay_in_one_go_equals_entry_after_entry(id: str) -> None:
    store = MemoryStore()
    lived(store, id)
    one, other = Replica(config(id)), Replica(config(id))
    one.follow(store.read("ranker"))
    for entry in store.read("ranker"):
        other.handle(decode(entry))
        other.position = entry.position
    assert state(one) == state(other)


@pytest.mark.parametrize("more", [{"discount": 0.9}, {"aggregate": "sum"}, {"on_close": "ignore"}, {"params": {}}])
def test_settings_of_learning_hold_in_a_replay(more: dict[str, Any]) -> None:
    same_again(*lived(MemoryStore(), "cascade-lin-ts", **more))


def state(replica: Replica) -> dict[str, bytes]:
    taken = take(replica)
    arrays = {name: np.asarray(array).tobytes() for name, array in taken.arrays.items()}
    return arrays | {"head": repr(taken.header).encode(), "at": str(taken.position).encode()}


def test_a_budget_bounds_lists_of_chosen_length() -> None:
    """Where failure costs nothing a list is as long as it may be; where it costs, it is shorter."""
    lengths = {}
    for losses in ([0.0, 0.0, 0.0, 0.0], [0.0, -0.9, -0.9, -0.9]):
        given = config("ind", losses=losses, rewards=[0.1, 0.1, 0.1], params={"alpha": 0.0})
        ranker = Ranker(type(given).of(given.as_mapping()))
        ranker.put_items(items(6))
        assert len(ranker.rank(budget=2).ids) <= 2
        lengths[losses[1]] = len(ranker.rank().ids)
        assert ranker.rank(budget=0).ids == ()
    assert lengths == {0.0: 3, -0.9: 0}
