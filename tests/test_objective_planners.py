"""Planners that follow from click model and objective, against exhaustive search over all lists."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop import catalogue
from rankloop.belief import OnlineAmounts, OnlineCounts
from rankloop.errors import InvalidInput, RankloopError, Unsupported
from rankloop.math.links import LOGISTIC, POISSON, RATE
from rankloop.objective import (
    Amount,
    AnyClick,
    Clicks,
    NetReward,
    Objective,
    Revenue,
    Satisfied,
    objective_of,
)
from rankloop.plan import (
    Assignment,
    BestLength,
    ByRevenue,
    CascadeRevenue,
    ChoiceMatching,
    ChoiceRevenue,
    Planner,
    TopK,
    check_rewards,
    choice_plan,
    coverage_plan,
    matching_plan,
    net_reward_plan,
    plan_for,
)
from rankloop.plan.pinned import around_pins
from rankloop.serving import RankerConfig
from rankloop.types import (
    EMPTY,
    BetaPrior,
    BoolArray,
    Decision,
    Evidence,
    FloatArray,
    IntArray,
    Request,
    Rows,
    Setting,
    SlotScore,
)

List = tuple[int, ...]
Value = Callable[[List], float]


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


# ---------------------------------------------------------------------------- the value of a list, by definition


def cascade_revenue(w: Sequence[float], price: Sequence[float]) -> Value:
    def value(items: List) -> float:
        total, reached = 0.0, 1.0
        for i in items:
            total += reached * w[i] * price[i]
            reached *= 1.0 - w[i]
        return total

    return value


def net_reward(w: Sequence[float], rewards: Sequence[float], losses: Sequence[float]) -> Value:
    def value(items: List) -> float:
        total, reached = 0.0, 1.0
        for slot, i in enumerate(items):
            total += reached * w[i] * rewards[slot]
            reached *= 1.0 - w[i]
        return total + reached * losses[len(items)]

    return value


def position_based(w: Sequence[float], price: Sequence[float], bias: Sequence[float]) -> Value:
    return lambda items: sum(bias[k] * w[i] * price[i] for k, i in enumerate(items))


def any_click(w: Sequence[float], bias: Sequence[float]) -> Value:
    return lambda items: 1.0 - math.prod(1.0 - bias[k] * w[i] for k, i in enumerate(items))


def choice(gamma: Callable[[int, int], float], price: Sequence[float]) -> Value:
    def value(items: List) -> float:
        weights = [gamma(i, k) for k, i in enumerate(items)]
        return sum(g * price[i] for g, i in zip(weights, items, strict=True)) / (1.0 + sum(weights))

    return value


def all_lists(items: Sequence[int], longest: int, *, any_length: bool) -> Iterator[List]:
    longest = min(longest, len(items))
    for length in range(0 if any_length else longest, longest + 1):
        yield from permutations(items, length)


@dataclass
class Case:
    """A small random problem."""

    L: int
    k: int
    w: FloatArray  # [L]
    price: FloatArray  # [L]
    bias: FloatArray  # [k]
    allowed: BoolArray | None
    rng: np.random.Generator

    @property
    def candidates(self) -> list[int]:
        return list(range(self.L)) if self.allowed is None else np.flatnonzero(self.allowed).tolist()

    @property
    def request(self) -> Request:
        return Request(1, self.L, self.k, allowed=self.allowed)

    def setting(self, objective: Objective, **fields: object) -> Setting:
        return Setting(self.L, self.k, objective=objective, **fields)  # type: ignore[arg-type]

    def plan(self, planner: Planner, scores: FloatArray | None = None) -> List:
        """Return the list, after the checks that every planner must pass."""
        u = self.w if scores is None else scores
        table = np.broadcast_to(u, (self.k, self.L)) if u.ndim == 1 else u
        plan = planner(lambda prefix, slot: table[slot][None], self.request, self.rng)
        row = plan.items[0].tolist()
        shown = tuple(i for i in row if i != EMPTY)
        assert row == [*shown, *[EMPTY] * (self.k - len(shown))], "a hole in the list"
        assert len(set(shown)) == len(shown)
        assert set(shown) <= set(self.candidates)
        assert [plan.scores[0, k] for k in range(len(shown))] == [
            table[0 if u.ndim == 1 else k][i] for k, i in enumerate(shown)
        ] or u.ndim == 2
        return shown

    def best(self, value: Value, *, any_length: bool) -> float:
        return max(value(one) for one in all_lists(self.candidates, self.k, any_length=any_length))


def case(seed: int) -> Case:
    """Return a case with ties, prices of 0, attractions of 0 and 1, masks and biases in any order."""
    draws = rng(seed)
    L, k = int(draws.integers(1, 7)), int(draws.integers(1, 5))
    w = draws.choice([0.0, 0.25, 0.5, 1.0], L) if draws.random() < 0.4 else draws.random(L)
    price = draws.choice([0.0, 1.0, 2.0], L) if draws.random() < 0.4 else draws.exponential(3.0, L)
    bias = draws.choice([0.0, 0.3, 1.0], k) if draws.random() < 0.3 else draws.random(k)
    if draws.random() < 0.5:
        bias = np.sort(bias)[::-1].copy()
    allowed = draws.random(L) < 0.7 if draws.random() < 0.5 else None
    return Case(L, k, w, price, bias, allowed, draws)


def fixed(scores: FloatArray) -> SlotScore:
    """Return scores [B, L] that do not depend on the slot."""
    return lambda prefix, slot: scores


SEEDS = st.integers(0, 2**32)
MANY = settings(max_examples=300, deadline=None)


@given(SEEDS)
@MANY
def test_revenue_under_the_cascade_is_the_largest_of_all_lists(seed: int) -> None:
    one = case(seed)
    planner = plan_for("cascade", one.setting(Revenue(one.price)))
    value = cascade_revenue(one.w.tolist(), one.price.tolist())
    found = one.plan(planner)
    assert value(found) == pytest.approx(one.best(value, any_length=True), rel=1e-12, abs=1e-12)
    assert len(found) == min(one.k, len(one.candidates)), "an item in its place by price never lowers the revenue"


@given(SEEDS)
@MANY
def test_the_largest_attractions_are_best_under_the_cascade_and_dependent_clicks(seed: int) -> None:
    one = case(seed)
    value = any_click(one.w.tolist(), [1.0] * one.k)
    for model, objective in (("cascade", AnyClick()), ("cascade", Clicks()), ("last-click", AnyClick())):
        found = one.plan(plan_for(model, one.setting(objective)))
        assert value(found) == pytest.approx(one.best(value, any_length=True), abs=1e-12)


@given(SEEDS)
@MANY
def test_satisfied_visitors_are_the_most_of_all_full_lists(seed: int) -> None:
    one = case(seed)
    planner = plan_for("last-click", one.setting(Satisfied(one.bias), termination=one.bias))
    value = any_click(one.w.tolist(), one.bias.tolist())
    assert value(one.plan(planner)) == pytest.approx(one.best(value, any_length=False), abs=1e-12)


@given(SEEDS)
@MANY
def test_position_based_planners_are_best_for_clicks_revenue_and_amounts(seed: int) -> None:
    one = case(seed)
    w, ones = one.w.tolist(), [1.0] * one.L
    for feedback in (None, "position-based"):  # a policy built for biases, and one that is read in this way
        for objective, value in (
            (AnyClick(), any_click(w, one.bias.tolist())),
            (Clicks(), position_based(w, ones, one.bias.tolist())),
            (Amount(), position_based(w, ones, one.bias.tolist())),
            (Revenue(one.price), position_based(w, one.price.tolist(), one.bias.tolist())),
        ):
            setting = one.setting(objective, bias=one.bias, feedback=feedback)
            found = one.plan(plan_for("position-based", setting))
            assert value(found) == pytest.approx(one.best(value, any_length=False), abs=1e-12)


@given(SEEDS)
@MANY
def test_semi_bandits_and_unknown_biases_take_slots_in_order(seed: int) -> None:
    one = case(seed)
    value = position_based(one.w.tolist(), one.price.tolist(), [1.0] * one.k)
    for model in ("semi-bandit", "position-based"):
        found = one.plan(plan_for(model, one.setting(Revenue(one.price))))
        assert value(found) == pytest.approx(one.best(value, any_length=False), abs=1e-12)
        gains = [one.w[i] * one.price[i] for i in found]
        assert gains == sorted(gains, reverse=True)


@given(SEEDS)
@MANY
def test_the_net_reward_is_the_largest_of_all_lists_and_lengths(seed: int) -> None:
    one = case(seed)
    rewards = np.sort(one.rng.exponential(1.0, one.k))[::-1].copy()
    losses = -np.sort(one.rng.exponential(1.0, one.k + 1) * one.rng.integers(0, 2, one.k + 1))
    w = np.clip(one.w, 0.01, 0.99)
    planner = net_reward_plan("cascade", one.setting(AnyClick(), rewards=rewards, losses=losses))
    value = net_reward(w.tolist(), rewards.tolist(), losses.tolist())
    best = one.best(value, any_length=True)
    assert value(one.plan(planner, np.log(w / (1 - w)))) == pytest.approx(best, abs=1e-9)
    by_request = BestLength(TopK(), np.ones(one.k), np.zeros(one.k + 1))
    request = Request(1, one.L, one.k, allowed=one.allowed, rewards=rewards, losses=losses)
    plan = by_request(lambda prefix, slot: np.log(w / (1 - w))[None], request, one.rng)
    assert value(tuple(i for i in plan.items[0].tolist() if i != EMPTY)) == pytest.approx(best, abs=1e-9)


@given(SEEDS)
@MANY
def test_revenue_under_choice_is_the_largest_of_all_lists(seed: int) -> None:
    """Over all lengths where biases fall, over full lists otherwise; the biases known, or in the scores."""
    one = case(seed)
    falls = bool((np.diff(one.bias[: len(one.candidates)]) <= 0).all())
    value = choice(lambda i, k: float(one.bias[k] * one.w[i]), one.price.tolist())
    setting = one.setting(Revenue(one.price), bias=one.bias)
    best = one.best(value, any_length=falls)
    assert value(one.plan(plan_for("choice", setting))) == pytest.approx(best, abs=1e-9)
    if one.bias[0] > 0:
        products = one.bias[:, None] / one.bias[0] * one.w
        value = choice(lambda i, k: float(products[k, i]), one.price.tolist())
        inside = products.max(initial=0.0) <= 1.0  # larger products would be clipped
        if inside:
            found = one.plan(choice_plan(setting, by_pairs=False), products)
            assert value(found) == pytest.approx(one.best(value, any_length=falls), abs=1e-9)


@given(SEEDS)
@MANY
def test_revenue_under_choice_with_weights_of_pairs_is_the_largest_of_all_full_lists(seed: int) -> None:
    one = case(seed)
    gamma = one.rng.random((one.k, one.L))
    value = choice(lambda i, k: float(gamma[k, i]), one.price.tolist())
    for planner in (
        choice_plan(one.setting(Revenue(one.price)), by_pairs=True),
        ChoiceMatching(Revenue(one.price), max_full_items=0),
    ):
        found = one.plan(planner, gamma)
        assert value(found) == pytest.approx(one.best(value, any_length=False), abs=1e-9)


@given(SEEDS)
@MANY
def test_matchings_are_best_with_slot_weights_links_and_every_objective(seed: int) -> None:
    one = case(seed)
    u = one.rng.normal(0.0, 2.0, (one.k, one.L))
    weights = one.bias
    p = 1.0 / (1.0 + np.exp(-u))
    for objective, link, gain in (
        (AnyClick(), None, np.log1p(np.exp(u))),
        (Clicks(), None, p),
        (Revenue(one.price), None, one.price * p),
        (Amount(), POISSON, np.exp(u)),
        (Revenue(one.price), POISSON, one.price * np.exp(u)),
    ):
        setting = one.setting(objective, slot_weights=weights)
        found = one.plan(matching_plan(setting, link=link), u)

        def value(items: List, gain: FloatArray = gain) -> float:
            return sum(float(weights[k] * gain[k, i]) for k, i in enumerate(items))

        assert value(found) == pytest.approx(one.best(value, any_length=False), abs=1e-9)


@given(SEEDS)
@MANY
def test_batches_equal_single_learners_and_prices_of_requests_replace_the_objectives(seed: int) -> None:
    """No ties: the lists of a batch are those of each learner alone."""
    draws = rng(seed)
    B, L, k = 3, int(draws.integers(1, 9)), int(draws.integers(1, 5))
    w, own, price = draws.random((B, L)), draws.random(L), draws.random((B, L))
    bias = draws.random(k)
    allowed = draws.random((B, L)) < 0.8
    columns = draws.permutation(L + 3)[:L]
    old = np.full(L + 3, np.nan)
    old[columns] = own
    for planner in (
        CascadeRevenue(Revenue(old), RATE),
        ByRevenue(Revenue(old), RATE, bias),
        ChoiceRevenue(Revenue(old), bias),
    ):
        batch = planner(lambda p, s: w, Request(B, L, k, allowed=allowed, prices=price), draws).items
        same = planner(lambda p, s: w, Request(B, L, k, allowed=allowed, columns=columns), draws).items
        for b in range(B):
            alone = Request(1, L, k, allowed=allowed[b], prices=price[b])
            gathered = Request(1, L, k, allowed=allowed[b], prices=own)
            for request, lists in ((alone, batch), (gathered, same)):
                assert planner(fixed(w[b : b + 1]), request, draws).items[0].tolist() == lists[b].tolist()


def test_scores_beyond_the_range_of_attractions_are_clipped() -> None:
    """An item that was never shown may attract everybody; a sampled attraction below 0 attracts nobody."""
    scores = np.array([[math.inf, -0.5, 0.6, 7.0]])
    prices = Revenue(np.array([1.0, 100.0, 3.0, 2.0]))
    lists = CascadeRevenue(prices, RATE)(lambda p, s: scores, Request(1, 4, 3), rng(0)).items
    # 100·0 and then 0.6·3 + 0.4·2 = 2.6, against 0.6·3 + 0.4·(2 + 0·1) = 2.6: an item of attraction 0 does no harm.
    assert set(lists[0].tolist()) >= {2, 3}
    free = Revenue(np.array([0.0, 0.0, 0.0, 1.0]))
    for planner in (CascadeRevenue(free, RATE), ByRevenue(free, RATE), ChoiceRevenue(free, np.ones(2))):
        plan = planner(lambda p, s: np.full((1, 4), math.inf), Request(1, 4, 2), rng(0))
        assert plan.items[0, 0] == 3


# ---------------------------------------------------------------------------- ties


@pytest.mark.parametrize(
    "planner",
    [
        CascadeRevenue(Revenue(np.ones(4)), RATE),
        ByRevenue(Revenue(np.ones(4)), RATE, np.array([0.5, 1.0])),
        ChoiceRevenue(Revenue(np.ones(4)), np.array([1.0, 0.5])),
        ChoiceRevenue(Revenue(np.zeros(4)), np.array([1.0, 0.5])),
    ],
    ids=["cascade", "position-based", "choice", "choice without prices"],
)
def test_equal_items_are_chosen_at_random(planner: Planner) -> None:
    """All 12 lists of two of four equal items; a chi-square test with 11 degrees of freedom and an error of 1e-4."""
    n = 12_000
    lists = planner(lambda p, s: np.full((n, 4), 0.4), Request(n, 4, 2), rng(3))
    counts = Counter(map(tuple, lists.items.tolist()))
    assert len(counts) == 12
    assert sum((c - 1000.0) ** 2 / 1000.0 for c in counts.values()) < 37.4
    assert lists.rivals is not None


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_a_list_without_rivals_does_not_depend_on_chance(seed: int) -> None:
    one = case(seed)
    for planner in (
        CascadeRevenue(Revenue(one.price), RATE),
        ByRevenue(Revenue(one.price), RATE, one.bias),
        ChoiceRevenue(Revenue(one.price), one.bias),
    ):
        plans = [planner(lambda p, s: one.w[None], one.request, rng(other)) for other in range(12)]
        if plans[0].rivals is None:
            assert len({tuple(plan.items[0].tolist()) for plan in plans}) == 1


# ---------------------------------------------------------------------------- pinned items


@given(SEEDS)
@MANY
def test_pinned_items_and_the_best_of_the_rest(seed: int) -> None:
    """Exact for additive objectives and choice; for the cascade where the pinned slots are at the top."""
    one = case(seed)
    if len(one.candidates) < 2 or one.k < 2:
        return
    held = int(one.rng.choice(one.candidates))
    w, price, bias = one.w.tolist(), one.price.tolist(), np.sort(one.bias)[::-1].copy()
    for slot, planner, value, short in (
        (0, CascadeRevenue(Revenue(one.price), RATE), cascade_revenue(w, price), True),
        (1, ByRevenue(Revenue(one.price), RATE, bias), position_based(w, price, bias.tolist()), False),
        (0, ChoiceRevenue(Revenue(one.price), bias), choice(lambda i, k: float(bias[k] * w[i]), price), True),
        (1, ChoiceRevenue(Revenue(one.price), bias), choice(lambda i, k: float(bias[k] * w[i]), price), False),
        (1, ChoiceMatching(Revenue(one.price)), choice(lambda i, k: w[i] / (1.0 + k), price), False),
    ):
        pinned = np.full(one.k, EMPTY)
        pinned[slot] = held
        request = Request(1, one.L, one.k, allowed=one.allowed, pinned=pinned)

        def score(prefix: IntArray, slot: int, pairs: bool = isinstance(planner, ChoiceMatching)) -> FloatArray:
            return one.w[None] / (1.0 + slot) if pairs else one.w[None]

        row = around_pins(planner, score, request, one.rng).items[0].tolist()
        found = tuple(i for i in row if i != EMPTY)
        assert row[: len(found)] == list(found)
        lists = [
            items
            for items in all_lists(one.candidates, one.k, any_length=short)
            if len(items) > slot and items[slot] == held
        ]
        assert value(found) == pytest.approx(max(map(value, lists)), abs=1e-9)


# ---------------------------------------------------------------------------- refused


CLICK_MODELS = ("cascade", "last-click", "position-based", "semi-bandit", "choice")
OBJECTIVES: dict[str, Objective] = {
    "any-click": AnyClick(),
    "clicks": Clicks(),
    "satisfied": Satisfied(np.ones(2)),
    "revenue": Revenue(np.ones(3)),
    "amount": Amount(),
}
EXACT = {
    ("cascade", "any-click"),
    ("cascade", "clicks"),
    ("cascade", "revenue"),
    ("last-click", "any-click"),
    ("last-click", "satisfied"),
    *(
        (model, objective)
        for model in ("position-based", "semi-bandit")
        for objective in OBJECTIVES
        if objective != "satisfied"
    ),
    ("choice", "any-click"),
    ("choice", "clicks"),
    ("choice", "revenue"),
}


@pytest.mark.parametrize("model", CLICK_MODELS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_what_has_no_exact_planner_is_refused(model: str, name: str) -> None:
    setting = Setting(3, 2, objective=OBJECTIVES[name], bias=np.ones(2), termination=np.ones(2))
    if (model, name) in EXACT:
        planner = plan_for(model, setting)
        assert planner.reads == ({"prices"} if name == "revenue" else set())
        return
    with pytest.raises(Unsupported, match=f"'{model}'.*'{name}'.*accepted: "):
        plan_for(model, setting)
    with pytest.raises(Unsupported, match=f"'{model}'.*'{name}'"):
        plan_for("cascade" if model != "cascade" else "semi-bandit", setting.read_as(model))


def test_scores_without_a_scale_refuse_prices() -> None:
    with pytest.raises(Unsupported, match="only order items has no planner for the objective 'revenue'"):
        plan_for("semi-bandit", Setting(3, 2, objective=Revenue(np.ones(3))), link=None)


def test_satisfied_needs_termination() -> None:
    with pytest.raises(Unsupported, match="needs termination"):
        plan_for("last-click", Setting(3, 2, objective=Satisfied(np.ones(2))))
    with pytest.raises(InvalidInput, match="termination"):
        plan_for("last-click", Setting(3, 2, objective=Satisfied(np.ones(2)), termination=np.array([0.5, 1.5])))


@pytest.mark.parametrize("plan", [net_reward_plan, coverage_plan])
def test_rewards_by_position_refuse_prices_and_other_click_models(
    plan: Callable[[str, Setting], Planner],
) -> None:
    fields = {"rewards": np.ones(2), "losses": np.array([0.0, -1.0, -2.0])}
    assert "rewards" in plan("cascade", Setting(3, 2, **fields)).reads  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="rewards and losses by position"):
        plan("cascade", Setting(3, 2, objective=Revenue(np.ones(3)), **fields))  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="rewards and losses by position"):
        plan("cascade", Setting(3, 2, feedback="semi-bandit", **fields))  # type: ignore[arg-type]
    assert plan("cascade", Setting(3, 2, objective=Revenue(np.ones(3)))).reads == {"prices"}


@pytest.mark.parametrize(
    ("rewards", "losses", "field"),
    [
        ([1.0, 2.0], [0.0, 0.0, 0.0], "rewards"),
        ([1.0, -1.0], [0.0, 0.0, 0.0], "rewards"),
        ([1.0, math.nan], [0.0, 0.0, 0.0], "rewards"),
        ([1.0, 1.0], [0.0, 1.0, 0.0], "losses"),
        ([1.0, 1.0], [0.0, -1.0, -0.5], "losses"),
    ],
)
def test_rewards_that_no_planner_is_exact_for_are_refused(
    rewards: list[float], losses: list[float], field: str
) -> None:
    """When a policy is composed, and in every request."""
    r, loss = np.array(rewards), np.array(losses)
    for attempt in (
        lambda: check_rewards(r, loss),
        lambda: net_reward_plan("cascade", Setting(3, 2, rewards=r, losses=loss)),
        lambda: BestLength(TopK(), np.ones(2), np.zeros(3))(
            lambda p, s: np.zeros((1, 3)), Request(1, 3, 2, rewards=r, losses=loss), rng(0)
        ),
    ):
        with pytest.raises(InvalidInput, match=r"never rise|finite numbers") as error:
            attempt()
        assert error.value.field.removeprefix("request.") == field


# ---------------------------------------------------------------------------- objectives


def test_realised_values_have_the_expected_value_as_mean() -> None:
    """A million visitors of each click model; six standard errors: fails for one seed in 10⁸."""
    n, p = 1_000_000, np.array([0.3, 0.5, 0.2])
    draws = rng(8)
    items = np.tile([2, 0, 1], (n, 1))
    attracted = draws.random((n, 3)) < p
    first = attracted & (np.cumsum(attracted, axis=1) == 1)
    termination = np.array([0.9, 0.2, 0.6])
    leaves = attracted & (draws.random((n, 3)) < termination)
    dependent = attracted & (np.cumsum(leaves, axis=1) - leaves == 0)
    prices = np.array([2.0, 5.0, 1.0])
    rewards, losses = np.array([2.0, 1.0, 0.5]), np.array([0.0, -0.1, -0.5, -2.0])
    for name, clicks in (
        ("any-click", attracted),
        ("clicks", attracted),
        ("revenue", attracted),
        ("satisfied", dependent),
        ("net reward", first),
    ):
        objective = (
            objective_of("any-click", rewards=rewards, losses=losses)
            if name == "net reward"
            else objective_of(name, prices=prices, termination=termination)
        )
        got = objective.reward(clicks.astype(np.float64), items)
        expected = objective.value(p[None], items[:1])[0]
        assert abs(got.mean() - expected) < 6.0 * got.std() / math.sqrt(n), name
    own = np.array([[1.0, 2.0, 3.0]])
    assert Revenue(prices).reward(np.ones((1, 3)), items[:1], own).tolist() == [6.0]
    assert NetReward(rewards, losses).reward(np.zeros((1, 3)), np.array([[4, 2, -1]])).tolist() == [-0.5]
    units = {objective_of(name, prices=prices, slots=3).unit for name in OBJECTIVES}
    assert units == {"lists with a click", "clicks", "satisfied visitors", "revenue", "amount"}


def test_log_odds_are_turned_into_attractions() -> None:
    """Prices 10 and 1 at log-odds -3 and 2: 10·0.047 is less than 1·0.88, though -30 would say something else."""
    setting = Setting(2, 1, objective=Revenue(np.array([10.0, 1.0])))
    planner = plan_for("cascade", setting, link=LOGISTIC)
    assert planner(lambda p, s: np.array([[-3.0, 2.0]]), Request(1, 2, 1), rng(0)).items.tolist() == [[1]]
    assert isinstance(matching_plan(setting), Assignment)


# ---------------------------------------------------------------------------- amounts and counts


def learned(belief: OnlineAmounts, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return θ of one learner and model after the rows x [n, d] with outcomes y [n], two of them in each list."""
    state = belief.init(1)
    for row, outcome in zip(x.reshape(-1, 1, 2, x.shape[1]), y.reshape(-1, 1, 2), strict=True):
        decision = Decision(np.array([[0, 1]]), Rows(0, row), Request(1, 2, 2))
        belief.update(state, decision, Evidence(outcome, np.ones((1, 2))))
    return np.asarray(state.theta[0, 0])


