"""The value of a list in each objective, its intervals, and what a ranker counts."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.analytics.intervals import NORMAL_95, difference, wilson
from rankloop.analytics.list_value import UNITS, ListValue
from rankloop.analytics.mean_intervals import Moments, mean_difference, mean_interval, stratified_means
from rankloop.client import Client
from rankloop.eventlog import MemoryStore
from rankloop.eventlog.events import DecisionMade, decode
from rankloop.objective import Amount, AnyClick, Clicks, Objective, Revenue
from rankloop.schema import RankerSettings
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import LoggedConfig
from rankloop.serving.replica import Replica
from rankloop.types import EMPTY, FloatArray, Setting
from test_client import served  # noqa: F401
from test_ranker import Clock, contents

PRICES = np.array([3.0, 0.0, 7.5, 2.0])


class Priced:
    """Items with prices."""

    prices = PRICES


PRICED = Priced()


def shown(items: list[int], **more: Any) -> DecisionMade:
    return DecisionMade(0.0, "d", 1, "", np.array(items, dtype=np.int64), **more)


def valued(objective: str, items: list[int], outcome: list[float], **more: Any) -> float:
    return ListValue(objective).of(shown(items, **more), np.array(outcome), PRICED)


@pytest.mark.parametrize("objective", [AnyClick(), Clicks(), Revenue(PRICES), Amount()])
@given(clicks=st.lists(st.booleans(), min_size=4, max_size=4), order=st.permutations(range(4)))
def test_a_value_is_the_reward_of_the_objective(objective: Objective, clicks: list[bool], order: list[int]) -> None:
    outcome = np.array(clicks, dtype=np.float64) * (2.5 if objective.name == "amount" else 1.0)
    expected = objective.reward(outcome[None], np.array([order]))[0]
    assert valued(objective.name, list(order), outcome.tolist()) == pytest.approx(expected, rel=1e-15)


def test_revenue_has_the_prices_of_the_decision() -> None:
    """Where the log has none, those of the items now."""
    assert valued("revenue", [2, 0, EMPTY], [1.0, 1.0, 0.0]) == 10.5
    assert valued("revenue", [2, 0, EMPTY], [1.0, 1.0, 0.0], prices=np.array([1.0, 4.0, 0.0])) == 5.0


def test_the_net_reward_of_every_outcome() -> None:
    """r_j at the first success in slot j, ℓ_s if all s listed items fail; a request may bring its own."""
    value = ListValue("net-reward", rewards=(1.0, 0.5, 0.25), losses=(0.0, -1.0, -2.0, -3.0))
    for s, clicks in product(range(4), product((0.0, 1.0), repeat=3)):
        listed = [n if n < s else EMPTY for n in range(3)]
        outcome = np.where(np.arange(3) < s, clicks, 0.0)
        first = next((j for j in range(3) if outcome[j]), None)
        expected = (0.0, -1.0, -2.0, -3.0)[s] if first is None else (1.0, 0.5, 0.25)[first]
        assert value.of(shown(listed), outcome, PRICED) == expected
    own = shown([0, 1, 2], rewards=np.array([5.0, 4.0, 3.0]), losses=np.array([0.0, 0.0, 0.0, -9.0]))
    assert value.of(own, np.array([0.0, 1.0, 1.0]), PRICED) == 4.0
    assert value.of(own, np.zeros(3), PRICED) == -9.0
    assert ListValue("any-click").of(own, np.zeros(3), PRICED) == -9.0, "a request's own rewards always count"


@given(
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
    st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3),
)
def test_satisfaction_is_unbiased(attraction: list[float], termination: list[float]) -> None:
    """Over all visits of the dependent click model, the expected value is P(leaves satisfied) = 1 - ∏(1 - τ_k ν_k)."""
    value = ListValue("satisfied", termination=tuple(termination))

    def expected(slot: int, clicks: list[float]) -> float:
        """The expected value of a visit that goes on at a slot."""
        if slot == 3:
            return value.of(shown([0, 1, 2]), np.array(clicks), PRICED)
        nu, tau = attraction[slot], termination[slot]
        left = value.of(shown([0, 1, 2]), np.array([*clicks, 1.0] + [0.0] * (2 - slot)), PRICED)
        stayed = expected(slot + 1, [*clicks, 1.0])
        return (1 - nu) * expected(slot + 1, [*clicks, 0.0]) + nu * (tau * left + (1 - tau) * stayed)

    truth = 1.0 - math.prod(1.0 - tau * nu for tau, nu in zip(termination, attraction, strict=True))
    assert expected(0, []) == pytest.approx(truth, abs=1e-12)


def test_the_objective_of_a_setting() -> None:
    plain = Setting(4, 3)
    assert ListValue.of_setting(plain).objective == "any-click"
    assert ListValue.of_setting(Setting(4, 3, objective=Revenue(PRICES))).objective == "revenue"
    rewarded = ListValue.of_setting(Setting(4, 3, losses=np.zeros(4), termination=np.full(3, 0.5)))
    assert (rewarded.objective, rewarded.losses, rewarded.termination) == ("net-reward", (0.0,) * 4, (0.5,) * 3)
    assert set(UNITS) >= {"any-click", "clicks", "revenue", "amount", "net-reward", "satisfied"}


# Intervals


def moments(values: FloatArray) -> Moments:
    return Moments(len(values), float(values.sum()), float((values**2).sum()))


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    values = np.random.default_rng(0).exponential(3.0, 400)
    half = NORMAL_95 * values.std(ddof=1) / 20.0
    found = mean_interval(moments(values))
    assert found == pytest.approx((values.mean() - half, values.mean() + half))
    assert mean_interval(Moments(1, 2.0, 4.0)) is None
    assert mean_interval(Moments(3, 1e200, math.inf)) is None


def test_a_difference_of_means_is_that_of_welch_where_lists_are_many() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.exponential(3.0, 4000), rng.exponential(2.0, 1000)
    found = mean_difference(moments(a), moments(b))
    assert found is not None
    gap, low, high, better = found
    half = NORMAL_95 * math.sqrt(a.var() / 4000 + b.var() / 1000)
    assert gap == pytest.approx(a.mean() - b.mean())
    assert (high - low) / 2 == pytest.approx(half, rel=1e-3)
    assert better > 0.999
    assert mean_difference(moments(a), Moments(0, 0.0, 0.0)) is None


def test_two_equal_lists_are_not_certain() -> None:
    """Two lists of 0 against two of 5: the variances alone are 0, and nothing is known."""
    found = mean_difference(Moments(2, 0.0, 0.0), Moments(2, 10.0, 50.0))
    assert found is not None
    assert found[1] < 0.0 < found[2]
    assert mean_difference(Moments(5, 0.0, 0.0), Moments(9, 0.0, 0.0)) == (0.0, 0.0, 0.0, 0.5)


def test_a_difference_of_means_covers_the_truth() -> None:
    """Zero-inflated values: of 1,000 intervals 95 % ± 2.5 % hold the truth (3.6 standard errors: 1 in 3,000)."""
    rng, held = np.random.default_rng(2), 0
    for _ in range(1000):
        a, b = (rng.exponential(10.0, n) * (rng.random(n) < 0.2) for n in (300, 500))
        found = mean_difference(moments(a), moments(b))
        assert found is not None
        held += found[1] <= 0.0 <= found[2]
    assert 925 <= held <= 975


def test_strata_are_compared_within() -> None:
    """One stratum is the plain difference; a stratum of one group counts nothing; a common shift changes nothing."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(2.0, 1.0, 50), rng.normal(1.0, 2.0, 80)
    one = stratified_means(np.array([moments(a)]), np.array([moments(b)]))
    assert one is not None
    assert one[0] == pytest.approx(a.mean() - b.mean())
    half = NORMAL_95 * math.sqrt(a.var(ddof=1) / 50 + b.var(ddof=1) / 80)
    assert (one[2] - one[1]) / 2 == pytest.approx(half)
    alone = stratified_means(np.array([moments(a), (9, 900.0, 9e4)]), np.array([moments(b), (0, 0.0, 0.0)]))
    assert alone == pytest.approx(one)
    shifted = stratified_means(np.array([moments(a), moments(a + 100)]), np.array([moments(b), moments(b + 100)]))
    assert shifted is not None
    assert shifted[0] == pytest.approx(one[0])
    assert stratified_means(np.zeros((0, 3)), np.zeros((0, 3))) is None


