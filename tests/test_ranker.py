"""One ranker in production: what the log says is what it knows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import catalogue
from rankloop.errors import InvalidInput, RankloopError, Unsupported
from rankloop.eventlog import MemoryStore, SqliteStore, StoreUnavailable, Writer
from rankloop.eventlog.events import ItemsPut, ItemsRemoved
from rankloop.schema import Prior, PropensityAnswer
from rankloop.serving import ConflictingDecision, Item, Ranker, RankerConfig, UnknownDecision
from rankloop.serving.config import LoggedConfig
from rankloop.serving.decide import rng_of_decision
from rankloop.serving.learners import Learners
from rankloop.serving.lesson import Lesson
from rankloop.serving.replica import Replica

IDS = [entry.id for entry in catalogue.entries()]
DIM, CONTEXT, SLOTS, TOPICS = 3, 2, 3, 4


class Clock:
    """A time that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def config(id: str = "cascade-lin-ts", **more: Any) -> RankerConfig:
    """A ranker of this policy, with all that any policy may need: as on a log that other policies share."""
    needs = catalogue.find(id).needs
    given: dict[str, Any] = {"policy": id, "slots": SLOTS, "dim": DIM, "rounds": 500, "seed": 7, "window": 60.0}
    given |= {"context": CONTEXT} if "context" in needs else {}
    given |= {"bias": [1.0, 0.6, 0.4]} if "bias" in needs else {}
    given |= {"prior": [1.0, 3.0]} if "prior" in needs else {}
    given |= {"coverage": TOPICS} if "coverage" in needs else {}
    return LoggedConfig.of(given | more)


def items(n: int, seed: int = 0, topics: int | None = None) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, DIM))
    covered = rng.uniform(size=(n, topics or 0))
    more = [{} if topics is None else {"coverage": covered[i].tolist()} for i in range(n)]
    return [{"id": f"item-{i}", "features": x[i].tolist(), "price": float(i), **more[i]} for i in range(n)]


def contents(ranker: Ranker, flush: bool = True) -> dict[str, bytes]:
    """Everything that a ranker knows, as bytes."""
    if flush:
        ranker.flush()
    state = {f"state.{name}": array.tobytes() for name, array in ranker._replica.learners.arrays().items()}
    table = {f"table.{name}": array.tobytes() for name, array in ranker._replica.items.arrays().items()}
    tally = {f"counters.{name}": array.tobytes() for name, array in ranker._replica.counters.arrays().items()}
    waiting = {
        f"waiting.{id}": b"" if waiting.outcome is None else waiting.outcome.tobytes()
        for id, waiting in ranker._replica.open_decisions.items()
    }
    return (
        state
        | table
        | tally
        | waiting
        | {"decided": str(ranker._replica.decided).encode(), "at": str(ranker.position).encode()}
    )


def covers(ranker: Ranker, rng: np.random.Generator) -> dict[str, Any]:
    topics = ranker.config.coverage
    return {} if topics is None else {"coverage": rng.uniform(size=topics).tolist()}


def live(ranker: Ranker, clock: Clock, rounds: int, seed: int = 1) -> None:
    """Visitors, items that come, change, go and come back, late, doubled and missing feedback, windows that close."""
    rng = np.random.default_rng(seed)
    shown: list[str] = []
    gone: list[str] = []
    single = ranker._replica.learners.policy.feedback.single
    for t in range(rounds):
        context = rng.standard_normal(CONTEXT).tolist() if ranker.config.context else None
        segment = ["", "de", "fr"][int(rng.integers(3))]
        ranking = ranker.rank(k=int(rng.integers(1, SLOTS + 1)), context=context, segment=segment)
        shown.append(ranking.id)
        told = shown[int(rng.integers(len(shown)))] if rng.random() < 0.2 else ranking.id
        listed = ranker.find_decision(told).items.tolist()
        clicks = [s for s, column in enumerate(listed) if rng.random() < 0.3 and column >= 0]
        if rng.random() < 0.8:
            event = f"event-{seed}-{t}"
            ranker.feedback(told, clicked=clicks[:1] if single else clicks, event=event)
            if rng.random() < 0.2:
                assert ranker.feedback(told, clicked=[], event=event).status == "duplicate"
        elif rng.random() < 0.3:
            ranker.withdraw(ranking.id)
        if rng.random() < 0.1:
            ranker.put_items([{"id": f"new-{t}", "features": rng.standard_normal(DIM).tolist(), **covers(ranker, rng)}])
        if rng.random() < 0.1:
            known = ranker.items()
            changed = {"id": known[0].id, "features": rng.standard_normal(DIM).tolist(), "price": 2.0}
            ranker.put_items([changed | covers(ranker, rng)])
        if rng.random() < 0.1 and len(ranker.items()) > 4:
            gone.append(ranker.items()[int(rng.integers(4))].id)
            ranker.remove_items(gone[-1:])
        if rng.random() < 0.1 and gone:
            back = {"id": gone.pop(), "features": rng.standard_normal(DIM).tolist(), "default_position": float(t)}
            ranker.put_items([back | covers(ranker, rng)])
        clock.now += float(rng.exponential(10.0))
        ranker.tick()


# Replay


@pytest.mark.parametrize("id", ["cascade-lin-ts", "epoch-ucb-upb-star", "toprank", "ucr"])
def test_snapshot_and_the_rest_of_the_log_equal_the_whole_log(id: str, tmp_path: Path) -> None:
    clock = Clock()
    ranker = Ranker.open(tmp_path / "log.db", config(id), clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 25)
    position = ranker.snapshot()
    live(ranker, clock, 25, seed=2)
    assert ranker.position > position
    expected = contents(ranker)
    ranker.close()
    again = Ranker.open(tmp_path / "log.db", config(id), clock=clock)
    assert contents(again) == expected
    whole = Ranker(config(id), store=_without_snapshots(again.store), clock=clock)
    assert contents(whole) == expected
    again.close()


def _without_snapshots(store: Any) -> MemoryStore:
    """The same log in another store."""
    copied = MemoryStore()
    for entry in store.read("ranker"):
        while len(copied._entries) < entry.position - 1:
            copied._entries.append(("", entry))
        copied.append([("ranker", entry)])
    return copied


