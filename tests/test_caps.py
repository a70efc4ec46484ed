"""Caps: at most n items with one value of a field, against exhaustive search of small cases."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from helpers import agree
from own_parts.planner import own_planner
from rankloop.errors import InvalidInput, Unsupported
from rankloop.math.caps.cascade import greedy_cascade_revenue
from rankloop.math.links import RATE
from rankloop.objective import Amount, Revenue
from rankloop.plan import (
    Assignment,
    BestLength,
    ByRevenue,
    BySlotBias,
    CascadeRevenue,
    ChoiceMatching,
    ChoiceRevenue,
    GreedyBySlot,
    Planner,
    TopK,
    Uniform,
)
from rankloop.plan.learned_bias import ByLearnedBias
from rankloop.plan.pinned import around_pins
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray, Request, Setting, SlotScore

Value = Callable[[tuple[int, ...]], float]
"""The value of a list."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def fits(items: tuple[int, ...] | list[int], groups: IntArray, caps: IntArray, pinned: tuple[int, ...] = ()) -> bool:
    """Whether a list keeps the caps: pinned items may exceed them, and then nothing else of their value is listed."""
    shown = [i for i in items if i != EMPTY]
    for values, most in zip(groups, caps.tolist(), strict=True):
        for value in set(values[shown].tolist()) - {EMPTY}:
            held = sum(values[i] == value for i in pinned)
            if sum(values[i] == value for i in shown) > max(most, held):
                return False
    return True


class Case:
    """A small random problem for one learner."""

    def __init__(self, seed: int, fields: int = 1) -> None:
        draw = self.draw = rng(seed)
        self.L, self.k = int(draw.integers(1, 7)), int(draw.integers(1, 5))
        self.groups = draw.integers(-1, int(draw.integers(1, 4)), (fields, self.L))
        self.caps = draw.integers(1, 3, fields)
        self.allowed: BoolArray | None = draw.random(self.L) < 0.8 if draw.random() < 0.5 else None
        # Coarse numbers tie often.
        self.coarse = bool(draw.random() < 0.3)
        self.rate = self.numbers(self.L)
        self.by_slot = self.numbers((self.k, self.L))
        self.prices = 3.0 * self.numbers(self.L)
        self.bias = self.numbers(self.k)
        if draw.random() < 0.5:
            self.bias = -np.sort(-self.bias)

    def numbers(self, shape: int | tuple[int, ...]) -> FloatArray:
        drawn = self.draw.random(shape)
        return np.round(3.0 * drawn) / 4.0 if self.coarse else drawn

    @property
    def may(self) -> BoolArray:
        return np.ones(self.L, dtype=np.bool_) if self.allowed is None else self.allowed

    def request(self, learners: int = 1) -> Request:
        return Request(learners, self.L, self.k, allowed=self.allowed, groups=self.groups, caps=self.caps)

    def lists(self, *, shorter: bool = False) -> list[tuple[int, ...]]:
        """All lists from the first slot on that keep the caps, as long as possible unless `shorter`."""
        items = np.flatnonzero(self.may).tolist()
        found: list[tuple[int, ...]] = [()]
        for n in range(1, min(self.k, len(items)) + 1):
            longer = [row for row in permutations(items, n) if fits(row, self.groups, self.caps)]
            if not longer:
                break
            found = found + longer if shorter else longer
        return found


def choice_value(case: Case, weight: Callable[[int, int], float]) -> Value:
    def value(row: tuple[int, ...]) -> float:
        weights = [weight(slot, i) for slot, i in enumerate(row)]
        return float(sum(w * case.prices[i] for w, i in zip(weights, row, strict=True)) / (1.0 + sum(weights)))

    return value


def cascade_revenue(case: Case, row: tuple[int, ...]) -> float:
    left, value = 1.0, 0.0
    for i in row:
        value += left * case.rate[i] * case.prices[i]
        left *= 1.0 - case.rate[i]
    return value


def net_reward(case: Case, row: tuple[int, ...], rewards: FloatArray, losses: FloatArray) -> float:
    left, value = 1.0, 0.0
    for slot, i in enumerate(row):
        value += left * rewards[slot] * case.rate[i]
        left *= 1.0 - case.rate[i]
    return float(value + losses[len(row)] * left)


def log_odds(p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log(p) - np.log1p(-p), -40.0))


