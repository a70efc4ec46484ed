"""Predicted clicks: each model against an enumeration of its visitors, and what every policy predicts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import snapshot
from rankloop import catalogue
from rankloop.feedback import Cascade, Choice, Feedback, LastClick, PositionBased, SemiBandit
from rankloop.math.logistic import sigmoid
from rankloop.ranking_policy import RankingPolicy
from rankloop.types import EMPTY, BetaPrior, FloatArray, IntArray, Request, Setting

BIAS = np.array([0.9, 0.6, 0.3, 0.1])
L, K, D = 7, 3, 4
IDS = [entry.id for entry in catalogue.entries()]
WITHOUT = {"random", "toprank"}
"""Policies whose belief has no estimates."""

# Models, by enumeration


def visitors(name: str, p: list[float]) -> Iterator[tuple[float, list[bool]]]:
    """Every visitor that a model knows: a probability, and the slots that this visitor clicks."""
    if name == "choice":
        whole = 1.0 + sum(p)
        yield 1.0 / whole, [False] * len(p)
        for slot, weight in enumerate(p):
            yield weight / whole, [at == slot for at in range(len(p))]
        return
    for attracted in product([False, True], repeat=len(p)):
        chance = float(np.prod([q if a else 1.0 - q for q, a in zip(p, attracted, strict=True)]))
        if name == "cascade":
            yield chance, [a and not any(attracted[:slot]) for slot, a in enumerate(attracted)]
        elif name == "position-based":
            for looked in product([False, True], repeat=len(p)):
                looks = float(np.prod([b if o else 1.0 - b for b, o in zip(BIAS[: len(p)], looked, strict=True)]))
                yield chance * looks, [a and o for a, o in zip(attracted, looked, strict=True)]
        else:
            yield chance, list(attracted)


@pytest.mark.parametrize(
    "feedback", [Cascade(), LastClick(), SemiBandit(), PositionBased(BIAS), Choice()], ids=lambda one: one.name
)
@given(p=st.lists(st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0), min_size=0, max_size=4))
@settings(deadline=None)
def test_click_probabilities_equal_an_enumeration_of_visitors(feedback: Feedback, p: list[float]) -> None:
    everybody = list(visitors(feedback.name, p))
    assert sum(chance for chance, _ in everybody) == pytest.approx(1.0)
    expected = sum((chance * np.array(clicks, dtype=float) for chance, clicks in everybody), np.zeros(len(p)))
    found = feedback.click_probability(np.array([p, p]).reshape(2, len(p)))
    assert found.shape == (2, len(p))
    np.testing.assert_allclose(found, [expected, expected], rtol=0, atol=1e-12)


def test_attractions_are_clipped_where_they_are_probabilities_and_weights_where_they_are_not() -> None:
    outside = np.array([[-0.2, 3.0, 0.5]])
    for feedback in (LastClick(), SemiBandit()):
        assert feedback.click_probability(outside).tolist() == [[0.0, 1.0, 0.5]]
    assert Cascade().click_probability(outside).tolist() == [[0.0, 1.0, 0.0]]
    assert Choice().click_probability(outside).tolist() == [[0.0, 3.0 / 4.5, 0.5 / 4.5]]


# Policies


def setting() -> Setting:
    """All that any policy may need."""
    prior = BetaPrior(np.linspace(1.0, 3.0, L), np.linspace(5.0, 2.0, L))
    return Setting(L, K, rounds=200, dim=D, prior=prior, bias=BIAS[:K], context=D, coverage=D)


def request(learners: int) -> Request:
    rng = np.random.default_rng(4)
    x, context = rng.standard_normal((L, D)) / 2.0, np.broadcast_to(rng.standard_normal(D) / 2.0, (learners, D))
    return Request(learners, L, K, x, np.array(context), rng.uniform(size=(L, D)))


@cache
def taught(id: str) -> tuple[RankingPolicy[Any], Any]:
    """A policy, and its state of two learners after forty rounds with different clicks."""
    policy = catalogue.build(id, setting())
    state, rng = policy.init(2), np.random.default_rng(9)
    for _ in range(40):
        decision = policy.decide(state, request(2), rng)
        attracted = (rng.random(decision.items.shape) < 0.3) & (decision.items != EMPTY)
        policy.learn(state, decision, Cascade().keep(attracted.astype(float)))
    return policy, state


@st.composite
def lists(draw: st.DrawFn) -> IntArray:
    """Lists of distinct items for two learners, with some empty slots."""
    made = [[i if draw(st.booleans()) else EMPTY for i in draw(st.permutations(range(L)))[:K]] for _ in range(2)]
    return np.array(made)


@pytest.mark.parametrize("id", IDS)
@given(items=lists())
@settings(deadline=None, max_examples=20)
def test_predictions_are_probabilities_of_clicks(id: str, items: IntArray) -> None:
    """At most one click in all under the cascade and the choice; nothing in empty slots; no state changes."""
    policy, state = taught(id)
    before = snapshot(state)
    found = policy.predict(state, policy.adopt(request(2), items))
    assert snapshot(state) == before
    assert (found is None) == (id in WITHOUT)
    if found is None:
        return
    assert found.shape == (2, K)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert not found[items == EMPTY].any()
    if policy.feedback.single:
        assert (found.sum(axis=1) <= 1.0 + 1e-12).all()
    for b in range(2):
        alone = policy.predict(state.view(slice(b, b + 1)), policy.adopt(request(1), items[b : b + 1]))
        assert alone is not None
        np.testing.assert_allclose(alone[0], found[b], rtol=1e-9, atol=1e-12)


def innermost(policy: Any) -> Any:
    """The composition inside wrappers."""
    while hasattr(policy, "policy"):
        policy = policy.policy
    return policy


@pytest.mark.parametrize("id", ["log-ts-ltr", "log-ts-newton", "ind", "dep", "gl-cdcm", "ucr", "feature-ucr"])
def test_logistic_beliefs_predict_through_their_link(id: str) -> None:
    policy, state = taught(id)
    decision = policy.adopt(request(2), [[0, 1, 2], [3, 4, 5]])
    inner = innermost(policy)
    for b in range(2):
        one, rows = state.view(slice(b, b + 1)), inner.design.pick(request(1), decision.items[b : b + 1])
        model = rows.model if not isinstance(rows.model, np.ndarray) else rows.model.reshape(-1)[:K]
        z = one.belief.mean(type(rows)(model, rows.x))
        expected: FloatArray = inner.feedback.click_probability(sigmoid(z))
        found = policy.predict(one, policy.adopt(request(1), decision.items[b : b + 1]))
        assert found is not None
        assert (z != 0).any()
        np.testing.assert_allclose(found, expected)


def test_a_ridge_regression_is_on_the_scale_of_outcomes() -> None:
    policy, state = taught("cascade-lin-ts")
    decision = policy.adopt(request(2), [[0, 1, 2], [3, 4, 5]])
    p = state.belief.mean(decision.rows)
    found = policy.predict(state, decision)
    assert found is not None
    np.testing.assert_allclose(found, Cascade().click_probability(p))


def test_a_list_that_is_kept_for_an_epoch_is_a_choice_with_the_exposure_of_its_slots() -> None:
    policy, state = taught("epoch-ucb")
    decision = policy.adopt(request(2), [[0, 1, EMPTY], [3, 4, 5]])
    clicks, exposure = state.inner.belief.clicks, state.inner.belief.exposure
    alpha = np.divide(clicks, exposure, out=np.zeros_like(clicks), where=exposure > 0)
    weight = np.where(decision.items != EMPTY, np.take_along_axis(alpha, np.maximum(decision.items, 0), 1), 0.0)
    weight = weight * BIAS[:K]
    found = policy.predict(state, decision)
    assert found is not None
    np.testing.assert_allclose(found, weight / (1.0 + weight.sum(axis=1, keepdims=True)))


def test_estimated_attraction_and_bias_are_the_weights_of_a_choice() -> None:
    policy, state = taught("epoch-ucb-upb")
    decision = policy.adopt(request(2), [[6, 1, 2], [3, EMPTY, 5]])
    belief = state.inner.belief
    weight = np.take_along_axis(belief.alpha, np.maximum(decision.items, 0), 1) * belief.lam
    weight[1, 1] = 0.0
    found = policy.predict(state, decision)
    assert found is not None
    np.testing.assert_allclose(found, weight / (1.0 + weight.sum(axis=1, keepdims=True)))


def test_batches_predict_with_what_was_known_at_the_last_update() -> None:
    policy = catalogue.build("gts", setting(), every=10)
    state, decision = policy.init(1), policy.adopt(request(1), [[0, 1, 2]])
    before = policy.predict(state, decision)
    for n in range(1, 11):
        policy.learn(state, decision, np.array([[1.0, 0.0, 0.0]]))
        found = policy.predict(state, decision)
        assert found is not None
        assert before is not None
        assert (found != before).any() == (n == 10)
