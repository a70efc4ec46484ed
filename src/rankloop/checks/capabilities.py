"""Laws of a policy's capabilities: its propensities, its forgetting, its priors."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import numpy as np
from scipy.stats import chi2

from rankloop.checks.trial import ROUNDS, D, K, Make, Trial, assert_equal
from rankloop.propensity import estimate, of
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.types import BetaPrior, FloatArray, Request, Setting

S = TypeVar("S", bound=LearnerState)
ITEMS = 4
"""Few enough that every list is drawn often."""
DRAWS = 2000
MIN_P_VALUE, MAX_STANDARD_ERRORS = 1e-5, 5.0
"""Thresholds of a chi-square test and of a difference in standard errors, at which the check of a true law fails with
probability 1e-5 at most."""
PRIOR_SCORES = (0.3, 0.75, 0.15, 0.5)
"""Scores of the items by another ranker."""


def small() -> tuple[Setting, Request]:
    """Return a setting of a few items, each with its own feature and topic, and a request for a full list."""
    trial = Trial()
    prior = BetaPrior(np.full(ITEMS, 1.0), np.full(ITEMS, 2.0))
    bias = trial.setting.bias
    setting = Setting(ITEMS, K, 1000, D, prior, bias, context=D, coverage=D)
    request = Request(1, ITEMS, K, np.eye(ITEMS, D), np.zeros((1, D)), 0.5 * np.eye(ITEMS, D))
    return setting, request


def propensities_match_sampled_frequencies(make: Make) -> None:
    """In a fixed state, every list is drawn with the frequency that its exact or estimated propensity states."""
    setting, request = small()
    assert_propensities_match(make(setting), request)


def assert_propensities_match(policy: RankingPolicy[LearnerState], request: Request) -> None:
    """Assert that lists for a request of one learner are drawn as their propensities state, early and after lessons."""
    state = policy.init(1)
    for rounds, seed in ((0, 31), (7, 32)):
        _taught(policy, state, request, rounds, seed)
        rng = np.random.default_rng([seed, 1])
        decisions = [policy.decide(state, request, rng) for _ in range(DRAWS)]
        drawn = Counter(tuple(decision.items[0].tolist()) for decision in decisions)
        by_list = {tuple(decision.items[0].tolist()): decision for decision in decisions}
        stated = {row: of(policy, state, decision) for row, decision in by_list.items()}
        exact = {row: 1.0 if p.list is None else p.list for row, p in stated.items() if p is not None}
        if exact:
            assert len(exact) == len(stated), "in one state, either all lists have a closed form or none has"
            _assert_drawn(drawn, exact)
            continue
        again = np.random.default_rng([seed, 2])
        for row, count in drawn.most_common(3):
            estimated = estimate(policy, state, by_list[row], again, DRAWS)
            share = 1.0 if estimated.list is None else estimated.list
            spread = np.sqrt(max(share * (1.0 - share), 1.0 / DRAWS) * 2.0 / DRAWS)
            assert abs(count / DRAWS - share) <= MAX_STANDARD_ERRORS * spread, (
                f"{row} was drawn {count} times, estimated {share:.3f}"
            )


def _assert_drawn(drawn: Counter[tuple[int, ...]], stated: dict[tuple[int, ...], float]) -> None:
    """Compare counts with probabilities by a chi-square test, rare lists pooled."""
    expected = {row: DRAWS * p for row, p in stated.items()}
    usual = [row for row, n in expected.items() if n >= 8.0]
    n = np.array([drawn[row] for row in usual], dtype=float)
    e = np.array([expected[row] for row in usual])
    rest, left = DRAWS - n.sum(), DRAWS - e.sum()
    assert left >= -1e-6 * DRAWS, "the stated probabilities sum to more than 1"
    statistic = float(((n - e) ** 2 / e).sum())
    if left >= 8.0:
        statistic += (rest - left) ** 2 / left
    else:
        assert rest <= 8.0 + MAX_STANDARD_ERRORS * np.sqrt(8.0), "lists of small stated probability are drawn too often"
    assert chi2.sf(statistic, max(len(usual), 1)) > MIN_P_VALUE, (
        f"the frequencies of lists differ from their propensities (chi-square {statistic:.1f})"
    )


def forgetting_keeps_the_prior(make: Make) -> None:
    """Forgetting with share 1 changes nothing; with a share near 0 it restores the prior."""
    setting, request = small()
    policy = make(setting)
    if not policy.forgets:
        return
    prior, state = policy.init(1), policy.init(1)
    if policy.takes_priors:
        for one in (prior, state):
            _believed(policy, one, request)
    _taught(policy, state, request, ROUNDS, seed=33)
    learned, first = _estimates(policy, state, request), _estimates(policy, prior, request)
    assert not np.allclose(learned, first, rtol=1e-6, atol=1e-6), "the policy has learned nothing that it could forget"
    policy.forget(state, prior, 1.0)
    np.testing.assert_allclose(_estimates(policy, state, request), learned, rtol=1e-6, atol=1e-7)
    policy.forget(state, prior, 0.5)
    half = _estimates(policy, state, request)
    assert not np.allclose(half, learned, rtol=1e-6, atol=1e-6), "forgetting half of the observations changes nothing"
    for _ in range(6):
        policy.forget(state, prior, 1e-3)
    np.testing.assert_allclose(_estimates(policy, state, request), first, rtol=1e-4, atol=1e-4)


def priors_order_the_first_lists(make: Make) -> None:
    """Priors from another ranker's scores determine the greedy order before the first click, and can be removed."""
    setting, request = small()
    policy = make(setting)
    greedy = policy.greedy()
    if not policy.takes_priors or greedy is None:
        return
    state = policy.init(1)
    _believed(policy, state, request)
    left, order = np.ones(ITEMS, dtype=np.bool_), list[int]()
    for seed in range(ITEMS):
        one = Request(1, ITEMS, 1, request.features, request.context, request.coverage, left.copy())
        order.append(int(greedy.decide(state, one, np.random.default_rng(seed)).items[0, 0]))
        left[order[-1]] = False
    assert order == np.argsort(-np.array(PRIOR_SCORES)).tolist(), f"the greedy order {order} is not that of the scores"
    if policy.replaces_priors:
        fresh = policy.init(1)
        for item, score in enumerate(PRIOR_SCORES):
            policy.disbelieve(state, request, item, score, 200.0)
        now, first = _estimates(policy, state, request), _estimates(policy, fresh, request)
        np.testing.assert_allclose(now, first, rtol=1e-4, atol=1e-4, err_msg="a prior was not removed completely")