def problems(case: Case) -> dict[str, tuple[Planner, SlotScore, Value, bool]]:
    """Planner, scores, value of a list, and whether lists may be shorter than possible, by name."""
    one: SlotScore = lambda prefix, slot: case.rate[None].copy()  # noqa: E731
    pairs: SlotScore = lambda prefix, slot: case.by_slot[slot][None].copy()  # noqa: E731
    objective = Revenue(case.prices)
    order = np.argsort(-case.bias, kind="stable")[None]
    rewards, losses = -np.sort(-case.draw.random(case.k)), -np.sort(case.draw.random(case.k + 1))
    logits = log_odds(case.rate)[None]
    return {
        "top-k": (TopK(), one, lambda row: 1.0 - np.prod([1.0 - case.rate[i] for i in row]), False),
        "slot bias": (
            BySlotBias(case.bias),
            one,
            lambda row: sum(case.bias[slot] * case.rate[i] for slot, i in enumerate(row)),
            False,
        ),
        "learned bias": (
            ByLearnedBias(case.prices, order),
            one,
            lambda row: sum(case.bias[slot] * case.rate[i] * case.prices[i] for slot, i in enumerate(row)),
            False,
        ),
        "revenue by bias": (
            ByRevenue(objective, RATE, case.bias),
            one,
            lambda row: sum(case.bias[slot] * case.rate[i] * case.prices[i] for slot, i in enumerate(row)),
            False,
        ),
        "assignment": (
            Assignment(Amount()),
            pairs,
            lambda row: sum(case.by_slot[slot, i] for slot, i in enumerate(row)),
            False,
        ),
        "assignment of the best": (
            Assignment(Amount(), max_full_items=0),
            pairs,
            lambda row: sum(case.by_slot[slot, i] for slot, i in enumerate(row)),
            False,
        ),
        "cascade revenue": (CascadeRevenue(objective, RATE), one, lambda row: cascade_revenue(case, row), False),
        "choice revenue": (
            ChoiceRevenue(objective, case.bias),
            one,
            choice_value(case, lambda slot, i: case.bias[slot] * case.rate[i]),
            bool((np.diff(case.bias[: len(case.lists()[0])]) <= 0).all()),
        ),
        "choice matching": (
            ChoiceMatching(objective),
            pairs,
            choice_value(case, lambda slot, i: case.by_slot[slot, i]),
            False,
        ),
        "best length": (
            BestLength(TopK(), rewards, losses),
            lambda prefix, slot: logits,
            lambda row: net_reward(case, row, rewards, losses),
            True,
        ),
    }


NAMES = list(problems(Case(0)))


@pytest.mark.parametrize("name", NAMES)
def test_lists_under_one_cap_equal_the_best_of_all_lists(name: str) -> None:
    for seed in range(400):
        case = Case(seed)
        planner, score, value, shorter = problems(case)[name]
        request = case.request()
        caps = request.active_caps()
        assert caps is None or not planner.approximate(caps, request)
        plan = planner(score, request, rng(seed))
        row = plan.items[0].tolist()
        listed = tuple(i for i in row if i != EMPTY)
        assert row == [*listed, *[EMPTY] * (case.k - len(listed))], seed
        assert len(set(listed)) == len(listed), seed
        assert case.may[list(listed)].all(), seed
        assert fits(row, case.groups, case.caps), seed
        every = case.lists(shorter=shorter)
        if not shorter:
            assert len(listed) == len(every[0]), seed
        assert value(listed) == pytest.approx(max(map(value, every)), rel=1e-9, abs=1e-9), seed


def everything(case: Case) -> dict[str, tuple[Planner, SlotScore]]:
    """All planners with their scores, also those for which no list is best."""
    found = {name: problem[:2] for name, problem in problems(case).items()}
    one = found["top-k"][1]
    return {**found, "greedy by slot": (GreedyBySlot(), found["assignment"][1]), "uniform": (Uniform(), one)}