def test_a_snapshot_of_another_policy_is_left_alone(tmp_path: Path) -> None:
    ranker = Ranker.open(tmp_path / "log.db", config("cascade-ucb1"))
    ranker.put_items(items(4))
    ranker.feedback(ranker.rank().id, clicked=[0])
    ranker.snapshot()
    ranker.close()
    other = Ranker.open(tmp_path / "log.db", config("gts"))
    assert other.position == 5, "four events, the first with the settings, and the new settings"
    assert len(other.items()) == 4
    other.close()


def test_learning_by_the_engine_is_learning_by_the_policy() -> None:
    """Lists, clicks and states of a ranker are those of the bare policy fed with the same requests."""
    from rankloop.types import Request, Setting

    ranker = Ranker(config("cascade-ucb1", dim=None))
    ranker.put_items([{"id": f"i{i}"} for i in range(16)])
    policy = catalogue.build("cascade-ucb1", Setting(16, SLOTS, 500))
    state: Any = policy.init(1)
    draws = np.random.default_rng(0)
    for t in range(1, 60):
        decision = policy.decide(state, Request(1, 16, SLOTS), rng_of_decision(7, t))
        ranking = ranker.rank()
        assert list(ranking.ids) == [f"i{i}" for i in decision.items[0]]
        clicked = [int(draws.integers(SLOTS))] if draws.random() < 0.5 else []
        ranker.feedback(ranking.id, clicked=clicked)
        policy.learn(state, decision, [[float(s in clicked) for s in range(SLOTS)]])
    assert dict(ranker._replica.learners.view(0).arrays())["belief.clicks"].tobytes() == state.belief.clicks.tobytes()


@pytest.mark.parametrize("id", [entry.id for entry in catalogue.entries() if entry.feedback == "choice"])
def test_bounds_that_depend_on_the_number_of_items_see_those_that_are_there(id: str) -> None:
    """Room for 16 items, five of them there: the lists of a policy that was built for five."""
    from rankloop.types import Request, Setting

    ranker = Ranker(config(id, dim=None))
    ranker.put_items([{"id": f"i{i}"} for i in range(6)])
    ranker.remove_items(["i5"])
    policy = catalogue.build(id, Setting(5, SLOTS, 500, bias=np.array([1.0, 0.6, 0.4])))
    state, draws, compared = policy.init(1), np.random.default_rng(0), 0
    request = Request(1, 5, SLOTS)
    for t in range(1, 80):
        ranking = ranker.rank()
        shown = [[int(one[1:]) for one in ranking.ids]]
        own = policy.decide(state, request, rng_of_decision(7, t))
        if own.items.tolist() == shown and own.scores is not None:  # a list that is kept has none
            assert ranking.event.scores == pytest.approx(own.scores[0], rel=1e-9)
            compared += 1
        clicked = [int(draws.integers(SLOTS))] if draws.random() < 0.5 else []
        ranker.feedback(ranking.id, clicked=clicked)
        policy.learn(state, policy.adopt(request, shown), [[float(s in clicked) for s in range(SLOTS)]])
    assert compared > 10


# Feedback


def test_the_first_event_settles_and_later_ones_are_late() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    id = ranker.rank().id
    assert ranker.feedback(id, clicked=[1]).status == "learned"
    assert ranker.feedback(id, clicked=[0]).status == "late"
    assert ranker._replica.learners.state.view(slice(0, 1)).t.tolist() == [2]


def test_values_are_summed_until_the_window_closes() -> None:
    clock = Clock()
    ranker = Ranker(config("gts", aggregate="sum", window=10.0), clock=clock)
    ranker.put_items(items(4))
    ranking = ranker.rank(k=2)
    assert ranker.feedback(ranking.id, item_values={ranking.ids[0]: 1.5}).status == "pending"
    assert ranker.feedback(ranking.id, values=[2.0, 0.5]).status == "pending"
    assert ranker.tick() == 0
    clock.now += 10.0
    assert ranker.tick() == 1
    shift = dict(ranker._replica.learners.view(0).arrays())["belief.shift"][0]
    first = ranker._replica.items.column[ranking.ids[0]]
    assert shift[first] == pytest.approx(3.5 / 0.25)


@pytest.mark.parametrize(("on_close", "rounds"), [("nothing", 2), ("ignore", 1)])
def test_a_window_that_closes_without_feedback_has_a_default_outcome(on_close: str, rounds: int) -> None:
    clock = Clock()
    ranker = Ranker(config("cascade-ucb1", on_close=on_close), clock=clock)
    ranker.put_items(items(4))
    id = ranker.rank().id
    clock.now += 61.0
    assert ranker.tick() == 1
    assert ranker.feedback(id, clicked=[0]).status == "late"
    assert dict(ranker._replica.learners.view(0).arrays())["t"].tolist() == [rounds]


def test_a_withdrawn_list_teaches_nothing() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    id = ranker.rank().id
    assert ranker.withdraw(id).status == "withdrawn"
    assert ranker.feedback(id, clicked=[0]).status == "late"
    assert dict(ranker._replica.learners.view(0).arrays())["t"].tolist() == [1]


def test_feedback_of_a_removed_item_settles() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(3))
    ranking = ranker.rank(k=1)
    ranker.remove_items(ranking.ids)
    assert ranker.feedback(ranking.id, items=[ranking.ids[0]]).status == "learned"
    assert ranking.ids[0] not in ranker.rank().ids


