"""One choice among the whole list: estimates, their sensitivity, epochs, and the indices made of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize

from helpers import RARE, agree, assert_uniform, build, count_lists, snapshot
from rankloop import catalogue
from rankloop.belief import ESTIMATORS, ChoiceEstimates
from rankloop.belief.choice import sensitivity
from rankloop.design import PerItemSlot
from rankloop.errors import InvalidInput
from rankloop.explore import Bound
from rankloop.math import mnl
from rankloop.types import EMPTY, Decision, Evidence, FloatArray, IntArray, Request, Rows, Setting
from rankloop.wrappers import EpochRepeat
from small_worlds import settled

FLOOR, CAP = 1e-3, 1e3
"""Between which the estimates lie."""

BIAS = np.array([1.0, 0.4, 0.7])
EPOCH_POLICIES = ["epoch-ucb", "epoch-ucb-w", "epoch-ucb-upb", "epoch-ucb-upb-star", "mnl-bandit"]
ALL = Rows(model=slice(None))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def epochs_of(id: str, setting: Setting, **params: Any) -> EpochRepeat[Any]:
    policy = catalogue.build(id, setting, **params)
    assert isinstance(policy, EpochRepeat)
    return policy


def random_counts(seed: int, K: int, J: int, *, zeros: bool = False) -> tuple[FloatArray, FloatArray]:
    """Clicks and epochs [1, K, J] that a truth with λ in (0.3, 1) and α in (0.1, 1) could leave behind."""
    draw = rng(seed)
    alpha, lam = draw.uniform(0.1, 1.0, J), np.concatenate([[1.0], draw.uniform(0.3, 1.0, K - 1)])
    S = draw.integers(1, 30, (1, K, J)).astype(float)
    N = draw.poisson(S * lam[:, None] * alpha).astype(float)
    N[0, 0] += 1.0
    if zeros:
        N[0, :, 0] = 0.0  # an item without clicks
        N[0, K - 1, :] = 0.0  # and a slot
    return N, S


def start(K: int, J: int) -> tuple[FloatArray, FloatArray]:
    """A cold start."""
    return np.ones((1, J)), np.ones((1, K))


# ---------------------------------------------------------------------------- estimates


def direct_maximiser(N: FloatArray, S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """N successes in N + S trials with odds α_j·λ_k: the likelihood maximised over the logarithms by L-BFGS-B."""
    K, J = N.shape
    items = [j for j in range(J) if N[:, j].sum() > 0]
    slots = [k for k in range(1, K) if N[k].sum() > 0]

    def unpack(free: FloatArray) -> tuple[FloatArray, FloatArray]:
        a, v = np.full(J, math.log(FLOOR)), np.full(K, math.log(FLOOR))
        v[0] = 0.0
        a[items], v[slots] = free[: len(items)], free[len(items) :]
        return a, v

    def loss(free: FloatArray) -> float:
        a, v = unpack(free)
        odds = v[:, None] + a
        return float(((N + S) * np.logaddexp(0.0, odds) - N * odds).sum())

    def slope(free: FloatArray) -> FloatArray:
        a, v = unpack(free)
        error = (N + S) / (1 + np.exp(-v[:, None] - a)) - N
        return np.concatenate([error.sum(axis=0)[items], error.sum(axis=1)[slots]])

    n = len(items) + len(slots)
    bounds = [(math.log(FLOOR), math.log(CAP))] * n
    options: Any = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 100_000}
    found = minimize(loss, np.full(n, -1.0), jac=slope, bounds=bounds, method="L-BFGS-B", options=options)
    a, v = unpack(np.asarray(found.x))
    return np.exp(a), np.exp(v)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_mle_equals_a_direct_maximisation_of_the_likelihood(seed: int, zeros: bool) -> None:
    """To 1e-4: the minimiser's precision, and a ridge of 1e-6 on the logarithms."""
    K, J = 3, 5
    N, S = random_counts(seed, K, J, zeros=zeros)
    alpha, lam = mnl.fit_mle(N, S, *start(K, J))
    expected = direct_maximiser(N[0], S[0])
    agree(np.log(alpha[0]), np.log(expected[0]), 1e-4)
    agree(np.log(lam[0]), np.log(expected[1]), 1e-4)
    if zeros:
        assert alpha[0, 0] == pytest.approx(FLOOR)
        assert lam[0, K - 1] == pytest.approx(FLOOR)