def test_the_identity_link_is_ridge_regression() -> None:
    draws = rng(5)
    x, y = draws.normal(size=(40, 3)), draws.normal(size=40)
    exact = np.linalg.solve(2.0 * np.eye(3) + x.T @ x, x.T @ y)
    assert learned(OnlineAmounts(3, 1, ridge=2.0), x, y) == pytest.approx(exact, abs=1e-10)


def test_a_single_count_moves_the_estimate_to_the_maximum_of_its_posterior() -> None:
    """With ridge 1 and x = 1, θ maximises yθ - e^θ - θ²/2: y - e^θ - θ = 0."""
    for y in (0.0, 1.0, 7.0, 1e6):
        theta = learned(OnlineCounts(1, 1), np.array([[1.0], [0.0]]), np.array([y, 0.0]))[0]
        assert y - math.exp(theta) - theta == pytest.approx(0.0, abs=1e-6 * (1.0 + y))


def test_the_poisson_link_finds_the_rates() -> None:
    """20,000 counts: the standard error of θ is below 0.01, and the test allows 0.05."""
    draws = rng(6)
    truth = np.array([1.0, -0.5])
    x = np.stack([np.ones(20_000), draws.random(20_000)], axis=1)
    y = draws.poisson(np.exp(x @ truth)).astype(np.float64)
    assert learned(OnlineCounts(2, 1), x, y) == pytest.approx(truth, abs=0.05)


