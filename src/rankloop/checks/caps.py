"""Laws of caps: at most n items of a list with one value of a field."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rankloop.checks.capabilities import assert_propensities_match, small
from rankloop.checks.trial import ROUNDS, K, L, Make, Trial
from rankloop.errors import Unsupported
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.types import EMPTY, IntArray, Request

LEARNERS = 20


def every_list_keeps_the_caps(make: Make) -> None:
    """Whatever is allowed, pinned or brought by the request, no list exceeds a cap, and none ends too early.

    Pinned items are shown even if they exceed a cap, and then nothing else of their value is listed.
    """
    trial, rng = Trial(), np.random.default_rng(61)
    policy = make(trial.setting)
    state = policy.init(LEARNERS)
    if not _keeps_caps(policy, state, _capped(trial.request(LEARNERS), rng, 1)):
        return
    for t in range(40):
        allowed = rng.random((LEARNERS, L)) < rng.choice([0.3, 1.0], size=(LEARNERS, 1))
        request = trial.request(LEARNERS, allowed=allowed)
        if t % 4 == 1:
            request = replace(request, pinned=_pins(rng), allowed=None)
        elif t % 4 == 2 and (found := _of_candidates(policy, state, request, rng)) is not None:
            request = found
        request = _capped(request, rng, 1 + t % 2)
        decision = policy.decide(state, request, rng)
        _assert_kept(decision.items, request, complete=t % 2 == 0 and not policy.random_length)
        policy.learn(state, decision, trial.clicks(decision.columns, rng))


def a_cap_that_no_list_can_exceed_changes_nothing(make: Make) -> None:
    """With caps of at least k, equal seeds give the lists of a request without caps."""
    trial, rng = Trial(), np.random.default_rng(62)
    policy = make(trial.setting)
    state = policy.init(LEARNERS)
    trial.play(policy, state, ROUNDS, seed=63)
    plain = trial.request(LEARNERS)
    capped = replace(_capped(plain, rng, 2), caps=np.array([K, K + 1]))
    if not _keeps_caps(policy, state, capped):
        return
    for seed in range(5):
        one, other = (policy.decide(state, request, np.random.default_rng(seed)) for request in (plain, capped))
        np.testing.assert_array_equal(one.items, other.items, err_msg="a cap that is no limit changed a list")
        if one.scores is not None and other.scores is not None:
            np.testing.assert_array_equal(one.scores, other.scores)


def relabelling_items_relabels_lists_under_caps(make: Make) -> None:
    """Neither item indices nor the numbers of values carry information; compared as in the law without caps."""
    learners, order = 2000, np.random.default_rng(64).permutation(L)
    groups, codes = np.arange(L)[None] % 3, np.array([7, 2, 9])
    plain, renamed = Trial(), Trial(order=np.argsort(order))
    for history in (0, 30):
        frequencies = []
        for trial, names, values in ((plain, None, groups), (renamed, order, codes[groups[:, np.argsort(order)]])):
            policy = make(trial.setting)
            state = policy.init(1)
            trial.teach(policy, state, history, seed=65, order=names)
            many = policy.init(learners)
            many.assign({name: np.repeat(array, learners, axis=0) for name, array in state.arrays()})
            request = replace(trial.request(learners), groups=values, caps=np.array([1]))
            if not _keeps_caps(policy, many, request):
                return
            items = policy.decide(many, request, np.random.default_rng(66)).items
            frequencies.append((items[:, :, None] == np.arange(L)).mean(axis=0))
        f, g = frequencies[0], frequencies[1][:, order]
        error = np.sqrt((f * (1 - f) + g * (1 - g)) / learners)
        assert (np.abs(f - g) <= 5.0 * error + 1e-12).all(), "under caps, items are treated differently by index"


def propensities_under_caps_match_sampled_frequencies(make: Make) -> None:
    """Under caps too, every list is drawn with the frequency that its propensity states."""
    setting, request = small()
    policy = make(setting)
    capped = replace(request, groups=np.array([[0, 0, 1, -1]]), caps=np.array([1]))
    if _keeps_caps(policy, policy.init(1), capped):
        assert_propensities_match(policy, capped)


def _capped(request: Request, rng: np.random.Generator, fields: int) -> Request:
    """Return the request with caps on some fields, each with three values and items without a value."""
    groups = rng.integers(-1, 3, (fields, request.learners, request.items))
    if rng.random() < 0.5:
        groups = groups[:, 0]
    return replace(request, groups=groups, caps=rng.integers(1, 3, fields))


def _pins(rng: np.random.Generator) -> IntArray:
    pinned = np.full(K, EMPTY)
    slots = rng.permutation(K)[: rng.integers(1, K)]
    pinned[slots] = rng.permutation(L)[: len(slots)]
    return pinned


def _of_candidates(
    policy: RankingPolicy[LearnerState], state: LearnerState, request: Request, rng: np.random.Generator
) -> Request | None:
    """Return the request for some candidates of its own; None where the policy ranks none."""
    columns = rng.permutation(L)[: L // 2]
    tables = [None if table is None else table[columns] for table in (request.features, request.coverage)]
    few = Request(request.learners, len(columns), K, tables[0], request.context, tables[1], columns=columns)
    return few if _decides(policy, state, few) else None


def _assert_kept(items: IntArray, request: Request, *, complete: bool) -> None:
    """Assert that lists keep the caps; and if they must be complete, that no further item fits an empty slot."""
    B, n = items.shape[0], request.items
    assert request.groups is not None
    assert request.caps is not None
    groups = request.groups[:, None] if request.groups.ndim == 2 else request.groups
    groups = np.broadcast_to(groups, (len(request.caps), B, n))
    may = np.broadcast_to(True if request.allowed is None else request.allowed, (B, n))
    held = set() if request.pinned is None else set(request.pinned.tolist())
    for b, row in enumerate(items.tolist()):
        shown = [i for i in row if i != EMPTY]
        fits = [i for i in range(n) if may[b, i] and i not in shown]
        for values, most in zip(groups[:, b], request.caps.tolist(), strict=True):
            for value in set(values.tolist()) - {EMPTY}:
                listed = [i for i in shown if values[i] == value]
                pinned = [i for i in listed if i in held]
                assert len(listed) <= max(most, len(pinned)), f"{len(listed)} items have one value; at most {most}"
                if len(listed) >= most:
                    fits = [i for i in fits if values[i] != value]
        assert not complete or len(shown) == len(row) or not fits, "a slot that could be filled is empty"


def _keeps_caps(policy: RankingPolicy[LearnerState], state: LearnerState, request: Request) -> bool:
    """Return whether a policy keeps caps; one that does not must refuse a request with caps in a sentence."""
    decides = _decides(policy, state, request)
    assert decides == policy.keeps_caps, "`keeps_caps` is wrong"
    return decides


def _decides(policy: RankingPolicy[LearnerState], state: LearnerState, request: Request) -> bool:
    """Return whether a policy answers this kind of request; one that does not must say so in a sentence."""
    try:
        policy.decide(state, request, np.random.default_rng(0))
    except Unsupported:
        return False
    return True