@pytest.mark.parametrize("name", everything(Case(0)))
@pytest.mark.parametrize("fields", [1, 2, 3])
def test_lists_keep_caps_around_pins(name: str, fields: int) -> None:
    """Pins may exceed a cap; then nothing else of their value is listed, and no free slot is empty without reason."""
    for seed in range(150):
        case = Case(seed, fields)
        planner, score = everything(case)[name]
        draw, request = rng(seed), case.request()
        pinned = np.full(case.k, EMPTY)
        slots = draw.permutation(case.k)[: int(draw.integers(0, min(case.k, case.L) + 1))]
        pinned[slots] = draw.permutation(case.L)[: len(slots)]
        request = Request(1, case.L, case.k, pinned=pinned, groups=case.groups, caps=case.caps)
        plan = around_pins(planner, score, request, rng(seed))
        row = plan.items[0].tolist()
        held = tuple(pinned[pinned != EMPTY].tolist())
        shown = [i for i in row if i != EMPTY]
        assert [row[slot] for slot in slots] == pinned[slots].tolist(), seed
        assert len(set(shown)) == len(shown), seed
        assert fits(row, case.groups, case.caps, held), seed
        if not planner.ends_early and EMPTY in row:
            more = [i for i in range(case.L) if i not in shown and fits([*shown, i], case.groups, case.caps, held)]
            full = [i for i in more if not _of_a_full_value(case, i, shown)]
            assert full == [], seed


def _of_a_full_value(case: Case, item: int, shown: list[int]) -> bool:
    """Whether pinned items alone reach the cap of a value of the item."""
    return any(
        values[item] >= 0 and sum(values[i] == values[item] for i in shown) >= most
        for values, most in zip(case.groups, case.caps.tolist(), strict=True)
    )


@pytest.mark.parametrize("name", everything(Case(0)))
def test_a_cap_of_k_changes_nothing(name: str) -> None:
    for seed in range(60):
        case = Case(seed, 2)
        planner, score = everything(case)[name]
        plain = Request(1, case.L, case.k, allowed=case.allowed)
        capped = Request(
            1, case.L, case.k, allowed=case.allowed, groups=case.groups, caps=np.array([case.k, case.k + 1])
        )
        one, other = (planner(score, request, rng(seed)) for request in (plain, capped))
        np.testing.assert_array_equal(one.items, other.items)


@pytest.mark.parametrize("name", everything(Case(0)))
def test_learners_of_a_batch_have_caps_of_their_own(name: str) -> None:
    """A batch whose learners have other values plans as each of them alone, where nothing ties."""
    for seed in range(40):
        case = Case(seed)
        if name == "uniform" or case.coarse:
            continue
        planner, score = everything(case)[name]
        groups = case.draw.integers(-1, 3, (1, 3, case.L))
        batch: SlotScore = lambda prefix, slot: np.repeat(score(prefix[:1], slot), len(prefix), axis=0)  # noqa: E731, B023
        many = planner
        if isinstance(planner, ByLearnedBias) and planner.order is not None:
            many = planner.with_slot_order(np.repeat(planner.order, 3, axis=0))
        together = many(batch, Request(3, case.L, case.k, groups=groups, caps=case.caps), rng(seed))
        for b in range(3):
            alone = planner(score, Request(1, case.L, case.k, groups=groups[:, b], caps=case.caps), rng(seed))
            np.testing.assert_array_equal(together.items[b], alone.items[0], err_msg=f"{seed}")


def test_matching_of_many_items_under_a_cap_equals_a_linear_programme() -> None:
    for seed, (k, L, values, cap) in enumerate([(20, 300, 12, 2), (10, 500, 40, 1), (20, 60, 5, 3), (8, 2000, 3, 2)]):
        draw = rng(seed)
        gains, groups = draw.random((1, k, L)) * draw.random(L), draw.integers(-1, values, (1, L))
        if seed == 3:  # items whose values are full are the best for all slots
            gains[:, :, groups[0] == 0] += 1.0
        request = Request(1, L, k, groups=groups, caps=np.array([cap]))
        items = Assignment(Amount())(lambda prefix, slot: gains[:, slot], request, rng(seed)).items[0]  # noqa: B023
        n = min(k, sum(min(cap, int((groups[0] == v).sum())) for v in range(values)) + int((groups[0] == -1).sum()))
        slots, column = np.divmod(np.arange(n * L), L)
        rows = [csr_array(np.eye(n)[:, slots]), csr_array((np.ones(n * L), (column, np.arange(n * L))))]
        own = groups[0][column]
        there = np.flatnonzero(own >= 0)
        rows.append(csr_array((np.ones(len(there)), (own[there], there)), shape=(values, n * L)))
        limit = np.concatenate([np.ones(n), np.ones(L), np.full(values, cap)])
        low = np.concatenate([np.ones(n), np.zeros(L + values)])
        cost = -gains[0, :n].ravel()
        best = milp(cost, constraints=LinearConstraint(vstack(rows), low, limit), bounds=Bounds(0, 1))
        assert (items[:n] != EMPTY).all()
        assert fits(items.tolist(), groups, request.caps if request.caps is not None else np.array([]))
        agree(gains[0, np.arange(n), items[:n]].sum(), -float(best.fun or 0.0), 1e-9)


