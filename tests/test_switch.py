"""Replacing a policy: rebuild from the log, compare, switch, switch back; nothing is lost."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from rankloop.engine import Ranker, RankerConfig, snapshots
from rankloop.engine.comparison import judged
from rankloop.engine.replica import Replica
from rankloop.errors import Unsupported
from rankloop.store import MemoryStore
from test_engine import Clock, config, items, live
from test_replay import state

PAIRS = [
    ("cascade-ucb1", "cascade-lin-ts"),
    ("cascade-lin-ts", "epoch-ucb"),
    ("gts", "toprank"),
    ("ranked-lin-ts", "lin-ts-ltr"),
    ("epoch-ucb", "random"),
]


def rebuilt(settings: RankerConfig, store: MemoryStore) -> Replica:
    replica = Replica(settings)
    replica.follow(store.read("ranker"))
    return replica


def both(ranker: Ranker) -> list[Replica]:
    ranker.flush()
    assert ranker._other is not None
    return [ranker._replica, ranker._other]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_switching_back_and_forth_equals_a_rebuild_from_the_log(one: str, other: str) -> None:
    store, clock = MemoryStore(), Clock()
    ranker = Ranker(config(one), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 30)
    ranker.stand_by(snapshots.start(config(other), store, "ranker"))
    for seed, policy in ((2, one), (3, other), (4, one), (5, other)):
        assert ranker.config.policy == policy
        live(ranker, clock, 20, seed=seed)
        for replica in both(ranker):
            assert state(replica) == state(rebuilt(replica.config, store))
        ranker.switch()
    shown = [entry for entry in store.read("ranker") if entry.kind == "shown"]
    assert len(shown) == 30 + 4 * 20


def test_a_snapshot_of_both_is_the_rest_of_both() -> None:
    store, clock = MemoryStore(), Clock()
    ranker = Ranker(config("cascade-ucb1"), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 20)
    ranker.stand_by(Replica(config("cascade-lin-ts")))
    live(ranker, clock, 20, seed=2)
    ranker.flush()
    ranker.snapshot()
    live(ranker, clock, 20, seed=3)
    mine, other = both(ranker)
    for replica, is_other in ((mine, False), (other, True)):
        assert state(snapshots.start(replica.config, store, "ranker", other=is_other)) == state(replica)


def test_visitors_go_on_while_another_policy_catches_up_and_takes_over() -> None:
    store = MemoryStore()
    ranker = Ranker(config("cascade-ucb1"), store=store)
    ranker.put_items(items(6))
    told, stop = [0] * 3, threading.Event()

    def visit(n: int) -> None:
        while not stop.is_set():
            assert ranker.feedback(ranker.rank(segment=f"s{n}").id, clicked=[told[n] % 3]).status == "learned"
            told[n] += 1

    threads = [threading.Thread(target=visit, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        ranker.stand_by(Replica(config("gts")))
        ranker.switch()
        ranker.stand_by(Replica(config("cascade-ucb1")))
        ranker.switch()
    stop.set()
    for thread in threads:
        thread.join()
    for replica in both(ranker):
        assert state(replica) == state(rebuilt(replica.config, store))
    assert ranker.overview().arms["policy"].settled == sum(told)


def test_a_policy_that_needs_other_items_cannot_stand_by() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    for more in ({"dim": 5}, {"slots": 2}):
        with pytest.raises(Unsupported, match="the same dim"):
            ranker.stand_by(Replica(config("gts", **more)))
    with pytest.raises(Unsupported, match="stands by"):
        ranker.switch()


def test_the_judge_prefers_who_knows_more() -> None:
    """Clicks depend on items: a policy that learns them foresees more than one that believes all are equal."""
    store = MemoryStore()
    ranker = Ranker(config("random"), store=store)
    ranker.put_items(items(6))
    rng = np.random.default_rng(0)
    for _ in range(1500):
        ranking = ranker.rank()
        attractive = [0.05 + 0.15 * int(id[-1]) for id in ranking.ids]
        clicked = [slot for slot, p in enumerate(attractive) if rng.random() < p][:1]
        ranker.feedback(ranking.id, clicked=clicked)
    ranker.flush()

    def judge(*settings: RankerConfig) -> Any:
        return judged([Replica(one) for one in settings], lambda after: store.read("ranker", after))

    learned, doubtful, blind = judge(config("gts"), config("gts", params={"sigma": 1e6}), config("random"))
    assert learned.lists == doubtful.lists == blind.lists == 1500
    assert learned.error < doubtful.error
    assert learned.order > 0.6
    few = judged([Replica(config("gts"))], lambda after: list(store.read("ranker", after))[:601])[0]
    assert few.lists == 300
    assert few.order is not None
    assert few.order > 0.55, "it learns from a short log, too, while it is judged"
    assert (blind.error, blind.order) == (None, None)
