"""Laws of requests that bring candidates of their own: they are gathered, and nothing else is read or changed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop.checks.trial import D, K, Make, Trial, assert_equal
from rankloop.errors import Unsupported
from rankloop.propensity import of
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.types import BetaPrior, FloatArray, IntArray, Request

COLUMNS = np.array([7, 2, 9, 4, 11])
"""The candidates, in an order of their own."""
LEARNERS, LESSONS = 3, 25


class Candidates:
    """A policy of all items that is asked for some of them, and a policy that holds only these."""

    def __init__(self, make: Make) -> None:
        self.trial = trial = Trial()
        n, prior = len(COLUMNS), trial.setting.prior
        assert prior is not None
        few = BetaPrior(prior.a[COLUMNS], prior.b[COLUMNS])
        self.settings = replace(trial.setting, present=n), replace(trial.setting, items=n, present=n, prior=few)
        self.all, self.some = (make(setting) for setting in self.settings)

    def request(self, learners: int = LEARNERS, columns: IntArray | None = COLUMNS) -> Request:
        """Return a request for the candidates, called by their items or, without columns, by themselves."""
        features, coverage = self.trial.features[COLUMNS], self.trial.coverage[COLUMNS]
        context = np.broadcast_to(self.trial.context, (learners, D))
        return Request(learners, len(COLUMNS), K, features, context, coverage, columns=columns)

    def lessons(self) -> list[tuple[IntArray, FloatArray]]:
        """Return lists of candidates, one of them shorter than possible, and the clicks on them."""
        rng = np.random.default_rng(51)
        found = []
        for n in range(LESSONS):
            lists = rng.permuted(np.tile(np.arange(len(COLUMNS)), (LEARNERS, 1)), axis=1)[:, :K]
            if n % 5 == 4:
                lists[:, -1] = -1
            found.append((lists, self.trial.clicks(np.where(lists < 0, -1, COLUMNS[lists]), rng)))
        return found


def candidates_are_ranked_as_by_a_policy_of_these_items(make: Make) -> None:
    """With the same random numbers, lists, scores, estimates and propensities are those of a policy of these items."""
    trial = Candidates(make)
    full, small = trial.all.init(LEARNERS), trial.some.init(LEARNERS)
    if not _supported(trial.all, full, trial.request()):
        return
    gathered, alone = trial.request(), trial.request(columns=None)
    for n, (lists, clicks) in enumerate(trial.lessons()):
        seeds = (n, n + 1000)
        for seed in seeds:
            one = trial.all.decide(full, gathered, np.random.default_rng(seed))
            other = trial.some.decide(small, alone, np.random.default_rng(seed))
            np.testing.assert_array_equal(one.items, other.items, err_msg="another list than of these items alone")
            if one.scores is not None and other.scores is not None:
                np.testing.assert_allclose(one.scores, other.scores, rtol=1e-9, atol=1e-9)
        trial.all.learn(full, trial.all.adopt(gathered, lists), clicks)
        trial.some.learn(small, trial.some.adopt(alone, lists), clicks)
    estimates = trial.all.estimates(full, gathered), trial.some.estimates(small, alone)
    assert (estimates[0] is None) == (estimates[1] is None)
    for left, right in zip(estimates[0] or (), estimates[1] or (), strict=True):
        if left is not None and right is not None:
            np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)
    _same_propensities(trial, full, small)


def _same_propensities(trial: Candidates, full: LearnerState, small: LearnerState) -> None:
    """Assert that the lists of one learner are equally likely under both policies."""
    one = slice(0, 1)
    for lists in ([[0, 1, 2]], [[4, 2, 3]], [[3, 0, 1]]):
        gathered = trial.all.adopt(trial.request(1), lists)
        alone = trial.some.adopt(trial.request(1, None), lists)
        stated = of(trial.all, full.view(one), gathered), of(trial.some, small.view(one), alone)
        assert (stated[0] is None) == (stated[1] is None)
        if stated[0] is not None and stated[1] is not None:
            assert stated[0].kind == stated[1].kind
            np.testing.assert_allclose(stated[0].list or 0.0, stated[1].list or 0.0, rtol=1e-9, atol=1e-12)


def learning_from_candidates_equals_learning_from_all_items(make: Make) -> None:
    """A list teaches the same, whether its items were candidates of the request or all items were."""
    trial = Candidates(make)
    by_candidates, by_items = trial.all.init(LEARNERS), trial.all.init(LEARNERS)
    if not _supported(trial.all, by_items, trial.request()):
        return
    everything = trial.trial.request(LEARNERS)
    for lists, clicks in trial.lessons():
        trial.all.learn(by_candidates, trial.all.adopt(trial.request(), lists), clicks)
        items = np.where(lists < 0, -1, COLUMNS[lists])
        trial.all.learn(by_items, trial.all.adopt(everything, items), clicks)
        assert_equal(by_candidates, by_items)


def _supported(policy: RankingPolicy[LearnerState], state: LearnerState, request: Request) -> bool:
    """Return whether a policy ranks candidates at all; one that cannot must say so in a sentence."""
    try:
        policy.decide(state, request, np.random.default_rng(0))
    except Unsupported:
        return False
    return True
