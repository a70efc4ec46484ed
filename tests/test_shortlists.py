"""Shortlists: of many items with equal records only some are looked at, and lists keep their distribution."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from helpers import RARE
from rankloop import build
from rankloop.belief import alike
from rankloop.math.exchangeable import apart, largest_of_equals
from rankloop.plan import TopK
from rankloop.types import BetaPrior, FloatArray, Request, Setting

POLICIES = ("gts", "ts-beta", "bayes-ucb", "cascade-ucb1", "cascade-kl-ucb")
DRAWN = ("gts", "ts-beta")


@dataclass(frozen=True, eq=False)
class FromAllScores(TopK):
    """The planner without shortlists."""

    def needed(self, request: Request) -> int | None:
        return None


def learned(id: str, items: int, k: int, shown: int, seed: int = 0) -> tuple[Any, Any]:
    """Return a policy and a state in which only the first `shown` items were shown, some of them clicked."""
    policy: Any = build(id, Setting(items, k, rounds=1000, prior=BetaPrior(np.full(items, 1.5), np.full(items, 6.0))))
    state, rng = policy.init(1), np.random.default_rng(seed)
    for _ in range(3 * shown):
        lists = rng.permutation(shown)[None, :k]
        decision = policy.adopt(Request(1, items, lists.shape[1]), lists)
        policy.learn(state, decision, policy.feedback.keep((rng.random(lists.shape) < 0.3).astype(float)))
    return policy, state


def two_samples(ours: Counter[Any], theirs: Counter[Any]) -> float:
    """Return the p-value of equal distributions, rare outcomes taken together."""
    keys = [key for key in ours | theirs if ours[key] + theirs[key] >= 40]
    table = np.array([[count[key] for key in keys] for count in (ours, theirs)], dtype=float)
    rest = np.array([[sum(count.values())] for count in (ours, theirs)]) - table.sum(axis=1, keepdims=True)
    table = np.hstack([table, rest]) if rest.sum() >= 40 else table
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("id", POLICIES)
@pytest.mark.parametrize("forbidden", [0, 3])
def test_lists_have_the_distribution_of_lists_from_all_scores(
    id: str, forbidden: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seeded; the test fails by chance once in 10,000 runs with other seeds. Numbers of ties are exactly equal."""
    monkeypatch.setattr(alike, "ALIKE_FROM", 16)
    policy, state = learned(id, 24, 2, 4)
    plain, may = replace(policy, plan=FromAllScores()), np.ones(24, dtype=np.bool_)
    may[: 2 * forbidden : 2], may[20:][:forbidden] = False, False
    asked = Request(1, 24, 2, allowed=may if forbidden else None)
    found: list[Counter[Any]] = []
    for one, seed in ((policy, 1), (plain, 2)):
        rng, counts = np.random.default_rng(seed), Counter[Any]()
        for _ in range(6000):
            decision = one.decide(state, asked, rng)
            rivals = None if decision.rivals is None else tuple(decision.rivals[0].tolist())
            listed = decision.items[0].tolist()
            assert may[listed].all()
            counts[min(listed[0], 6), min(listed[1], 6), listed[0] % 3, rivals] += 1
        found.append(counts)
    assert {key[3] for key in found[0]} == {key[3] for key in found[1]}
    assert two_samples(*found) > 1e-5


@pytest.mark.parametrize("id", POLICIES)
def test_large_catalogues_are_decided_from_shortlists(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal seeds give equal lists, the state is not changed, and nothing is asked of all items at once."""
    items, k = 20_000, 5
    policy, state = learned(id, items, k, 40)
    before = state.copy()
    first = [policy.decide(state, Request(1, items, k), np.random.default_rng(s)).items for s in range(20)]
    again = [policy.decide(state, Request(1, items, k), np.random.default_rng(s)).items for s in range(20)]
    np.testing.assert_array_equal(first, again)
    for (name, ours), (_, theirs) in zip(state.arrays(), before.arrays(), strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    assert all(len(set(listed[0].tolist())) == k for listed in first)
    monkeypatch.setattr(type(policy), "_scores", None)
    policy.decide(state, Request(1, items, k), np.random.default_rng(0))


@pytest.mark.parametrize("id", POLICIES)
def test_candidates_of_a_request_have_a_shortlist_of_their_own(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists hold candidates, each with the same chance where records are equal."""
    monkeypatch.setattr(alike, "ALIKE_FROM", 16)
    policy, state = learned(id, 200, 2, 4)
    columns, rng = np.arange(100, 140), np.random.default_rng(3)
    counts = np.zeros(40)
    for _ in range(4000):
        counts[policy.decide(state, Request(1, 40, 2, columns=columns), rng).items[0]] += 1
    assert stats.chisquare(counts).pvalue > RARE


@pytest.mark.parametrize(("id", "many"), [("gts", 3000), ("ts-beta", 3000)])
def test_scores_have_the_distribution_of_the_largest_of_all(
    id: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores of all three slots, by Kolmogorov and Smirnov; seeded."""
    monkeypatch.setattr(alike, "ALIKE_FROM", 16)
    policy, state = learned(id, many, 3, 10)
    plain = replace(policy, plan=FromAllScores())
    drawn: list[FloatArray] = []
    for one, seed in ((policy, 4), (plain, 5)):
        rng = np.random.default_rng(seed)
        drawn.append(np.array([one.decide(state, Request(1, many, 3), rng).scores[0] for _ in range(1500)]))
    for slot in range(3):
        assert stats.ks_2samp(drawn[0][:, slot], drawn[1][:, slot]).pvalue > RARE


def test_items_with_priors_of_their_own_are_scored_one_by_one() -> None:
    """Where records differ from item to item, every item is looked at."""
    items, rng = 12_000, np.random.default_rng(0)
    prior = BetaPrior(rng.uniform(1.0, 2.0, items), rng.uniform(5.0, 9.0, items))
    policy: Any = build("ts-beta", Setting(items, 3, prior=prior))
    state = policy.init(1)
    plain = replace(policy, plan=FromAllScores())
    for seed in range(5):
        ours, theirs = (one.decide(state, Request(1, items, 3), np.random.default_rng(seed)) for one in (policy, plain))
        np.testing.assert_array_equal(ours.items, theirs.items)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_apart_equals_a_plain_loop(data: st.DataObject) -> None:
    """The items with another record, among those that are allowed."""
    size = data.draw(st.integers(1, 600))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    share = data.draw(st.sampled_from([0.0, 0.001, 0.3]))
    tables = tuple((rng.random(size) < share).astype(float) for _ in range(data.draw(st.integers(1, 3))))
    allowed = rng.random(size) < 0.7 if data.draw(st.booleans()) else None
    others, count = apart(tables, np.zeros(len(tables)), allowed)
    may = np.ones(size, dtype=np.bool_) if allowed is None else allowed
    plain = [i for i in range(size) if may[i] and any(table[i] != 0.0 for table in tables)]
    assert (others.tolist(), count) == (plain, may.sum() - len(plain))


@pytest.mark.parametrize("draws", [3, 1000])
def test_the_largest_of_equals_have_their_beta_distributions(draws: int) -> None:
    """1 - u of the j-th largest of n uniform numbers is Beta(j, n + 1 - j), and the numbers fall."""
    rng = np.random.default_rng(draws)
    found = np.array([largest_of_equals(rng, draws, 3) for _ in range(4000)])
    assert (np.diff(found) > 0.0).all()
    for j in range(3):
        assert stats.kstest(found[:, j], stats.beta(j + 1, draws - j).cdf).pvalue > RARE
