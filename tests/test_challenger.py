"""Replacing a policy: rebuild from the log, compare, switch, switch back; nothing is lost."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from rankloop.analytics.comparison import Comparison, compare
from rankloop.errors import Unsupported
from rankloop.eventlog import MemoryStore
from rankloop.serving import Ranker, RankerConfig, snapshots
from rankloop.serving.replica import Replica
from test_ranker import SLOTS, Clock, config, items, live
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
    assert ranker._challenger is not None
    return [ranker._replica, ranker._challenger]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_switching_back_and_forth_equals_a_rebuild_from_the_log(one: str, other: str) -> None:
    store, clock = MemoryStore(), Clock()
    ranker = Ranker(config(one), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 30)
    ranker.add_challenger(snapshots.start(config(other), store, "ranker"))
    for seed, policy in ((2, one), (3, other), (4, one), (5, other)):
        assert ranker.config.policy == policy
        live(ranker, clock, 20, seed=seed)
        for replica in both(ranker):
            assert state(replica) == state(rebuilt(replica.config, store))
        ranker.promote()
    shown = [entry for entry in store.read("ranker") if entry.kind == "decision"]
    assert len(shown) == 30 + 4 * 20


def test_a_snapshot_of_both_is_the_rest_of_both() -> None:
    store, clock = MemoryStore(), Clock()
    ranker = Ranker(config("cascade-ucb1"), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 20)
    ranker.add_challenger(Replica(config("cascade-lin-ts")))
    live(ranker, clock, 20, seed=2)
    ranker.flush()
    ranker.snapshot()
    live(ranker, clock, 20, seed=3)
    mine, other = both(ranker)
    for replica, is_other in ((mine, False), (other, True)):
        assert state(snapshots.start(replica.config, store, "ranker", challenger=is_other)) == state(replica)


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
        ranker.add_challenger(Replica(config("gts")))
        ranker.promote()
        ranker.add_challenger(Replica(config("cascade-ucb1")))
        ranker.promote()
    stop.set()
    for thread in threads:
        thread.join()
    for replica in both(ranker):
        assert state(replica) == state(rebuilt(replica.config, store))
    assert ranker.overview().groups["treatment"].settled == sum(told)


def test_a_policy_that_needs_other_items_cannot_stand_by() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    for more in ({"dim": 5}, {"slots": 2}):
        with pytest.raises(Unsupported, match="the same dim"):
            ranker.add_challenger(Replica(config("gts", **more)))
    with pytest.raises(Unsupported, match="there is no challenger"):
        ranker.promote()


# Which policy predicts clicks better

ATTRACTION = {f"item-{i}": 0.05 + 0.1 * i for i in range(6)}
Visits = list[tuple[tuple[str, ...], list[int]]]  # items and clicked slots


def cascade_log(lists: int, seed: int = 0, values: bool = False) -> tuple[MemoryStore, Visits]:
    """Random lists, and visitors who read from the top and stop at their first click."""
    store, visits, rng = MemoryStore(), [], np.random.default_rng(seed)
    ranker = Ranker(config("random"), store=store)
    ranker.put_items(items(6))
    for _ in range(lists):
        ranking = ranker.rank()
        attracted = [slot for slot, id in enumerate(ranking.ids) if rng.random() < ATTRACTION[id]][:1]
        if values:
            ranker.feedback(ranking.id, values=[2.5 if slot in attracted else 0.0 for slot in range(SLOTS)])
        else:
            ranker.feedback(ranking.id, clicked=attracted)
        visits.append((ranking.ids, attracted))
    ranker.flush()
    return store, visits


@pytest.fixture(scope="module")
def log() -> MemoryStore:
    """1,500 lists of a cascade."""
    return cascade_log(1500)[0]


def comparison(active: RankerConfig, challenger: RankerConfig, store: MemoryStore) -> Comparison:
    return compare(Replica(active), Replica(challenger), store.read("ranker"))


RIGHT = config("ts-beta", prior=[1.0, 3.0])
WRONG = [
    pytest.param(config("ensemble", prior=[9.0, 1.0]), id="a-prior-that-never-learns"),
    pytest.param(config("gts", params={"feedback": "semi-bandit"}), id="another-click-model"),
    pytest.param(config("pbm-ucb", bias=[1.0, 0.1, 0.01]), id="another-bias"),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_the_well_specified_policy_is_better_and_worse_with_the_roles_swapped(
    log: MemoryStore, wrong: RankerConfig
) -> None:
    """Differences of more than six standard errors: with another seed a verdict fails with a probability below 1e-4."""
    right, swapped = comparison(wrong, RIGHT, log), comparison(RIGHT, wrong, log)
    assert (right.active, right.challenger, right.lists) == (wrong.policy, RIGHT.policy, 1500)
    assert (right.verdict, right.reason) == ("better", None)
    assert (swapped.verdict, swapped.reason) == ("worse", None)
    assert right.difference is not None
    assert right.low is not None
    assert right.high is not None
    assert 0.0 < right.low < right.difference < right.high
    assert right.difference > 6 * (right.high - right.low) / (2 * 1.96)
    assert (swapped.difference, swapped.low, swapped.high) == pytest.approx(
        (-right.difference, -right.high, -right.low)
    )


@pytest.mark.parametrize("other", [RIGHT, config("ts-beta", prior=[1.0, 3.0], seed=99)], ids=["same", "other-seed"])
def test_equal_policies_cannot_be_told_apart(log: MemoryStore, other: RankerConfig) -> None:
    found = comparison(RIGHT, other, log)
    assert (found.difference, found.low, found.high, found.lists) == (0.0, 0.0, 0.0, 1500)
    assert found.verdict == "cannot tell"
    assert found.reason == "The 95 % interval of the difference contains 0."


def test_what_cannot_be_compared_says_why(log: MemoryStore) -> None:
    blind = comparison(RIGHT, config("random"), log)
    assert (blind.verdict, blind.lists, blind.difference) == ("cannot tell", 0, None)
    assert blind.reason == "Clicks cannot be predicted without estimates of random."
    both = comparison(config("toprank"), config("random"), log)
    assert both.reason == "Clicks cannot be predicted without estimates of random and toprank."
    few = comparison(RIGHT, config("ensemble", prior=[9.0, 1.0]), cascade_log(99)[0])
    assert (few.verdict, few.lists) == ("cannot tell", 99)
    assert few.reason == "Fewer than 100 lists could be compared."
    assert comparison(RIGHT, config("ensemble", prior=[9.0, 1.0]), cascade_log(100)[0]).verdict == "worse"
    nothing = comparison(RIGHT, RIGHT, MemoryStore())
    assert (nothing.verdict, nothing.lists, nothing.difference, nothing.low) == ("cannot tell", 0, None, None)
    amounts = comparison(config("gts"), config("cascade-lin-ts"), cascade_log(150, values=True)[0])
    assert (amounts.verdict, amounts.reason) == (
        "cannot tell",
        "Outcomes are amounts, but the predictions are click probabilities.",
    )


@pytest.mark.parametrize("page", [1, 7, 100])
def test_scores_equal_a_plain_loop_over_the_same_pages(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beta counts by hand, which learn after each page, beside a constant; a log has one put, then list and click."""
    monkeypatch.setattr("rankloop.analytics.comparison.PAGE_ENTRIES", page)
    store, visits = cascade_log(200, seed=3)
    found = comparison(config("ensemble", prior=[1.0, 3.0]), RIGHT, store)
    a, b = dict.fromkeys(ATTRACTION, 1.0), dict.fromkeys(ATTRACTION, 3.0)
    lessons: Visits = []
    differences: list[float] = []

    def score(attraction: list[float], clicked: list[int]) -> float:
        looked, total = 1.0, 0.0
        for slot, p in enumerate(attraction):
            q = min(max(looked * p, 0.001), 0.999)
            total += math.log(q if slot in clicked else 1.0 - q)
            looked *= 1.0 - p
        return total

    for n, entry in enumerate(store.read("ranker")):
        if entry.kind == "feedback":
            ids, clicked = visits[len(differences)]
            ours = score([a[id] / (a[id] + b[id]) for id in ids], clicked)
            differences.append(ours - score([0.25] * len(ids), clicked))
            lessons.append((ids, clicked))
        if (n + 1) % page == 0:
            for ids, clicked in lessons:
                for slot, id in enumerate(ids[: clicked[0] + 1] if clicked else ids):
                    a[id] += slot in clicked
                    b[id] += slot not in clicked
            lessons = []
    assert len(differences) == found.lists == 200
    assert found.difference is not None
    assert found.low is not None
    assert found.difference == pytest.approx(np.mean(differences))
    error = np.std(differences, ddof=1) / math.sqrt(len(differences))
    assert found.difference - found.low == pytest.approx(1.959964 * error)


def test_both_settle_lists_as_the_ranker_does() -> None:
    """When feedback settles is the ranker's affair: a challenger that was told otherwise settles the same lists."""
    store, clock = MemoryStore(), Clock()
    ranker = Ranker(config("ts-beta"), store=store, clock=clock)
    ranker.put_items(items(6))
    for n in range(240):
        ranking = ranker.rank()
        if n % 2:
            ranker.feedback(ranking.id, clicked=[0])
        clock.now += 100.0
        ranker.tick()
    ranker.flush()
    for settings in ((RIGHT, config("ts-beta", on_close="ignore")), (config("ts-beta", on_close="ignore"), RIGHT)):
        assert comparison(*settings, store).lists == 240
