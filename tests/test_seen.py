"""Feedback that says which slots were seen: what nobody saw teaches nothing, and counts as not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from postgres_server import Server, database, server  # noqa: F401
from rankloop import catalogue
from rankloop.errors import InvalidInput, Unsupported
from rankloop.eventlog import MemoryStore, SqliteStore, export
from rankloop.eventlog.events import DecisionMade, FeedbackReceived, decode
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.store import Store
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.replica import Replica
from rankloop.serving.verification import compare_snapshot, decide_again
from rankloop.types import Decision, Request, Setting
from test_ranker import Clock, contents

PINS = {slot: f"item-{slot}" for slot in range(5)}


def ranker(store: Store | None = None, clock: Clock | None = None, **settings: Any) -> Ranker:
    """A ranker of eight items and five slots that learns from every slot unless the settings say otherwise."""
    given = {"policy": "cascade-ucb1", "slots": 5, "params": {"feedback": "semi-bandit"}, "seed": 3} | settings
    made = Ranker(RankerConfig.of(given), store=store, clock=clock or Clock())
    made.put_items([{"id": f"item-{i}", "price": 1.0 + i} for i in range(8)])
    return made


def observed(of: Ranker) -> list[float]:
    """How often each item was observed by a belief that counts."""
    of.flush()
    arrays = dict(of._replica.learners.of("").arrays())
    return [float(count) for count in arrays["belief.shown"][0, :8]]


@pytest.mark.parametrize("seen", [2, [0, 1, 2], (2, 0, 1), np.int64(2), np.array([0, 1, 2])])
def test_slots_from_three_on_teach_nothing_if_the_last_visible_slot_is_two(seen: Any) -> None:
    one = ranker()
    assert one.feedback(one.rank(pin=PINS).id, clicked=[1], seen=seen).status == "learned"
    assert observed(one) == [1, 1, 1, 0, 0, 0, 0, 0]


def test_slots_between_visible_ones_may_be_unseen() -> None:
    one = ranker()
    one.feedback(one.rank(pin=PINS).id, clicked=[3], seen=[0, 3])
    assert observed(one) == [1, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("feedback", "expected"), [("cascade", [1, 1, 1, 0, 0]), ("last-click", [1, 1, 1, 0, 0])], ids=str
)
def test_all_visible_slots_are_observed_without_a_click(feedback: str, expected: list[float]) -> None:
    one = ranker(params={"feedback": feedback})
    one.feedback(one.rank(pin=PINS).id, seen=2)
    assert observed(one)[:5] == expected


def test_a_list_that_nobody_saw_teaches_nothing() -> None:
    one = ranker()
    assert one.feedback(one.rank(pin=PINS).id, seen=[]).status == "learned"
    assert observed(one) == [0] * 8
    assert not one.slot_counts() or not one._replica.counters.shown.any()


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"seen": 5}, "seen is 5; accepted: slots of the list, from 0 to 4, each once."),
        ({"seen": [0, 5]}, "seen[1] is 5; accepted: slots of the list, from 0 to 4, each once."),
        ({"seen": [1, 0, 1]}, "seen[2] is 1; accepted: slots of the list, from 0 to 4, each once."),
        ({"seen": -1}, "seen is -1; accepted: the last visible slot, or a list of the visible slots"),
        ({"seen": [0, -1]}, "seen[1] is -1; accepted: a whole number from 0 to"),
        ({"seen": True}, "seen is True; accepted: the last visible slot"),
        ({"seen": "all"}, "seen is 'all'; accepted: the last visible slot"),
        ({"seen": 1, "clicked": [2]}, "seen is 1; accepted: slots that include slot 2, for which feedback is reported"),
        ({"seen": [0, 2], "items": ["item-1"]}, "seen is [0, 2]; accepted: slots that include slot 1"),
        ({"seen": 1, "values": [0, 0, 1, 0, 0]}, "seen is 1; accepted: slots that include slot 2"),
    ],
)
def test_impossible_slots_are_refused_with_one_sentence_and_nothing_changed(
    told: dict[str, Any], sentence: str
) -> None:
    one = ranker()
    decision = one.rank(pin=PINS).id
    one.flush()
    before, position = contents(one), one.position
    with pytest.raises(InvalidInput) as refused:
        one.feedback(decision, **told)
    assert sentence in str(refused.value)
    one.flush()
    assert (contents(one), one.position) == (before, position)


def test_that_all_slots_were_seen_says_no_more_than_feedback_without_it() -> None:
    states = []
    for more in ({}, {"seen": 4}, {"seen": [4, 3, 2, 1, 0]}):
        one = ranker(policy="hybrid", params={}, aggregate="sum")
        for n in range(30):
            one.feedback(one.rank(decision=f"d{n}").id, clicked=[n % 5], final=True, **more)
        one.flush()
        states.append(contents(one))
    assert states[0] == states[1] == states[2]


def test_unseen_slots_count_as_not_shown() -> None:
    one = ranker()
    one.feedback(one.rank(pin=PINS).id, clicked=[1], seen=2)
    one.feedback(one.rank(pin=PINS).id, clicked=[1])
    counters = one._replica.counters
    assert counters.shown[0].sum(axis=0).tolist() == [2, 2, 2, 1, 1]
    assert counters.clicks.tables["settled"].sum(axis=0).tolist() == [2, 2, 2, 1, 1]
    assert counters.clicks.tables["below"].sum(axis=0).tolist() == [0, 0, 2, 1, 1]
    diagnosed = {row.item: row.shown for row in one.diagnosis().most_shown}
    assert diagnosed == {"item-0": 2, "item-1": 2, "item-2": 2, "item-3": 1, "item-4": 1}


def test_predictions_are_compared_with_what_was_seen_only() -> None:
    one, seen = ranker(), list[list[int]]()
    one._replica.witness = lambda event, outcome: seen.append(event.items.tolist())
    one.feedback(one.rank(pin=PINS).id, seen=1)
    assert seen == [[0, 1, -1, -1, -1]]


def test_a_list_without_a_success_costs_the_loss_of_the_items_that_were_seen() -> None:
    losses = (0.0, -1.0, -2.0, -3.0, -4.0, -5.0)
    one = Ranker(RankerConfig.of({"policy": "ind", "dim": 1, "slots": 5, "rewards": (1.0,) * 5, "losses": losses}))
    one.put_items([{"id": id, "features": [1.0]} for id in PINS.values()])
    decision = one.rank(pin=PINS).id
    one.feedback(decision, seen=1)
    assert one.history(decision).value == -2.0
    assert one._replica.guardrail.objective[0] == [1.0, -2.0, 4.0]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_summed_events_have_seen_what_any_of_them_has_seen_and_what_was_clicked(order: tuple[int, ...]) -> None:
    one = ranker(aggregate="sum")
    decision = one.rank(pin=PINS).id
    events: list[dict[str, Any]] = [{"seen": 0}, {"seen": [2]}, {"clicked": [3]}]
    for n in order:
        one.feedback(decision, **events[n])
    one.feedback(decision, clicked=[0], seen=0, final=True)
    assert observed(one) == [1, 0, 1, 1, 0, 0, 0, 0]


def test_only_the_first_event_counts_where_the_earliest_counts() -> None:
    one = ranker()
    decision = one.rank(pin=PINS).id
    one.feedback(decision, seen=0)
    assert one.feedback(decision, clicked=[4], seen=4).status == "late"
    assert observed(one) == [1, 0, 0, 0, 0, 0, 0, 0]


def visited(store: Store, id: str = "cascade-ucb1", **more: Any) -> tuple[Ranker, Clock]:
    """A ranker after visitors who saw a part of their lists; some decisions are open."""
    clock, rng = Clock(), np.random.default_rng(5)
    one = ranker(
        store,
        clock,
        policy=id,
        window=50.0,
        traffic=0.7,
        **({"params": {"delta": 0.1} if id == "toprank" else {}} | more),
    )
    for n in range(60):
        clock.now += 1.0
        decision = one.rank(visitor=f"v{n}")
        last = int(rng.integers(len(decision.ids)))
        seen: Any = (last, list(range(last, -1, -1)), sorted({0, last}), None)[n % 4]
        one.feedback(decision.id, clicked=[last] if n % 3 else [], seen=seen, final=bool(n % 5))
        if n == 40:
            one.snapshot()
    one.flush()
    return one, clock


POLICIES = ("cascade-ucb1", "hybrid", "toprank", "epoch-ucb-upb", "mnl-bandit", "gts")


def assert_replays(one: Ranker, clock: Clock) -> None:
    """A restart from the snapshot, a replay and a verification of the log agree with the live state."""
    again = Ranker(one.config, name=one.name, store=one.store, clock=clock)
    assert contents(again) == contents(one)
    replica = Replica(one.config)
    replica.follow(one.store.read(one.name))
    assert dict(replica.counters.arrays())["shown"].tolist() == one._replica.counters.shown.tolist()
    found = decide_again(one.store, one.name)
    assert found.equal == found.decided > 0
    compared = compare_snapshot(one.store, one.name, one.config)
    assert compared.usable
    assert not compared.differences


@pytest.mark.parametrize("aggregate", ["earliest", "sum"])
@pytest.mark.parametrize("id", POLICIES)
def test_replay_equals_live_in_sqlite(id: str, aggregate: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    assert_replays(*visited(store, id, aggregate=aggregate))
    store.close()


@pytest.mark.slow
def test_replay_equals_live_in_postgresql(database: str) -> None:  # noqa: F811
    store = PostgresStore(database)
    assert_replays(*visited(store, aggregate="sum"))
    store.close()


def test_an_exported_log_knows_what_was_seen(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    one, _ = visited(MemoryStore(), aggregate="sum")
    file, imported = tmp_path / "log.parquet", MemoryStore()
    export.export(one.store, "ranker", one.config, file)
    rows = pq.read_table(file).to_pylist()
    assert {row["seen"] for row in rows} == {True, False, None}
    assert not any(row["reward"] for row in rows if row["seen"] is False)
    export.import_(file, imported, "ranker")
    learned = [_learned(one.config, store) for store in (one.store, imported)]
    assert learned[0] == learned[1]


def _learned(config: RankerConfig, store: Store) -> dict[str, bytes]:
    replica = Replica(config)
    replica.follow(store.read("ranker"))
    return {name: array.tobytes() for name, array in replica.learners.arrays().items()}


def test_the_history_of_a_decision_says_what_was_seen() -> None:
    one = ranker()
    decision = one.rank(pin=PINS).id
    one.feedback(decision, clicked=[1], seen=2)
    history = one.history(decision)
    assert history.events[0].seen == [0, 1, 2]
    assert history.summary.endswith("clicked slot 1. Visible slots: 0, 1, 2.")


@pytest.mark.parametrize("seen", [None, 0, 4, [], [3, 1]])
def test_an_entry_keeps_what_was_seen(seen: Any) -> None:
    event = FeedbackReceived(1.0, "e", "d", np.zeros(5), True, 0.5, seen)
    again = decode(event.entry())
    assert isinstance(again, FeedbackReceived)
    assert (again.seen, again.regret, again.final) == (seen, 0.5, True)
    assert ("seen" in event.entry().body.decode(errors="replace")) == (seen is not None)


def test_a_choice_was_among_the_items_that_were_seen() -> None:
    # A click in the only visible slot counts without an epoch, a round without a click is an epoch of what was visible.
    setting = Setting(4, 3, bias=np.array([1.0, 0.8, 0.6]))
    policy: Any = catalogue.build("epoch-ucb-upb", setting)
    state = policy.init(1)
    decision = policy.adopt(Request(1, 4, 3), [[2, 0, 3]])
    policy.learn(state, decision, [[1, 0, 0]], np.array([[True, False, False]]))
    assert not state.open.any()
    policy.learn(state, decision, [[0, 0, 0]], np.array([[True, True, False]]))
    counts = state.inner.belief
    assert {tuple(cell) for cell in np.argwhere(counts.N[0]).tolist()} == {(0, 2)}
    assert {tuple(cell) for cell in np.argwhere(counts.S[0]).tolist()} == {(0, 2), (1, 0)}


def test_a_policy_of_your_own_may_refuse_lists_that_were_seen_in_part() -> None:
    class WholeLists(type(catalogue.build("cascade-ucb1", Setting(8, 5)))):  # type: ignore[misc]
        def check(self, decision: Decision, clicks: Any) -> Any:
            if decision.partly_seen is not None:
                raise Unsupported("this policy learns from whole lists only; leave out 'seen'.")
            return super().check(decision, clicks)

    class Config(RankerConfig, frozen=True):
        def check_consistency(self) -> None: ...

        def compose(self, setting: Setting) -> Any:
            made: Any = catalogue.build("cascade-ucb1", setting)
            return WholeLists(made.design, made.belief, made.explore, made.plan, made.feedback)

    one = Ranker(Config.of({"policy": "own", "slots": 5}))
    one.put_items([{"id": f"item-{i}"} for i in range(8)])
    decision = one.rank().id
    with pytest.raises(Unsupported, match="leave out 'seen'"):
        one.feedback(decision, seen=2)
    assert one.feedback(decision, seen=4).status == "learned"


def test_the_decision_in_the_log_stays_the_whole_list() -> None:
    one = ranker()
    decision = one.rank(pin=PINS).id
    one.feedback(decision, seen=0)
    one.flush()
    logged = [event for entry in one.store.read("ranker") if isinstance(event := decode(entry), DecisionMade)]
    assert [event.items.tolist() for event in logged] == [[0, 1, 2, 3, 4]]