def test_counts_stay_finite_whatever_is_reported() -> None:
    draws = rng(7)
    for scale in (1e-6, 1.0, 1e6):
        x, y = scale * draws.normal(size=(60, 2)), 1e6 * draws.random(60) * draws.integers(0, 2, 60)
        assert np.isfinite(learned(OnlineCounts(2, 1), x, y)).all()


@pytest.mark.parametrize("id", ["ucr", "g-mle", "feature-ucr"])
def test_links_and_objectives_of_the_select_rank_family(id: str) -> None:
    clicks = Setting(4, 2, dim=1, context=1)
    amounts = replace(clicks, objective=Amount())
    with pytest.raises(Unsupported, match="'amount'"):
        catalogue.build(id, amounts)
    for link in ("identity", "poisson"):
        with pytest.raises(Unsupported, match=f"the link '{link}'.*'any-click'.*accepted: revenue, amount"):
            catalogue.build(id, clicks, link=link)
        with pytest.raises(Unsupported, match="fit 'online'"):
            catalogue.build(id, amounts, link=link, fit="mle")
        policy = catalogue.build(id, amounts, link=link)
        assert policy.takes_amounts
        request = Request(1, 4, 2, np.ones((4, 1)), np.ones((1, 1)))
        decision = policy.adopt(request, [[0, 1]])
        if link == "poisson":
            with pytest.raises(InvalidInput, match="at least 0"):
                policy.check(decision, [[-1.0, 0.0]])
        else:
            policy.check(decision, [[-1.0, 0.0]])