# Rankers


def shop(store: MemoryStore | None = None, **more: Any) -> tuple[Ranker, Clock]:
    given = {"policy": "ucr", "slots": 2, "context": 1, "objective": "revenue", "seed": 1} | more
    clock = Clock()
    ranker = Ranker(LoggedConfig.of(given), store=store or MemoryStore(), clock=clock)
    ranker.put_items([{"id": "cheap", "price": 10.0}, {"id": "dear", "price": 34.2}])
    return ranker, clock


def test_a_ranker_that_earned_1710_says_1710() -> None:
    """50 clicks at 34.2; a price that changes before the feedback does not change what was earned."""
    store = MemoryStore()
    ranker, clock = shop(store)
    for n in range(100):
        made = ranker.rank(context=[1.0], pin={0: "dear"})
        ranker.put_items([{"id": "dear", "price": 1000.0}])
        ranker.feedback(made.id, clicked=[0] if n % 2 else [])
        ranker.put_items([{"id": "dear", "price": 34.2}])
    overview = ranker.overview()
    group = overview.groups["treatment"]
    assert (overview.objective, overview.unit) == ("revenue", "revenue")
    assert group.value == pytest.approx(1710.0)
    assert group.value_per_list == pytest.approx(17.1)
    half = NORMAL_95 * math.sqrt(100 / 99 * 17.1**2 / 100)
    assert (group.value_low, group.value_high) == pytest.approx((17.1 - half, 17.1 + half))
    assert (group.clicked, group.click_through) == (50, 0.5)
    history = ranker.history(made.id)
    assert (history.value, history.unit, history.objective) == (34.2, "revenue", "revenue")
    assert history.summary.endswith("Its value is 34.2 (revenue).")
    bucket = sum(time.treatment.value for time in overview.times)
    assert bucket == pytest.approx(1710.0)
    ranker.flush()
    assert contents(Ranker(ranker.config, store=store, clock=clock)) == contents(ranker)
    ranker.snapshot()
    assert contents(Ranker(ranker.config, store=store, clock=clock)) == contents(ranker)
    assert Ranker(ranker.config, store=store, clock=clock).overview() == ranker.overview()


