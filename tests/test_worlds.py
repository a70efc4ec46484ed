"""Worlds: values are exact, best lists are best, and clicks obey the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rankloop.simulator import streams
from rankloop.types import EMPTY, BoolArray, FloatArray, IntArray
from rankloop.worlds import KINDS, MatrixWorld, from_spec
from rankloop.worlds.matrix import greedy_cover, svd_features
from small_worlds import CASCADE, DEPENDENT, POSITION, every_list, matrix_file, random_users, settled

INDEPENDENT = {"cascade": CASCADE, "dependent-click": DEPENDENT, "position-based": POSITION}


def plain_value(spec: dict[str, Any], items: IntArray) -> float:
    """The value of one list, written as the definition; -1 is an empty slot."""
    nu = [0.0 if i == EMPTY else spec["attraction"][i] for i in items]
    if spec["kind"] == "position-based":
        return float(sum(b * p for b, p in zip(spec["bias"], nu, strict=False)))
    weights = spec["termination"] if spec["kind"] == "dependent-click" else [1.0] * len(nu)
    none = 1.0
    for w, p in zip(weights, nu, strict=False):
        none *= 1.0 - w * p
    return 1.0 - none


def random_spec(kind: str, rng: np.random.Generator) -> dict[str, Any]:
    """Four to six items in two or three slots, attraction and slots in no order."""
    L, K = int(rng.integers(4, 7)), int(rng.integers(2, 4))
    spec: dict[str, Any] = {"kind": kind, "attraction": rng.random(L).tolist()}
    slots = rng.random(K).tolist()
    return (
        spec | {"cascade": {"k": K}, "dependent-click": {"termination": slots}, "position-based": {"bias": slots}}[kind]
    )


def matrix_spec(folder: Path, W: BoolArray, **fields: Any) -> dict[str, Any]:
    return {"kind": "matrix", "file": matrix_file(folder, W), "dim": 2, "k": 3} | fields


def rewards(instance: Any, items: IntArray, visits: int, seed: int) -> FloatArray:
    """Realised rewards [visits · B] of one list shown to many visitors."""
    rng = np.random.default_rng(seed)
    lists = np.tile(items, (instance.request.learners, 1))
    return np.concatenate([instance.visit(rng).click(lists)[1] for _ in range(visits)])


def test_every_kind_is_tested_here() -> None:
    own_files = {"amounts", "cascade-rewards", "coverage-rewards", "pivot", "rated", "choice", "item-position"}
    assert set(KINDS) == {*INDEPENDENT, "matrix", *own_files}


# Values


@pytest.mark.parametrize("kind", INDEPENDENT)
@pytest.mark.parametrize("items", [[1, 3, 2], [4, 0, 1], [3, EMPTY, 1], [2, 0, EMPTY]])
def test_value_is_the_mean_reward_of_many_visitors(kind: str, items: list[int]) -> None:
    """400,000 visitors, five standard errors: each case fails with a chance below 1e-6, were the seed free."""
    spec = INDEPENDENT[kind]
    shown = np.array(items[: settled(spec, 1).request.k])
    instance = settled(spec, 4000)
    expected = instance.visit(np.random.default_rng(0)).value(np.tile(shown, (4000, 1)))
    np.testing.assert_allclose(expected, plain_value(spec, shown), rtol=1e-12)
    seen = rewards(instance, shown, visits=100, seed=1)
    assert abs(seen.mean() - expected[0]) < 5.0 * seen.std() / np.sqrt(seen.size)


@pytest.mark.parametrize("items", [[0, 1, 2], [5, EMPTY, 3], [4, 2, EMPTY]])
def test_value_of_a_matrix_is_the_share_of_users_and_the_mean_reward(tmp_path: Path, items: list[int]) -> None:
    """200,000 visitors, five standard errors: fails with a chance below 1e-6, were the seed free."""
    instance = settled(matrix_spec(tmp_path, random_users(60, 8, seed=2)), 2000)
    shown = np.array(items)
    liked = instance.W[:, shown[shown != EMPTY]].any(axis=1)
    value = instance.visit(np.random.default_rng(0)).value(np.tile(shown, (2000, 1)))
    np.testing.assert_allclose(value, liked.sum() / len(liked), rtol=1e-12)
    seen = rewards(instance, shown, visits=100, seed=3)
    assert abs(seen.mean() - value[0]) < 5.0 * seen.std() / np.sqrt(seen.size)


def test_values_by_hand() -> None:
    """Items 1 and 3 of attraction 0.5 and 0.4."""
    for spec, expected in (
        (CASCADE, 1 - (1 - 0.5) * (1 - 0.4)),
        (DEPENDENT, 1 - (1 - 0.3 * 0.5) * (1 - 0.9 * 0.4)),
        (POSITION, 0.4 * 0.5 + 1.0 * 0.4),
    ):
        instance = settled(spec, 1)
        shown = np.array([[1, 3, EMPTY]])[:, : instance.request.k]
        np.testing.assert_allclose(instance.visit(np.random.default_rng(0)).value(shown), [expected], rtol=1e-12)


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_an_empty_list_is_worth_nothing(kind: str) -> None:
    instance = settled(INDEPENDENT[kind], 50)
    visit = instance.visit(np.random.default_rng(4))
    nothing = np.full((50, instance.request.k), EMPTY)
    clicks, reward = visit.click(nothing)
    assert not visit.value(nothing).any()
    assert not clicks.any()
    assert not reward.any()


# Best lists


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_best_equals_brute_force_over_all_lists(kind: str) -> None:
    """Thirty random instances, slots in no order."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        spec = random_spec(kind, rng)
        instance = settled(spec, 1)
        lists = every_list(len(spec["attraction"]), instance.request.k)
        values = [plain_value(spec, items) for items in lists]
        assert instance.best[0] == pytest.approx(max(values), rel=1e-12)
        best = instance.model.best(instance.nu, instance.request.k)[0]
        assert plain_value(spec, best) == pytest.approx(max(values), rel=1e-12)