# ---------------------------------------------------------------------------- policies of the catalogue

ITEMS, SLOTS, LEARNERS, ROUNDS, LAST = 4, 2, 4, 2000, 500
ATTRACTION, PRICES = np.array([0.2, 0.3, 0.3, 0.15]), np.array([10.0, 1.0, 1.0, 1.0])
BIAS = np.array([1.0, 0.6])
NO_REVENUE = {"random", "ranked-lin-ts", "toprank"}
"""Policies without a planner for prices: no scores, scores by slot under the cascade, scores that only order items."""
SHARES = {"eps-ind": 0.88, "lin-ts-cascade": 0.6, "mnl-bandit": 0.6}
"""Policies that explore on purpose with a fixed probability, or with the radii of a worst-case analysis."""


def visitor_clicks(click_model: str, items: IntArray, draws: np.random.Generator) -> FloatArray:
    """Return the clicks of visitors who behave as the click model says; attention falls by slot but in the cascade."""
    w = np.where(items != EMPTY, ATTRACTION[items], 0.0)
    if click_model == "choice":
        gamma = w * BIAS
        p = gamma / (1.0 + gamma.sum(axis=1, keepdims=True))
        u, upper = draws.random((len(items), 1)), np.cumsum(p, axis=1)
        return np.asarray((u < upper) & (u >= upper - p), dtype=np.float64)
    attracted = draws.random(items.shape) < (w if click_model == "cascade" else w * BIAS)
    if click_model == "cascade":
        attracted &= np.cumsum(attracted, axis=1) == 1
    return attracted.astype(np.float64)


