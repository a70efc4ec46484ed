"""Laws of a policy by itself: how it decides, learns, starts and reads clicks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from rankloop import state as snapshots
from rankloop.checks.trial import ROUNDS, K, L, Make, Trial, assert_equal
from rankloop.errors import InvalidInput, Unsupported
from rankloop.math.logistic import sigmoid
from rankloop.objective import Clicks
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.simulator import simulate
from rankloop.types import EMPTY, BetaPrior, BoolArray, Decision, IntArray, Request, Rows
from rankloop.worlds.attraction import FixedAttraction
from rankloop.worlds.base import World
from rankloop.worlds.choice import ChoiceWorld
from rankloop.worlds.click_models import CascadeClicks
from rankloop.worlds.click_world import ClickWorld
from rankloop.worlds.item_position import ItemPositionWorld
from rankloop.worlds.rewards import RewardWorld, scenario

S = TypeVar("S", bound=LearnerState)


def lists_are_distinct_allowed_and_within_budget(make: Make) -> None:
    """For any set of allowed items and any list length, lists hold allowed items only, each at most once."""
    trial, B = Trial(), 20
    policy = make(trial.setting)
    state = policy.init(B)
    rng = np.random.default_rng(2)
    for t in range(30):
        k = (K, 1, K + 1)[t % 3] if t % 2 else K
        allowed = rng.random((B, L)) < rng.choice([0.1, 0.5, 1.0], size=(B, 1))
        decision = policy.decide(state, trial.request(B, min(k, K), allowed), rng)
        items = decision.items
        assert items.shape == (B, min(k, K))
        for row, may in zip(items, allowed, strict=True):
            shown = row[row != EMPTY]
            assert len(set(shown)) == len(shown), "an item is listed twice"
            assert len(shown) == min(len(row), may.sum()) or policy.random_length, (
                "a slot that could be filled is empty"
            )
            assert may[shown].all(), "an item is listed that is not allowed"
            assert (row[len(shown) :] == EMPTY).all(), "an empty slot precedes a filled one"
        policy.learn(state, decision, trial.clicks(items, rng))


def deciding_changes_no_state(make: Make) -> None:
    """`decide` only reads the state."""
    trial = Trial()
    policy = make(trial.setting)
    state = policy.init(3)
    trial.play(policy, state, ROUNDS, seed=3)
    before = state.copy()
    for seed in range(3):
        policy.decide(state, trial.request(3), np.random.default_rng(seed))
    assert_equal(before, state)


def equal_seeds_give_equal_lists(make: Make) -> None:
    """All randomness comes from the generator that is passed in."""
    trial = Trial()
    runs = []
    for _ in range(2):
        policy = make(trial.setting)
        runs.append(trial.play(policy, policy.init(4), ROUNDS, seed=4))
    np.testing.assert_array_equal(runs[0], runs[1])


def unobserved_slots_teach_nothing(make: Make) -> None:
    """Exchanging the items in slots without exposure does not change the state."""
    trial, B = Trial(), 8
    policy = make(trial.setting)
    rng = np.random.default_rng(5)
    items = rng.permuted(np.tile(np.arange(L), (B, 1)), axis=1)
    for slot in range(K):
        clicks = np.zeros((B, K))
        clicks[:, slot] = 1.0
        hidden = policy.feedback.read(items[:, :K], clicks).exposure == 0
        other = np.where(hidden, items[:, K : 2 * K], items[:, :K])
        states = []
        for lists in (items[:, :K], other):
            state = policy.init(B)
            trial.teach(policy, state, 10, seed=6)
            policy.learn(state, policy.adopt(trial.request(B), lists), clicks)
            states.append(state)
        assert_equal(states[0], states[1])


def unseen_slots_teach_nothing(make: Make) -> None:
    """The state does not depend on the items in slots that nobody saw, nor on their features.

    That all slots were seen says no more than feedback without `seen`, bit for bit, and a click in a slot that was not
    seen is refused with nothing changed.
    """
    trial, B = Trial(), 8
    policy = make(trial.setting)
    rng = np.random.default_rng(38)
    order = rng.permuted(np.tile(np.arange(L), (B, 1)), axis=1)
    items, others, request = order[:, :K], order[:, K : 2 * K], trial.request(B)
    for visible in ((1, 1, 1), (1, 1, 0), (1, 0, 0), (0, 1, 1), (1, 0, 1), (0, 0, 0)):
        seen = np.broadcast_to(np.array(visible, dtype=np.bool_), (B, K))
        clicks = np.where(seen, trial.clicks(items, rng), 0.0)
        shown = policy.adopt(request, items)
        # Rows may depend on the items above: here they are those of the list that was shown, as in a log.
        other = replace(shown, items=np.where(seen, items, others), rows=_rows(policy, request, shown, others, seen))
        lists: list[tuple[Decision, BoolArray | None]] = [(shown, seen), (other, seen)]
        if visible == (1, 1, 1):
            lists.append((shown, None))
        states = [_taught(trial, policy, B) for _ in lists]
        for state, (decision, slots) in zip(states, lists, strict=True):
            policy.learn(state, decision, clicks, slots)
            assert_equal(states[0], state)
        if not all(visible):
            before, hidden = states[0].copy(), (np.arange(K) == visible.index(0)).astype(np.float64)
            _refuses(
                partial(policy.learn, states[0], shown, np.tile(hidden, (B, 1)), seen), "a click that was not seen"
            )
            assert_equal(before, states[0])


def _rows(policy: RankingPolicy[S], request: Request, shown: Decision, others: IntArray, seen: BoolArray) -> Rows:
    """Return the rows of a list with the rows of other items in the slots that were not seen."""
    own, away = shown.rows, policy.adopt(request, others).rows
    x = None if own.x is None or away.x is None else np.where(seen[:, :, None], own.x, away.x)
    if not own.by_learner:
        return Rows(own.model, x)
    return Rows(np.where(seen, own.models(), away.models()), x)


def _taught(trial: Trial, policy: RankingPolicy[S], learners: int) -> S:
    """Return a state after some rounds."""
    state = policy.init(learners)
    trial.teach(policy, state, 10, seed=39)
    return state


def relabelling_items_relabels_lists(make: Make) -> None:
    """Item indices carry no information. Compared as frequencies over 2,000 learners with one history.

    Each frequency may differ by five standard errors: the test of a true law fails with probability below 1e-4.
    """
    B = 2000
    order = np.random.default_rng(7).permutation(L)  # item i is called order[i]
    plain, renamed = Trial(), Trial(order=np.argsort(order))
    for history in (0, 1, ROUNDS):  # all items tie, some tie, few tie
        frequencies = []
        for trial, names in ((plain, None), (renamed, order)):
            policy = make(trial.setting)
            state = policy.init(1)
            trial.teach(policy, state, history, seed=8, order=names)
            many = _repeat(policy, state, B)
            items = policy.decide(many, trial.request(B), np.random.default_rng(9)).items
            frequencies.append((items[:, :, None] == np.arange(L)).mean(axis=0))
        f, g = frequencies[0], frequencies[1][:, order]
        error = np.sqrt((f * (1 - f) + g * (1 - g)) / B)
        assert (np.abs(f - g) <= 5.0 * error + 1e-12).all(), (
            f"items are treated differently by index after {history} rounds"
        )


def a_state_of_no_learners_has_the_shapes_of_any_other(make: Make) -> None:
    """The memory of learners follows from a state without any, which takes none."""
    policy = make(Trial().setting)
    none, three = dict(policy.init(0).arrays()), dict(policy.init(3).arrays())
    assert {name: (0, *array.shape[1:], array.dtype) for name, array in three.items()} == {
        name: (*array.shape, array.dtype) for name, array in none.items()
    }, "a state of 0 learners has other arrays"
    assert 3 * policy.learner_bytes() == sum(array.nbytes for array in three.values()), "`learner_bytes` is wrong"


def a_restored_snapshot_continues_identically(make: Make) -> None:
    """A state that was saved and loaded decides and learns exactly as the original."""
    trial = Trial()
    policy = make(trial.setting)
    state = policy.init(3)
    trial.play(policy, state, ROUNDS, seed=10)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.npz"
        snapshots.save(path, state)
        loaded = policy.init(3)
        snapshots.load(path, loaded)
    runs = [trial.play(policy, one, ROUNDS, seed=11) for one in (state, loaded)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert_equal(state, loaded)


def a_batch_of_two_learns_as_two_batches_of_one(make: Make) -> None:
    """Learners of a batch are independent, and a view of one learner can learn on its own."""
    trial = Trial()
    policy = make(trial.setting)
    whole, views = policy.init(2), policy.init(2)
    rng = np.random.default_rng(12)
    for _ in range(ROUNDS):
        items = rng.permuted(np.tile(np.arange(L), (2, 1)), axis=1)[:, :K]
        clicks = trial.clicks(items, rng)
        policy.learn(whole, policy.adopt(trial.request(2), items), clicks)
        for b in range(2):
            one = slice(b, b + 1)
            policy.learn(views.view(one), policy.adopt(trial.request(1), items[one]), clicks[one])
    assert_equal(whole, views, tolerance=1e-9)


def a_batch_of_two_decides_as_two_batches_of_one(make: Make) -> None:
    """Under rules without randomness, a single learner gets the list that it gets in the batch."""
    trial = Trial()
    policy = make(trial.setting)
    state, lists = _decided(make)
    for b in np.flatnonzero(deterministic_learners(make))[:20]:
        alone = policy.decide(state.view(slice(b, b + 1)), trial.request(1), np.random.default_rng(99)).items
        np.testing.assert_array_equal(lists[0, b], alone[0])


def impossible_clicks_are_refused(make: Make) -> None:
    """Impossible feedback is refused and changes nothing.

    A click on an empty slot, two clicks under the cascade, an item listed twice, NaN, or the wrong number of slots.
    """
    trial = Trial()
    policy = make(trial.setting)
    state = policy.init(1)
    trial.teach(policy, state, 5, seed=16)
    before = state.copy()
    request = trial.request(1)
    gap = policy.adopt(request, [[4, 2, EMPTY]])
    full = policy.adopt(request, [[4, 2, 7]])
    twice = replace(full, items=np.array([[4, 2, 4]]))
    wrong: list[tuple[Decision, list[list[float]]]] = [
        (gap, [[0, 0, 1]]),
        (twice, [[0, 0, 0]]),
        (full, [[0, np.nan, 0]]),
        (full, [[1, 0]]),
    ]
    if policy.feedback.single:
        wrong.append((full, [[1, 0, 1]]))
    for decision, clicks in wrong:
        _refuses(partial(policy.learn, state, decision, clicks), f"clicks {clicks} on {decision.items}")
    _refuses(partial(policy.adopt, request, [[4, 2, 4]]), "an item listed twice")
    assert_equal(before, state)


def zero_radius_equals_greedy(make: Make) -> None:
    """With an exploration radius of 0 the estimate alone decides."""
    trial = Trial()
    policy = make(trial.setting)
    still, greedy = policy.without_exploration(), policy.greedy()
    assert still is not None
    assert greedy is not None
    state = policy.init(5)
    trial.teach(policy, state, ROUNDS, seed=17)
    request = trial.request(5)
    settled, best = (p.decide(state, request, np.random.default_rng(18)) for p in (still, greedy))
    assert settled.scores is not None
    assert best.scores is not None
    # Items of equal estimates may be in another order; the scores may not differ.
    np.testing.assert_allclose(settled.scores, best.scores, rtol=1e-12, atol=1e-12)
    estimates = policy.estimates(state, request)
    assert estimates is not None
    first = np.take_along_axis(estimates[0], settled.items[:, :1], axis=1)
    np.testing.assert_allclose(settled.scores[:, :1], first, rtol=1e-12, atol=1e-12)


def beats_random_by_a_wide_margin(make: Make) -> None:
    """After 4,000 rounds of an easy problem, the mean regret over 20 replications is below half of random's."""
    result = simulate([make], own_world(make), rounds=4000, replications=20, seed=19)
    share = result.traces[0].final.mean() / result.random.final.mean()
    assert share < 0.5, f"{share:.0%} of the random policy's regret on an easy problem; required: below 50 %"