def test_best_of_drawn_worlds_belongs_to_each_replication() -> None:
    instance = settled({"kind": "cascade", "attraction": {"beta": {"items": 5, "a": 1, "b": 2}}, "k": 2}, 7)
    lists = every_list(5, 2)
    for nu, best in zip(instance.nu, instance.best, strict=True):
        assert best == pytest.approx(max(1 - (1 - nu[i]) * (1 - nu[j]) for i, j in lists), rel=1e-12)


def plain_cover(W: BoolArray, k: int) -> list[int]:
    """Greedy cover with sets; equal gains go to the first item."""
    fans = [set(np.flatnonzero(column).tolist()) for column in W.T]
    reached: set[int] = set()
    cover: list[int] = []
    for _ in range(k):
        left = [i for i in range(len(fans)) if i not in cover]
        cover.append(max(left, key=lambda i: len(fans[i] - reached)))
        reached |= fans[cover[-1]]
    return cover


def test_greedy_cover_equals_a_plain_implementation(tmp_path: Path) -> None:
    for seed in range(20):
        W = random_users(40, 7, seed)
        assert greedy_cover(W, 4).tolist() == plain_cover(W, 4)
        instance = settled(matrix_spec(tmp_path, W), 3, seed=seed)
        reached = instance.W[:, plain_cover(instance.W, 3)].any(axis=1)
        np.testing.assert_allclose(instance.best, [reached.sum() / len(reached)] * 3, rtol=1e-12)


def test_greedy_cover_never_takes_an_item_twice() -> None:
    """After the first item no user is left to attract."""
    W = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0]], dtype=np.bool_)
    assert sorted(greedy_cover(W, 3).tolist()) == [0, 1, 2]


# Clicks