@pytest.mark.parametrize("id", [entry.id for entry in catalogue.entries() if entry.id not in NO_REVENUE])
def test_an_item_at_ten_times_the_price_and_two_thirds_of_the_clicks_is_shown_first(id: str) -> None:
    setting = Setting(
        ITEMS,
        SLOTS,
        rounds=ROUNDS,
        dim=ITEMS,
        prior=BetaPrior(np.ones(ITEMS), np.ones(ITEMS)),
        bias=BIAS,
        context=1,
        coverage=ITEMS,
        objective=Revenue(PRICES),
    )
    policy = catalogue.build(id, setting)
    assert "prices" in policy.reads
    request = Request(LEARNERS, ITEMS, SLOTS, np.eye(ITEMS), np.ones((LEARNERS, 1)), np.eye(ITEMS))
    state, draws, first = policy.init(LEARNERS), rng(1), 0
    for t in range(ROUNDS):
        decision = policy.decide(state, request, draws)
        policy.learn(state, decision, visitor_clicks(policy.feedback.name, decision.items, draws))
        first += int((decision.items[:, 0] == 0).sum()) if t >= ROUNDS - LAST else 0
    assert first / (LAST * LEARNERS) >= SHARES.get(id, 0.95)


NEEDED: dict[str, dict[str, object]] = {
    "bias": {"bias": [1.0, 0.6, 0.3]},
    "context": {"context": 2},
    "coverage": {"coverage": 2},
    "features": {"dim": 2},
    "prior": {"prior": [1.0, 1.0]},
}
NEEDS_ROUNDS = {"cascade-lin-ucb", "toprank", "cascade-woful"}
ACCEPTED_BY = {
    "cascade": {"any-click", "clicks", "revenue"},
    "semi-bandit": {"any-click", "clicks", "revenue"},
    "position-based": {"any-click", "clicks", "revenue"},
    "choice": {"any-click", "clicks", "revenue"},
}
"""Objectives that policies accept, by their own click model; only `hybrid` learns amounts without parameters."""


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: entry.id)
def test_every_policy_uses_or_refuses_every_objective(entry: catalogue.PolicyEntry) -> None:
    accepted = set()
    for objective in OBJECTIVES:
        settings = {"policy": entry.id, "slots": 3, "objective": objective}
        for need in entry.needs:
            settings |= NEEDED.get(need, {})
        if entry.id in NEEDS_ROUNDS:
            settings["rounds"] = 1000
        if objective == "satisfied":
            settings["termination"] = [0.2, 0.5, 0.9]
        try:
            config = RankerConfig.of(settings)
        except RankloopError:
            continue
        accepted.add(objective)
        policy = config.build(4, np.ones(4))
        assert ("prices" in policy.reads) == (objective == "revenue")
    expected = ACCEPTED_BY[entry.feedback] - ({"revenue"} if entry.id in NO_REVENUE else set())
    own = {"random": {"any-click"}, "hybrid": expected | {"amount"}}
    assert accepted == own.get(entry.id, expected)