def own_world(make: Make) -> World:
    """Return the first of several easy worlds that offers what the policy needs."""
    feature = np.array([5.0, 4.5, 4.0, *np.linspace(0.0, 0.3, L - 3)])
    attraction = np.asarray(sigmoid(feature))
    topics = np.eye(L)[:, :3]
    worlds: tuple[World, ...] = (
        ClickWorld(
            CascadeClicks(), FixedAttraction(attraction, feature[:, None]), 2, BetaPrior(np.ones(L), np.ones(L))
        ),
        RewardWorld(scenario("vanilla", 2), (2,), L, weights=np.array([6.0, 4.0, 3.0]), coverage=topics, covers=True),
        ChoiceWorld(FixedAttraction(np.array([1.0, 0.05, 0.05, 0.05])), np.array([1.0])),
        ItemPositionWorld(L, 2, 2, Clicks(), np.full(L, 0.3), np.zeros((L, 2)), feature),
    )
    for world in worlds:
        try:
            make(world.draw([np.random.default_rng(0)], 10).setting)
        except Unsupported:
            continue
        return world
    raise Unsupported("none of the easy worlds offers what the policy needs.")


def is_deterministic(make: Make) -> bool:
    """Return whether most learners get the same list from every generator; False if the policy fails on the way."""
    try:
        return bool(deterministic_learners(make).mean() > 0.5)
    except Exception:  # the law that fails reports the error
        return False


def deterministic_learners(make: Make) -> BoolArray:
    """Return which of 100 learners with a history get the same list from every generator.

    All of them, except for ties, if a rule uses no randomness.
    """
    lists = _decided(make)[1]
    return np.asarray((lists == lists[:1]).all(axis=(0, 2)))


def _decided(make: Make) -> tuple[LearnerState, IntArray]:
    trial = Trial()
    policy = make(trial.setting)
    state = policy.init(100)
    trial.teach(policy, state, ROUNDS, seed=13)
    lists = [policy.decide(state, trial.request(100), np.random.default_rng(s)).items for s in range(6)]
    return state, np.stack(lists)


def _repeat(policy: RankingPolicy[S], state: S, times: int) -> S:
    many = policy.init(times)
    many.assign({name: np.repeat(array, times, axis=0) for name, array in state.arrays()})
    return many


def _refuses(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except InvalidInput:
        return
    raise AssertionError(f"{what} should have been refused")