def some_clicks(spec: dict[str, Any], visits: int = 50) -> tuple[Any, IntArray, FloatArray, FloatArray]:
    """Instance, lists with empty slots, clicks and rewards of many visitors, one row each."""
    instance = settled(spec, 400)
    rng = np.random.default_rng(6)
    lists, clicks, reward = [], [], []
    for _ in range(visits):
        every = np.tile(np.arange(instance.request.items), (400, 1))
        items = rng.permuted(every, axis=1)[:, : instance.request.k]
        items = np.where(rng.random(items.shape) < 0.2, EMPTY, items)
        seen, won = instance.visit(rng).click(items)
        lists.append(items)
        clicks.append(seen)
        reward.append(won)
    return instance, np.concatenate(lists), np.concatenate(clicks), np.concatenate(reward)


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_clicks_are_zero_or_one_and_never_on_an_empty_slot(kind: str) -> None:
    _, items, clicks, _ = some_clicks(INDEPENDENT[kind])
    assert set(np.unique(clicks)) == {0.0, 1.0}
    assert not clicks[items == EMPTY].any()
    assert (items == EMPTY).any()


def test_a_cascade_ends_at_its_only_click() -> None:
    _, _, clicks, reward = some_clicks({**CASCADE, "attraction": [0.9] * 5, "k": 4})
    assert (clicks.sum(axis=1) <= 1).all()
    np.testing.assert_array_equal(clicks.sum(axis=1), reward)


def test_a_cascade_clicks_the_first_attractive_slot() -> None:
    """Certain attraction: the first of the items 1 and 3 is clicked, wherever it stands."""
    _, items, clicks, _ = some_clicks({"kind": "cascade", "attraction": [0, 1, 0, 1, 0], "k": 3})
    attractive = (items == 1) | (items == 3)
    first = attractive & (np.cumsum(attractive, axis=1) == 1)
    np.testing.assert_array_equal(clicks, first)


def test_a_dependent_click_visitor_leaves_after_the_satisfying_click() -> None:
    """Termination 0, 1, 0: a click in the middle satisfies, ends the visit and earns; no other does."""
    _, _, clicks, reward = some_clicks(DEPENDENT | {"attraction": [0.8] * 5, "termination": [0, 1, 0]})
    assert not clicks[clicks[:, 1] == 1, 2].any()
    np.testing.assert_array_equal(reward, clicks[:, 1])
    assert (clicks.sum(axis=1) == 2).any(), "a click that does not satisfy is followed by others"


def test_a_dependent_click_reward_needs_a_click() -> None:
    _, _, clicks, reward = some_clicks(DEPENDENT)
    assert (clicks.sum(axis=1)[reward == 1] >= 1).all()
    assert set(np.unique(reward)) == {0.0, 1.0}


def test_position_based_reward_is_the_number_of_clicks_and_an_unseen_slot_gets_none() -> None:
    _, _, clicks, reward = some_clicks(POSITION | {"bias": [0.5, 0, 1]})
    np.testing.assert_array_equal(clicks.sum(axis=1), reward)
    assert not clicks[:, 1].any()
    assert clicks.sum(axis=1).max() == 2


def test_a_user_of_the_matrix_clicks_the_first_liked_item(tmp_path: Path) -> None:
    instance = settled(matrix_spec(tmp_path, random_users(40, 8, seed=7)), 300)
    rng = np.random.default_rng(8)
    for _ in range(20):
        visit = instance.visit(rng)
        items = rng.permuted(np.tile(np.arange(8), (300, 1)), axis=1)[:, :3]
        items = np.where(rng.random(items.shape) < 0.2, EMPTY, items)
        clicks, reward = visit.click(items)
        for user, row, clicked, won in zip(visit.user, items, clicks, reward, strict=True):
            liked = [slot for slot, item in enumerate(row) if item != EMPTY and instance.W[user, item]]
            assert np.flatnonzero(clicked).tolist() == liked[:1]
            assert won == bool(liked)


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_a_visitor_does_not_change_their_mind(kind: str) -> None:
    """The same visit asked twice clicks the same, whatever was shown in between."""
    instance = settled(INDEPENDENT[kind], 200)
    visit = instance.visit(np.random.default_rng(9))
    one, other = np.tile([1, 3, 2], (200, 1)), np.tile([0, 4, 1], (200, 1))
    k = instance.request.k
    clicks, reward = visit.click(one[:, :k])
    visit.click(other[:, :k])
    again, once_more = visit.click(one[:, :k])
    np.testing.assert_array_equal(clicks, again)
    np.testing.assert_array_equal(reward, once_more)


