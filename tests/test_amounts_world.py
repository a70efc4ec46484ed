"""The world of amounts: every examined slot brings a number, and only policies that learn numbers play it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from rankloop import InvalidInput, Unsupported, catalogue, simulate
from rankloop.types import EMPTY
from rankloop.worlds import from_spec
from small_worlds import every_list, settled

AMOUNTS: dict[str, Any] = {"kind": "amounts", "amount": [1.0, 5.0, 0.0, 2.5], "sigma": 0.7, "bias": [0.5, 1.0, 0.8]}
PLAIN: dict[str, Any] = {"kind": "amounts", "amount": [1.0, 5.0, 0.0, 2.5], "k": 2}
FRESH: dict[str, Any] = {
    "kind": "amounts",
    "amount": {"linear": {"items": 6, "dim": 3, "fresh_features": True}},
    "k": 2,
    "sigma": 0.3,
}
READS = ("gts", "lin-ts-ltr")


def test_values_and_best_lists_equal_brute_force() -> None:
    for spec in (
        AMOUNTS,
        PLAIN,
        FRESH,
        FRESH | {"context": {"dim": 2}},
        FRESH | {"amount": {"gaussian": {"items": 5, "mu0": 0.2, "sigma0": 1}}},
    ):
        instance, rng = settled(spec, 3), np.random.default_rng(1)
        for _ in range(3):
            visit = instance.visit(rng)
            nu, k = visit.instance.nu, visit.request.k
            bias = np.asarray(spec.get("bias", np.ones(k)))
            for b in range(3):
                lists = every_list(nu.shape[1], k)
                values = [float(np.dot(bias, nu[b, items])) for items in lists]
                assert visit.best[b] == pytest.approx(max(values), rel=1e-12, abs=1e-12)
                for items, value in zip(lists[::7], values[::7], strict=True):
                    assert visit.value(np.tile(items, (3, 1)))[b] == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_amounts_are_normal_around_their_means_where_a_slot_is_examined() -> None:
    """20,000 visitors: Kolmogorov and Smirnov at level 1e-6, examined shares within five standard errors."""
    instance = settled(AMOUNTS, 20_000)
    outcomes, total = instance.visit(np.random.default_rng(2)).click(np.tile([1, 2, 3], (20_000, 1)))
    np.testing.assert_allclose(total, outcomes.sum(axis=1), rtol=1e-12)
    for slot, (bias, mean) in enumerate([(0.5, 5.0), (1.0, 0.0), (0.8, 2.5)]):
        seen = outcomes[:, slot] != 0
        assert abs(seen.mean() - bias) <= 5 * np.sqrt(bias * (1 - bias) / 20_000)
        assert stats.kstest(outcomes[seen, slot], stats.norm(mean, 0.7).cdf).pvalue > 1e-6


def test_the_mean_total_is_the_value() -> None:
    """200,000 visitors, five standard errors: fails with a chance below 1e-6, were the seed free."""
    instance, rng = settled(AMOUNTS, 2000), np.random.default_rng(3)
    items = np.tile([3, 0, EMPTY], (2000, 1))
    total = np.concatenate([instance.visit(rng).click(items)[1] for _ in range(100)])
    assert abs(total.mean() - (0.5 * 2.5 + 1.0)) < 5 * total.std() / np.sqrt(total.size)


def test_noise_belongs_to_visitor_and_item() -> None:
    """The same item brings the same amount in every slot that is examined; an empty slot brings nothing."""
    instance = settled(PLAIN, 500)
    visit = instance.visit(np.random.default_rng(4))
    one, other = (visit.click(np.tile(items, (500, 1)))[0] for items in ([1, 3], [3, EMPTY]))
    np.testing.assert_array_equal(one[:, 1], other[:, 0])
    assert not other[:, 1].any()


def test_without_noise_outcomes_are_the_expected_amounts() -> None:
    outcomes, _ = settled(PLAIN | {"sigma": 0}, 5).visit(np.random.default_rng(5)).click(np.tile([1, 3], (5, 1)))
    np.testing.assert_array_equal(outcomes, np.tile([5.0, 2.5], (5, 1)))


def test_gaussian_amounts_have_the_prior_of_gts() -> None:
    """20,000 draws; a true law is refused with a chance of 1e-6, were the seed free."""
    spec = PLAIN | {"amount": {"gaussian": {"items": 10, "mu0": 3, "sigma0": 2}}}
    assert stats.kstest(settled(spec, 2000).nu.ravel(), stats.norm(3, 2).cdf).pvalue > 1e-6


def test_given_rows_may_have_amounts_of_any_size() -> None:
    spec = {"kind": "amounts", "k": 1, "amount": {"linear": {"features": [[2.0, 1.0], [0.0, 30.0]], "weights": [3, 1]}}}
    np.testing.assert_array_equal(settled(spec, 2).nu, np.tile([7.0, 30.0], (2, 1)))


def test_policies_are_told() -> None:
    setting = settled(FRESH | {"context": {"dim": 2}}, 2).setting
    assert (setting.objective.name, setting.dim, setting.context, setting.changing) == ("amount", 3, 2, True)
    np.testing.assert_array_equal(setting.bias, np.ones(2))
    np.testing.assert_array_equal(settled(AMOUNTS, 2).setting.bias, AMOUNTS["bias"])


@pytest.mark.parametrize("feedback", ["semi-bandit", "position-based"])
def test_policies_that_learn_numbers_find_the_largest_amounts(feedback: str) -> None:
    """Regret of 2,000 rounds below a fifth of random's, in all of 6 replications together."""
    gts = {"id": "gts", "feedback": feedback, "sigma0": 5.0, "sigma": 1.0}
    spec = PLAIN | {"amount": [1.0, 5.0, 0.0, 2.5, 1.5, 0.5]}
    result = simulate([gts, "random"], spec, rounds=2000, replications=6, seed=1)
    assert result["gts"].final.mean() < result["random"].final.mean() / 5
    linear = {"id": "lin-ts-ltr", "feedback": feedback}
    result = simulate([linear, "random"], FRESH, rounds=2000, replications=6, seed=1)
    assert result["lin-ts-ltr"].final.mean() < result["random"].final.mean() / 5


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: str(entry.id))
def test_policies_that_learn_clicks_are_refused_with_a_sentence(entry: catalogue.PolicyEntry) -> None:
    spec = PLAIN | {"features": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.1]]}
    if (not entry.learns and "prior" not in entry.needs) or entry.id == "hybrid":  # which observes every slot
        simulate([entry.id], spec, rounds=20, replications=2)
        return
    with pytest.raises(Unsupported) as refused:
        simulate([entry.id], spec, rounds=20, replications=2)
    assert str(refused.value).startswith("policies[0]: " + entry.id)
    if not {"prior", "context", "coverage"} & set(entry.needs):
        assert "amounts" in str(refused.value)