def amending_equals_learning_the_amended_clicks(make: Make) -> None:
    """Where clicks can be amended after learning, the state equals that of learning the amended clicks.

    Whether they can follows from the list and the clicks alone.
    """
    setting, request = small()
    policy = make(setting)
    rng = np.random.default_rng(35)
    for before, after in (([0.0, 1.0, 0.0], [0.0, 1.0, 0.0]), ([0.0, 0.0, 0.0], [0.0, 0.0, 1.0])):
        early, late = policy.init(1), policy.init(1)
        for state in (early, late):
            _taught(policy, state, request, 5, seed=36)
        decision = policy.adopt(request, rng.permutation(ITEMS)[None, :K])
        first, second = policy.check(decision, [before]), policy.check(decision, [after])
        policy.update(early, decision, first)
        policy.update(late, decision, second)
        kept = early.copy()
        if not policy.amendable(decision.items, first, second):
            assert_equal(early, kept)
            continue
        policy.amend(early, decision, first, second)
        for (name, left), (_, right) in zip(early.arrays(), late.arrays(), strict=True):
            np.testing.assert_allclose(left.astype(float), right.astype(float), rtol=1e-9, atol=1e-9, err_msg=name)


def _believed(policy: RankingPolicy[S], state: S, request: Request) -> None:
    for item, score in enumerate(PRIOR_SCORES):
        policy.believe(state, request, item, score, 200.0)


def _taught(policy: RankingPolicy[S], state: S, request: Request, rounds: int, seed: int) -> None:
    """Teach lists made elsewhere, with at most one click on each."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        clicks = np.zeros((1, K))
        if rng.random() < 0.7:
            clicks[0, int(rng.integers(K))] = 1.0
        policy.learn(state, policy.adopt(request, rng.permutation(ITEMS)[None, :K]), clicks)


def _estimates(policy: RankingPolicy[S], state: S, request: Request) -> FloatArray:
    """Return mean and width of every item, as far as the policy has them."""
    estimates = policy.estimates(state, request)
    assert estimates is not None, "a policy that forgets or takes priors must have estimates"
    return np.stack([numbers[0] for numbers in estimates if numbers is not None])