def test_mle_of_one_slot_is_clicks_by_epochs() -> None:
    """With λ_1 = 1 alone, α = N/S; the ridge on the logarithm moves it by less than 1e-5 of it."""
    N, S = np.array([[[3.0, 10.0, 1.0]]]), np.array([[[6.0, 5.0, 40.0]]])
    alpha, lam = mnl.fit_mle(N, S, *start(1, 3))
    agree(alpha[0], [3 / 6, 10 / 5, 1 / 40], 1e-5)
    assert lam.tolist() == [[1.0]]


def test_mle_stays_inside_the_box() -> None:
    """5,000 clicks in one epoch would be an attraction of 5,000, one click in 5,000 one of 1/5,000."""
    N, S = np.array([[[5000.0, 1.0, 2.0]]]), np.array([[[1.0, 5000.0, 4.0]]])
    alpha, _ = mnl.fit_mle(N, S, *start(1, 3))
    agree(alpha[0], [CAP, FLOOR, 2 / 4], 1e-5)
    N, S = random_counts(0, 3, 4)
    N[0, 1] *= 1e5
    alpha, lam = mnl.fit_mle(N, S, *start(3, 4))
    expected = direct_maximiser(N[0], S[0])
    agree(np.log(alpha[0]), np.log(expected[0]), 1e-4)
    agree(np.log(lam[0]), np.log(expected[1]), 1e-4)
    assert max(alpha.max(), lam.max()) <= CAP * (1 + 1e-12)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_mle_leaves_no_slope_but_into_a_wall(K: int, J: int, seed: int) -> None:
    """The condition of a maximum in a box, also where few epochs were seen and most pairs never."""
    draw = rng(seed)
    S = draw.integers(0, 4, (1, K, J)).astype(float)
    N = np.where(S > 0, draw.integers(0, 3, (1, K, J)), 0).astype(float)
    alpha, lam = mnl.fit_mle(N, S, *start(K, J))
    assert lam[0, 0] == 1.0
    odds = lam[0][:, None] * alpha[0]
    excess = (N + S)[0] * odds / (1 + odds) - N[0]  # expected clicks less those seen
    for total, value, clicks in [
        *zip(excess.sum(axis=0), alpha[0], N[0].sum(axis=0), strict=True),
        *zip(excess.sum(axis=1)[1:], lam[0, 1:], N[0].sum(axis=1)[1:], strict=True),
    ]:
        if clicks == 0:
            assert value == pytest.approx(FLOOR)
        elif value <= FLOOR * (1 + 1e-9):
            assert total >= -1e-4
        elif value >= CAP * (1 - 1e-9):
            assert total <= 1e-4
        else:
            assert abs(total) < 1e-4


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_exclude_solves_equations_5_and_6_on_items_and_slots_with_clicks(seed: int, zeros: bool) -> None:
    K, J = 3, 5
    N, S = random_counts(seed, K, J, zeros=zeros)
    alpha, lam = mnl.fit_exclude(N, S, *start(K, J))
    a, v, n, s = alpha[0], lam[0], N[0], S[0]
    items = [j for j in range(J) if n[:, j].sum() > 0]
    slots = [k for k in range(K) if n[k].sum() > 0]
    assert v[0] == 1.0
    assert 0 in slots
    for k in range(1, K):
        if k in slots:
            agree(v[k], sum(n[k, j] / a[j] for j in items) / sum(s[k, j] for j in items), 1e-9)
        else:
            assert v[k] == FLOOR
    for j in range(J):
        if j in items:
            agree(a[j], sum(n[k, j] / v[k] for k in slots) / sum(s[k, j] for k in slots), 1e-9)
        else:
            assert a[j] == FLOOR


def test_equations_5_and_6_do_not_solve_the_likelihood() -> None:
    """Why there are two estimators: with unbalanced counts their answers are apart by more than a tenth."""
    N, S = np.array([[[8.0, 1.0], [1.0, 9.0]]]), np.array([[[4.0, 10.0], [9.0, 3.0]]])
    mle, exclude = mnl.fit_mle(N, S, *start(2, 2)), mnl.fit_exclude(N, S, *start(2, 2))
    assert np.abs(exclude[0] / mle[0] - 1).max() > 0.1


