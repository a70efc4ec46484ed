"""Feedback of several kinds: what is learned at once, what later events add, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from postgres_server import Server, database, server  # noqa: F401
from rankloop import build
from rankloop.analytics.counters import CLICKED, SETTLED, VALUE
from rankloop.analytics.kind_counters import KIND_VALUE
from rankloop.catalogue import entries
from rankloop.catalogue.setting_use import EVERYTHING
from rankloop.checks.serving import needed
from rankloop.errors import InvalidInput, Unsupported
from rankloop.eventlog import MemoryStore, SqliteStore, Store, open_decisions
from rankloop.eventlog.outcome_rule import OutcomeRule
from rankloop.eventlog.postgres import PostgresStore
from rankloop.schema import FeedbackEvent, RankerSettings
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import ChallengerConfig
from rankloop.serving.replica import Replica
from rankloop.serving.snapshots import packed, restored, take
from rankloop.serving.verification import compare_snapshot, decide_again
from rankloop.types import FloatArray
from test_ranker import Clock
from test_replay import state

SHOP: dict[str, Any] = {"kinds": {"click": {"weight": 0.1}, "purchase": {}}}
AT_CLOSE: dict[str, Any] = {**SHOP, "learn": "at-close"}


def shop(clock: Clock | None = None, store: Store | None = None, **more: Any) -> Ranker:
    """A ranker of four items that learns amounts from clicks and purchases."""
    fields = {"policy": "hybrid", "slots": 3, "objective": "amount", "reward": SHOP, "window": 100.0, **more}
    ranker = Ranker(RankerConfig.of(fields), clock=clock or Clock(), store=store)
    ranker.put_items([{"id": f"item-{i}"} for i in range(4)])
    return ranker


def learned(ranker: Ranker) -> dict[str, FloatArray]:
    """The arrays of the only learner."""
    arrays: dict[str, Any] = dict(ranker._replica.learners.of("").arrays())
    return {name: np.array(array, dtype=np.float64) for name, array in arrays.items()}


def assert_learned_alike(one: Ranker, other: Ranker) -> None:
    left, right = learned(one), learned(other)
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_allclose(left[name], right[name], rtol=1e-9, atol=1e-9, err_msg=name)


# Learning


def test_a_click_is_learned_at_once_and_a_later_purchase_is_added() -> None:
    """What is learned then is what one event with both values teaches."""
    clock = Clock()
    ranker, other = shop(clock), shop(Clock(), reward=None)
    made, same = ranker.rank(decision="a"), other.rank(decision="a")
    assert made.ids == same.ids
    assert ranker.feedback("a", clicked=[1]).status == "learned"
    clock.now += 60.0
    assert ranker.feedback("a", kind="purchase", items=[made.ids[1]], value=19.9).status == "amended"
    other.feedback("a", values=[0.0, 0.1 + 19.9, 0.0], final=True)
    assert_learned_alike(ranker, other)
    assert ranker._replica.counters.total == other._replica.counters.total
    assert np.allclose(ranker._replica.guardrail.objective, other._replica.guardrail.objective)
    assert ranker.counts()["open_decisions"] == 1, "more may come until the window ends"
    clock.now += 60.0
    assert ranker.tick() == 1
    assert ranker.feedback("a", kind="purchase", clicked=[1], value=5.0).status == "late"
    assert ranker._replica.counters.kinds.late.tolist() == [[0.0, 0.0], [1.0, 5.0]]
    assert_learned_alike(ranker, other)


def test_a_list_that_is_learned_at_its_close_is_learned_once() -> None:
    clock = Clock()
    ranker, other = shop(clock, reward=AT_CLOSE), shop(Clock(), reward=None)
    ranker.rank(decision="a")
    other.rank(decision="a")
    untouched = learned(ranker)
    assert ranker.feedback("a", clicked=[1]).status == "pending"
    assert ranker.feedback("a", kind="purchase", clicked=[1], value=2.0).status == "pending"
    for name, array in learned(ranker).items():
        np.testing.assert_array_equal(array, untouched[name])
    clock.now += 101.0
    ranker.tick()
    other.feedback("a", values=[0.0, 2.1, 0.0], final=True)
    assert_learned_alike(ranker, other)


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.id)
def test_every_policy_that_accepts_clicks_and_purchases_learns_both(entry: Any) -> None:
    """At once where it can amend, else at the close; where every slot is observed, the purchase always counts."""
    fields = needed(partial(build, entry.id)) | {"policy": entry.id, "slots": 3, "window": 100.0}
    amends = RankerConfig.of(fields).build(4, np.ones(4)).amends
    kinds = {"view": {"weight": 1.0}, "purchase": {"weight": 1.0}}
    for learn in ("at-once", "at-close") if amends else ("at-close",):
        clock = Clock()
        ranker = Ranker(RankerConfig.of({**fields, "reward": {"kinds": kinds, "learn": learn}}), clock=clock)
        own = {"features": [0.3, 1.0, 0.2, 0.1], "coverage": [0.1, 0.9, 0.3, 0.2]}
        own = {name: own[name] for name, of in (("features", "dim"), ("coverage", "coverage")) if of in fields}
        ranker.put_items([{"id": f"i{i}", **own} for i in range(4)])
        context: dict[str, Any] = {"context": [0.1] * 4} if "context" in fields else {}
        for n in range(8):
            shown = ranker.rank(decision=f"d{n}", **context)
            if not shown.ids:
                continue
            first = ranker.feedback(shown.id, kind="view", clicked=[]).status
            before = learned(ranker)
            second = ranker.feedback(shown.id, kind="purchase", clicked=[0], value=9.0).status
            if learn == "at-close":
                assert (first, second) == ("pending", "pending")
                continue
            changed = any((learned(ranker)[name] != before[name]).any() for name in before)
            assert (first, second, changed) in {("learned", "amended", True), ("learned", "ignored", False)}
            assert changed or not ranker._replica.learners.policy.feedback.every_slot
        before = learned(ranker)
        clock.now += 101.0
        ranker.tick()
        lists = ranker._replica.counters.total[0]
        assert lists[CLICKED] == lists[SETTLED] > 0, "all lists have a purchase"
        if learn == "at-close" and entry.learns:
            assert any((learned(ranker)[name] != before[name]).any() for name in before)


@pytest.mark.parametrize("entry", [one for one in entries() if one.id != "random"], ids=lambda entry: entry.id)
def test_a_policy_that_cannot_amend_is_refused_at_once(entry: Any) -> None:
    fields = needed(partial(build, entry.id)) | {"policy": entry.id, "slots": 3, "reward": {"kinds": {"click": {}}}}
    if build(entry.id, EVERYTHING).amends:
        RankerConfig.of(fields)
    else:
        with pytest.raises(Unsupported, match=r"cannot add a later event .* set ranker\.reward\.learn to 'at-close'"):
            RankerConfig.of(fields)


def test_under_the_cascade_only_what_was_observed_is_amended() -> None:
    """The click was on slot 1, so that slot 0 was passed over: a purchase there is counted and not learned."""
    kinds: dict[str, Any] = {"kinds": {"click": {}, "purchase": {}}}
    ranker = shop(policy="cascade-ucb1", objective="any-click", reward=kinds)
    ranker.rank(decision="a")
    assert ranker.feedback("a", clicked=[1]).status == "learned"
    before = learned(ranker)
    assert ranker.feedback("a", kind="purchase", clicked=[1], value=3.0).status == "counted", "it is a success already"
    assert ranker.feedback("a", kind="purchase", clicked=[0], value=3.0).status == "ignored"
    for name, array in learned(ranker).items():
        np.testing.assert_array_equal(array, before[name])
    assert ranker._replica.counters.kinds.total[0].tolist() == [[1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 6.0, 36.0]]


def test_values_of_weight_0_are_counted_and_teach_nothing() -> None:
    ranker = shop(reward={"kinds": {"dwell": {"weight": 0.0}, "purchase": {}}})
    ranker.rank(decision="a")
    before = learned(ranker)
    assert ranker.feedback("a", kind="dwell", values=[3.0, 0.0, 1.0]).status == "counted"
    for name, array in learned(ranker).items():
        np.testing.assert_array_equal(array, before[name])
    assert ranker._replica.counters.kinds.total[0, 0].tolist() == [1.0, 1.0, 4.0, 16.0]
    assert ranker.feedback("a", kind="purchase", clicked=[0], value=3.0).status == "learned"


def test_slots_that_nobody_had_seen_cannot_be_amended() -> None:
    ranker = shop()
    ranker.rank(decision="a")
    assert ranker.feedback("a", clicked=[0], seen=1).status == "learned"
    assert ranker.feedback("a", kind="purchase", clicked=[2], value=3.0).status == "ignored"
    assert ranker.feedback("a", kind="purchase", clicked=[1], value=3.0).status == "ignored", "slot 2 changed as well"


# Combining


def rule(**kinds: Any) -> OutcomeRule:
    made = OutcomeRule.of(RankerSettings.of({"slots": 2, "objective": "amount", "reward": {"kinds": kinds}}))
    assert made is not None
    return made


@given(st.lists(st.tuples(st.sampled_from(["sum", "earliest", "max"]), st.floats(-9, 9), st.floats(-9, 9)), max_size=8))
def test_the_outcome_is_the_weighted_sum_of_what_each_kind_combines(events: list[tuple[str, float, float]]) -> None:
    made = rule(
        **{name: {"aggregate": name, "weight": w} for name, w in (("sum", 2.0), ("earliest", -1.0), ("max", 0.5))}
    )
    combined, values = None, {name: list[FloatArray]() for name in made.kinds}
    for name, first, second in events:
        values[name].append(np.array([first, second]))
        combined = made.added(combined, made.kinds.index(name), values[name][-1])
    of_kind = {name: np.array(all_values).reshape(-1, 2) for name, all_values in values.items()}
    expected = 2.0 * of_kind["sum"].sum(axis=0)
    if values["earliest"]:
        expected = expected - of_kind["earliest"][0]
    if values["max"]:
        expected = expected + 0.5 * of_kind["max"].max(axis=0)
    if combined is not None:
        found = made.outcome(combined)
        assert found is not None
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_a_kind_counts_within_its_own_window() -> None:
    clock = Clock()
    ranker = shop(clock, reward={"kinds": {"click": {"window": 10.0}, "purchase": {}}})
    ranker.rank(decision="a")
    clock.now += 11.0
    assert ranker.feedback("a", clicked=[0]).status == "late"
    assert ranker.feedback("a", kind="purchase", clicked=[0], value=2.0).status == "learned"


# Refusals


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"kind": "purchse", "clicked": [0]},
            "kind is 'purchse'; accepted: one of click, purchase. Did you mean 'purchase'?",
        ),
        ({"kind": "impression"}, "kind is 'impression'; accepted: one of click, purchase, since ranker.activation is"),
        ({"kind": "purchase", "value": 3.0}, "value is 3.0; accepted: a value only beside the slots"),
        ({"kind": "purchase", "values": [1.0, 0.0, 0.0], "value": 3.0}, "value is 3.0; accepted: a value only beside"),
        ({"kind": "purchase", "clicked": [0], "value": 1e308}, "value is 1e+308; accepted: a number in"),
        ({"kind": "purchase", "clicked": [0], "value": float("nan")}, "value is nan; accepted: a number in"),
        ({"kind": "", "clicked": [0]}, "kind is ''; accepted: a printable text"),
    ],
)
def test_feedback_that_means_nothing_is_refused_in_one_sentence(fields: Mapping[str, Any], said: str) -> None:
    ranker = shop()
    ranker.rank(decision="a")
    before = ranker.position
    with pytest.raises(InvalidInput) as refused:
        ranker.feedback("a", **fields)
    assert str(refused.value).startswith(said)
    ranker.flush()
    assert ranker.position <= before + 1  # the decision itself


def test_without_a_reward_section_there_is_one_kind() -> None:
    ranker = shop(reward=None)
    ranker.rank(decision="a")
    with pytest.raises(
        InvalidInput, match="kind is 'purchase'; accepted: click, since the ranker has no reward section"
    ):
        ranker.feedback("a", kind="purchase", clicked=[0])
    assert ranker.feedback("a", clicked=[0], value=2.5, final=True).status == "learned"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reward": {"kinds": {}}}, "ranker.reward.kinds is a mapping of 0; accepted: 1 to 16 kinds."),
        ({"reward": {"kinds": {"impression": {}}}}, "ranker.reward.kinds is 'impression'; accepted: other names"),
        ({"reward": {"kinds": {"a": {"window": 101.0}}}}, "ranker.reward.kinds.a.window is 101.0; accepted: at most"),
        ({"reward": {"kinds": {"a": {"weight": 0.0}}}}, "ranker.reward.kinds is without a weight; accepted: at least"),
        ({"reward": {"kinds": {"a": {"weight": 0.5}}}, "objective": "clicks"}, "ranker.reward.kinds.a.weight is 0.5"),
        ({"aggregate": "earliest"}, "ranker.aggregate is 'earliest'; accepted: nothing beside ranker.reward"),
        (
            {"guardrail": {"constraints": {"purchse": 0.01}}, "traffic": 0.5},
            "ranker.guardrail.constraints is 'purchse'; accepted: kinds of ranker.reward: click, purchase.",
        ),
        ({"reward": {"kinds": {"a": {"wieght": 1.0}}}}, "ranker.reward.kinds.a.wieght is 1.0; accepted: "),
    ],
)
def test_a_reward_that_does_not_fit_is_refused_in_one_sentence(fields: Mapping[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        RankerConfig.of(
            {"policy": "hybrid", "slots": 3, "objective": "amount", "reward": SHOP, "window": 100.0, **fields}
        )
    assert str(refused.value).startswith(said)


def test_a_policy_that_forgets_cannot_amend() -> None:
    with pytest.raises(Unsupported, match=r"hybrid with ranker\.discount cannot add a later event"):
        RankerConfig.of({"policy": "hybrid", "slots": 3, "reward": {"kinds": {"click": {}}}, "discount": 0.9})


def test_a_weight_times_a_value_is_bounded() -> None:
    ranker = shop(reward={"kinds": {"purchase": {"weight": 100.0}}})
    ranker.rank(decision="a")
    with pytest.raises(InvalidInput, match=r"values\[0\] is 20000\.0; accepted: magnitudes up to 10000, by"):
        ranker.feedback("a", kind="purchase", clicked=[0], value=20_000.0)


# The log


def run(ranker: Ranker, clock: Clock, seed: int, steps: int) -> dict[str, float]:
    """Rank, and report events of several kinds, some of them late; return the sums of what counted, by kind."""
    kinds = list(ranker.config.reward.kinds) if ranker.config.reward is not None else ["click"]
    sums, ids, rng = dict.fromkeys(kinds, 0.0), list[str](), np.random.default_rng(seed)
    for n in range(steps):
        clock.now += float(rng.exponential(8.0))
        if rng.random() < 0.1:
            ranker.tick()
        if rng.random() < 0.4 or not ids:
            ids.append(ranker.rank(decision=f"{seed}-{n}", visitor=f"v{n}", k=int(rng.integers(1, 4))).id)
            continue
        id, kind = ids[-int(rng.integers(1, min(9, len(ids)) + 1))], kinds[int(rng.integers(len(kinds)))]
        slots = len(ranker.find_decision(id).items)
        clicked, value = [int(rng.integers(slots))], float(rng.integers(1, 99))
        seen: dict[str, Any] = {"seen": slots - 1} if rng.random() < 0.3 else {}
        receipt = ranker.feedback(id, kind=kind, clicked=clicked, value=value, final=bool(rng.random() < 0.1), **seen)
        sums[kind] += value if receipt.status != "late" else 0.0
    return sums


@pytest.mark.parametrize("learn", ["at-once", "at-close"])
@pytest.mark.parametrize("recent", [0, 10**9])
@pytest.mark.parametrize(
    "fields", [{}, {"policy": "gts", "params": {"feedback": "semi-bandit"}}, {"activation": "impression"}]
)
def test_replay_snapshot_and_live_state_are_equal_bit_for_bit(
    learn: str, recent: int, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where decisions are read back from the log, and where events are applied one by one or by the page."""
    monkeypatch.setattr(open_decisions, "RECENT_BYTES", recent)
    clock, store = Clock(), MemoryStore()
    reward = {"kinds": {"click": {"weight": 0.1}, "purchase": {}, "skip": {"weight": -1.0, "aggregate": "max"}}}
    ranker = shop(clock, store, reward={**reward, "learn": learn}, traffic=0.7, guardrail=True, **fields)
    config = ranker.config
    sums = run(ranker, clock, 11, 150)
    ranker.snapshot()
    middle = restored(config, (), packed(take(ranker._replica)), ranker._replica.open_decisions.recall)
    assert state(middle) == state(ranker._replica)
    more = run(ranker, clock, 12, 150)
    ranker.flush()
    for page in (1, 7, 2000):
        again = Replica(config, recall=ranker._replica.open_decisions.recall)
        again.follow(store.read("ranker"), page=page)
        assert state(again) == state(ranker._replica)
    middle.follow(store.read("ranker", middle.position))
    assert state(middle) == state(ranker._replica)
    assert not compare_snapshot(store, "ranker", config).differences
    found = decide_again(store, "ranker")
    assert found.equal == found.decided > 0, found.differences[:2]
    values = ranker._replica.counters.kinds.total[:, :, KIND_VALUE].sum(axis=0)
    for name, value in zip(sums, values.tolist(), strict=True):
        if name != "skip":  # of which the greatest counts
            np.testing.assert_allclose(value, sums[name] + more[name], rtol=1e-12)