def test_a_log_without_prices_is_valued_at_the_prices_of_the_items() -> None:
    store = MemoryStore()
    ranker, _ = shop(store)
    ranker.feedback(ranker.rank(context=[1.0], k=1, pin={0: "dear"}).id, clicked=[0])
    ranker.flush()
    entries = list(store.read("ranker"))
    events = [(entry.position, decode(entry)) for entry in entries]
    for _, event in events:
        if event.kind == "decision":
            event.prices = None  # type: ignore[attr-defined]
    replica = Replica(ranker.config)
    replica.apply_all(events)
    assert replica.counters.total == ranker._replica.counters.total


def test_lift_of_any_click_is_that_of_proportions() -> None:
    ranker, _ = shop(policy="gts", context=None, objective="any-click", traffic=0.5)
    rng = np.random.default_rng(4)
    for n in range(200):
        made = ranker.rank(order=["cheap", "dear"], visitor=f"v{n}")
        ranker.feedback(made.id, clicked=[slot for slot in (0, 1) if rng.random() < 0.4])
    overview = ranker.overview()
    treatment, control = overview.groups["treatment"], overview.groups["control"]
    expected = difference((treatment.clicked, treatment.settled), (control.clicked, control.settled))
    assert expected is not None
    assert overview.lift is not None
    assert (overview.lift.difference, overview.lift.low, overview.lift.high, overview.lift.better) == expected
    assert overview.lift.share == expected[0] / (control.clicked / control.settled)
    for group in (treatment, control):
        assert group.value == group.clicked == group.value_squares
        assert (group.value_per_list, group.value_low, group.value_high) == (
            group.click_through,
            *(wilson(group.clicked, group.settled) or ()),
        )
    assert overview.unit == "lists with a click"