def test_greedy_lists_are_marked() -> None:
    """Several caps, scores by prefix, and a cascade's revenue where many values can reach the cap."""
    case = Case(3)
    draw = rng(3)
    two = Request(1, 60, 6, groups=draw.integers(0, 20, (2, 60)), caps=np.array([1, 2]))
    one = Request(1, 60, 6, groups=draw.integers(0, 20, (1, 60)), caps=np.array([1]))
    few = Request(1, 60, 6, groups=draw.integers(0, 3, (1, 60)), caps=np.array([1]))
    slack = Request(1, 60, 6, groups=two.groups, caps=np.array([6, 2]))
    for name, (planner, _) in everything(case).items():
        marked = [planner.approximate(request.active_caps(), request) for request in (two, one, few, slack)]  # type: ignore[arg-type]
        expected = {
            "greedy by slot": [True] * 4,
            "uniform": [False] * 4,
            "cascade revenue": [True, True, False, True],
        }.get(name, [True, False, False, False])
        assert marked == expected, name


def test_the_greedy_revenue_of_a_cascade_is_nearly_the_best() -> None:
    """At least half of the best value by theory; on random cases far more."""
    shares = []
    for seed in range(200):
        case = Case(seed)
        groups = np.ascontiguousarray(case.request().groups)
        items = np.empty((1, case.k), dtype=np.int64)
        greedy_cascade_revenue(
            case.prices[None],
            case.rate[None],
            case.may[None],
            groups[:, None],
            case.caps,
            np.empty(0, dtype=np.int64),
            np.zeros((1, case.k)),
            items,
            np.empty(1, dtype=np.bool_),
        )
        row = tuple(i for i in items[0].tolist() if i != EMPTY)
        assert fits(row, case.groups, case.caps)
        every = case.lists()
        assert len(row) == len(every[0])
        best = max(cascade_revenue(case, other) for other in every)
        assert cascade_revenue(case, row) >= 0.5 * best - 1e-12
        shares.append(cascade_revenue(case, row) / best if best else 1.0)
    assert np.mean(shares) > 0.99


def test_ties_under_a_cap_are_broken_uniformly() -> None:
    """Items 0 to 2 of one value and item 3 tie: each is first in a quarter of 20,000 lists, up to five deviations."""
    request = Request(20_000, 4, 2, groups=np.array([[5, 5, 5, -1]]), caps=np.array([1]))
    plan = TopK()(lambda prefix, slot: np.zeros((20_000, 4)), request, rng(8))
    first = np.bincount(plan.items[:, 0], minlength=4) / 20_000
    np.testing.assert_allclose(first, 0.25, atol=5 * np.sqrt(0.25 * 0.75 / 20_000))
    assert plan.rivals is not None
    assert (plan.rivals[:, 0] == 3).all()
    assert (plan.rivals[:, 1] == np.where(plan.items[:, 0] == 3, 2, 0)).all()


@pytest.mark.parametrize(
    ("groups", "caps", "field"),
    [
        (np.zeros((1, 4), dtype=np.int64), None, "request.caps"),
        (None, np.array([1]), "request.groups"),
        (np.zeros((1, 4), dtype=np.int64), np.array([0]), "request.caps"),
        (np.zeros((1, 4)), np.array([1]), "request.groups"),
        (np.zeros((2, 4), dtype=np.int64), np.array([1]), "request.groups"),
        (np.zeros((1, 5), dtype=np.int64), np.array([1]), "request.groups"),
    ],
)
def test_caps_that_do_not_fit_are_refused(groups: IntArray | None, caps: IntArray | None, field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Request(1, 4, 2, groups=groups, caps=caps)
    assert error.value.field == field


def test_a_planner_that_keeps_no_caps_refuses_them() -> None:
    policy = own_planner(Setting(items=4, slots=2))
    request = Request(1, 4, 2, groups=np.zeros((1, 4), dtype=np.int64), caps=np.array([1]))
    with pytest.raises(Unsupported, match="CentreOut does not keep caps"):
        policy.decide(policy.init(1), request, rng())