def simulated_counts(alpha: FloatArray, lam: FloatArray, epochs: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Counts of epochs of random lists: a visitor leaves with probability 1/(1 + Σλα), else clicks in proportion."""
    draw, K, J = rng(seed), len(lam), len(alpha)
    N, S = np.zeros((K, J)), np.zeros((K, J))
    lists = draw.permuted(np.tile(np.arange(J), (epochs, 1)), axis=1)[:, :K]
    pull = lam * alpha[lists]
    clicks = draw.geometric(1 / (1 + pull.sum(axis=1))) - 1
    counts = draw.multinomial(clicks, pull / pull.sum(axis=1, keepdims=True))
    for k in range(K):
        for j in range(J):
            here = lists[:, k] == j
            N[k, j], S[k, j] = counts[here, k].sum(), here.sum()
    return N[None], S[None]


@pytest.mark.parametrize("name", ["mle", "exclude"])
def test_estimators_recover_known_parameters(name: str) -> None:
    """20,000 epochs to within a tenth.

    An item is in 12,000 of them and gets a click with odds of 0.1 or more: the standard error is near
    √((1 + 0.1)/(0.1 · 12,000)) = 3 per cent for the worst item in the worst slots and much less for most.
    """
    alpha, lam = np.array([0.9, 0.6, 0.45, 0.3, 0.2]), np.array([1.0, 0.7, 0.5])
    N, S = simulated_counts(alpha, lam, 20_000, seed=1)
    found = ESTIMATORS[name](N, S, *start(3, 5))
    assert np.abs(found[0][0] / alpha - 1).max() < 0.1
    assert np.abs(found[1][0] / lam - 1).max() < 0.1
    assert found[1][0, 0] == 1.0


@pytest.mark.parametrize("name", ["mle", "exclude"])
def test_estimates_of_many_problems_are_those_of_each_alone(name: str) -> None:
    problems = [random_counts(seed, 3, 4, zeros=seed % 2 == 0) for seed in range(5)]
    N, S = (np.concatenate(parts) for parts in zip(*problems, strict=True))
    alpha, lam = ESTIMATORS[name](N, S, np.ones((5, 4)), np.ones((5, 3)))
    for p, (n, s) in enumerate(problems):
        alone = ESTIMATORS[name](n, s, *start(3, 4))
        agree(alpha[p], alone[0][0], 1e-12)
        agree(lam[p], alone[1][0], 1e-12)


# ---------------------------------------------------------------------------- sensitivity


def refitted(name: str, N: FloatArray, S: FloatArray) -> FloatArray:
    """β² [J] by definition: one cold fit for each pair that was shown, with one more click there."""
    K, J = N.shape
    fit = ESTIMATORS[name]
    alpha = fit(N[None], S[None], *start(K, J))[0][0]
    beta2 = np.zeros(J)
    for k in range(K):
        for j in range(J):
            if S[k, j] >= 1:
                more = N.copy()
                more[k, j] += 1
                beta2 += (alpha - fit(more[None], S[None], *start(K, J))[0][0]) ** 2 * S[k, j]
    return beta2


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("name", ["mle", "exclude"])
def test_sensitivity_equals_fits_from_cold_starts(name: str, zeros: bool) -> None:
    problems = [random_counts(seed, 3, 4, zeros=zeros) for seed in range(3)]
    N, S = (np.concatenate(parts) for parts in zip(*problems, strict=True))
    S[1, 2, 3] = N[1, 2, 3] = 0.0  # a pair never shown is not perturbed
    alpha, lam = ESTIMATORS[name](N, S, np.ones((3, 4)), np.ones((3, 3)))
    beta2 = sensitivity(ESTIMATORS[name], N, S, alpha, lam)
    for p in range(3):
        agree(beta2[p], refitted(name, N[p], S[p]), 1e-5)


@pytest.mark.parametrize("name", ["mle", "exclude"])
def test_a_belief_that_learns_epoch_by_epoch_holds_the_estimates_of_its_counts(name: str) -> None:
    """Warm starts leave no trace: after 12 epochs of two learners, as if fitted once from nothing."""
    B, K, J, draw = 2, 2, 3, rng(2)
    belief = ChoiceEstimates(J, K, ESTIMATORS[name])
    state = belief.init(B)
    N, S = np.zeros((B, K, J)), np.zeros((B, K, J))
    for _ in range(12):
        lists = draw.permuted(np.tile(np.arange(J), (B, 1)), axis=1)[:, :K]
        clicks = draw.integers(0, 4, (B, K)).astype(float)
        belief.update(state, Decision(lists, Rows(model=0), Request(B, J, K)), Evidence(clicks, np.ones((B, K))))
        for b in range(B):
            for k in range(K):
                N[b, k, lists[b, k]] += clicks[b, k]
                S[b, k, lists[b, k]] += 1
    assert (state.N == N).all()
    assert (state.S == S).all()
    for b in range(B):
        alpha, lam = ESTIMATORS[name](N[b][None], S[b][None], *start(K, J))
        agree(state.alpha[b], alpha[0], 1e-6)
        agree(state.lam[b], lam[0], 1e-6)
        agree(state.beta2[b], refitted(name, N[b], S[b]), 1e-4)


# ---------------------------------------------------------------------------- epochs


def shown_for_ever(scores: list[float], bias: FloatArray) -> EpochRepeat[Any]:
    """Epochs of the one list that these scores make."""
    policy = epochs_of("epoch-ucb", Setting(len(scores), len(bias), bias=bias))
    fixed = Bound(lambda tally, t: np.broadcast_to(np.array(scores), tally.clicks.shape))
    return replace(policy, policy=replace(policy.policy, explore=fixed))


def test_clicks_of_an_epoch_are_geometric() -> None:
    """P(n clicks on item j in slot k) = (λα)ⁿ/(1 + λα)ⁿ⁺¹, whatever else is shown.

    The first 40 epochs of 200 learners; a chi-square test for each slot, cells 0 … 3 and more. Each of the three
    fails for one seed in 10,000.
    """
    alpha, B, epochs = [0.9, 0.8, 0.5, 0.3], 200, 40
    world = settled({"kind": "choice", "attraction": alpha, "bias": BIAS.tolist()}, B)
    policy, draw = shown_for_ever([4.0, 3.0, 2.0, 1.0], BIAS), rng(3)
    state = policy.init(B)
    seen: list[list[FloatArray]] = [[] for _ in range(B)]
    while min(map(len, seen)) < epochs:
        visit = world.visit(draw)
        decision = policy.decide(state, visit.request, draw)
        assert (decision.items == [0, 2, 1]).all()
        clicks, _ = visit.click(decision.items)
        policy.learn(state, decision, clicks)
        for b in np.flatnonzero(~clicks.any(axis=1)):
            seen[b].append(state.clicks[b].copy())
    finished = np.array([mine[:epochs] for mine in seen])
    for slot, item in enumerate([0, 2, 1]):
        odds = BIAS[slot] * alpha[item]
        chance = [odds**n / (1 + odds) ** (n + 1) for n in range(3)]
        counts = finished[:, :, slot].ravel()
        cells = [int((counts == n).sum()) for n in range(3)]
        observed = [*cells, counts.size - sum(cells)]
        expected = counts.size * np.array([*chance, 1 - sum(chance)])
        assert stats.chisquare(observed, expected).pvalue > RARE


def made_clicks(draw: np.random.Generator, items: IntArray, stay: float) -> FloatArray:
    """One click in a random slot that holds an item, with this probability, else none."""
    clicks = np.zeros(items.shape)
    for b, row in enumerate(items):
        slots = np.flatnonzero(row != EMPTY)
        if draw.random() < stay and len(slots):
            clicks[b, draw.choice(slots)] = 1.0
    return clicks


@pytest.mark.parametrize("id", EPOCH_POLICIES)
def test_a_list_is_kept_until_nobody_clicks(id: str) -> None:
    B, J, K, draw = 30, 8, 3, rng(4)
    policy = epochs_of(id, Setting(J, K, bias=BIAS))
    state, request = policy.init(B), Request(B, J, K)
    kept = np.full((B, K), EMPTY)
    open_ = np.zeros(B, dtype=np.bool_)
    changed = 0
    for _ in range(12):
        items = policy.decide(state, request, draw).items
        assert (items[open_] == kept[open_]).all()
        changed += int((items[~open_] != kept[~open_]).any(axis=1).sum())
        clicks = made_clicks(draw, items, stay=0.6)
        policy.learn(state, policy.adopt(request, items), clicks)
        kept, open_ = items, clicks.sum(axis=1) > 0
        assert (state.open == open_).all()
    assert changed > B  # and new lists do come


@pytest.mark.parametrize("id", EPOCH_POLICIES)
def test_deciding_changes_no_state(id: str) -> None:
    B, J, K, draw = 4, 6, 3, rng(5)
    policy = epochs_of(id, Setting(J, K, bias=BIAS))
    state, request = policy.init(B), Request(B, J, K)
    for _ in range(8):
        before = snapshot(state)
        decision = policy.decide(state, request, draw)
        again = policy.decide(state, request, rng(6)).items
        assert snapshot(state) == before
        assert (again[state.open] == decision.items[state.open]).all()
        policy.learn(state, decision, made_clicks(draw, decision.items, stay=0.5))


@pytest.mark.parametrize("id", EPOCH_POLICIES)
def test_an_unfinished_epoch_teaches_nothing(id: str) -> None:
    """Bit for bit, also while another learner of the batch finishes its own."""
    B, J, K, draw = 3, 5, 3, rng(7)
    policy = epochs_of(id, Setting(J, K, bias=BIAS))
    state, request = policy.init(B), Request(B, J, K)
    for stay in (0.5, 0.5, 0.5, 0.5):
        decision = policy.decide(state, request, draw)
        policy.learn(state, decision, made_clicks(draw, decision.items, stay))
    for clicks in ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0], [1, 0, 0]]):
        before = snapshot(state.inner)
        policy.learn(state, policy.decide(state, request, draw), clicks)
        assert snapshot(state.inner) == before
    own = [snapshot(state.inner.view(slice(b, b + 1))) for b in range(B)]
    policy.learn(state, policy.decide(state, request, draw), [[0, 0, 0], [0, 1, 0], [0, 0, 0]])
    after = [snapshot(state.inner.view(slice(b, b + 1))) for b in range(B)]
    assert [a == b for a, b in zip(after, own, strict=True)] == [False, True, False]
    assert state.open.tolist() == [False, True, False]


def made_state(policy: EpochRepeat[Any], learners: int, seed: int) -> Any:
    """Random counts, so that no two indices tie."""
    state, draw = policy.init(learners), rng(seed)
    belief = state.inner.belief
    for name, array in belief.arrays():
        if name in ("N", "S"):
            array[...] = draw.integers(1, 9, array.shape)
        elif name in ("alpha", "lam", "beta2"):
            array[...] = draw.uniform(0.1, 1.0, array.shape)
        elif name == "clicks":
            array[...] = draw.uniform(1.0, 5.0, array.shape)
        else:
            array[...] = draw.uniform(5.0, 20.0, array.shape)
    state.inner.t[...] = draw.integers(10, 20, learners)
    return state


@pytest.mark.parametrize("id", EPOCH_POLICIES)
def test_learners_at_different_phases_are_as_if_each_were_alone(id: str) -> None:
    B, J, K, rounds = 4, 5, 3, 25
    policy = epochs_of(id, Setting(J, K, bias=BIAS))
    state, draw = made_state(policy, B, seed=8), rng(9)
    alone = [state.view(slice(b, b + 1)).copy() for b in range(B)]
    mixed = 0
    for _ in range(rounds):
        decision = policy.decide(state, Request(B, J, K), rng(10))
        clicks = made_clicks(draw, decision.items, stay=0.55)
        for b in range(B):
            own = policy.decide(alone[b], Request(1, J, K), rng(11 + b))
            assert own.items[0].tolist() == decision.items[b].tolist()
            policy.learn(alone[b], own, clicks[[b]])
        policy.learn(state, decision, clicks)
        mixed += 0 < state.open.sum() < B
    assert mixed > rounds / 2
    for b in range(B):
        for (_, whole), (_, single) in zip(state.arrays(), alone[b].arrays(), strict=True):
            agree(whole[[b]], single, 1e-9)


def test_an_epoch_teaches_its_clicks_and_one_exposure_of_each_slot() -> None:
    """Three clicks and a no-click: the attraction of an item is clicks over bias, not over rounds."""
    policy = epochs_of("epoch-ucb", Setting(4, 3, bias=BIAS))
    state, request = policy.init(1), Request(1, 4, 3)
    for clicks in ([1, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]):
        policy.learn(state, policy.adopt(request, [[3, 0, 2]]), [clicks])
    belief = state.inner.belief
    assert belief.clicks.tolist() == [[0.0, 0.0, 1.0, 2.0]]
    assert belief.exposure.tolist() == [[0.4, 0.0, 0.7, 1.0]]
    assert belief.shown.tolist() == [[1.0, 0.0, 1.0, 1.0]]
    assert state.t.tolist() == [2]


def test_a_kept_list_that_may_no_longer_be_shown_gives_way_and_its_clicks_count_without_exposure() -> None:
    policy = epochs_of("epoch-ucb", Setting(5, 3, bias=BIAS))
    state, request = policy.init(1), Request(1, 5, 3)
    policy.learn(state, policy.adopt(request, [[0, 1, 2]]), [[1, 0, 0]])
    narrow = replace(request, allowed=np.array([False, True, True, True, True]))
    decision = policy.decide(state, narrow, rng())
    assert 0 not in decision.items[0].tolist()
    assert EMPTY not in decision.items[0].tolist()
    policy.learn(state, decision, [[0, 0, 0]])
    assert state.inner.belief.clicks.tolist() == [[1.0, 0.0, 0.0, 0.0, 0.0]]
    assert state.inner.belief.exposure[0, 0] == 0.0
    assert state.t.tolist() == [2]


# ---------------------------------------------------------------------------- indices


def played(policy: EpochRepeat[Any], J: int, K: int, epochs: int, seed: int) -> tuple[Any, FloatArray, FloatArray]:
    """The state after epochs of random lists of all items but the last, and its counts N and S [K, J]."""
    state, draw, request = policy.init(1), rng(seed), Request(1, J, K)
    N, S = np.zeros((K, J)), np.zeros((K, J))
    for _ in range(epochs):
        items = draw.permutation(J - 1)[:K]
        decision = policy.adopt(request, items[None, :])
        for k in range(K):
            for _ in range(draw.integers(0, 3)):
                policy.learn(state, decision, np.eye(K)[[k]])
                N[k, items[k]] += 1
            S[k, items[k]] += 1
        policy.learn(state, decision, np.zeros((1, K)))
    return state, N, S


def wide(mean: float, log: float, factor: float, weight: float) -> float:
    """ᾱ + √(c·min(1, 2ᾱ)·log/Λ) + c·log/Λ."""
    return mean + math.sqrt(factor * min(1.0, 2 * mean) * log / weight) + factor * log / weight


@pytest.mark.parametrize("id, factor", [("epoch-ucb", 4), ("epoch-ucb-w", 48)])
def test_index_of_epoch_ucb(id: str, factor: int) -> None:
    J, K, epochs = 6, 3, 7
    policy = epochs_of(id, Setting(J, K, bias=BIAS))
    state, N, S = played(policy, J, K, epochs, seed=12)
    U = policy.policy.explore(state.inner.belief, state.inner.t, rng())(ALL)[0]
    epoch = epochs + 1
    log = math.log(J * epoch**2 / 2) if id == "epoch-ucb" else math.log(math.sqrt(J) * epoch / math.sqrt(2))
    for j in range(J):
        weight = sum(BIAS[k] * S[k, j] for k in range(K))
        if weight == 0:
            assert U[j] == math.inf
        else:
            agree(U[j], wide(N[:, j].sum() / weight, log, factor, weight))
    assert U[J - 1] == math.inf
    assert np.isfinite(U[: J - 1]).all()


def test_index_of_mnl_bandit() -> None:
    J, K, epochs = 5, 3, 6
    policy = epochs_of("mnl-bandit", Setting(J, K))
    state, N, S = played(policy, J, K, epochs, seed=13)
    log = math.log(J * K * (epochs + 1) ** 2 / 2)
    score = policy.policy.explore(state.inner.belief, state.inner.t, rng())
    tried = 0
    for k in range(K):
        U = score(PerItemSlot(K).rows(Request(1, J, K), np.empty((1, 0), dtype=np.int64), k))[0]
        for j in range(J):
            if S[k, j] == 0:
                assert U[j] == math.inf
            else:
                tried += 1
                agree(U[j], wide(N[k, j] / S[k, j], log, 4, S[k, j]))
    assert 0 < tried < J * K


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_index_of_pbm_ucb(eps: float) -> None:
    J, K, rounds, draw = 5, 3, 9, rng(14)
    policy = build("pbm-ucb", Setting(J, K, bias=BIAS), eps=eps)
    state, request = policy.init(1), Request(1, J, K)
    clicks, weight, shown = np.zeros(J), np.zeros(J), np.zeros(J)
    for _ in range(rounds):
        items, y = draw.permutation(J - 1)[:K], (draw.random(K) < 0.5).astype(float)
        policy.learn(state, policy.adopt(request, items[None, :]), y[None, :])
        for k, j in enumerate(items):
            clicks[j], weight[j], shown[j] = clicks[j] + y[k], weight[j] + BIAS[k], shown[j] + 1
    U = policy.explore(state.belief, state.t, rng())(ALL)[0]
    t = rounds + 1
    for j in range(J - 1):
        width = math.sqrt(shown[j] / weight[j]) * math.sqrt((1 + eps) * math.log(t) / (2 * weight[j]))
        agree(U[j], clicks[j] / weight[j] + width)
    assert U[J - 1] == math.inf


@pytest.mark.parametrize("id", ["epoch-ucb-upb", "epoch-ucb-upb-star"])
def test_index_of_unknown_biases_is_estimate_plus_sensitivity(id: str) -> None:
    B, J, K = 3, 5, 3
    policy = epochs_of(id, Setting(J, K))
    state = made_state(policy, B, seed=15)
    belief = state.inner.belief
    score = policy.policy.explore(belief, state.inner.t, rng())
    for b in range(B):
        epoch = int(state.inner.t[b])
        for j in range(J):
            if id == "epoch-ucb-upb":
                radius = math.sqrt(36 * belief.beta2[b, j] * math.log(J * epoch**2))
            else:
                radius = 0.5 * math.sqrt(belief.beta2[b, j] * math.log(math.sqrt(J) * epoch))
            for k in range(K):
                agree(score(Rows(model=k))[b, j], belief.lam[b, k] * (belief.alpha[b, j] + radius))


# ---------------------------------------------------------------------------- placement


def by_rank(U: FloatArray, lam: FloatArray) -> list[int]:
    """The k-th largest index into the slot with the k-th largest bias."""
    items, slots = np.argsort(-U), np.argsort(-lam)
    row = [EMPTY] * len(lam)
    for rank, slot in enumerate(slots):
        row[slot] = int(items[rank])
    return row


@pytest.mark.parametrize("id", ["epoch-ucb", "epoch-ucb-w"])
def test_placement_by_known_bias(id: str) -> None:
    B, J, K = 20, 6, 3
    policy = epochs_of(id, Setting(J, K, bias=BIAS))
    state = made_state(policy, B, seed=16)
    U = policy.policy.explore(state.inner.belief, state.inner.t, rng())(ALL)
    lists = policy.decide(state, Request(B, J, K), rng()).items
    assert lists.tolist() == [by_rank(U[b], BIAS) for b in range(B)]


@pytest.mark.parametrize("id", ["epoch-ucb-upb", "epoch-ucb-upb-star"])
def test_placement_by_estimated_bias_and_items_never_shown_come_first(id: str) -> None:
    B, J, K = 20, 6, 3
    policy = epochs_of(id, Setting(J, K))
    state = made_state(policy, B, seed=17)
    belief = state.inner.belief
    belief.S[:10, :, 4] = 0.0
    score = policy.policy.explore(belief, state.inner.t, rng())
    lists = policy.decide(state, Request(B, J, K), rng()).items
    for b in range(B):
        U = score(Rows(model=0))[b] / belief.lam[b, 0]
        if b < 10:
            U[4] = math.inf
            assert lists[b, belief.lam[b].argmax()] == 4
        assert lists[b].tolist() == by_rank(U, belief.lam[b])


@pytest.mark.parametrize("id", EPOCH_POLICIES)
def test_the_first_epoch_is_a_random_list(id: str) -> None:
    """6,000 learners and 4·3·2 = 24 lists; chi-square, fails for one seed in 10,000."""
    B, J, K = 6_000, 4, 3
    policy = epochs_of(id, Setting(J, K, bias=BIAS))
    lists = policy.decide(policy.init(B), Request(B, J, K), rng(18)).items
    assert_uniform(count_lists(lists, J))


def test_mnl_bandit_tries_every_pair_of_item_and_slot_before_any_again() -> None:
    """With as many items as slots a list has K new pairs as long as there are any: K lists for K² pairs."""
    B, K, draw = 50, 4, rng(19)
    policy = epochs_of("mnl-bandit", Setting(K, K))
    state, request = policy.init(B), Request(B, K, K)
    tried = np.zeros((B, K, K))
    for _ in range(K):
        decision = policy.decide(state, request, draw)
        tried[np.arange(B)[:, None], np.arange(K), decision.items] += 1
        policy.learn(state, decision, np.zeros((B, K)))
    assert (tried == 1.0).all()


# ---------------------------------------------------------------------------- epochs that a request breaks


def test_an_epoch_that_the_next_request_breaks_counts_its_clicks_without_exposure() -> None:
    """Budgets 2, 1, 2, 1, …: no epoch with clicks ends by itself, yet the estimates stay near (±0.15).

    Without the clicks of broken epochs they would all be 0.
    """
    alpha, bias = np.array([0.9, 0.8, 0.3, 0.1]), np.array([1.0, 0.6])
    for id in ("epoch-ucb", "epoch-ucb-upb-star"):
        policy = epochs_of(id, Setting(4, 2, 4000, bias=bias))
        state, draws = policy.init(8), rng(5)
        for t in range(1500):
            decision = policy.decide(state, Request(8, 4, 2 - t % 2), draws)
            shown = decision.items
            weight = np.where(shown != EMPTY, alpha[shown] * bias[: shown.shape[1]], 0.0)
            chance = weight / (1.0 + weight.sum(axis=1, keepdims=True))
            u = draws.random((8, 1))
            below = np.cumsum(chance, axis=1)
            policy.learn(state, decision, ((u < below) & (u >= below - chance)).astype(float))
        belief = state.inner.belief
        found = belief.clicks / belief.exposure if id == "epoch-ucb" else belief.alpha
        assert np.abs(found[:, :2].mean(axis=0) - alpha[:2]).max() < 0.15


def test_an_empty_list_is_no_epoch() -> None:
    policy = catalogue.build("epoch-ucb", Setting(3, 2, 10, bias=np.array([1.0, 0.5])))
    state = policy.init(1)
    for _ in range(5):
        policy.learn(state, policy.decide(state, Request(1, 3, 0), rng(0)), np.empty((1, 0)))
    assert state.t.tolist() == [1]


@pytest.mark.parametrize("id", ["epoch-ucb", "epoch-ucb-upb", "mnl-bandit", "pbm-ucb"])
def test_more_slots_than_it_was_built_for_are_refused_in_words(id: str) -> None:
    policy = catalogue.build(id, Setting(4, 2, 10, bias=np.array([1.0, 0.5])))
    with pytest.raises(InvalidInput, match=r"request\.k is 3; accepted: at most 2"):
        policy.decide(policy.init(1), Request(1, 4, 3), rng(0))


@pytest.mark.parametrize("bias", [[1.0], [1.0, 2.0], [1.0, -0.1], [[1.0, 0.5]]])
def test_a_malformed_bias_is_refused(bias: Any) -> None:
    with pytest.raises(InvalidInput, match=r"setting\.bias"):
        catalogue.build("epoch-ucb", Setting(4, 2, 10, bias=np.array(bias)))


@pytest.mark.parametrize("estimator", ["exclude", "printed"])
def test_estimates_depend_on_the_counts_alone_not_on_their_history(estimator: str) -> None:
    """The same counts, arrived at one epoch at a time or at once, give the same estimates."""
    belief = ChoiceEstimates(3, 2, ESTIMATORS[estimator])
    slow, draws = belief.init(1), rng(2)
    request = Request(1, 3, 2)
    for _ in range(12):
        items = draws.permutation(3)[None, :2]
        evidence = Evidence(draws.integers(0, 3, (1, 2)).astype(float), np.ones((1, 2)))
        belief.update(slow, Decision(items, Rows(items), request), evidence)
    fast = belief.init(1)
    fast.N[...], fast.S[...] = slow.N, slow.S
    nothing = Decision(np.array([[0, EMPTY]]), Rows(np.array([[0, EMPTY]])), request)
    fast.S[0, 0, 0] -= 1.0
    belief.update(fast, nothing, Evidence(np.zeros((1, 2)), np.array([[1.0, 0.0]])))
    agree(fast.alpha, slow.alpha, 1e-12)
    agree(fast.beta2, slow.beta2, 1e-12)


@given(st.integers(0, 10_000), st.permutations(range(6)))
@settings(deadline=None, max_examples=50)
def test_items_with_equal_records_have_equal_estimates_wherever_they_stand(seed: int, order: list[int]) -> None:
    """Bit for bit: otherwise the order of a sum, and not a coin, would decide between them."""
    N, S = random_counts(seed, 3, 6)
    N[:, :, 4], S[:, :, 4] = N[:, :, 1], S[:, :, 1]
    found = []
    for counts in ((N, S), (N[:, :, order], S[:, :, order])):
        alpha, lam = mnl.fit_mle(*counts, *start(3, 6))
        found.append((alpha, lam, sensitivity(mnl.fit_mle, *counts, alpha, lam)))
    (alpha, lam, beta2), moved = found
    assert alpha[0, 4] == alpha[0, 1]
    assert beta2[0, 4] == beta2[0, 1]
    for one, other in zip((alpha[:, order], lam, beta2[:, order]), moved, strict=True):
        np.testing.assert_array_equal(one, other)