def test_a_removed_id_comes_back_as_a_new_item_and_open_lists_of_the_old_one_settle() -> None:
    store = MemoryStore()
    ranker = Ranker(config("ts-beta", dim=None), store=store)
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    for _ in range(20):
        ranker.feedback(ranker.rank(candidates=["a"]).id, clicked=[0])
    waiting = ranker.rank(candidates=["a"])
    ranker.remove_items(["a"])
    ranker.remove_items(["b"])
    table = ranker._replica.items
    assert (ranker.items(), len(table), table.has("a"), ranker.columns_with(["a", "c"])) == ([], 0, False, 4)
    ranker.put_items([{"id": "a", "price": 2.0, "prior": {"score": 0.5, "strength": 100.0}}])
    assert ranker.items() == [Item("a", price=2.0, prior=Prior(0.5, 100.0))]
    assert (table.ids, table.column, ranker.counts()["items"]) == (["a", "b", "a"], {"a": 2}, 1)
    (row,), total = ranker.estimates().rows()
    assert (row.item, row.shown, row.clicked, total) == ("a", 0, 0, 1)
    a, b = (dict(ranker._replica.learners.view(0).arrays())[f"belief.{name}"][0] for name in "ab")
    assert (a[2], b[2]) == (51.0, 53.0), "what the prior of the new one says, and no click of the old one"
    before = float(a[0])
    assert ranker.feedback(waiting.id, items=["a"]).status == "learned"
    assert waiting.ids == ("a",)
    a = dict(ranker._replica.learners.view(0).arrays())["belief.a"][0]
    assert (a[0], a[2]) == (before + 1.0, 51.0), "the list showed the old one"
    assert ranker.history(waiting.id).slots[0].item == "a"
    fresh = ranker.rank()
    assert fresh.event.items[fresh.event.items >= 0].tolist() == [2]
    assert ranker.feedback(fresh.id, item_values={"a": 1.0}).status == "learned"
    assert [place.item for place in ranker.slot_counts()] == ["a", "a"], "counts of the old one stay its own"
    assert contents(Ranker(config("ts-beta", dim=None), store=store)) == contents(ranker)
    ranker.snapshot()
    again = Ranker(config("ts-beta", dim=None), store=store)
    assert contents(again) == contents(ranker)
    assert again.items() == ranker.items()


def test_who_removes_an_item_that_another_caller_has_just_removed_is_right() -> None:
    store = MemoryStore()
    ranker = Ranker(config("cascade-ucb1", dim=None), store=store)
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    gone = ItemsRemoved(1.0, ("a",))
    for record in (gone, gone, ItemsPut(1.0, (Item("a"),)), gone, gone):
        ranker._submit(record).result()
    assert [item.id for item in ranker.items()] == ["b"]
    assert ranker.rank().ids == ("b",)
    ranker.flush()
    assert contents(Ranker(config("cascade-ucb1", dim=None), store=store)) == contents(ranker)


def test_features_are_learned_as_they_were_scored() -> None:
    ranker, same = Ranker(config()), Ranker(config())
    for one in (ranker, same):
        one.put_items(items(3))
    first, second = ranker.rank(), same.rank()
    ranker.put_items([{"id": f"item-{i}", "features": [9.0, 9.0, 9.0]} for i in range(3)])
    ranker.feedback(first.id, clicked=[0])
    same.feedback(second.id, clicked=[0])
    for name in ("belief.F", "belief.b"):
        assert np.array_equal(
            dict(ranker._replica.learners.arrays())[name], dict(same._replica.learners.arrays())[name]
        )


# Lists


@pytest.mark.parametrize("id", IDS)
def test_pins_exclusions_and_candidates_are_respected_by_every_policy(id: str) -> None:
    ranker = Ranker(config(id))
    ranker.put_items(items(8, topics=ranker.config.coverage))
    context = [0.5, -0.5] if ranker.config.context else None
    candidates = [f"item-{i}" for i in range(7)]
    for _ in range(12):
        ranking = ranker.rank(
            context=context, candidates=candidates, exclude=["item-0", "item-1"], pin={1: "item-3"}, segment="x"
        )
        listed = {row.item: row for row in ranking.items}
        assert "item-3" in ranking.ids
        assert not {"item-0", "item-1", "item-7"} & set(ranking.ids)
        assert len(set(ranking.ids)) == len(ranking.ids)
        assert listed["item-3"].rule == "pinned"
        ranker.feedback(ranking.id, clicked=[])


@pytest.mark.parametrize("id", IDS)
def test_a_list_may_be_pinned_from_end_to_end(id: str) -> None:
    ranker = Ranker(config(id))
    ranker.put_items(items(8, topics=ranker.config.coverage))
    context = [0.5, -0.5] if ranker.config.context else None
    for order in (["item-4", "item-0", "item-7"], ["item-1", "item-2", "item-3"]):
        ranking = ranker.rank(context=context, pin=dict(enumerate(order)))
        assert list(ranking.ids) == order
        ranker.feedback(ranking.id, clicked=[1])


def test_why_an_item_was_shown() -> None:
    ranker = Ranker(config("gts"))
    ranker.put_items(items(4))
    before = ranker.rank().items
    assert [row.prior_share for row in before] == [1.0] * 3
    for _ in range(30):
        ranking = ranker.rank()
        ranker.feedback(ranking.id, clicked=[0])
    row = min(ranker.rank().items, key=lambda row: row.uncertainty or 0.0)
    assert row.rule == "ranked"
    assert row.score is not None
    assert row.estimate is not None
    assert row.uncertainty is not None
    assert row.prior_share is not None
    assert 0.0 < row.estimate <= 1.0
    assert abs(row.score - row.estimate) < 6 * row.uncertainty
    assert row.prior_share < 0.5


def test_segments_learn_apart_and_more_of_them_come_on_demand() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    for s in range(9):
        for _ in range(s):
            ranker.feedback(ranker.rank(segment=f"s{s}").id, clicked=[0])
    t = dict(ranker._replica.learners.arrays())["t"]
    assert {name: int(t[row]) for name, row in ranker._replica.learners.segments.items()} == {
        f"s{s}": s + 1 for s in range(1, 9)
    }


def test_a_table_that_grows_keeps_what_was_learned() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(16))
    for _ in range(20):
        ranker.feedback(ranker.rank().id, clicked=[0])
    before = dict(ranker._replica.learners.arrays())
    ranker.put_items([{"id": f"more-{i}", "features": [0.0, 0.0, 0.0]} for i in range(40)])
    after = dict(ranker._replica.learners.arrays())
    assert after["belief.clicks"].shape[1] == 64
    assert np.array_equal(after["belief.clicks"][:, :16], before["belief.clicks"])
    assert not after["belief.clicks"][:, 16:].any()


