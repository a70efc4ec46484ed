"""Requests with candidates of their own: what is accepted, how they are gathered, and which parts translate them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop import catalogue
from rankloop.belief import SelfWeightedRidge
from rankloop.checks.candidates import Candidates
from rankloop.design import PerItem
from rankloop.errors import InvalidInput, Unsupported
from rankloop.explore import Greedy
from rankloop.feedback import Cascade
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.types import EMPTY, Request, Setting

COLUMNS = np.array([5, 2, 9])


# ---------------------------------------------------------------------------- requests


@pytest.mark.parametrize(
    "field, value, words",
    [
        ("columns", np.array([1, 2]), "columns is an array of int64 of shape"),
        ("columns", np.array([1.0, 2.0, 3.0]), "columns is an array of float64"),
        ("columns", [0, 1, 2], "columns is a list"),
        ("columns", np.array([0, 1, 1]), "columns .* different items"),
        ("columns", np.array([0, -1, 2]), "columns .* at least 0"),
        ("scores", np.array([0.0, np.inf, 1.0]), "scores .* NaN where there is none"),
        ("scores", np.zeros(4), "scores is an array of float64 of shape"),
        ("ranks", np.array([0, 1, 2]), "ranks is an array of int64"),
        ("prices", np.array([1.0, np.nan, 1.0]), "prices .* finite"),
        ("prices", np.array([1.0, -0.5, 1.0]), r"prices is -0\.5; accepted: numbers of at least 0"),
        ("rewards", np.array([1.0]), "rewards is an array of float64 of shape"),
        ("rewards", np.array([1.0, np.inf]), "rewards .* finite"),
        ("losses", np.zeros(2), r"losses .* shape \(3,\)"),
        ("losses", np.zeros((3, 1)), "losses is an array"),
    ],
)
def test_a_request_with_invalid_arrays_is_refused(field: str, value: Any, words: str) -> None:
    given: dict[str, Any] = {field: value}
    with pytest.raises(InvalidInput, match=rf"request\.{words}"):
        Request(2, 3, 2, **given)


def test_a_request_accepts_missing_scores_and_more_rewards_than_slots() -> None:
    nan = np.nan
    Request(
        2,
        3,
        2,
        columns=COLUMNS,
        scores=np.array([0.5, nan, 1.0]),
        ranks=np.array([[0.0, nan, 1.0], [nan, nan, nan]]),
        prices=np.array([0.0, 1.0, 2.0]),
        rewards=np.ones(4),
        losses=np.zeros(3),
    )


def test_candidates_and_items_translate_both_ways() -> None:
    request = Request(1, 3, 2, columns=COLUMNS)
    assert request.item_of(np.array([[2, EMPTY, 0]])).tolist() == [[9, EMPTY, 5]]
    assert request.candidates_of(np.array([[9, EMPTY, 5, 2, 7, 100]])).tolist() == [[2, EMPTY, 0, 1, EMPTY, EMPTY]]
    assert Request(1, 3, 2).candidates_of(np.array([[2, EMPTY, 3]])).tolist() == [[2, EMPTY, EMPTY]]
    whole = request.of_items()
    assert whole.columns is None
    assert (whole.learners, whole.items, whole.k) == (1, 3, 2)


# ---------------------------------------------------------------------------- policies


@pytest.mark.parametrize("id", [entry.id for entry in catalogue.entries()])
def test_every_policy_of_the_catalogue_ranks_candidates(id: str) -> None:
    """The laws excuse a policy that refuses candidates in a sentence; none of these does."""
    trial = Candidates(lambda setting: catalogue.build(id, setting))
    trial.all.decide(trial.all.init(3), trial.request(), np.random.default_rng(0))


@pytest.mark.parametrize("every", [2, 3])
@pytest.mark.parametrize("id", ["gts", "cascade-lin-ts", "log-ts-ltr", "toprank", "ucr"])
def test_batches_hold_items_of_different_candidates(id: str, every: int) -> None:
    """Lists of one batch come from requests with different candidates: the state is that of requests for all items."""
    rng = np.random.default_rng(3)
    L, K, d = 12, 2, 3
    x = rng.random((L, d))
    setting = Setting(L, K, 100, d, context=2 if id == "ucr" else None)
    policy = catalogue.build(id, setting, every=every)
    one, other = policy.init(1), policy.init(1)
    context = np.ones((1, 2)) if id == "ucr" else None
    for _ in range(12):
        columns = rng.permutation(L)[:5]
        lists, clicks = rng.permutation(5)[None, :K], np.eye(K)[[int(rng.integers(K))]]
        policy.learn(one, policy.adopt(Request(1, 5, K, x[columns], context, columns=columns), lists), clicks)
        policy.learn(other, policy.adopt(Request(1, L, K, x, context), columns[lists]), clicks)
    for (name, left), (_, right) in zip(one.arrays(), other.arrays(), strict=True):
        np.testing.assert_array_equal(left, right, err_msg=name)


def test_an_epoch_goes_on_while_its_items_are_candidates() -> None:
    """A list is repeated under other numbers; where one of its items is no candidate, another list is shown."""
    policy = catalogue.build("epoch-ucb", Setting(12, 2, bias=np.array([1.0, 0.5])))
    state, rng = policy.init(1), np.random.default_rng(0)
    first = policy.adopt(Request(1, 3, 2, columns=COLUMNS), [[2, 0]])  # items 9 and 5
    policy.learn(state, first, [[1, 0]])
    moved = Request(1, 4, 2, columns=np.array([1, 5, 3, 9]))
    again = policy.decide(state, moved, rng)
    assert again.items.tolist() == [[3, 1]]
    assert again.columns.tolist() == [[9, 5]]
    gone = Request(1, 2, 2, columns=np.array([9, 3]))
    other = policy.decide(state, gone, rng)
    assert sorted(other.columns[0].tolist()) == [3, 9]
    # The epoch of items 9 and 5 was interrupted: its click counts without exposure, though 5 is no candidate now.
    policy.learn(state, policy.adopt(gone, [[1, 0]]), [[0, 0]])
    counts: Any = state.inner.belief  # type: ignore[attr-defined]
    assert counts.clicks[0, [9, 5, 3]].tolist() == [1.0, 0.0, 0.0]
    assert counts.exposure[0, [9, 5, 3]].tolist() == [0.5, 0.0, 1.0]


def test_one_hot_items_are_those_of_the_policy() -> None:
    """Without item features, feature-ucr tells items apart by their number in the policy, not in the request."""
    setting = Setting(6, 2, context=1)
    policy: Any = catalogue.build("feature-ucr", setting)
    columns, context = np.array([4, 1, 3]), np.array([[2.0]])
    request, whole = Request(1, 3, 2, context=context, columns=columns), Request(1, 6, 2, context=context)
    design, lists = policy.inner.design, np.array([[2, 0]])
    np.testing.assert_array_equal(
        design.pick(request, lists).x, design.pick(whole, np.array([[3, 4]])).x, err_msg="another row in a list"
    )
    nothing = np.empty((1, 0), dtype=np.int64)
    np.testing.assert_array_equal(design.rows(request, nothing, 1).x, design.rows(whole, nothing, 1).x[:, columns])


def test_a_candidate_that_the_policy_does_not_have_is_refused() -> None:
    policy = catalogue.build("gts", Setting(4, 2))
    with pytest.raises(InvalidInput, match=r"request\.columns is 9; accepted: items that this policy was built for"):
        policy.decide(policy.init(1), Request(1, 3, 2, columns=COLUMNS), np.random.default_rng(0))


def test_a_belief_that_cannot_be_gathered_says_so() -> None:
    belief = SelfWeightedRidge(0, 2, 1.0, 1.0, 0.1)
    policy = Policy(PerItem(), belief, Greedy(), TopK(), Cascade())
    with pytest.raises(Unsupported, match="cannot be gathered for the candidates of a request"):
        policy.decide(policy.init(1), Request(1, 1, 1, columns=np.array([0])), np.random.default_rng(0))