@pytest.mark.parametrize("id", READS)
def test_the_cascade_reading_of_amounts_is_refused(id: str) -> None:
    for feedback in ("cascade", "last-click"):
        with pytest.raises(Unsupported, match=f"{id}.*amounts"):
            simulate([{"id": id, "feedback": feedback}], FRESH, rounds=5, replications=1)


def test_the_number_of_processes_changes_nothing() -> None:
    policy = {"id": "lin-ts-ltr", "feedback": "semi-bandit"}
    one, two = (
        simulate([policy], FRESH, rounds=15, replications=4, seed=6, chunk=2, jobs=jobs)["lin-ts-ltr"]
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.regret, two.regret)
    np.testing.assert_array_equal(one.reward, two.reward)


def test_amounts_may_drift() -> None:
    instance, rng = settled(PLAIN | {"drift": {"abrupt": {"every": 1}}}, 3), np.random.default_rng(6)
    for _ in range(4):
        visit = instance.visit(rng)
        np.testing.assert_allclose(np.sort(visit.instance.nu, axis=1), np.tile([0, 1, 2.5, 5], (3, 1)))
        np.testing.assert_allclose(visit.best, 7.5)


def test_wrong_values_are_named() -> None:
    for fields, words in (
        ({"amount": [1, -1]}, r"world.amount\[1\] is -1"),
        ({"sigma": -1}, "world.sigma is -1"),
        ({"k": 5}, "world.k is 5"),
        ({"bias": [1, 1, 1]}, "world.k is 2; accepted: 3, the length of world.bias"),
        ({"amount": {"beta": {}}}, "world.amount is 'beta'; accepted: one of gaussian, linear"),
        ({"amount": {"gaussian": {"items": 3, "mu0": 0}}}, "world.amount.gaussian.sigma0 is missing"),
        ({"amount": {}}, "one generator: gaussian or linear"),
        ({"context": {"dim": 2}}, "a context only with linear amounts"),
        ({"prices": [1] * 4}, "world.prices is"),
        ({"amount": {"linear": {"items": 3, "dim": 2}}, "features": [[1]]}, "only together with explicit amounts"),
    ):
        with pytest.raises(InvalidInput, match=words):
            from_spec(PLAIN | fields)
    with pytest.raises(InvalidInput, match=r"world\.k is missing; accepted: a number of slots, or a bias"):
        from_spec({"kind": "amounts", "amount": [1, 2]})