# Bad input


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"policy": "no-such", "slots": 3}, "ranker.policy"),
        ({"policy": "gts"}, "ranker.slots"),
        ({"policy": "gts", "slots": 0}, "ranker.slots"),
        ({"policy": "gts", "slots": 2, "params": {"sigma": -1}}, "ranker.params.sigma"),
        ({"policy": "gts", "slots": 2, "params": [1]}, "ranker.params"),
        ({"policy": "gts", "slots": 2, "bias": [1.0]}, "ranker.bias"),
        ({"policy": "gts", "slots": 2, "window": 0}, "ranker.window"),
        ({"policy": "cascade-lin-ts", "slots": 2, "dim": 10**6}, "ranker.dim"),
        ({"policy": "gts", "slots": 2, "aggregate": "last"}, "ranker.aggregate"),
        ({"policy": "gts", "slots": 2, "colour": 1}, "ranker.colour"),
        ({"policy": "ts-beta", "slots": 2, "prior": [0, 1]}, r"ranker.prior\[0\]"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field} "):
        RankerConfig.of(given)


@pytest.mark.parametrize("id", ["cascade-lin-ts", "pbm-ucb", "ts-beta", "ucr", "dep"])
def test_a_policy_that_needs_more_says_what(id: str) -> None:
    with pytest.raises(Unsupported, match=id):
        RankerConfig.of({"policy": id, "slots": 3})


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ({}, "id"),
        ({"id": ""}, "id"),
        ({"id": "a\n"}, "id"),
        ({"id": 7}, "id"),
        ({"id": "x" * 201}, "id"),
        ({"id": "a"}, "features"),
        ({"id": "a", "features": [1, 2]}, "features"),
        ({"id": "a", "features": [1, 2, float("nan")]}, "features"),
        ({"id": "a", "features": [1, 2, 1.1e6]}, "features"),
        ({"id": "a", "features": [1, 2, 3], "price": 2e9}, "price"),
        ({"id": "a", "features": [1, 2, 3], "default_position": "first"}, "default_position"),
        ({"id": "a", "features": [1, 2, 3], "default_position": float("inf")}, "default_position"),
        ({"id": "a", "features": [1, 2, 3], "price": -1}, "price"),
        ({"id": "a", "features": [1, 2, 3], "enabled": 1}, "enabled"),
        ({"id": "a", "features": [1, 2, 3], "size": 1}, "size"),
    ],
)
def test_a_wrong_item_is_refused_and_none_of_its_batch_is_kept(item: dict[str, Any], field: str) -> None:
    ranker = Ranker(config())
    with pytest.raises(InvalidInput, match=rf"items\[1\]\.{field}"):
        ranker.put_items([{"id": "good", "features": [0, 0, 0]}, item])
    assert ranker.items() == []


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"k": 4}, "k"),
        ({"k": -1}, "k"),
        ({"context": [1.0]}, "context"),
        ({"candidates": ["item-0", "nobody"], "strict": True}, r"candidates\[1\]"),
        ({"candidates": "item-0"}, "candidates"),
        ({"candidates": [7]}, r"candidates\[0\]"),
        ({"candidates": [["item-0"]]}, r"candidates\[0\]"),
        ({"exclude": ["nobody"], "strict": True}, r"exclude\[0\]"),
        ({"exclude": [""]}, r"exclude\[0\]"),
        ({"exclude": ["a\n"]}, r"exclude\[0\]"),
        ({"order": ["x" * 201]}, r"order\[0\]"),
        ({"order": ["item-0", "item-1", "item-0"]}, "order"),
        ({"strict": 1}, "strict"),
        ({"decision": ""}, "decision"),
        ({"decision": 7}, "decision"),
        ({"pin": {5: "item-0"}}, "pin"),
        ({"k": 0, "pin": {0: "item-0"}}, "pin"),
        ({"pin": {0: "nobody"}}, r"pin\.0"),
        ({"pin": {0: "item-0"}, "exclude": ["item-0"]}, r"pin\.0"),
        ({"pin": {0: "item-0", 1: "item-0"}}, "pin"),
        ({"segment": "a\0"}, "segment"),
    ],
)
def test_a_wrong_question_changes_nothing(asked: dict[str, Any], field: str) -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    before = contents(ranker)
    with pytest.raises(InvalidInput, match=f"^{field} "):
        ranker.rank(**asked)
    assert contents(ranker) == before


@pytest.mark.parametrize(
    ("told", "field"),
    [
        ({"clicked": [3]}, r"clicked\[0\]"),
        ({"clicked": [-1]}, r"clicked\[0\]"),
        ({"clicked": [True]}, r"clicked\[0\]"),
        ({"clicked": "0"}, "clicked"),
        ({"items": ["nobody"]}, r"items\[0\]"),
        ({"clicked": [0], "items": ["item-0"]}, "items"),
        ({"values": [1.0]}, "values"),
        ({"values": [1.0, 1.0, 1.0, 1.0]}, "values"),
        ({"values": [float("inf"), 0.0, 0.0]}, r"values\[0\]"),
        ({"values": [0.0, 1.1e6, 0.0]}, r"values\[1\]"),
        ({"values": {0: 1.0}}, "values"),
        ({"values": {"item-0": 1.0}}, "values"),
        ({"item_values": [1.0]}, "item_values"),
        ({"item_values": {"nobody": 1.0}}, r"item_values\.nobody"),
        ({"item_values": {0: 1.0}}, r"item_values\.0"),
        ({"item_values": {"item-0": -1.1e6, "item-1": -1.1e6, "item-2": -1.1e6, "item-3": -1.1e6}}, "item_values"),
        ({"values": [1.0, 0.0, 0.0], "item_values": {}}, "item_values"),
        ({"clicked": [], "regret": 1e10}, "regret"),
        ({"clicked": [], "event": ""}, "event"),
    ],
)
def test_wrong_feedback_changes_nothing(told: dict[str, Any], field: str) -> None:
    ranker = Ranker(config("gts"))
    ranker.put_items(items(4))
    id = ranker.rank().id
    before = contents(ranker)
    with pytest.raises(InvalidInput, match=rf"^{field}[ .]"):
        ranker.feedback(id, **told)
    assert contents(ranker) == before


def test_a_mapping_of_values_is_told_where_it_belongs() -> None:
    ranker = Ranker(config("gts"))
    ranker.put_items(items(4))
    with pytest.raises(InvalidInput, match=r"one for each slot.*item_values"):
        ranker.feedback(ranker.rank().id, values={"item-0": 1.0})  # type: ignore[arg-type]