# Generators


def drawn(generator: dict[str, Any], replications: int, **world: Any) -> Any:
    return settled({"kind": "cascade", "attraction": generator, "k": 2} | world, replications)


def same_distribution(sample: FloatArray, a: float, b: float) -> bool:
    """Kolmogorov and Smirnov at level 1e-6: that is the chance to refuse a true Beta(a, b), were the seed free."""
    return bool(stats.kstest(sample, stats.beta(a, b).cdf).pvalue > 1e-6)


def test_beta_with_numbers() -> None:
    """20,000 draws of Beta(2, 5)."""
    instance = drawn({"beta": {"items": 10, "a": 2, "b": 5}}, 2000)
    assert instance.nu.shape == (2000, 10)
    assert same_distribution(instance.nu.ravel(), 2, 5)
    assert not same_distribution(instance.nu.ravel(), 2, 6), "the test can tell"
    prior = instance.setting.prior
    np.testing.assert_array_equal(np.broadcast_to(prior.a, (2000, 10)), 2.0)
    np.testing.assert_array_equal(np.broadcast_to(prior.b, (2000, 10)), 5.0)


def test_beta_with_lists() -> None:
    """5,000 draws for each item with a = 1, 3 and b = 4, 2."""
    instance = drawn({"beta": {"items": 2, "a": [1, 3], "b": [4, 2]}}, 5000)
    assert same_distribution(instance.nu[:, 0], 1, 4)
    assert same_distribution(instance.nu[:, 1], 3, 2)


def test_beta_with_integers() -> None:
    """a uniform on {1..4}: 40,000 draws, each share within five standard errors √(¼·¾/40,000) of ¼.

    Given a and b, attraction has their distribution. Chance to fail below 1e-5, were the seed free.
    """
    instance = drawn({"beta": {"items": 20, "a": {"integers": [1, 4]}, "b": {"integers": [2, 2]}}}, 2000)
    a, b = instance.setting.prior.a, instance.setting.prior.b
    assert a.shape == (2000, 20)
    for value in (1, 2, 3, 4):
        assert abs((a == value).mean() - 0.25) < 5.0 * np.sqrt(0.25 * 0.75 / 40_000)
        assert same_distribution(instance.nu[a == value], value, 2)
    np.testing.assert_array_equal(b, 2.0)
    assert (a[0] != a[1]).any(), "drawn for each replication"


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_linear_and_logistic_attraction(name: str) -> None:
    """Some θ explains attraction exactly, and features are unit vectors of the positive orthant."""
    instance = drawn({name: {"items": 9, "dim": 4}}, 40)
    x = instance.request.features
    assert x.shape == (40, 9, 4)
    assert instance.setting.dim == 4
    assert (x >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(x, axis=-1), 1.0, rtol=1e-12)
    link = instance.nu if name == "linear" else np.log(instance.nu / (1 - instance.nu))
    for features, u in zip(x, link, strict=True):
        theta, *_ = np.linalg.lstsq(features, u)
        np.testing.assert_allclose(features @ theta, u, rtol=1e-9)
        assert (theta >= -1e-9).all()
        assert np.linalg.norm(theta) == pytest.approx(1.0, rel=1e-9)
    assert ((instance.nu >= 0) & (instance.nu <= 1)).all()
    if name == "logistic":
        assert (instance.nu >= 0.5).all(), "xᵀθ ≥ 0"