@pytest.mark.parametrize(
    ("settings", "accepted"),
    [
        ({"policy": "gts", "objective": "amount"}, False),
        ({"policy": "gts", "objective": "amount", "params": {"feedback": "semi-bandit"}}, True),
        (
            {"policy": "gts", "objective": "amount", "params": {"feedback": "position-based"}, "bias": [1.0, 0.5]},
            True,
        ),
        ({"policy": "gts", "objective": "satisfied", "params": {"feedback": "last-click"}}, False),
        (
            {
                "policy": "gts",
                "objective": "satisfied",
                "params": {"feedback": "last-click"},
                "termination": [0.1, 0.9],
            },
            True,
        ),
        ({"policy": "gts", "params": {"feedback": "last-click"}, "termination": [0.1, 0.9]}, False),
        ({"policy": "gts", "objective": "revenue", "params": {"feedback": "last-click"}}, False),
        ({"policy": "gts", "slot_weights": [1.0, 0.5]}, False),
        ({"policy": "ucr", "context": 1, "slot_weights": [1.0, 0.5]}, True),
        ({"policy": "ucr", "context": 1, "slot_weights": [1.0, -0.5]}, False),
        ({"policy": "ucr", "context": 1, "objective": "amount"}, False),
        ({"policy": "ucr", "context": 1, "objective": "amount", "params": {"link": "poisson"}}, True),
        ({"policy": "ucr", "context": 1, "objective": "revenue", "params": {"link": "identity"}}, True),
        ({"policy": "gts", "rewards": [1.0, 0.5]}, False),
        ({"policy": "ind", "dim": 1, "rewards": [1.0, 0.5]}, True),
        ({"policy": "ind", "dim": 1, "rewards": [0.5, 1.0]}, False),
        ({"policy": "ind", "dim": 1, "rewards": [1.0, 0.5], "objective": "revenue"}, False),
        ({"policy": "ind", "dim": 1, "objective": "revenue"}, True),
        ({"policy": "dep", "coverage": 1, "objective": "revenue"}, True),
    ],
)
def test_settings_of_a_ranker_are_used_or_refused(settings: dict[str, object], accepted: bool) -> None:
    if accepted:
        RankerConfig.of({"slots": 2, **settings})
        return
    with pytest.raises(RankloopError):
        RankerConfig.of({"slots": 2, **settings})
