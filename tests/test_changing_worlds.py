"""Worlds whose attractions change by round: contexts of visitors, and features that are drawn anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop import InvalidInput, simulate
from rankloop.design import Interaction
from rankloop.simulator import streams
from rankloop.types import EMPTY, FloatArray
from rankloop.worlds import Visit, from_spec
from rankloop.worlds.row_attraction import crossed_product, row_width
from small_worlds import ShowsAlways, every_list, settled

KINDS: dict[str, dict[str, Any]] = {
    "cascade": {"kind": "cascade", "k": 2},
    "dependent-click": {"kind": "dependent-click", "termination": [0.3, 0.9]},
    "position-based": {"kind": "position-based", "bias": [0.4, 1.0]},
}
SIZES = {"items": 5, "dim": 3}
SOURCES: dict[str, dict[str, Any]] = {
    f"{name}-{what}": {"attraction": {name: SIZES | fresh}} | context
    for name in ("linear", "logistic")
    for what, fresh, context in (
        ("context", {}, {"context": {"dim": 2}}),
        ("listed", {}, {"context": {"values": [[1, 0], [0, -1], [0.5, 0.5]]}}),
        ("fresh", {"fresh_features": True}, {}),
        ("both", {"fresh_features": True}, {"context": {"dim": 2}}),
    )
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_source = pytest.mark.parametrize("name", SOURCES)


def spec_of(kind: str, name: str) -> dict[str, Any]:
    return KINDS[kind] | SOURCES[name]


def plain_value(kind: str, nu: FloatArray) -> float:
    """The value of a list of attractions, as the definition says."""
    if kind == "position-based":
        return float(np.dot(KINDS[kind]["bias"], nu))
    weights = KINDS[kind].get("termination", [1.0, 1.0])
    return float(1 - np.prod(1 - np.multiply(weights, nu)))


def plain_row(x: FloatArray | None, y: FloatArray) -> FloatArray:
    """z = (x, y, x⊗y), or y without a context."""
    return y if x is None else np.concatenate([x, y, np.outer(x, y).ravel()])


def rows_of(visit: Visit) -> FloatArray:
    """The rows of all items, [B, L, width]."""
    request = visit.request
    assert request.features is not None
    y = np.broadcast_to(request.features, (request.learners, request.items, request.features.shape[-1]))
    x = [None] * len(y) if request.context is None else request.context
    return np.stack([[plain_row(one, row) for row in rows] for one, rows in zip(x, y, strict=True)])


# Attractions


@every_kind
@every_source
def test_values_and_best_lists_equal_brute_force_for_every_visitor(kind: str, name: str) -> None:
    instance = settled(spec_of(kind, name), 4)
    rng = np.random.default_rng(1)
    for _ in range(5):
        visit = instance.visit(rng)
        nu = visit.instance.nu
        lists = every_list(5, 2)
        values = np.array([[plain_value(kind, row[items]) for items in lists] for row in nu])
        np.testing.assert_allclose(visit.best, values.max(axis=1), rtol=1e-12)
        for j, items in enumerate(lists):
            np.testing.assert_allclose(visit.value(np.tile(items, (4, 1))), values[:, j], rtol=1e-12)


@every_source
def test_attractions_are_one_function_of_the_rows_in_all_rounds(name: str) -> None:
    """The link of ν is zᵀw with the weights of the replication, round after round, and ν stays in [0, 1]."""
    instance = settled(spec_of("cascade", name), 3)
    rng, weights = np.random.default_rng(2), instance.tastes.weights
    for _ in range(20):
        visit = instance.visit(rng)
        nu, u = visit.instance.nu, np.einsum("bld,bd->bl", rows_of(visit), weights)
        assert ((nu >= 0) & (nu <= 1)).all()
        link = nu if name.startswith("linear") else np.log(nu / (1 - nu))
        np.testing.assert_allclose(link, u, rtol=1e-9, atol=1e-12)


def test_the_crossed_product_is_that_of_the_design_of_feature_policies() -> None:
    """The row is that of `Interaction` without its first entry, the slot."""
    instance = settled(spec_of("cascade", "logistic-context"), 6)
    request = instance.visit(np.random.default_rng(3)).request
    z = Interaction(2, dim=3).rows(request, np.empty((6, 0), dtype=np.int64), 0).x
    assert z is not None
    w = np.random.default_rng(4).standard_normal((6, row_width(3, 2)))
    np.testing.assert_allclose(
        crossed_product(w, request.context, request.features), np.einsum("bld,bd->bl", z[..., 1:], w), rtol=1e-12
    )


def test_linear_attractions_with_a_context_fill_the_unit_interval_and_depend_on_the_visitor() -> None:
    """One feature: ν = ½(1 + mᵀx) for every item. In one dimension of context it is uniform on [0, 1].

    20,000 draws: mean ½ and variance 1/12 within five standard errors; fails with a chance below 2e-6.
    """
    instance = settled(
        KINDS["cascade"] | {"attraction": {"linear": {"items": 2, "dim": 1}}, "context": {"dim": 1}}, 100
    )
    rng = np.random.default_rng(5)
    nu = np.concatenate([instance.visit(rng).instance.nu[:, 0] for _ in range(200)])
    assert abs(nu.mean() - 0.5) < 5 * np.sqrt(1 / 12 / nu.size)
    assert abs(((nu - 0.5) ** 2).mean() - 1 / 12) < 5 * np.sqrt((1 / 80 - 1 / 144) / nu.size)


def test_given_weights_and_features_are_used() -> None:
    """Red and blue visitors of opposite tastes: w of x⊗y only."""
    spec = KINDS["cascade"] | {
        "attraction": {"logistic": {"features": [[1, 0], [0, 1]], "weights": [0, 0, -1, -1, 3, 0, 0, 3]}},
        "context": {"values": [[1, 0], [0, 1]]},
    }
    instance = settled(spec | {"k": 1}, 50)
    visit = instance.visit(np.random.default_rng(6))
    red = visit.request.context[:, 0] == 1
    assert 0 < red.sum() < 50
    like, dislike = 1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(1.0))
    np.testing.assert_allclose(visit.instance.nu[red], np.tile([like, dislike], (red.sum(), 1)), rtol=1e-12)
    np.testing.assert_allclose(visit.instance.nu[~red], np.tile([dislike, like], ((~red).sum(), 1)), rtol=1e-12)


def test_given_weights_without_a_context_are_fixed_attractions() -> None:
    x, w = [[0.5, 0.1], [0.2, 0.3], [0.0, 0.9]], [0.4, 0.6]
    for name, nu in (("linear", np.dot(x, w)), ("logistic", 1 / (1 + np.exp(-np.dot(x, w))))):
        instance = settled(KINDS["cascade"] | {"attraction": {name: {"features": x, "weights": w}}}, 3)
        np.testing.assert_allclose(instance.nu, np.tile(nu, (3, 1)), rtol=1e-12)
        assert not instance.setting.changing


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_given_weights_with_fresh_features_are_the_same_in_every_replication(name: str) -> None:
    spec = {"attraction": {name: SIZES | {"fresh_features": True, "weights": [0.6, 0.0, 0.8]}}}
    np.testing.assert_array_equal(settled(KINDS["cascade"] | spec, 4).tastes.weights, np.tile([0.6, 0.0, 0.8], (4, 1)))


# What policies are given


@every_kind
@every_source
def test_requests_and_settings_say_what_changes(kind: str, name: str) -> None:
    instance = settled(spec_of(kind, name), 4)
    setting, rng = instance.setting, np.random.default_rng(7)
    one, two = (instance.visit(rng).request for _ in range(2))
    has_context = not name.endswith("fresh")
    assert (setting.items, setting.slots, setting.dim, setting.context) == (5, 2, 3, 2 if has_context else None)
    assert setting.changing
    assert setting.lasting
    assert setting.prior is None
    assert one.features.shape == (4, 5, 3)
    fresh = name.endswith(("fresh", "both"))
    assert (one.features != two.features).all() if fresh else (one.features == two.features).all()
    np.testing.assert_allclose(np.linalg.norm(one.features, axis=-1), 1.0, rtol=1e-12)
    assert (one.context is None) != has_context
    if has_context:
        assert (np.linalg.norm(one.context, axis=1) <= 1 + 1e-12).all()
        assert (one.context != two.context).any()


def test_the_termination_of_dependent_clicks_is_known() -> None:
    np.testing.assert_array_equal(settled(spec_of("dependent-click", "linear-both"), 2).setting.termination, [0.3, 0.9])
    assert settled(spec_of("cascade", "linear-both"), 2).setting.termination is None


def test_listed_contexts_are_sampled_uniformly() -> None:
    """30,000 draws of three rows: each share within five standard errors of 1/3, a chance below 2e-6 to fail."""
    instance = settled(spec_of("cascade", "linear-listed"), 300)
    rng = np.random.default_rng(8)
    x = np.concatenate([instance.visit(rng).request.context for _ in range(100)])
    for row in SOURCES["linear-listed"]["context"]["values"]:
        assert abs((x == row).all(axis=1).mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / len(x))


def test_a_prior_may_be_given() -> None:
    prior = settled(spec_of("cascade", "logistic-fresh") | {"prior": {"a": 1, "b": 2}}, 2).setting.prior
    np.testing.assert_array_equal(prior.a, np.ones(5))


# Visitors


@every_kind
@every_source
def test_clicks_have_the_value_as_their_mean(kind: str, name: str) -> None:
    """4,000 rounds of 50 visitors, each with their own value: the mean of reward - value within five standard errors.

    Each case fails with a chance below 1e-6, were the seed free.
    """
    instance = settled(spec_of(kind, name), 50)
    rng = np.random.default_rng(9)
    off = []
    for _ in range(4000):
        visit = instance.visit(rng)
        items = np.tile([3, 1], (50, 1))
        off.append(visit.click(items)[1] - visit.value(items))
    difference = np.concatenate(off)
    assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(difference.size)


@every_source
def test_visitors_do_not_depend_on_the_policy(name: str) -> None:
    """Contexts, features and attractions of all rounds are equal, whatever was shown before."""
    one, other = (settled(spec_of("position-based", name), 6) for _ in range(2))
    a, b = np.random.default_rng(10), np.random.default_rng(10)
    for _ in range(10):
        first, second = one.visit(a), other.visit(b)
        first.click(np.tile([0, 1], (6, 1)))
        np.testing.assert_array_equal(first.instance.nu, second.instance.nu)
        np.testing.assert_array_equal(first.request.features, second.request.features)
        items = np.tile([2, EMPTY], (6, 1))
        np.testing.assert_array_equal(first.click(items)[0], second.click(items)[0])


@every_source
def test_the_parameters_of_a_replication_depend_on_seed_and_index_only(name: str) -> None:
    spec = spec_of("cascade", name)
    whole, last = settled(spec, 5, seed=3), settled(spec, 2, seed=3, first=3)
    np.testing.assert_array_equal(whole.tastes.weights[3:], last.tastes.weights)
    if whole.tastes.features is not None:
        np.testing.assert_array_equal(whole.tastes.features[3:], last.tastes.features)
    assert (whole.tastes.weights[0] != whole.tastes.weights[1]).any()


def test_the_number_of_processes_changes_nothing() -> None:
    spec = spec_of("cascade", "linear-both")
    one, two = (
        simulate(["lin-ts-ltr"], spec, rounds=15, replications=4, seed=6, chunk=2, jobs=jobs)["lin-ts-ltr"]
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.regret, two.regret)
    np.testing.assert_array_equal(one.reward, two.reward)


def test_common_random_numbers_of_two_policies() -> None:
    """Two policies that show the same list meet the same clicks, though one of them draws random numbers."""
    spec, shown = spec_of("dependent-click", "logistic-both"), (ShowsAlways([1, 3]), ShowsAlways([1, 3], draws=7))

    def quiet(setting: Any) -> ShowsAlways:
        return shown[0]

    def noisy(setting: Any) -> ShowsAlways:
        return shown[1]

    simulate([quiet, noisy], spec, rounds=20, replications=3)
    np.testing.assert_array_equal(shown[0].clicks, shown[1].clicks)


def test_a_linear_policy_learns_features_that_change() -> None:
    """Paper `prior`'s x_{i,t}: θ is learned although no features return.

    Regret of 3,000 rounds below a tenth of random's; it was a fiftieth with three seeds.
    """
    spec = KINDS["cascade"] | {"attraction": {"linear": {"items": 20, "dim": 3, "fresh_features": True}}}
    result = simulate(["lin-ts-ltr", "random"], spec, rounds=3000, replications=8, seed=1)
    assert result["lin-ts-ltr"].final.mean() < result["random"].final.mean() / 10


# Cascades with rewards


def test_payment_routing() -> None:
    """Rewards and losses of each transaction come with its request, and the best list follows them."""
    spec = {
        "kind": "cascade-rewards",
        "attraction": {"logistic": SIZES},
        "context": {"dim": 2},
        "budget": [3, 2],
        "rewards": [[1, 0.9, 0.8], [2, 1, 0.5, 0.1], [0.3, 0.3, 0.1]],
        "losses": [[0, -0.1, -0.2, -0.3], [0, -0.5, -1, -1.5]],
    }
    instance = settled(spec, 3)
    np.testing.assert_allclose(instance.setting.rewards, [1.1, 2.2 / 3, 1.4 / 3], rtol=1e-12)
    np.testing.assert_allclose(instance.setting.losses, [0, -0.3, -0.6, -0.9], rtol=1e-12)
    assert (instance.setting.changing, instance.setting.context, instance.setting.slots) == (True, 2, 3)
    rng = np.random.default_rng(11)
    for t in range(12):
        visit = instance.visit(rng)
        r, lost = spec["rewards"][t % 3], spec["losses"][t % 2]  # type: ignore[index]
        np.testing.assert_array_equal(visit.request.rewards, r[:3])
        np.testing.assert_array_equal(visit.request.losses, lost)
        assert visit.request.k == spec["budget"][t % 2]  # type: ignore[index]
        k, nu = visit.request.k, visit.arms.nu
        for b in range(3):
            values = []
            for s in range(k + 1):
                for items in every_list(5, s):
                    p = nu[b, items] if s else np.empty(0)
                    alive = np.concatenate([[1.0], np.cumprod(1 - p)])
                    values.append(float(np.dot(r[:s], p * alive[:-1]) + lost[s] * alive[-1]))
                    shown = np.full((3, k), EMPTY)
                    shown[b, :s] = items
                    assert visit.value(shown)[b] == pytest.approx(values[-1], rel=1e-12)
            assert visit.best[b] == pytest.approx(max(values), rel=1e-12)


def test_one_scenario_for_all_rounds_is_not_repeated_in_requests() -> None:
    spec = {"kind": "cascade-rewards", "attraction": [0.5, 0.4], "budget": 1, "rewards": [1], "losses": [0, -1]}
    request = settled(spec, 2).visit(np.random.default_rng(0)).request
    assert request.rewards is None
    assert request.losses is None


# Refusals


X = [[0.5, 0.1], [0.2, 0.3]]
BASE: dict[str, Any] = {"kind": "cascade", "k": 1}
ROWS = {"features": X, "weights": [0.1] * 8}
WRONG: list[tuple[dict[str, Any], str, str, str]] = [
    ({"attraction": [0.5, 0.1], "context": {"dim": 2}}, "world.context", "{'dim': 2}", "only with linear or logistic"),
    (
        {"attraction": {"beta": {"items": 2, "a": 1, "b": 1}}, "context": {"dim": 2}},
        "world.context",
        "dim",
        "only with linear or logistic",
    ),
    ({"attraction": {"linear": SIZES}, "context": {}}, "world.context", "{}", "either dim"),
    ({"attraction": {"linear": SIZES}, "context": {"dim": 2, "values": [[1]]}}, "world.context", "dim", "either dim"),
    ({"attraction": {"linear": SIZES}, "context": {"dim": 0}}, "world.context.dim", "0", "a whole number"),
    ({"attraction": {"linear": SIZES}, "context": 2}, "world.context", "2", "a mapping with dim, values"),
    (
        {"attraction": {"linear": SIZES}, "context": {"values": [[1, 1]]}},
        "world.context.values[0]",
        "norm 1.41421",
        "norms of at most 1",
    ),
    ({"attraction": {"linear": {"items": 3}}}, "world.attraction.linear.dim", "missing", "needs items, dim"),
    (
        {"attraction": {"linear": SIZES | {"fresh_features": 1}}},
        "world.attraction.linear.fresh_features",
        "1",
        "true or false",
    ),
    (
        {"attraction": {"linear": SIZES | {"weights": [1, 0, 0]}}},
        "world.attraction.linear.weights",
        "[1, 0, 0]",
        "only with features or fresh_features",
    ),
    (
        {"attraction": {"linear": SIZES | {"weights": [1, 1, 0], "fresh_features": True}}},
        "world.attraction.linear.weights",
        "norm 1.41421",
        "of norm at most 1",
    ),
    (
        {"attraction": {"linear": SIZES | {"weights": [0.1] * 7, "fresh_features": True}}, "context": {"dim": 1}},
        "world.attraction.linear.weights",
        "context",
        "together with features",
    ),
    ({"attraction": {"logistic": {"features": X}}}, "world.attraction.logistic.weights", "None", "a list"),
    (
        {"attraction": {"logistic": {"features": X, "weights": [1, 2, 3]}}},
        "world.attraction.logistic.weights",
        "a list of 3",
        "a list of 2, one for each feature",
    ),
    (
        {"attraction": {"logistic": {"features": X, "weights": [1, 2]}}, "context": {"dim": 3}},
        "world.attraction.logistic.weights",
        "a list of 2",
        "a list of 11: 3 of the context, 2 of the features and 3·2 of their products",
    ),
    (
        {"attraction": {"logistic": ROWS | {"items": 2}}, "context": {"dim": 2}},
        "world.attraction.logistic.items",
        "2",
        "no items together with",
    ),
    (
        {"attraction": {"linear": {"features": X, "weights": [3, 1]}}},
        "world.attraction.linear.weights",
        "attractions from 0.9 to 1.6",
        "all attractions lie in [0, 1]",
    ),
    (
        {"attraction": {"linear": {"features": [[0.5]], "weights": [0.4, 1, 0.4]}}, "context": {"dim": 1}},
        "world.attraction.linear.weights",
        "attractions from -0.1 to 1.1",
        "all attractions lie in [0, 1]",
    ),
    (
        {"attraction": {"linear": SIZES | {"fresh_features": True}}, "drift": {"abrupt": {"every": 5}}},
        "world.attraction",
        "a function of the items' features",
        "numbers or beta together with world.drift",
    ),
    (
        {"attraction": {"linear": SIZES}, "features": X},
        "world.features",
        "[[0.5",
        "only together with explicit attraction",
    ),
]


@pytest.mark.parametrize(("fields", "field", "value", "accepted"), WRONG)
def test_a_wrong_value_is_named(fields: dict[str, Any], field: str, value: str, accepted: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        from_spec(BASE | fields)
    assert refused.value.field == field
    assert value in str(refused.value.given)
    assert accepted in str(refused.value.accepted)


def test_fresh_features_are_refused_where_a_choice_is_made() -> None:
    attraction = {"logistic": SIZES | {"fresh_features": True}}
    with pytest.raises(InvalidInput, match="without fresh_features in this kind of world"):
        from_spec({"kind": "choice", "attraction": attraction, "bias": [1.0]})


def test_rewards_of_a_round_are_checked() -> None:
    spec = {"kind": "cascade-rewards", "attraction": [0.5, 0.4], "budget": 2, "losses": [0, 0, 0]}
    with pytest.raises(InvalidInput, match=r"world.rewards\[1\] is \[1, 2\]; accepted: rewards that do not increase"):
        from_spec(spec | {"rewards": [[1, 1], [1, 2]]})
    with pytest.raises(InvalidInput, match=r"world.losses\[1\] is a list of 2; accepted: a list of at least 3"):
        from_spec(spec | {"rewards": [1, 1], "losses": [[0, 0, 0], [0, 0]]})
    with pytest.raises(InvalidInput, match=r"world.losses is \[0, -1, 0\]; accepted: losses that do not increase"):
        from_spec(spec | {"rewards": [[1, 1], [2, 1]], "losses": [0, -1, 0]})
    with pytest.raises(InvalidInput, match=r"world.rewards\[1\] is 1; accepted: a list"):
        from_spec(spec | {"rewards": [[1, 1], 1]})


def test_streams_of_visitors_are_those_of_the_chunk() -> None:
    """A world is drawn from the streams of its replications: the visitors' stream plays no part in it."""
    world = from_spec(spec_of("cascade", "logistic-context"))
    one, two = (world.draw([streams.replication(0, r) for r in range(2)], None) for _ in range(2))
    one_visit, two_visit = one.visit(streams.visitors(0, 0)), two.visit(streams.visitors(0, 1))
    np.testing.assert_array_equal(one_visit.request.features, two_visit.request.features)
    assert one_visit.request.context is not None
    assert (one_visit.request.context != two_visit.request.context).all()