def test_lift_of_a_negative_value_is_relative_to_its_size() -> None:
    """Control loses 2 in every list, treatment 1 or 3: the difference and the share have one sign."""
    config = RankerConfig.of(
        {
            "policy": "ind",
            "slots": 2,
            "dim": 1,
            "traffic": 0.5,
            "rewards": [1.0, 1.0],
            "losses": [0.0, -1.0, -2.0],
        }
    )
    ranker = Ranker(config, clock=Clock())
    ranker.put_items([{"id": id, "features": [1.0]} for id in ("a", "b")])
    for n in range(300):
        made = ranker.rank(order=["a", "b"], visitor=f"v{n}")
        ranker.feedback(made.id, clicked=[0] if made.group == "treatment" and made.ids and n % 2 else [])
    overview = ranker.overview()
    lift, control = overview.lift, overview.groups["control"]
    assert overview.objective == "net-reward"
    assert control.value_per_list == -2.0
    assert lift is not None
    assert lift.difference > 0
    assert lift.share == pytest.approx(lift.difference / 2.0)


def test_a_request_with_its_own_rewards_makes_it_the_net_reward() -> None:
    """The settings have none; the unit follows from the lists that were settled."""
    replica = Replica(RankerConfig.of({"policy": "ind", "slots": 2, "dim": 1}))
    assert replica.objective == "any-click"
    own = shown([0, 1], rewards=np.array([2.0, 1.0]), losses=np.array([0.0, -1.0, -2.0]))
    replica.counters.grow(2)
    replica.counters.count_outcome(own, np.zeros(2), replica.value_of(own, np.zeros(2)), None)
    assert replica.objective == "net-reward"
    assert replica.counters.total[0][3] == -2.0
    again = Replica(replica.config)
    again.counters.restore(replica.counters.arrays())
    assert again.objective == "net-reward"


@pytest.mark.parametrize(("aggregate", "worth"), [("earliest", 2.0), ("sum", 5.0)])
def test_the_value_of_a_decision_is_that_of_the_feedback_that_settled_it(aggregate: str, worth: float) -> None:
    clock = Clock()
    given = {"policy": "gts", "slots": 2, "objective": "amount", "params": {"feedback": "semi-bandit"}}
    ranker = Ranker(RankerConfig.of({**given, "aggregate": aggregate, "window": 60.0}), clock=clock)
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    made = ranker.rank()
    assert ranker.history(made.id).value is None
    for event, values in (("one", [2.0, 0.0]), ("two", [1.0, 2.0])):
        ranker.feedback(made.id, values=values, event=event)
        clock.now += 1.0
    clock.now += 100.0
    ranker.tick()
    ranker.feedback(made.id, values=[9.0, 9.0], event="late")
    assert ranker.history(made.id).value == worth == ranker.overview().groups["treatment"].value
    gone = ranker.rank()
    ranker.withdraw(gone.id)
    assert ranker.history(gone.id).value is None
    silent = ranker.rank()
    clock.now += 100.0
    ranker.tick()
    assert ranker.history(silent.id).value == 0.0
    settings: RankerSettings = ranker.config
    assert settings.on_close == "nothing"


def test_metrics_and_answers_have_the_value_with_its_unit(served: tuple[str, dict[str, str]]) -> None:  # noqa: F811
    url, keys = served
    with Client(url, keys["admin"]) as client:
        settings = {"policy": "ucr", "slots": 1, "context": 1, "objective": "revenue"}
        client.put_ranker("earning", settings)
        client.put_items("earning", [{"id": "dear", "price": 34.2}])
        for clicked in ([0], [], [0], []):
            client.feedback("earning", client.rank("earning", context=[1.0]).id, clicked=clicked)
        answer = client.ranker("earning")
    assert (answer.objective, answer.unit) == ("revenue", "revenue")
    assert answer.groups["treatment"].value == pytest.approx(68.4)
    lines = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {keys['admin']}"}).text.splitlines()
    labels = 'ranker="earning"'
    assert f'rankloop_value{{group="treatment",{labels},unit="revenue"}} 68.4' in lines
    assert f'rankloop_value_per_list{{group="treatment",{labels},unit="revenue"}} 17.1' in lines
    assert f'rankloop_settled_lists_total{{group="treatment",{labels}}} 4.0' in lines
    assert not [line for line in lines if line.startswith("rankloop_value_lift{")], "there is no control group"
