"""What a ranker's counts say of its visitors: wrong click models are found, right ones are left in peace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rankloop.analytics.click_counters import MANY, TABLES, TOGETHER, ClickCounters
from rankloop.analytics.click_model_fit import AssumptionCheck, ClickEvidence, judge
from rankloop.analytics.intervals import difference, needed, stratified
from rankloop.analytics.position_effects import slot_effects
from rankloop.eventlog import MemoryStore
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import LoggedConfig
from rankloop.serving.replica import Replica
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Request
from test_ranker import Clock, config, items, live

SLOTS, ITEMS = 4, 10
BIAS = np.array([1.0, 0.7, 0.45, 0.3])

# Counts


def by_hand(lists: list[tuple[IntArray, FloatArray]], slots: int, places: int, capacity: int) -> dict[str, Any]:
    """The tables, one slot after the other."""
    found = {name: np.zeros((capacity, min(slots, places)), dtype=np.uint32) for name in TABLES}
    for shown, outcome in lists:
        above = False
        for slot, (item, value) in enumerate(zip(shown.tolist(), outcome.tolist(), strict=True)):
            if item != EMPTY:
                at = (item, min(slot, places - 1))
                found["settled"][at] += 1
                found["below"][at] += above
                found["again" if above else "first"][at] += value != 0
            above = above or value != 0
    return found


def test_tables_are_what_one_counts_by_hand() -> None:
    """Lists of all lengths with empty slots, more places than are told apart, more lists than are counted at once."""
    rng = np.random.default_rng(0)
    counts = ClickCounters(6, 4, 5)
    lists, groups, explored = [], [], []
    for n in range(TOGETHER + 100):
        if n == 50:
            counts.grow(9)
        k = int(rng.integers(0, 7))
        shown = rng.permutation(5 if n < 50 else 9)[:k].astype(np.int64)
        shown[rng.random(len(shown)) < 0.2] = EMPTY
        outcome = np.where((shown != EMPTY) & (rng.random(len(shown)) < 0.3), rng.uniform(-1, 1, len(shown)), 0.0)
        groups.append(int(rng.integers(2)))
        explored.append(bool(rng.random() < 0.3))
        lists.append((shown, outcome))
        counts.settled(groups[-1], explored[-1], shown, outcome)
    arrays = counts.arrays()
    for name, table in by_hand(lists, 6, 4, 9).items():
        np.testing.assert_array_equal(arrays[name], table)
    for group in (0, 1):
        of = [np.count_nonzero(o) for (s, o), a in zip(lists, groups, strict=True) if a == group and len(s)]
        np.testing.assert_array_equal(arrays["lists"][group], np.bincount(np.minimum(of, MANY), minlength=MANY + 1))
    changed = [np.count_nonzero(o) > 0 for (s, o), e in zip(lists, explored, strict=True) if e and len(s)]
    assert arrays["explored"].tolist() == [len(changed), sum(changed)]
    again = ClickCounters(6, 4, 5)
    again.restore(arrays)
    assert {name: a.tobytes() for name, a in again.arrays().items()} == {n: a.tobytes() for n, a in arrays.items()}


def test_a_restart_diagnoses_the_same() -> None:
    store, clock = MemoryStore(), Clock()
    ranker = Ranker(config("gts", params={"feedback": "last-click"}), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 60)
    ranker.flush()
    ranker.snapshot()
    live(ranker, clock, 30, seed=2)
    ranker.flush()
    assert sum(ranker.diagnosis().clicks["treatment"]) > 50
    assert Ranker(ranker.config, store=store, clock=clock).diagnosis() == ranker.diagnosis()


# Effects of places


def random_lists(rng: np.random.Generator, lists: int, effect: FloatArray) -> tuple[Any, Any]:
    """Shown and clicked [n, P] of visitors who look at each place by itself."""
    attraction = rng.uniform(0.02, 0.3, ITEMS)
    shown, clicked = np.zeros((2, ITEMS, len(effect)), dtype=np.uint32)
    order = np.argsort(rng.random((lists, ITEMS)), axis=1)[:, : len(effect)]
    places = np.broadcast_to(np.arange(len(effect)), order.shape)
    hit = rng.random(order.shape) < attraction[order] * effect
    np.add.at(shown, (order, places), 1)
    np.add.at(clicked, (order[hit], places[hit]), 1)
    return shown, clicked


def test_effects_of_places_are_found_and_their_errors_are_right() -> None:
    """Over 200 sets of random lists, errors are as large as told: a mean square z of 1 ± 0.2 (clicks scatter less
    than the Poisson counts they are taken for, here by 5 to 10 %), and no bias beyond 0.2 standard errors."""
    rng = np.random.default_rng(1)
    z = []
    for _ in range(200):
        effects = slot_effects(*random_lists(rng, 1500, BIAS))
        off, error = effects.beside(np.log(BIAS), 0)
        z.append(off[1:] / error[1:])
    assert 0.8 < np.mean(np.square(z)) < 1.1
    assert np.abs(np.mean(z, axis=0)).max() < 0.2


def test_effects_beside_another_place_are_the_same_effects() -> None:
    effects = slot_effects(*random_lists(np.random.default_rng(2), 3000, BIAS))
    first, last = effects.beside(np.zeros(SLOTS), 0), effects.beside(np.zeros(SLOTS), SLOTS - 1)
    np.testing.assert_allclose(first[0] - first[0][-1], last[0], atol=1e-12)
    np.testing.assert_allclose(first[1][-1], last[1][0])


def test_the_likelihood_has_its_maximum_there() -> None:
    """At the maximum, expected clicks of every place equal those found, but for the weak prior."""
    shown, clicked = random_lists(np.random.default_rng(3), 20000, BIAS)
    effects = slot_effects(shown, clicked)
    weights = shown * np.exp(effects.log)
    expected = (clicked.sum(axis=1, keepdims=True) * weights / weights.sum(axis=1, keepdims=True)).sum(axis=0)
    np.testing.assert_allclose(expected, clicked.sum(axis=0), atol=0.5)


def test_items_that_keep_their_places_say_nothing_of_places() -> None:
    shown, clicked = np.diag([1000, 1000, 1000]).astype(np.uint32), np.diag([300, 200, 100]).astype(np.uint32)
    effects = slot_effects(shown, clicked)
    np.testing.assert_array_equal(effects.log, 0.0)
    assert effects.beside(np.zeros(3), 0)[1][1:].min() > 2.0


def test_a_place_without_a_click_is_far_below_and_no_error_is_raised() -> None:
    shown, clicked = random_lists(np.random.default_rng(4), 3000, np.array([1.0, 0.5, 0.0, 0.5]))
    effects = slot_effects(shown, clicked)
    assert effects.log[2] < -4.0
    assert np.isfinite(effects.covariance).all()


# Click models

Clicks = Callable[[BoolArray, np.random.Generator], FloatArray]


def cascade(attracted: BoolArray, rng: np.random.Generator) -> FloatArray:
    return np.asarray(attracted & (np.cumsum(attracted, axis=1) == 1), dtype=np.float64)


def dependent(attracted: BoolArray, rng: np.random.Generator) -> FloatArray:
    """After a click one in three goes on."""
    left = attracted & (rng.random(attracted.shape) < 2 / 3)
    stays: BoolArray = np.cumsum(left, axis=1) - left == 0
    return (attracted & stays).astype(np.float64)


def all_seen(attracted: BoolArray, rng: np.random.Generator) -> FloatArray:
    return attracted.astype(np.float64)


def by_place(attracted: BoolArray, rng: np.random.Generator) -> FloatArray:
    return (attracted & (rng.random(attracted.shape) < BIAS)).astype(np.float64)


def once(attracted: BoolArray, rng: np.random.Generator) -> FloatArray:
    """By place, and one click at most."""
    return cascade(by_place(attracted, rng) > 0, rng)


def lived(given: dict[str, Any], clicks: Clicks, rounds: int, learners: int, seed: int) -> list[list[AssumptionCheck]]:
    """What is said of so many rankers of one policy, each with its own items and visitors."""
    settings = RankerConfig.of({"slots": SLOTS, **given})
    policy = settings.build(ITEMS, np.zeros(ITEMS))
    rng = np.random.default_rng(seed)
    attraction = rng.uniform(0.03, 0.35, (learners, ITEMS))
    state, request = policy.init(learners), Request(learners, ITEMS, SLOTS)
    counts = [ClickCounters(SLOTS, 10, ITEMS) for _ in range(learners)]
    for _ in range(rounds):
        decision = policy.decide(state, request, rng)
        chance = np.take_along_axis(attraction, decision.items, axis=1)
        outcome = clicks(rng.random(chance.shape) < chance, rng)
        for one, shown, y in zip(counts, decision.items, outcome, strict=True):
            one.settled(0, False, shown, y)
        policy.learn(state, decision, policy.feedback.keep(outcome))
    reads = Replica(settings).assumptions()
    found = []
    for one in counts:
        one.catch_up()
        found.append(judge(reads, ClickEvidence(one.lists.sum(axis=0), one.tables, 1))[0])
    return found


def states(found: list[list[AssumptionCheck]], name: str) -> list[str]:
    return [check.state for checks in found for check in checks if check.name == name]


RIGHT: list[tuple[dict[str, Any], Clicks]] = [
    ({"policy": "cascade-ucb1"}, cascade),
    ({"policy": "ts-beta", "prior": [1.0, 5.0]}, cascade),
    ({"policy": "gts", "params": {"feedback": "last-click"}}, dependent),
    ({"policy": "gts", "params": {"feedback": "semi-bandit"}}, all_seen),
    ({"policy": "pbm-ucb", "bias": BIAS.tolist()}, by_place),
]


@pytest.mark.parametrize(("given", "clicks"), RIGHT, ids=lambda given: getattr(given, "__name__", None))
def test_a_right_model_is_left_in_peace(given: dict[str, Any], clicks: Clicks) -> None:
    """Of 40 rankers at most one is accused, where chance alone may accuse 1 % of them (P(two or more) = 6 %, the
    seed is fixed), although their lists are no random ones: each follows from the clicks before."""
    found = lived(given, clicks, 1500, 40, seed=5)
    wrong = sum(any(check.state == "wrong" for check in checks) for checks in found)
    assert wrong <= 1
    assert states(found, "slots").count("fine") >= 39


WRONG: list[tuple[dict[str, Any], Clicks, str, str]] = [
    ({"policy": "cascade-ucb1"}, by_place, "several-clicks", "position-based"),
    ({"policy": "ts-beta", "prior": [1.0, 5.0]}, by_place, "several-clicks", "policy: pbm-ucb"),
    ({"policy": "ts-beta", "prior": [1.0, 5.0]}, dependent, "several-clicks", "last-click"),
    ({"policy": "gts"}, all_seen, "several-clicks", "semi-bandit"),
    ({"policy": "gts"}, once, "slots", "epoch-ucb-upb-star"),
    ({"policy": "pbm-ucb", "bias": [1.0, 0.9, 0.9, 0.8]}, by_place, "slots", "bias"),
    ({"policy": "pbm-ucb", "bias": BIAS.tolist()}, cascade, "after-a-click", "cascade"),
    ({"policy": "gts", "params": {"feedback": "semi-bandit"}}, cascade, "after-a-click", "cascade"),
    ({"policy": "gts", "params": {"feedback": "semi-bandit"}}, by_place, "slots", "position-based"),
]


@pytest.mark.parametrize(("given", "clicks", "name", "fits"), WRONG, ids=lambda g: getattr(g, "__name__", None))
def test_a_wrong_model_is_found_and_a_better_one_named(
    given: dict[str, Any], clicks: Clicks, name: str, fits: str
) -> None:
    """In at least 17 of 20 rankers after 2,000 lists; where an advice has settings, a ranker takes them."""
    found = lived(given, clicks, 2000, 20, seed=6)
    wrong = [check for checks in found for check in checks if check.name == name and check.state == "wrong"]
    assert len(wrong) >= 17
    assert sum(fits in (check.advice or "") for check in wrong) >= 0.85 * len(wrong)
    for check in wrong:
        if check.settings is not None:
            RankerConfig.of({"slots": SLOTS, **given, **check.settings})
    assert any(check.settings is not None for check in wrong)


def test_what_is_advised_fits() -> None:
    """A cascade policy whose visitors click several items; then one with the settings that it was told to take."""
    given: dict[str, Any] = {"policy": "ts-beta", "prior": [1.0, 5.0]}
    (checks,) = lived(given, dependent, 2000, 1, seed=7)
    settings = next(check.settings for check in checks if check.state == "wrong")
    assert settings == {"params": {"feedback": "last-click"}}
    (after,) = lived(given | settings, dependent, 2000, 1, seed=7)
    assert "wrong" not in {check.state for check in after}


def test_little_data_is_said_to_be_little() -> None:
    for given, clicks in (*RIGHT, *((one[0], one[1]) for one in WRONG)):
        (checks,) = lived(given, clicks, 20, 1, seed=8)
        assert "wrong" not in {check.state for check in checks}
        assert "unsure" in {check.state for check in checks}


@pytest.mark.parametrize(
    ("given", "segments", "words"),
    [
        ({"policy": "toprank", "rounds": 1000}, 1, "compares only items"),
        ({"policy": "mnl-bandit"}, 1, "learns by itself"),
        ({"policy": "cascade-ucb1", "slots": 1}, 1, "one place"),
        ({"policy": "cascade-ucb1"}, 2, "segments"),
        ({"policy": "random"}, 1, "learns nothing"),
        ({"policy": "cascade-lin-ts", "dim": 2, "context": 2}, 1, "contexts"),
        ({"policy": "gts", "params": {"feedback": "semi-bandit"}, "objective": "amount"}, 1, "Amounts"),
    ],
)
def test_what_counts_cannot_tell_is_not_judged(given: dict[str, Any], segments: int, words: str) -> None:
    """However clear a fall by place looks. A log may have contexts that its policy does not read."""
    settings = LoggedConfig.of({"slots": SLOTS, **given})
    shown, clicked = random_lists(np.random.default_rng(9), 5000, BIAS[: settings.slots])
    nothing = np.zeros_like(shown)
    tables = {"settled": shown, "below": nothing, "first": clicked, "again": nothing}
    reads = Replica(settings).assumptions()
    checks, places = judge(reads, ClickEvidence(np.array([4000, 1000, 0, 0]), tables, segments))
    assert "wrong" not in {check.state for check in checks}
    assert any(words in check.words for check in checks)
    assert places == []


def test_more_slots_than_are_told_apart() -> None:
    """The bias of the last place that is counted is that of many, and not judged."""
    bias = np.linspace(1.0, 0.3, 14)
    settings = RankerConfig.of({"policy": "pbm-ucb", "slots": 14, "bias": bias.tolist()})
    shown, clicked = random_lists(np.random.default_rng(9), 30000, np.append(bias[:9], 0.01))
    nothing = np.zeros_like(shown)
    tables = {"settled": shown, "below": nothing, "first": clicked, "again": nothing}
    reads = Replica(settings).assumptions()
    _, places = judge(reads, ClickEvidence(np.array([4000, 1000, 0, 0]), tables, 1))
    assert places[-1].assumed is None
    assert not any(place.off for place in places)


def test_a_bias_of_nothing_is_no_number_to_compare_with() -> None:
    settings = RankerConfig.of({"policy": "pbm-ucb", "slots": SLOTS, "bias": [0.0, 0.7, 0.45, 0.3]})
    shown, clicked = random_lists(np.random.default_rng(9), 9000, BIAS)
    nothing = np.zeros_like(shown)
    tables = {"settled": shown, "below": nothing, "first": clicked, "again": nothing}
    reads = Replica(settings).assumptions()
    _, places = judge(reads, ClickEvidence(np.array([4000, 1000, 0, 0]), tables, 1))
    assert (places[0].assumed, places[0].off) == (None, False)
    assert not any(place.off for place in places), "the others are as the bias says"


# Items, exploring, time


def shop(visits: int, order: list[str] | None = None, **more: Any) -> Ranker:
    """A ranker whose visitors like the last items; one is never listed."""
    clock = Clock()
    ranker = Ranker(RankerConfig.of({"policy": "ts-beta", "slots": 2, "prior": [1, 4], **more}), clock=clock)
    ranker.put_items([{"id": f"i{n}"} for n in range(6)] + [{"id": "off", "enabled": False}])
    rng = np.random.default_rng(3)
    for n in range(visits):
        ranking = ranker.rank(order=order, visitor=f"v{n}")
        hit = [s for s, id in enumerate(ranking.ids) if rng.random() < 0.06 * (1 + int(id[1:]))]
        ranker.feedback(ranking.id, clicked=hit[:1])
        clock.now += 30.0
    ranker.flush()
    return ranker


def test_items_that_gained_and_lost() -> None:
    found = shop(1500, ["i0", "i1"], traffic=0.5).diagnosis()
    assert {"i4", "i5"} <= {told.item for told in found.gained}
    assert {told.item for told in found.lost} == {"i0", "i1"}
    assert found.shifted == (len(found.gained), 2)
    for told in found.gained:
        assert (told.treatment_share or 0) > 1.5 * (told.control_share or 0)
        assert told.estimate is not None
        assert (told.estimate_low or 0) < told.estimate < (told.estimate_high or 0)
    assert found.unseen == 0, "an item that may not be listed is not one that nobody sees"


def test_items_without_control_and_items_nobody_saw() -> None:
    ranker = shop(400)
    ranker.put_items([{"id": "new-1"}, {"id": "new-2"}])
    found = ranker.diagnosis()
    assert (found.gained, found.lost, found.concurrent) == ([], [], None)
    assert found.most[0].shown == max(told.shown for told in found.most)
    assert (found.unseen, found.unseen_items) == (2, ["new-1", "new-2"])


def test_what_lists_were_worth_is_the_share_of_the_best_by_what_is_believed() -> None:
    ranker = shop(1500)
    found = ranker.diagnosis()
    items = [one for one in ranker.estimates().rows()[0] if one.enabled]
    beliefs = {one.item: one.estimate or 0.0 for one in items}
    shown = sum(one.shown * beliefs[one.item] for one in items)
    best = sum(sorted(beliefs.values())[-2:])
    assert found.worth == pytest.approx(shown / (1500 * best))
    assert shop(40).diagnosis().worth is None, "of guesses nothing is said"
    assert shop(300, policy="toprank", prior=None, rounds=300).diagnosis().worth is None


def test_lists_that_exploring_changed_are_told_apart() -> None:
    ranker = shop(600, explore_daily=100)
    found, group = ranker.diagnosis().explored, ranker.overview().groups["treatment"]
    assert found is not None
    assert found.settled == group.explored
    assert found.settled + found.others == group.settled
    assert found.clicked + found.others_clicked == group.clicked
    assert shop(50).diagnosis().explored is None


def test_two_segments_have_no_common_estimate() -> None:
    ranker = shop(50)
    ranker.feedback(ranker.rank(segment="de").id, clicked=[])
    found = ranker.diagnosis()
    assert {told.estimate for told in found.most} == {None}
    assert found.worth is None


def test_a_ranker_that_nobody_asked() -> None:
    found = Ranker(RankerConfig.of({"policy": "cascade-ucb1", "slots": 2})).diagnosis()
    assert (found.since, found.until, found.most, found.unseen, found.worth) == (None, None, [], 0, None)
    assert {check.state for check in found.checks} == {"unsure"}


# Intervals


def test_hours_of_other_traffic_do_not_deceive() -> None:
    """Evenings click twice as often, and the policy got most of them: within hours there is no difference at all."""
    n, m = np.array([1000.0, 9000.0]), np.array([9000.0, 1000.0])
    rate = np.array([0.1, 0.2])
    pooled = difference((float((n * rate).sum()), 10000.0), (float((m * rate).sum()), 10000.0))
    assert pooled is not None
    assert pooled[1] > 0.05, "together the policy seems far better"
    within = stratified((n * rate, n), (m * rate, m))
    assert within is not None
    assert within[0] == pytest.approx(0.0)
    assert within[1] < 0 < within[2]


def test_the_interval_within_hours_holds() -> None:
    """Of 400 intervals over 30 small spans with different rates, 95 % hold the difference (± 3 standard errors)."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        n, m = rng.integers(0, 30, (2, 30)).astype(float)
        base = rng.uniform(0.05, 0.3, 30)
        found = stratified(
            (rng.binomial(n.astype(int), base + 0.04).astype(float), n),
            (rng.binomial(m.astype(int), base).astype(float), m),
        )
        assert found is not None
        held += found[1] <= 0.04 <= found[2]
    assert abs(held / 400 - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 400)


def test_spans_without_one_arm_say_nothing() -> None:
    assert stratified((np.array([1.0]), np.array([5.0])), (np.array([0.0]), np.array([0.0]))) is None


@pytest.mark.parametrize(("p", "q", "share"), [(0.12, 0.10, 0.5), (0.22, 0.2, 0.9)])
def test_so_many_lists_show_the_difference_four_times_in_five(p: float, q: float, share: float) -> None:
    """Over 1,000 trials of that size the interval leaves 0 out in 80 % (± 4 points, three standard errors)."""
    rng = np.random.default_rng(1)
    lists = needed(p, q, share)
    n, m = round(lists * share), round(lists * (1 - share))
    shown = 0
    for clicks, own in zip(rng.binomial(n, p, 1000), rng.binomial(m, q, 1000), strict=True):
        found = difference((float(clicks), float(n)), (float(own), float(m)))
        assert found is not None
        shown += found[1] > 0
    assert abs(shown / 1000 - 0.8) < 0.04
    assert needed(q, q) == math.inf
