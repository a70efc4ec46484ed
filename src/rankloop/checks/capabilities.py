"""Laws of what a policy says that it can do: its propensities, its forgetting, its priors."""

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
"""Items: so few that every list is drawn often."""
DRAWS = 2000
MIN_P_VALUE, MAX_STANDARD_ERRORS = 1e-5, 5.0
"""A law that holds is said not to with this probability at most, for one seed: of a chi-square test, or in standard
errors."""
PRIOR_SCORES = (0.3, 0.75, 0.15, 0.5)
"""Of the items, by another ranker."""


def small() -> tuple[Setting, Request]:
    """A setting of a few items, each with a feature and a topic of its own, and a request for a full list."""
    trial = Trial()
    prior = BetaPrior(np.full(ITEMS, 1.0), np.full(ITEMS, 2.0))
    bias = trial.setting.bias
    setting = Setting(ITEMS, K, 1000, D, prior, bias, context=D, coverage=D)
    request = Request(1, ITEMS, K, np.eye(ITEMS, D), np.zeros((1, D)), 0.5 * np.eye(ITEMS, D))
    return setting, request


def propensities_match_sampled_frequencies(make: Make) -> None:
    """At a frozen state, lists are drawn as often as the policy says; where it says nothing, as it estimates."""
    setting, request = small()
    policy = make(setting)
    state = policy.init(1)
    for rounds, seed in ((0, 31), (7, 32)):
        _taught(policy, state, request, rounds, seed)
        rng = np.random.default_rng([seed, 1])
        decisions = [policy.decide(state, request, rng) for _ in range(DRAWS)]
        drawn = Counter(tuple(decision.items[0].tolist()) for decision in decisions)
        made = {tuple(decision.items[0].tolist()): decision for decision in decisions}
        said = {row: of(policy, state, decision) for row, decision in made.items()}
        exact = {row: 1.0 if one.list is None else one.list for row, one in said.items() if one is not None}
        if exact:
            assert len(exact) == len(said), "luck decides on lists, not on what is known of them"
            _assert_drawn(drawn, exact)
            continue
        again = np.random.default_rng([seed, 2])
        for row, count in drawn.most_common(3):
            found = estimate(policy, state, made[row], again, DRAWS)
            share = 1.0 if found.list is None else found.list
            spread = np.sqrt(max(share * (1.0 - share), 1.0 / DRAWS) * 2.0 / DRAWS)
            assert abs(count / DRAWS - share) <= MAX_STANDARD_ERRORS * spread, (
                f"{row} was drawn {count} times, estimated {share:.3f}"
            )


def _assert_drawn(drawn: Counter[tuple[int, ...]], said: dict[tuple[int, ...], float]) -> None:
    """Chi-square of counts against probabilities, rare lists together."""
    expected = {row: DRAWS * p for row, p in said.items()}
    usual = [row for row, n in expected.items() if n >= 8.0]
    n = np.array([drawn[row] for row in usual], dtype=float)
    e = np.array([expected[row] for row in usual])
    rest, left = DRAWS - n.sum(), DRAWS - e.sum()
    assert left >= -1e-6 * DRAWS, "more than all of the probability"
    statistic = float(((n - e) ** 2 / e).sum())
    if left >= 8.0:
        statistic += (rest - left) ** 2 / left
    else:
        assert rest <= 8.0 + MAX_STANDARD_ERRORS * np.sqrt(8.0), "lists that should be rare are not"
    assert chi2.sf(statistic, max(len(usual), 1)) > MIN_P_VALUE, (
        f"drawn otherwise than said (chi-square {statistic:.1f})"
    )


def forgetting_keeps_the_prior(make: Make) -> None:
    """Nothing is lost where the whole share is kept; where none is, what is left is what was believed before."""
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
    assert not np.allclose(learned, first, rtol=1e-6, atol=1e-6), "nothing was learned that could be forgotten"
    policy.forget(state, prior, 1.0)
    np.testing.assert_allclose(_estimates(policy, state, request), learned, rtol=1e-6, atol=1e-7)
    policy.forget(state, prior, 0.5)
    half = _estimates(policy, state, request)
    assert not np.allclose(half, learned, rtol=1e-6, atol=1e-6), "half of the past is as good as all of it"
    for _ in range(6):
        policy.forget(state, prior, 1e-3)
    np.testing.assert_allclose(_estimates(policy, state, request), first, rtol=1e-4, atol=1e-4)


def priors_order_the_first_lists(make: Make) -> None:
    """Scores of another ranker, believed before the first click, decide which item comes first, second and so on."""
    setting, request = small()
    policy = make(setting)
    greedy = policy.greedy()
    if not policy.takes_priors or greedy is None:
        return
    state = policy.init(1)
    _believed(policy, state, request)
    left, found = np.ones(ITEMS, dtype=np.bool_), list[int]()
    for seed in range(ITEMS):
        asked = Request(1, ITEMS, 1, request.features, request.context, request.coverage, left.copy())
        found.append(int(greedy.decide(state, asked, np.random.default_rng(seed)).items[0, 0]))
        left[found[-1]] = False
    assert found == np.argsort(-np.array(PRIOR_SCORES)).tolist(), f"first lists do not follow the scores: {found}"
    if policy.replaces_priors:
        fresh = policy.init(1)
        for item, score in enumerate(PRIOR_SCORES):
            policy.disbelieve(state, request, item, score, 200.0)
        there, first = _estimates(policy, state, request), _estimates(policy, fresh, request)
        np.testing.assert_allclose(there, first, rtol=1e-4, atol=1e-4, err_msg="a prior was not taken back")


def amending_equals_learning_the_amended_clicks(make: Make) -> None:
    """Where clicks that were learned may be amended, the state is that of the amended clicks."""
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
        if not policy.amend(early, decision, first, second):
            assert_equal(early, kept)
            continue
        for (name, left), (_, right) in zip(early.arrays(), late.arrays(), strict=True):
            np.testing.assert_allclose(left.astype(float), right.astype(float), rtol=1e-9, atol=1e-9, err_msg=name)


def _believed(policy: RankingPolicy[S], state: S, request: Request) -> None:
    for item, score in enumerate(PRIOR_SCORES):
        policy.believe(state, request, item, score, 200.0)


def _taught(policy: RankingPolicy[S], state: S, request: Request, rounds: int, seed: int) -> None:
    """Lists made elsewhere, and at most one click on each."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        clicks = np.zeros((1, K))
        if rng.random() < 0.7:
            clicks[0, int(rng.integers(K))] = 1.0
        policy.learn(state, policy.adopt(request, rng.permutation(ITEMS)[None, :K]), clicks)


def _estimates(policy: RankingPolicy[S], state: S, request: Request) -> FloatArray:
    """Mean and width of every item, as far as the policy has them."""
    found = policy.estimates(state, request)
    assert found is not None, "a policy that forgets, or takes priors, has estimates"
    return np.stack([numbers[0] for numbers in found if numbers is not None])