def test_linear_draws_are_uniform_on_the_cube_before_scaling() -> None:
    """In two dimensions x₂/x₁ = U₂/U₁ ≤ r with probability r/2 up to r = 1, then 1 - 1/(2r).

    8,000 draws; a true law is refused with a chance of 1e-6, were the seed free.
    """
    x = drawn({"linear": {"items": 8, "dim": 2}}, 1000).request.features.reshape(-1, 2)
    ratio = x[:, 1] / x[:, 0]
    below = np.where(ratio < 1, ratio / 2, 1 - 1 / (2 * np.maximum(ratio, 1)))
    assert stats.kstest(below, stats.uniform.cdf).pvalue > 1e-6


def test_logistic_prior_has_mean_nu_and_b_ten() -> None:
    instance = drawn({"logistic": {"items": 6, "dim": 3}}, 5)
    prior = instance.setting.prior
    np.testing.assert_array_equal(prior.b, np.full((5, 6), 10.0))
    np.testing.assert_allclose(prior.a, 10 * instance.nu / (1 - instance.nu), rtol=1e-12)
    np.testing.assert_allclose(prior.a / (prior.a + prior.b), instance.nu, rtol=1e-12)


def test_linear_and_explicit_worlds_have_no_prior_of_their_own() -> None:
    assert drawn({"linear": {"items": 6, "dim": 3}}, 2).setting.prior is None
    assert settled(CASCADE, 2).setting.prior is None


@pytest.mark.parametrize(
    "attraction",
    [{"beta": {"items": 4, "a": 1, "b": 10}}, {"logistic": {"items": 4, "dim": 2}}, [0.1, 0.2, 0.3, 0.4]],
    ids=["beta", "logistic", "explicit"],
)
def test_policies_are_given_the_misspecified_prior(attraction: Any) -> None:
    """And the truth is not moved by it."""
    honest = drawn(attraction, 3)
    misspecified = drawn(attraction, 3, prior={"a": 5, "b": [6, 7, 8, 9]})
    np.testing.assert_array_equal(misspecified.nu, honest.nu)
    prior = misspecified.setting.prior
    np.testing.assert_array_equal(np.broadcast_to(prior.a, (3, 4)), np.full((3, 4), 5.0))
    np.testing.assert_array_equal(np.broadcast_to(prior.b, (3, 4)), np.tile([6.0, 7.0, 8.0, 9.0], (3, 1)))


@pytest.mark.parametrize(
    "generator",
    [
        {"beta": {"items": 4, "a": {"integers": [1, 10]}, "b": 10}},
        {"linear": {"items": 4, "dim": 2}},
        {"logistic": {"items": 4, "dim": 2}},
    ],
    ids=["beta", "linear", "logistic"],
)
def test_a_replication_depends_on_seed_and_index_only(generator: dict[str, Any]) -> None:
    spec = {"kind": "cascade", "attraction": generator, "k": 2}
    whole = settled(spec, 7, seed=3)
    parts = [settled(spec, 3, seed=3), settled(spec, 3, seed=3, first=3), settled(spec, 1, seed=3, first=6)]
    np.testing.assert_array_equal(whole.nu, np.concatenate([part.nu for part in parts]))
    assert len(np.unique(whole.nu)) == whole.nu.size, "every replication has its own"
    assert (settled(spec, 7, seed=4).nu != whole.nu).all()


def test_explicit_features_and_bias_reach_the_policies() -> None:
    features = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.1], [0.3, 0.3]]
    instance = settled(POSITION | {"features": features}, 3)
    np.testing.assert_array_equal(instance.request.features, features)
    np.testing.assert_array_equal(instance.setting.bias, POSITION["bias"])
    assert (instance.setting.items, instance.setting.slots, instance.setting.dim) == (5, 3, 2)


# The matrix