def test_items_whose_ids_look_like_slots_are_items() -> None:
    ranker = Ranker(config("gts", dim=None))
    ranker.put_items([{"id": id} for id in ("2", "0", "1")])
    ranking = ranker.rank(pin={0: "2", 1: "0", 2: "1"})
    outcomes = []
    for told in ({"item_values": {"0": 5.0, "2": 7.0}}, {"values": (7.0, 5.0, 0.0)}, {"items": ["0"]}):
        ranker.feedback(ranking.id, event=repr(told), **told)
        outcomes.append(ranker.history(ranking.id).events[-1].outcome)
    assert outcomes == [[7.0, 5.0, 0.0], [7.0, 5.0, 0.0], [0.0, 1.0, 0.0]]


def test_values_of_slots_in_which_nothing_stood_may_be_left_out() -> None:
    ranker = Ranker(config("gts"))
    ranker.put_items(items(2))
    id = ranker.rank().id
    with pytest.raises(InvalidInput, match=r"^values\[2\] is 1.0; accepted: 0"):
        ranker.feedback(id, values=[1.0, 2.0, 1.0])
    for n, values in enumerate(([1.0, 2.0], [1.0, 2.0, 0.0])):
        ranker.feedback(id, values=values)
        assert ranker.history(id).events[n].outcome == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("size", [1e6, -1e6])
def test_numbers_are_bounded_in_process_as_over_http(size: float) -> None:
    ranker = Ranker(config("ranked-lin-ts", context=2))
    ranker.put_items([{"id": "a", "features": [size, 0.0, 1.0]}])
    id = ranker.rank(context=[size, 0.0]).id
    with pytest.raises(InvalidInput, match=r"^context\[1\] is .*\[-1e\+06, 1e\+06\]"):
        ranker.rank(context=[0.0, 1.01 * size])
    with pytest.raises(InvalidInput, match=r"^values\[0\] is .*\[-1e\+06, 1e\+06\]"):
        ranker.feedback(id, values=[1.01 * size, 0.0, 0.0])


def test_values_for_a_policy_of_clicks_and_unknown_decisions_are_refused() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    with pytest.raises(Unsupported, match="learns from clicks"):
        ranker.feedback(ranker.rank().id, values=[0.5, 0.0, 0.0])
    with pytest.raises(Unsupported, match="learns from clicks"):
        ranker.feedback(ranker.rank(pin={0: "item-0"}).id, item_values={"item-0": 0.5})
    for id in ("nothing", "a\ud800"):
        with pytest.raises(UnknownDecision, match="not one that this ranker made"):
            ranker.feedback(id, clicked=[])
    for wrong in (7, None, ""):
        with pytest.raises(InvalidInput, match=r"^decision is "):
            ranker.feedback(wrong, clicked=[])  # type: ignore[arg-type]


# Ids that say nothing


def test_ids_of_no_item_are_ignored_and_named_once_in_the_order_given() -> None:
    ranker = Ranker(config("cascade-ucb1", mode="shadow"))
    ranker.put_items([*items(5), {"id": "off", "features": [0, 0, 0], "enabled": False}])
    ranker.remove_items(["item-4"])
    assert ranker.rank().ignored == ()
    ranking = ranker.rank(
        candidates=["x", "item-2", "item-4", "item-0", "off", "x"],
        exclude=["y", "x", "item-0"],
        order=["item-1", "z", "off", "item-2", "item-0", "y", "z", "item-4"],
    )
    assert ranking.ids == ("item-2",)
    assert ranking.ignored == ("x", "item-4", "y", "item-1", "z", "off", "item-0")
    assert ranker.history(ranking.id).candidates == ["item-2"]
    assert ranker.rank(candidates=["x"]).ids == (), "nothing that is there was asked for"
    assert ranker.rank(exclude=["x"]).ids == ("item-0", "item-1", "item-2")


@pytest.mark.parametrize(
    ("asked", "field", "accepted"),
    [
        ({"candidates": ["item-0", "x"]}, r"candidates\[1\]", "the id of an item of this ranker"),
        ({"candidates": ["gone"]}, r"candidates\[0\]", "the id of an item of this ranker"),
        ({"exclude": ["x"]}, r"exclude\[0\]", "the id of an item of this ranker"),
        ({"order": ["item-0", "x"]}, r"order\[1\]", "the id of an item of this ranker"),
        ({"order": ["off"]}, r"order\[0\]", "an enabled item that may be listed"),
        ({"order": ["item-1"], "exclude": ["item-1"]}, r"order\[0\]", "an enabled item that may be listed"),
    ],
)
def test_a_strict_question_is_refused_where_another_ignores(asked: dict[str, Any], field: str, accepted: str) -> None:
    ranker = Ranker(config("cascade-ucb1"))
    gone, off = {"id": "gone", "features": [0, 0, 0]}, {"id": "off", "features": [0, 0, 0], "enabled": False}
    ranker.put_items([*items(3), gone, off])
    ranker.remove_items(["gone"])
    with pytest.raises(InvalidInput, match=f"^{field} is .*; accepted: {accepted}"):
        ranker.rank(**asked, strict=True)
    named = [*asked.get("candidates", ()), *asked.get("order", ()), *asked.get("exclude", ())]
    (ignored,) = ranker.rank(**asked).ignored
    assert ignored in named
    assert ranker.counts()["decisions"] == 1


def test_a_pin_is_never_ignored() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(3))
    for pin, candidates in (({0: "x"}, None), ({0: "item-1"}, ["item-0", "x"])):
        with pytest.raises(InvalidInput, match=r"^pin\.0 is "):
            ranker.rank(pin=pin, candidates=candidates)


# Ids that callers bring


ASKED: dict[str, Any] = {"k": 2, "candidates": ["item-0", "item-1", "item-2", "x"], "pin": {1: "item-2"}}