def replays(store: Store) -> None:
    """Assert that the state of a stream of events is that of a new process."""
    clock = Clock()
    ranker = shop(clock, store, reward={**SHOP, "learn": "at-once"})
    run(ranker, clock, 21, 80)
    ranker.snapshot()
    run(ranker, clock, 22, 40)
    ranker.flush()
    again = Ranker(ranker.config, store=store, clock=clock)
    assert state(again._replica) == state(ranker._replica)
    whole = Replica(ranker.config, recall=again._replica.open_decisions.recall)
    whole.follow(store.read("ranker"))
    assert state(whole) == state(ranker._replica)


def test_replay_equals_live_in_sqlite(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    replays(store)
    store.close()


def test_replay_equals_live_in_postgresql(database: str) -> None:  # noqa: F811
    store = PostgresStore(database)
    replays(store)
    store.close()


def test_a_challenger_with_other_weights_learns_from_the_same_events() -> None:
    """Kinds that its own settings do not declare are ignored; it is rebuilt as it followed."""
    clock, store = Clock(), MemoryStore()
    ranker = shop(clock, store)
    other = ChallengerConfig.of({**ranker.config.plain(), "reward": {"kinds": {"purchase": {"weight": 2.0}}}})
    ranker.add_challenger(Replica(other))
    run(ranker, clock, 23, 100)
    ranker.flush()
    follower, again = ranker._challenger, Replica(other)
    assert follower is not None
    again.follow(store.read("ranker"))
    assert state(again) == state(follower)
    values = ranker._replica.counters.kinds.total[0, 1, KIND_VALUE]
    assert follower.counters.kinds.total[0, 0, KIND_VALUE] == values > 0.0
    assert follower.counters.total[0][VALUE] == pytest.approx(2.0 * values)


# Impressions


def test_a_list_that_was_never_shown_counts_and_teaches_nothing() -> None:
    clock = Clock()
    ranker = shop(clock, activation="impression")
    before, kept = learned(ranker), ranker._replica.counters.arrays()
    made = [ranker.rank(decision=f"d{n}").id for n in range(3)]
    assert ranker.feedback(made[0], kind="impression").status == "activated"
    assert ranker.feedback(made[0], kind="impression").status == "duplicate"
    assert ranker.overview().groups["treatment"].lists == 1
    clock.now += 101.0
    ranker.tick()
    counts = ranker.overview()
    assert (counts.closed, counts.withdrawn, counts.unshown, counts.open_decisions) == (1, 2, 2, 0)
    assert ranker.feedback(made[1], clicked=[0]).status == "late"
    assert ranker.feedback(made[2], kind="impression").status == "late"
    other = shop(Clock())
    other.rank(decision="d0")
    other.feedback("d0", clicked=[], final=True)
    assert_learned_alike(ranker, other)
    assert any((learned(ranker)[name] != before[name]).any() for name in before), "the list that was shown has taught"
    assert ranker._replica.counters.shown.sum() == 3 > 0 == kept["shown"].sum()


def test_a_click_implies_an_impression_and_windows_start_with_it() -> None:
    clock = Clock()
    ranker = shop(clock, activation="impression")
    first, second, third = (ranker.rank(decision=f"d{n}").id for n in range(3))
    clock.now += 90.0
    ranker.tick()
    assert ranker.feedback(first, clicked=[0]).status == "learned"
    ranker.feedback(second, kind="impression")
    clock.now += 90.0
    assert ranker.tick() == 1, "only the third list, which was not shown"
    assert ranker.feedback(third, clicked=[0]).status == "late"
    assert ranker.feedback(first, kind="purchase", clicked=[0], value=3.0).status == "amended"
    assert ranker.feedback(second, kind="purchase", clicked=[0], value=3.0).status == "learned"
    clock.now += 11.0
    assert ranker.tick() == 2


def test_an_impression_has_no_outcome() -> None:
    for fields in ({"clicked": [0]}, {"seen": 1}, {"final": True}, {"value": 1.0}, {"regret": 0.5}):
        with pytest.raises(InvalidInput, match="nothing in an impression"):
            FeedbackEvent("a", kind="impression", **fields)


def test_a_list_that_was_learned_cannot_be_withdrawn() -> None:
    ranker = shop()
    ranker.rank(decision="a")
    ranker.feedback("a", clicked=[0])
    assert ranker.withdraw("a").status == "late"
    assert ranker.feedback("a", kind="purchase", clicked=[0], value=2.0).status == "amended"
