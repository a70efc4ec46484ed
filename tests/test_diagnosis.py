"""Diagnoses: wrong click models are detected, right ones cause no false alarms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rankloop.analytics.click_counters import MAX_LIST_CLICKS, TABLES, ClickCounters
from rankloop.analytics.click_model_fit import AssumptionCheck, ClickEvidence, check_click_model
from rankloop.analytics.counters import BATCH_LISTS
from rankloop.analytics.intervals import difference, required_lists, stratified
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


def by_hand(lists: list[tuple[IntArray, FloatArray]], slots: int, tracked: int, capacity: int) -> dict[str, Any]:
    """Return the tables, counted slot by slot."""
    found = {name: np.zeros((capacity, min(slots, tracked)), dtype=np.uint32) for name in TABLES}
    for shown, outcome in lists:
        above = False
        for slot, (item, value) in enumerate(zip(shown.tolist(), outcome.tolist(), strict=True)):
            if item != EMPTY:
                at = (item, min(slot, tracked - 1))
                found["settled"][at] += 1
                found["below"][at] += above
                found["again" if above else "first"][at] += value != 0
            above = above or value != 0
    return found


def test_tables_equal_a_plain_count() -> None:
    """Lists of all lengths with empty slots, more slots than are tracked, counted in two batches."""
    rng = np.random.default_rng(0)
    counts = ClickCounters(6, 4, 5)
    lists, groups, explored = [], [], []
    for n in range(600):
        if n == 50:
            counts.grow(9)
        k = int(rng.integers(0, 7))
        shown = rng.permutation(5 if n < 50 else 9)[:k].astype(np.int64)
        shown[rng.random(len(shown)) < 0.2] = EMPTY
        outcome = np.where((shown != EMPTY) & (rng.random(len(shown)) < 0.3), rng.uniform(-1, 1, len(shown)), 0.0)
        groups.append(int(rng.integers(2)))
        explored.append(bool(rng.random() < 0.3))
        lists.append((shown, outcome))
    settled = [
        (group, changed, shown, outcome)
        for group, changed, (shown, outcome) in zip(groups, explored, lists, strict=True)
        if len(shown)
    ]
    counts.count(settled[:100])
    counts.count(settled[100:])
    counts.count([])
    arrays = counts.arrays()
    for name, table in by_hand(lists, 6, 4, 9).items():
        np.testing.assert_array_equal(arrays[name], table)
    for group in (0, 1):
        of = [np.count_nonzero(o) for (s, o), a in zip(lists, groups, strict=True) if a == group and len(s)]
        np.testing.assert_array_equal(
            arrays["lists"][group], np.bincount(np.minimum(of, MAX_LIST_CLICKS), minlength=MAX_LIST_CLICKS + 1)
        )
    changed = [np.count_nonzero(o) > 0 for (s, o), e in zip(lists, explored, strict=True) if e and len(s)]
    assert arrays["explored"].tolist() == [len(changed), sum(changed)]
    again = ClickCounters(6, 4, 5)
    again.restore(arrays)
    assert {name: a.tobytes() for name, a in again.arrays().items()} == {n: a.tobytes() for n, a in arrays.items()}


def test_counts_do_not_depend_on_when_they_are_read() -> None:
    """Deferred lists are counted in batches: one ranker is read after every decision, the other only at the end."""
    arrays = []
    for read in (True, False):
        ranker = Ranker(RankerConfig.of({"policy": "gts", "slots": 3, "traffic": 0.7, "seed": 2}), clock=Clock())
        ranker.put_items([{"id": f"i{n}"} for n in range(6)])
        rng, counters = np.random.default_rng(4), ranker._replica.counters
        for n in range(BATCH_LISTS + 300):
            made = ranker.rank(k=int(rng.integers(1, 4)), visitor=f"v{n}")
            ranker.feedback(made.id, clicked=[slot for slot in range(len(made.items)) if rng.random() < 0.3])
            if read:
                assert int(counters.shown.sum()) >= int(counters.clicked.sum())
        ranker.flush()
        arrays.append({name: array.tobytes() for name, array in counters.arrays().items()})
    assert arrays[0] == arrays[1]


def test_a_restart_diagnoses_the_same() -> None:
    store, clock = MemoryStore(), Clock()
    ranker = Ranker(config("gts", params={"feedback": "last-click"}), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 60)
    ranker.flush()
    ranker.snapshot()
    live(ranker, clock, 30, seed=2)
    ranker.flush()
    assert sum(ranker.diagnosis().lists_by_clicks["treatment"]) > 50
    assert Ranker(ranker.config, store=store, clock=clock).diagnosis() == ranker.diagnosis()


# Position effects


def random_lists(rng: np.random.Generator, lists: int, effect: FloatArray) -> tuple[Any, Any]:
    """Shown and clicked [n, P] of visitors who examine each slot independently."""
    attraction = rng.uniform(0.02, 0.3, ITEMS)
    shown, clicked = np.zeros((2, ITEMS, len(effect)), dtype=np.uint32)
    order = np.argsort(rng.random((lists, ITEMS)), axis=1)[:, : len(effect)]
    slots = np.broadcast_to(np.arange(len(effect)), order.shape)
    hit = rng.random(order.shape) < attraction[order] * effect
    np.add.at(shown, (order, slots), 1)
    np.add.at(clicked, (order[hit], slots[hit]), 1)
    return shown, clicked


def test_position_effects_and_their_standard_errors_are_right() -> None:
    """Over 200 sets of random lists, standard errors are right: a mean square z of 1 ± 0.2 (clicks scatter less
    than the Poisson counts they are taken for, here by 5 to 10 %), and no bias beyond 0.2 standard errors."""
    rng = np.random.default_rng(1)
    z = []
    for _ in range(200):
        effects = slot_effects(*random_lists(rng, 1500, BIAS))
        off, error = effects.relative_to(0, np.log(BIAS))
        z.append(off[1:] / error[1:])
    assert 0.8 < np.mean(np.square(z)) < 1.1
    assert np.abs(np.mean(z, axis=0)).max() < 0.2


def test_effects_relative_to_another_slot_are_the_same_effects() -> None:
    effects = slot_effects(*random_lists(np.random.default_rng(2), 3000, BIAS))
    first, last = effects.relative_to(0, np.zeros(SLOTS)), effects.relative_to(SLOTS - 1, np.zeros(SLOTS))
    np.testing.assert_allclose(first[0] - first[0][-1], last[0], atol=1e-12)
    np.testing.assert_allclose(first[1][-1], last[1][0])


def test_the_likelihood_has_its_maximum_there() -> None:
    """At the maximum, expected clicks of every slot equal the observed ones, up to the weak prior."""
    shown, clicked = random_lists(np.random.default_rng(3), 20000, BIAS)
    effects = slot_effects(shown, clicked)
    weights = shown * np.exp(effects.log)
    expected = (clicked.sum(axis=1, keepdims=True) * weights / weights.sum(axis=1, keepdims=True)).sum(axis=0)
    np.testing.assert_allclose(expected, clicked.sum(axis=0), atol=0.5)


def test_items_that_keep_their_slot_carry_no_information() -> None:
    shown, clicked = np.diag([1000, 1000, 1000]).astype(np.uint32), np.diag([300, 200, 100]).astype(np.uint32)
    effects = slot_effects(shown, clicked)
    np.testing.assert_array_equal(effects.log, 0.0)
    assert effects.relative_to(0, np.zeros(3))[1][1:].min() > 2.0


def test_a_slot_without_clicks_has_a_low_finite_effect() -> None:
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


def position_based(attracted: BoolArray, rng: np.random.Generator) -> FloatArray:
    return (attracted & (rng.random(attracted.shape) < BIAS)).astype(np.float64)


def once(attracted: BoolArray, rng: np.random.Generator) -> FloatArray:
    """Position-based, with one click at most."""
    return cascade(position_based(attracted, rng) > 0, rng)


def lived(given: dict[str, Any], clicks: Clicks, rounds: int, learners: int, seed: int) -> list[list[AssumptionCheck]]:
    """Return the checks of `learners` rankers of one policy, each with its own items and visitors."""
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
            one.count([(0, False, shown, y)])
        policy.learn(state, decision, policy.feedback.keep(outcome))
    reads = Replica(settings).assumptions()
    found = []
    for one in counts:
        found.append(check_click_model(reads, ClickEvidence(one.lists.sum(axis=0), one.tables, 1))[0])
    return found


def states(found: list[list[AssumptionCheck]], name: str) -> list[str]:
    return [check.state for checks in found for check in checks if check.name == name]


RIGHT: list[tuple[dict[str, Any], Clicks]] = [
    ({"policy": "cascade-ucb1"}, cascade),
    ({"policy": "ts-beta", "prior": [1.0, 5.0]}, cascade),
    ({"policy": "gts", "params": {"feedback": "last-click"}}, dependent),
    ({"policy": "gts", "params": {"feedback": "semi-bandit"}}, all_seen),
    ({"policy": "pbm-ucb", "bias": BIAS.tolist()}, position_based),
]


@pytest.mark.parametrize(("given", "clicks"), RIGHT, ids=lambda given: getattr(given, "__name__", None))
def test_a_right_click_model_is_not_rejected(given: dict[str, Any], clicks: Clicks) -> None:
    """Of 40 rankers at most one is accused, where chance alone may accuse 1 % of them (P(two or more) = 6 %, the
    seed is fixed), although their lists are no random ones: each follows from the clicks before."""
    found = lived(given, clicks, 1500, 40, seed=5)
    wrong = sum(any(check.state == "violated" for check in checks) for checks in found)
    assert wrong <= 1
    assert states(found, "position-bias").count("ok") >= 39


WRONG: list[tuple[dict[str, Any], Clicks, str, str]] = [
    ({"policy": "cascade-ucb1"}, position_based, "multiple-clicks", "position-based"),
    ({"policy": "ts-beta", "prior": [1.0, 5.0]}, position_based, "multiple-clicks", "policy: pbm-ucb"),
    ({"policy": "ts-beta", "prior": [1.0, 5.0]}, dependent, "multiple-clicks", "last-click"),
    ({"policy": "gts"}, all_seen, "multiple-clicks", "semi-bandit"),
    ({"policy": "gts"}, once, "position-bias", "epoch-ucb-upb-star"),
    ({"policy": "pbm-ucb", "bias": [1.0, 0.9, 0.9, 0.8]}, position_based, "position-bias", "bias"),
    ({"policy": "pbm-ucb", "bias": BIAS.tolist()}, cascade, "clicks-after-click", "cascade"),
    ({"policy": "gts", "params": {"feedback": "semi-bandit"}}, cascade, "clicks-after-click", "cascade"),
    ({"policy": "gts", "params": {"feedback": "semi-bandit"}}, position_based, "position-bias", "position-based"),
]


@pytest.mark.parametrize(("given", "clicks", "name", "fits"), WRONG, ids=lambda g: getattr(g, "__name__", None))
def test_a_wrong_click_model_is_detected_and_a_better_one_suggested(
    given: dict[str, Any], clicks: Clicks, name: str, fits: str
) -> None:
    """In at least 17 of 20 rankers after 2,000 lists; where an advice has settings, a ranker takes them."""
    found = lived(given, clicks, 2000, 20, seed=6)
    wrong = [check for checks in found for check in checks if check.name == name and check.state == "violated"]
    assert len(wrong) >= 17
    assert sum(fits in (check.advice or "") for check in wrong) >= 0.85 * len(wrong)
    for check in wrong:
        if check.settings is not None:
            RankerConfig.of({"slots": SLOTS, **given, **check.settings})
    assert any(check.settings is not None for check in wrong)


def test_suggested_settings_fit() -> None:
    """A cascade policy whose visitors click several items; then one with the suggested settings."""
    given: dict[str, Any] = {"policy": "ts-beta", "prior": [1.0, 5.0]}
    (checks,) = lived(given, dependent, 2000, 1, seed=7)
    settings = next(check.settings for check in checks if check.state == "violated")
    assert settings == {"params": {"feedback": "last-click"}}
    (after,) = lived(given | settings, dependent, 2000, 1, seed=7)
    assert "violated" not in {check.state for check in after}


def test_little_data_gives_no_verdict() -> None:
    for given, clicks in (*RIGHT, *((one[0], one[1]) for one in WRONG)):
        (checks,) = lived(given, clicks, 20, 1, seed=8)
        assert "violated" not in {check.state for check in checks}
        assert "insufficient-data" in {check.state for check in checks}


@pytest.mark.parametrize(
    ("given", "segments", "words"),
    [
        ({"policy": "toprank", "rounds": 1000}, 1, "compares only items"),
        ({"policy": "mnl-bandit"}, 1, "learns the position bias itself"),
        ({"policy": "cascade-ucb1", "slots": 1}, 1, "one slot"),
        ({"policy": "cascade-ucb1"}, 2, "segments"),
        ({"policy": "random"}, 1, "does not learn"),
        ({"policy": "cascade-lin-ts", "dim": 2, "context": 2}, 1, "contexts"),
        ({"policy": "gts", "params": {"feedback": "semi-bandit"}, "objective": "amount"}, 1, "amounts"),
    ],
)
def test_what_counts_cannot_decide_is_not_tested(given: dict[str, Any], segments: int, words: str) -> None:
    """However clear a fall by slot looks. A log may have contexts that its policy does not read."""
    settings = LoggedConfig.of({"slots": SLOTS, **given})
    shown, clicked = random_lists(np.random.default_rng(9), 5000, BIAS[: settings.slots])
    nothing = np.zeros_like(shown)
    tables = {"settled": shown, "below": nothing, "first": clicked, "again": nothing}
    reads = Replica(settings).assumptions()
    checks, slots = check_click_model(reads, ClickEvidence(np.array([4000, 1000, 0, 0]), tables, segments))
    assert "violated" not in {check.state for check in checks}
    assert any(words in check.finding for check in checks)
    assert slots == []


def test_more_slots_than_are_tracked() -> None:
    """The last tracked slot counts all later ones, so its bias is not tested."""
    bias = np.linspace(1.0, 0.3, 14)
    settings = RankerConfig.of({"policy": "pbm-ucb", "slots": 14, "bias": bias.tolist()})
    shown, clicked = random_lists(np.random.default_rng(9), 30000, np.append(bias[:9], 0.01))
    nothing = np.zeros_like(shown)
    tables = {"settled": shown, "below": nothing, "first": clicked, "again": nothing}
    reads = Replica(settings).assumptions()
    _, slots = check_click_model(reads, ClickEvidence(np.array([4000, 1000, 0, 0]), tables, 1))
    assert slots[-1].assumed is None
    assert not any(slot.mismatch for slot in slots)


def test_a_bias_of_zero_is_not_compared() -> None:
    settings = RankerConfig.of({"policy": "pbm-ucb", "slots": SLOTS, "bias": [0.0, 0.7, 0.45, 0.3]})
    shown, clicked = random_lists(np.random.default_rng(9), 9000, BIAS)
    nothing = np.zeros_like(shown)
    tables = {"settled": shown, "below": nothing, "first": clicked, "again": nothing}
    reads = Replica(settings).assumptions()
    _, slots = check_click_model(reads, ClickEvidence(np.array([4000, 1000, 0, 0]), tables, 1))
    assert (slots[0].assumed, slots[0].mismatch) == (None, False)
    assert not any(slot.mismatch for slot in slots), "the others are as the bias says"


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
    assert {"i4", "i5"} <= {one.item for one in found.gained}
    assert {one.item for one in found.lost} == {"i0", "i1"}
    assert found.moved_counts == (len(found.gained), 2)
    for one in found.gained:
        assert (one.treatment_share or 0) > 1.5 * (one.control_share or 0)
        assert one.estimate is not None
        assert (one.estimate_low or 0) < one.estimate < (one.estimate_high or 0)
    assert found.never_shown == 0, "disabled items are not counted"


def test_items_without_control_and_items_never_shown() -> None:
    ranker = shop(400)
    ranker.put_items([{"id": "new-1"}, {"id": "new-2"}])
    found = ranker.diagnosis()
    assert (found.gained, found.lost, found.concurrent) == ([], [], None)
    assert found.most_shown[0].shown == max(one.shown for one in found.most_shown)
    assert (found.never_shown, found.never_shown_items) == (2, ["new-1", "new-2"])


def test_value_share_compares_shown_lists_with_the_best_by_estimates() -> None:
    ranker = shop(1500)
    found = ranker.diagnosis()
    items = [one for one in ranker.estimates().rows()[0] if one.enabled]
    beliefs = {one.item: one.estimate or 0.0 for one in items}
    shown = sum(one.shown * beliefs[one.item] for one in items)
    best = sum(sorted(beliefs.values())[-2:])
    assert found.value_share == pytest.approx(shown / (1500 * best))
    assert shop(40).diagnosis().value_share is None, "of guesses nothing is said"
    assert shop(300, policy="toprank", prior=None, rounds=300).diagnosis().value_share is None


def test_lists_that_exploration_changed_are_counted_separately() -> None:
    ranker = shop(600, explore_daily=100)
    found, group = ranker.diagnosis().exploration, ranker.overview().groups["treatment"]
    assert found is not None
    assert found.changed == group.explored
    assert found.changed + found.unchanged == group.settled
    assert found.changed_clicked + found.unchanged_clicked == group.clicked
    assert shop(50).diagnosis().exploration is None


def test_two_segments_have_no_common_estimate() -> None:
    ranker = shop(50)
    ranker.feedback(ranker.rank(segment="de").id, clicked=[])
    found = ranker.diagnosis()
    assert {one.estimate for one in found.most_shown} == {None}
    assert found.value_share is None


def test_a_ranker_without_decisions() -> None:
    found = Ranker(RankerConfig.of({"policy": "cascade-ucb1", "slots": 2})).diagnosis()
    assert (found.since, found.until, found.most_shown, found.never_shown, found.value_share) == (
        None,
        None,
        [],
        0,
        None,
    )
    assert {check.state for check in found.checks} == {"insufficient-data"}


# Intervals


def test_hourly_comparison_removes_the_effect_of_changed_traffic() -> None:
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


def test_strata_without_one_group_are_left_out() -> None:
    assert stratified((np.array([1.0]), np.array([5.0])), (np.array([0.0]), np.array([0.0]))) is None


@pytest.mark.parametrize(("p", "q", "share"), [(0.12, 0.10, 0.5), (0.22, 0.2, 0.9)])
def test_required_lists_detect_the_difference_with_80_percent_power(p: float, q: float, share: float) -> None:
    """Over 1,000 trials of that size the interval leaves 0 out in 80 % (± 4 points, three standard errors)."""
    rng = np.random.default_rng(1)
    lists = required_lists(p, q, share)
    n, m = round(lists * share), round(lists * (1 - share))
    shown = 0
    for clicks, own in zip(rng.binomial(n, p, 1000), rng.binomial(m, q, 1000), strict=True):
        found = difference((float(clicks), float(n)), (float(own), float(m)))
        assert found is not None
        shown += found[1] > 0
    assert abs(shown / 1000 - 0.8) < 0.04
    assert required_lists(q, q) == math.inf