@pytest.mark.parametrize("commit", ["feedback", "all"])
@pytest.mark.parametrize("id", ["random", "cascade-lin-ts", "gts"])
def test_the_same_request_with_the_same_id_has_the_same_list(id: str, commit: str, tmp_path: Path) -> None:
    """At once, while it is open, after it was settled, and after a restart; and no random number is drawn for it."""
    twin = Ranker(config(id, commit=commit))
    ranker = Ranker.open(tmp_path / "log.db", config(id, commit=commit))
    for one in (ranker, twin):
        one.put_items(items(6))
    first = ranker.rank(decision="mine", propensity=20, **ASKED)
    twin.rank(propensity=20, **ASKED)

    def same() -> None:
        asked = ASKED | {"candidates": tuple(ASKED["candidates"]), "exclude": [], "order": None, "k": np.int64(2)}
        again = ranker.rank(decision="mine", propensity=20, segment="", strict=False, **asked)
        assert (first.repeated, again.repeated) == (False, True)
        for name in ("id", "ids", "items", "group", "policy", "segment", "ignored"):
            assert getattr(again, name) == getattr(first, name), name
        assert again.ignored == ("x",)
        assert repr(again.propensity) == repr(first.propensity)

    same()
    ranker.flush()
    same()
    assert ranker.rank().ids == twin.rank().ids
    assert ranker.feedback("mine", clicked=[0]).status == "learned"
    ranker.remove_items(["item-2"])
    same()
    ranker.close()
    ranker = Ranker.open(tmp_path / "log.db", config(id, commit=commit))
    same()
    assert ranker.feedback("mine", clicked=[0]).status == "late"
    assert ranker.counts()["decisions"] == 2
    assert [entry.kind for entry in ranker.store.read("ranker")].count("decision") == 2
    ranker.close()


@pytest.mark.parametrize(
    "other",
    [
        {"k": 3},
        {"candidates": ["item-0", "item-1", "item-2"]},
        {"candidates": ["item-1", "item-0", "item-2", "x"]},
        {"candidates": None},
        {"pin": {0: "item-2"}},
        {"segment": "de"},
        {"visitor": "v"},
        {"order": []},
        {"propensity": 5},
        {"exclude": ["item-0"]},
    ],
)
def test_another_request_with_the_same_id_is_refused(other: dict[str, Any]) -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    ranker.rank(decision="mine", **ASKED)
    for _ in range(2):
        with pytest.raises(ConflictingDecision, match=r"^decision is 'mine'; accepted: an id that no other"):
            ranker.rank(decision="mine", **(ASKED | other))
        ranker.feedback("mine", clicked=[])
    assert ranker.counts()["decisions"] == 1


def test_an_id_that_the_ranker_made_is_nobodys_to_bring() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    with pytest.raises(ConflictingDecision):
        ranker.rank(decision=ranker.rank().id)


def test_equal_contexts_are_equal_however_they_are_typed() -> None:
    ranker = Ranker(config("ranked-lin-ts", context=2))
    ranker.put_items(items(4))
    first = ranker.rank(decision="mine", context=[1, 0.5])
    array: Any = np.array([1.0, 0.5])
    assert ranker.rank(decision="mine", context=array).items == first.items
    with pytest.raises(ConflictingDecision):
        ranker.rank(decision="mine", context=[1, 0.25])


@pytest.mark.parametrize("commit", ["feedback", "all"])
def test_threads_with_one_id_have_one_list(commit: str, tmp_path: Path) -> None:
    ranker = Ranker.open(tmp_path / "log.db", config("random", commit=commit))
    ranker.put_items(items(8))
    callers, ids = 6, [f"mine-{i}" for i in range(25)]
    lists: list[dict[str, Any]] = [{} for _ in range(callers)]
    begin = threading.Barrier(callers)

    def caller(n: int) -> None:
        begin.wait()
        for i, id in enumerate(ids):
            lists[n][id] = ranker.rank(decision=id).items
            if i % callers == n:
                ranker.feedback(id, clicked=[0])

    threads = [threading.Thread(target=caller, args=(n,)) for n in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == lists[0] for one in lists)
    assert set(lists[0]) == set(ids)
    ranker.flush()
    assert ranker.counts()["decisions"] == len(ids)
    assert sorted(entry.key for entry in ranker.store.read("ranker") if entry.kind == "decision") == sorted(ids)
    ranker.close()


def test_an_id_whose_list_was_not_kept_is_free_again() -> None:
    store = Failing()
    ranker = Ranker(config("cascade-ucb1", commit="all"), store=store)
    ranker.put_items(items(4))
    store.full = True
    with pytest.raises(StoreUnavailable):
        ranker.rank(decision="mine")
    store.full = False
    ranking = ranker.rank(decision="mine")
    assert not ranking.repeated
    assert ranker.rank(decision="mine").repeated
    assert ranker.feedback("mine", clicked=[0]).status == "learned"


# Many callers, and a log that fails