def test_users_are_split_in_halves_and_items_are_the_most_popular(tmp_path: Path) -> None:
    """31 users: 15 teach, 16 visit. Item i has its own number of fans, so that a column says which it is."""
    W = np.arange(31)[:, None] < np.array([5, 29, 11, 23, 17, 2])
    seen = set()
    for seed in range(30):
        instance = settled(matrix_spec(tmp_path, W, items=4), 2, seed=seed)
        assert instance.W.shape == (16, 4)
        assert (instance.setting.items, instance.setting.slots, instance.setting.dim) == (4, 3, 2)
        # The popular ones are nested, so a visitor's row is explained by how many of them are liked.
        rows = {tuple(row) for row in (np.arange(31)[:, None] < np.array([29, 23, 17, 11])).tolist()}
        order = np.argsort(-instance.W.sum(axis=0), kind="stable")
        assert {tuple(row) for row in instance.W[:, order].tolist()} <= rows
        seen.add(tuple(order))
    assert len(seen) > 5, "items are shuffled"


def test_no_visitor_has_taught_the_features() -> None:
    """Ten users, each with a row of their own. With all four features (VΣ)(VΣ)ᵀ = XᵀX, X the users who do not visit.

    The order of the items is unknown; some order must explain both halves.
    """
    W = np.array([[i >> bit & 1 for bit in range(4)] for i in range(1, 11)], dtype=np.bool_)
    world = MatrixWorld(W, items=4, dim=4, k=1).prepare(streams.shared(5))
    assert world.features is not None
    assert len(world.W) == 5
    visitors = {tuple(row) for row in world.W.tolist()}
    explained = []
    for order in every_list(4, 4):
        rows = [tuple(row) for row in W[:, order].tolist()]
        rest = np.array([row for row in rows if row not in visitors], dtype=float)
        if visitors <= set(rows) and np.allclose(rest.T @ rest, world.features @ world.features.T):
            explained.append(order)
    assert explained


@pytest.mark.parametrize("dim", [1, 3, 8])
def test_features_are_v_sigma_up_to_sign(dim: int) -> None:
    W = random_users(30, 8, seed=10)
    _, sigma, Vt = np.linalg.svd(W.astype(float), full_matrices=False)
    expected = Vt[:dim].T * sigma[:dim]
    features = svd_features(W, dim)
    assert features.shape == (8, dim)
    signs = np.sign((features * expected).sum(axis=0))
    np.testing.assert_allclose(features, expected * signs, atol=1e-8)


def test_features_are_stored_once_and_equal_for_every_replication(tmp_path: Path) -> None:
    world = from_spec(matrix_spec(tmp_path, random_users(40, 8, seed=11))).prepare(streams.shared(0))
    assert isinstance(world, MatrixWorld)
    parts = [world.draw([streams.replication(0, r) for r in range(n)], None) for n in (1, 500)]
    for part in parts:
        assert part.request.features is world.features
        assert part.W is world.W
    assert world.features is not None
    assert world.features.shape == (8, 2)


def test_matrix_users_are_drawn_uniformly(tmp_path: Path) -> None:
    """10 visitors, 50,000 visits, each within five standard errors √(0.1·0.9/50,000) of 1/10: chance below 1e-5."""
    instance = settled(matrix_spec(tmp_path, random_users(20, 5, seed=12)), 5000)
    rng = np.random.default_rng(13)
    users = np.concatenate([instance.visit(rng).user for _ in range(10)])
    shares = np.bincount(users, minlength=10) / users.size
    assert (np.abs(shares - 0.1) < 5.0 * np.sqrt(0.1 * 0.9 / 50_000)).all()


def test_a_matrix_of_rank_below_dim_gives_finite_features() -> None:
    assert np.isfinite(svd_features(np.ones((10, 6), dtype=np.bool_), 3)).all()


def test_a_training_half_that_likes_nothing_gives_zero_features() -> None:
    """The SVD of zeros is zeros: V·0."""
    np.testing.assert_array_equal(svd_features(np.zeros((10, 6), dtype=np.bool_), 2), np.zeros((6, 2)))