def test_many_threads_lose_nothing(tmp_path: Path) -> None:
    ranker = Ranker.open(tmp_path / "log.db", config("cascade-ucb1"))
    ranker.put_items(items(8))

    def visitor(n: int) -> None:
        for i in range(25):
            ranker.feedback(ranker.rank(segment=f"s{n % 2}").id, clicked=[i % 3], event=f"{n}-{i}")

    threads = [threading.Thread(target=visitor, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t = dict(ranker._replica.learners.arrays())["t"]
    assert t.tolist() == [101, 101]
    expected = contents(ranker)
    ranker.close()
    again = Ranker.open(tmp_path / "log.db", config("cascade-ucb1"))
    assert contents(again) == expected
    again.close()


class Failing(MemoryStore):
    """A store whose disk is full for a while."""

    full = False

    def append(self, batch: Any, after: int | None = None) -> list[int | None]:
        if self.full:
            raise StoreUnavailable("the disk is full.")
        return super().append(batch, after)


def test_what_was_not_kept_is_not_acknowledged_and_not_learned() -> None:
    store = Failing()
    ranker = Ranker(config("cascade-ucb1"), store=store)
    ranker.put_items(items(4))
    id = ranker.rank().id
    before = contents(ranker)
    store.full = True
    with pytest.raises(StoreUnavailable):
        ranker.feedback(id, clicked=[0], event="once")
    with pytest.raises(StoreUnavailable):
        ranker.put_items(items(5))
    assert contents(ranker, flush=False) == before
    store.full = False
    assert ranker.feedback(id, clicked=[0], event="once").status == "learned"


def test_a_list_that_was_answered_waits_for_room_in_the_log() -> None:
    store = Failing()
    ranker = Ranker(config("cascade-ucb1"), store=store)
    ranker.put_items(items(4))
    store.full = True
    id = ranker.rank().id
    with pytest.raises(StoreUnavailable):
        ranker.feedback(id, clicked=[0])
    store.full = False
    assert ranker.feedback(id, clicked=[0]).status == "learned"
    assert [entry.kind for entry in store.read("ranker")] == ["config-changed", "items-put", "decision", "feedback"]
    assert contents(Ranker(config("cascade-ucb1"), store=store)) == contents(ranker)


def test_lists_can_wait_for_their_commit() -> None:
    store = Failing()
    ranker = Ranker(config("cascade-ucb1", commit="all"), store=store)
    ranker.put_items(items(4))
    ranker.rank()
    assert store.find("ranker", "decision", ranker.rank().id) is not None
    store.full = True
    with pytest.raises(StoreUnavailable):
        ranker.rank()


def test_lists_are_refused_when_too_many_wait() -> None:
    store = Failing()
    writer = Writer(store, queue_limit=5)
    ranker = Ranker(config("cascade-ucb1"), writer=writer)
    ranker.put_items(items(4))
    store.full = True
    answered = [ranker.rank().id for _ in range(5)]
    with pytest.raises(StoreUnavailable, match="which is the limit"):
        answered.extend(ranker.rank().id for _ in range(10))  # the writer may hold some of them in its hands
    store.full = False
    ranker.flush()
    assert {entry.key for entry in store.read("ranker") if entry.kind == "decision"} == set(answered)
    writer.close()


def test_an_event_belongs_to_one_decision() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    first, second = ranker.rank().id, ranker.rank().id
    ranker.feedback(first, clicked=[0], event="e")
    assert ranker.feedback(first, clicked=[0], event="e").status == "duplicate"
    with pytest.raises(InvalidInput, match="another decision"):
        ranker.feedback(second, clicked=[0], event="e")


def test_what_was_learned_cannot_be_withdrawn() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    id = ranker.rank().id
    ranker.feedback(id, clicked=[0])
    assert ranker.withdraw(id).status == "late"


def test_a_closed_log_refuses(tmp_path: Path) -> None:
    ranker = Ranker.open(tmp_path / "log.db", config("cascade-ucb1"))
    ranker.put_items(items(4))
    ranker.close()
    with pytest.raises(RankloopError, match="closed"):
        ranker.rank()


def test_an_item_is_what_was_put() -> None:
    ranker = Ranker(config())
    a = Item("a", features=(1.0, 2.0, 3.0), price=5.0, default_position=-2.5)
    ranker.put_items([a, {"id": "b", "features": [0, 0, 1], "enabled": False}])
    assert ranker.items() == [a, Item("b", features=(0.0, 0.0, 1.0), enabled=False)]
    assert Item.of(a.as_mapping()) == a
    assert ranker.rank().ids == ("a",)


# The store


def test_sqlite_keeps_everything_on_the_disk_before_it_tells(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


def test_a_file_of_a_newer_layout_or_no_database_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    store._writer.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(StoreUnavailable, match="newer rankloop"):
        SqliteStore(tmp_path / "log.db")
    (tmp_path / "text.db").write_text("no database at all, but long enough to be read as one " * 40)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        SqliteStore(tmp_path / "text.db")


# What another ranker says, drift, and how likely a list was


LINEAR = ("cascade-lin-ts", "lin-ts-ltr", "ranked-lin-ts", "cascade-woful", "log-ts-ltr", "log-ts-newton", "gl-cdcm")
"""Policies of one model for all items: five scores are not linear in three features."""


@pytest.mark.parametrize(
    "id", ["cascade-ucb1", "ts-beta", "gts", "ensemble", "ucr", "feature-ucr", "ind", "random", "toprank", *LINEAR]
)
def test_scores_of_another_ranker_are_believed_or_refused(id: str) -> None:
    store = MemoryStore()
    ranker = Ranker(config(id), store=store)
    given = [row | {"prior": {"score": i / 10, "strength": 400.0}} for i, row in enumerate(items(5))]
    if id in ("random", "toprank"):
        with pytest.raises(InvalidInput, match=r"items\[0\]\.prior"):
            ranker.put_items(given)
        return
    ranker.put_items(given)
    context = [0.5] * CONTEXT if "ucr" in id else None
    for row in ranker.rank(segment="new", context=context).items:
        assert row.prior_share in (None, 1.0), "nobody has clicked yet: all of it was believed before"
        assert row.uncertainty is None or "ucr" in id or row.uncertainty < 0.15
    if id in ("cascade-ucb1", "ts-beta", "gts", "ensemble"):
        assert ranker.rank(segment="newer").ids == ("item-4", "item-3", "item-2")
    ranker.flush()
    assert contents(Ranker(config(id), store=store)) == contents(ranker)


def test_a_discount_forgets_the_past_and_not_the_prior() -> None:
    store = MemoryStore()
    ranker = Ranker(config("ts-beta", discount=0.5), store=store)
    ranker.put_items([{"id": "a", "features": [0, 0, 0]}])
    for _ in range(30):
        ranker.feedback(ranker.rank().id, clicked=[0])
    arrays = dict(ranker._replica.learners.view(0).arrays())
    assert arrays["inner.belief.a"][0, 0] == pytest.approx(1.0 + 2.0, abs=1e-6), "prior plus 1 + 1/2 + 1/4 + …"
    assert arrays["inner.belief.b"][0, 0] == pytest.approx(3.0)
    assert contents(Ranker(config("ts-beta", discount=0.5), store=store)) == contents(ranker)


def test_a_policy_that_cannot_forget_says_so() -> None:
    with pytest.raises(Unsupported, match="toprank cannot forget"):
        config("toprank", discount=0.9)


def test_a_world_that_drifts_is_followed_by_a_ranker_that_forgets() -> None:
    """The only item that is clicked changes after 300 visits; then 200 more (clicks shown first, of 200)."""
    hits = {}
    for discount in (1.0, 0.95):
        ranker = Ranker(config("ts-beta", discount=discount, slots=1, prior=[1.0, 1.0]))
        ranker.put_items(items(4))
        hits[discount] = 0
        for t in range(500):
            good = "item-0" if t < 300 else "item-1"
            ranking = ranker.rank(k=1)
            ranker.feedback(ranking.id, clicked=[0] if ranking.ids == (good,) else [])
            hits[discount] += t >= 300 and ranking.ids == (good,)
    assert hits[0.95] > hits[1.0] + 30


def test_propensities_are_exact_counted_or_not_made_up() -> None:
    drawn = Ranker(config("random"))
    drawn.put_items(items(4))
    likely = drawn.rank(k=2).propensity
    assert likely is not None
    assert likely.kind == "exact"
    assert likely.slot is not None
    assert likely.slot.tolist() == pytest.approx([1 / 4, 1 / 4])
    assert likely.list == pytest.approx(1 / 12)
    sampled = Ranker(config("gts"))
    sampled.put_items(items(4))
    assert sampled.rank(k=2).propensity is None
    counted = sampled.rank(k=2, propensity=4000).propensity
    assert counted is not None
    assert counted.kind == "monte-carlo"
    assert counted.slot is not None
    assert counted.slot_error is not None
    assert np.abs(counted.slot - 1 / 4).max() < 4 * counted.slot_error.max()
    fixed = Ranker(config("cascade-ucb1"))
    fixed.put_items(items(4))
    told = fixed.rank(candidates=["item-2"], propensity=100).propensity  # of several, nobody knows which is better yet
    assert told is not None
    assert told.kind == "deterministic"
    assert told.slot is None
    assert fixed.history(fixed.rank(candidates=["item-2"]).id).propensity == PropensityAnswer("deterministic", 0)


def test_asking_for_a_propensity_changes_no_list() -> None:
    lists = []
    for draws in (0, 50):
        ranker = Ranker(config("gts"))
        ranker.put_items(items(6))
        lists.append([ranker.rank(propensity=draws).ids for _ in range(10)])
    assert lists[0] == lists[1]


# Priors by segment


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("id", ["cascade-ucb1", "ts-beta", "gts", "ensemble", "cascade-lin-ts", "log-ts-ltr"])
def test_a_prior_may_differ_between_segments(id: str, discount: float) -> None:
    """Night visitors want the opposite; segments of which nothing is said have the general score."""
    if id == "ensemble" and discount < 1.0:
        return
    store, x = MemoryStore(), np.eye(3)
    given = config(id, discount=discount)
    ranker = Ranker(given, store=store)

    def put(night: list[float]) -> None:
        ranker.put_items(
            [
                {
                    "id": f"item-{i}",
                    "features": x[i].tolist(),
                    "prior": {
                        "score": 0.2 + 0.3 * i,
                        "strength": 900.0,
                        "segments": {"night": {"score": night[i], "strength": 900.0}},
                    },
                }
                for i in range(3)
            ]
        )

    put([0.8, 0.5, 0.2])
    day, night = ("item-2", "item-1", "item-0"), ("item-0", "item-1", "item-2")
    assert (ranker.rank(segment="day").ids, ranker.rank(segment="night").ids) == (day, night)
    ranker.feedback(ranker.rank(segment="night").id, clicked=[0])
    assert ranker.rank(segment="night").ids == night
    put([0.2, 0.5, 0.8])  # replaces the prior, and leaves what was learned
    assert ranker.rank(segment="night").ids == day
    ranker.snapshot()
    ranker.flush()
    again = Ranker(given, store=store)
    assert contents(again) == contents(ranker)
    assert again.item("item-0") == ranker.item("item-0")
    assert again.item("item-0").prior == ranker.item("item-0").prior
    replayed = Replica(given)
    replayed.follow(store.read("ranker"))
    assert {name: a.tobytes() for name, a in replayed.learners.arrays().items()} == {
        name: a.tobytes() for name, a in ranker._replica.learners.arrays().items()
    }


def test_a_prior_of_a_segment_is_checked_as_any_other() -> None:
    ranker = Ranker(config("gts"))
    segments = {"night": {"score": 1.5, "strength": 1.0}}
    with pytest.raises(InvalidInput, match=r"items\[0\]\.prior\.segments\.night\.score"):
        ranker.put_items([items(1)[0] | {"prior": {"score": 0.1, "strength": 1.0, "segments": segments}}])
    online = Ranker(config("ucr"))
    segments = {"night": {"score": 0.5, "strength": 1.0}}
    given = items(1)[0] | {"prior": {"score": 0.1, "strength": 1.0, "segments": segments}}
    with pytest.raises(InvalidInput, match=r"items\[0\]\.prior\.strength is 1\.0; accepted: 0 together with segments"):
        online.put_items([given])
    online.put_items([items(1)[0] | {"prior": {"score": 0.1, "strength": 0.0, "segments": segments}}])


def test_lists_by_item_are_no_parameters_of_a_ranker() -> None:
    with pytest.raises(InvalidInput, match=r"ranker\.params\.a is .*accepted: a number for all items"):
        RankerConfig(policy="ts-beta", slots=2, params={"a": [1, 2], "b": [1, 2]})


def test_texts_of_array_libraries_are_texts() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(4))
    ranking = ranker.rank(segment=np.str_("de"), visitor=np.str_("v"))
    assert ranker.feedback(np.str_(ranking.id), clicked=[0]).status == "learned"
    ranker.remove_items([np.str_(ranking.ids[0])])
    assert ranker.segments() == {"de"}
    ranker.close()


def test_windows_that_close_together_are_learned_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a replay does, and with the same result, bit for bit."""
    sizes: list[int] = []
    learn = Learners.learn

    def counted(self: Learners, lessons: Sequence[Lesson]) -> None:
        sizes.append(len(lessons))
        learn(self, lessons)

    monkeypatch.setattr(Learners, "learn", counted)
    clock, store = Clock(), MemoryStore()
    ranker = Ranker(config("cascade-lin-ts", window=10.0), store=store, clock=clock)
    ranker.put_items(items(6))
    for _ in range(20):
        ranker.rank()
    ranker.flush()
    clock.now += 11.0
    assert ranker.tick() == 20
    assert sizes == [20]
    assert contents(Ranker(config("cascade-lin-ts", window=10.0), store=store, clock=clock)) == contents(ranker)


def test_a_position_that_one_process_has_acknowledged_is_applied_there_and_a_later_one_is_refused() -> None:
    ranker = Ranker(config("cascade-ucb1"))
    ranker.put_items(items(3))
    first = ranker.rank()
    assert ranker.rank(after=ranker.position).ids
    with pytest.raises(StoreUnavailable, match="not at 1000 yet"):
        ranker.rank(after=1000)
    assert ranker.feedback(first.id, clicked=[0]).status == "learned"
