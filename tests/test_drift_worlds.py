"""Worlds that drift: attractions move as their formulas say, and regret is against the best list of the round."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from scipy import stats
from tools.serving import serving

from rankloop import InvalidInput, Policy, Setting, simulate
from rankloop.belief import Beta, BetaState
from rankloop.cli.main import main
from rankloop.client import Client
from rankloop.design import PerItem
from rankloop.explore import Thompson
from rankloop.feedback import Cascade
from rankloop.plan import TopK
from rankloop.schema.service_settings import ServiceSettings
from rankloop.simulator import PolicySpec, streams
from rankloop.types import BetaPrior, Decision, Evidence, FloatArray, IntArray
from rankloop.visitors import Audience, Run, VisitPlan, fit
from rankloop.visitors.retry import Retry
from rankloop.worlds import ClickWorld, World, from_spec
from rankloop.worlds.attraction import JudgedAttraction
from rankloop.worlds.click_models import CascadeClicks
from rankloop.worlds.drift import AbruptDrift, Blend, SeasonalDrift, SlowDrift
from rankloop.worlds.drifting import DriftingWorld, permutations
from small_worlds import CASCADE, DEPENDENT, POSITION, ShowsAlways, every_list, settled

ROOT = Path(__file__).parents[1]
Capture = pytest.CaptureFixture[str]
WORLDS = {"cascade": CASCADE, "dependent-click": DEPENDENT, "position-based": POSITION}
ABRUPT: dict[str, Any] = {"abrupt": {"every": 7}}
SLOW: dict[str, Any] = {"slow": {"rounds": 8}}
SEASONAL: dict[str, Any] = {"seasonal": {"period": 12}}
DRIFTS = {"abrupt": ABRUPT, "slow": SLOW, "seasonal": SEASONAL}
DRAWN: dict[str, Any] = {"kind": "cascade", "attraction": {"beta": {"items": 6, "a": 1, "b": 3}}, "k": 2}

every_world = pytest.mark.parametrize("kind", WORLDS)
every_drift = pytest.mark.parametrize("drift", DRIFTS)


def drifting(drift: Any, world: dict[str, Any] = DRAWN, *, replications: int = 5, **options: Any) -> Any:
    return settled(world | {"drift": drift}, replications, **options)


def path(instance: Any, rounds: int) -> FloatArray:
    """The attractions of all rounds, [T, B, L]."""
    return np.stack([instance.at(t).nu for t in range(rounds)])


# How attractions move


def test_abrupt_attractions_stay_until_the_next_change_and_then_are_permuted() -> None:
    instance = drifting(ABRUPT, replications=20)
    nu = path(instance, 35)
    for start in range(0, 35, 7):
        np.testing.assert_array_equal(nu[start : start + 7], np.broadcast_to(nu[start], (7, 20, 6)))
    for before, after in pairwise(range(0, 35, 7)):
        assert (nu[before] != nu[after]).any(axis=1).mean() > 0.9, "of 720 permutations, one leaves all in place"


@every_world
def test_between_changes_an_abrupt_world_is_the_steady_world_of_the_permuted_attractions(kind: str) -> None:
    """The same visitors, the same clicks, rewards and values, round by round."""
    spec = WORLDS[kind]
    instance = drifting(ABRUPT, spec, replications=1, seed=3)
    now, visitors = np.random.default_rng(1), np.random.default_rng(1)
    for t in range(28):
        steady = settled(spec | {"attraction": instance.at(t).nu[0].tolist()}, 1)
        visit, expected = instance.visit(now), steady.visit(visitors)
        np.testing.assert_array_equal(visit.best, expected.best)
        for items in every_list(5, steady.request.k):
            np.testing.assert_array_equal(visit.value(items[None]), expected.value(items[None]))
            for one, other in zip(visit.click(items[None]), expected.click(items[None]), strict=True):
                np.testing.assert_array_equal(one, other)


def test_slow_attractions_move_on_straight_lines_between_permutations() -> None:
    """Eight rounds from end to end; halfway they are the mean of both, and the steps of a line are equal."""
    nu = path(drifting(SLOW), 25)
    for j in range(3):
        start, end = nu[8 * j], nu[8 * (j + 1)]
        np.testing.assert_allclose(nu[8 * j + 4], (start + end) / 2, rtol=1e-15)
        for s in range(9):
            np.testing.assert_allclose(nu[8 * j + s], start + s / 8 * (end - start), rtol=1e-12, atol=1e-15)
        assert (start != end).any()


def test_seasonal_attractions_are_a_cosine_between_the_first_and_a_permutation_and_return() -> None:
    nu = path(drifting(SEASONAL), 40)
    first, other = nu[0], nu[6]
    np.testing.assert_array_equal(nu[12:], nu[:-12])
    for t in range(12):
        middle, half = (first + other) / 2, (first - other) / 2
        np.testing.assert_allclose(nu[t], middle + half * np.cos(2 * np.pi * t / 12), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(nu[t], nu[(12 - t) % 12], rtol=1e-12)
    assert (first != other).any()


@every_drift
def test_the_first_round_is_the_world_as_it_was_drawn(drift: str) -> None:
    steady, start = settled(DRAWN, 5), drifting(DRIFTS[drift]).at(0)
    np.testing.assert_array_equal(start.nu, steady.nu)
    np.testing.assert_array_equal(start.best, steady.best)


@pytest.mark.parametrize(
    ("drift", "rounds"),
    [(ABRUPT, range(50)), (SLOW, range(0, 50, 8)), (SEASONAL, range(0, 50, 6))],
    ids=["abrupt", "slow", "seasonal"],
)
def test_at_the_ends_of_a_movement_all_attractions_are_there_and_the_best_value_is_the_first(
    drift: Any, rounds: range
) -> None:
    """The multiset law: bit for bit, in every replication."""
    instance = drifting(drift, replications=9)
    first = instance.at(0)
    for t in rounds:
        now = instance.at(t)
        np.testing.assert_array_equal(np.sort(now.nu, axis=1), np.sort(first.nu, axis=1))
        np.testing.assert_array_equal(now.best, first.best)


@every_drift
def test_the_sum_of_attractions_stays_and_each_is_a_probability(drift: str) -> None:
    nu = path(drifting(DRIFTS[drift], CASCADE | {"attraction": [1, 0, 1, 0.3, 1]}), 60)
    np.testing.assert_allclose(nu.sum(axis=2), 3.3, rtol=1e-12)
    assert ((nu >= 0) & (nu <= 1)).all()


@every_drift
def test_equal_attractions_cannot_drift(drift: str) -> None:
    """A drifting world of equal items is the steady one: the same curves up to rounding."""
    equal = CASCADE | {"attraction": [0.25] * 5}
    nu = path(drifting(DRIFTS[drift], equal), 30)
    np.testing.assert_allclose(nu, 0.25, rtol=1e-15)


@every_drift
def test_any_round_can_be_asked_for_in_any_order(drift: str) -> None:
    nu = path(drifting(DRIFTS[drift]), 60)
    instance = drifting(DRIFTS[drift])
    for t in np.random.default_rng(0).permutation(60).tolist():
        np.testing.assert_array_equal(instance.at(t).nu, nu[t])


def test_one_round_and_two_are_the_smallest_sizes() -> None:
    """Slow over one round is abrupt in every round; a period of two goes back and forth."""
    nu = path(drifting({"slow": {"rounds": 1}}), 20)
    np.testing.assert_array_equal(nu, path(drifting({"abrupt": {"every": 1}}), 20))
    there_and_back = path(drifting({"seasonal": {"period": 2}}), 6)
    np.testing.assert_array_equal(there_and_back[::2], np.broadcast_to(nu[0], (3, 5, 6)))
    np.testing.assert_array_equal(there_and_back[1::2], np.broadcast_to(nu[1], (3, 5, 6)))


def test_blends_by_hand() -> None:
    assert [AbruptDrift(3).blend(t) for t in (0, 2, 3, 11)] == [Blend(j, j, 0.0) for j in (0, 0, 1, 3)]
    assert [SlowDrift(4).blend(t) for t in (0, 3, 4, 10)] == [
        Blend(0, 1, 0.0),
        Blend(0, 1, 0.75),
        Blend(1, 2, 0.0),
        Blend(2, 3, 0.5),
    ]
    assert SeasonalDrift(8).blend(4) == Blend(0, 1, 1.0)
    assert SeasonalDrift(8).blend(1).weight == pytest.approx((1 - 2**-0.5) / 2, rel=1e-12)


def test_permutations_are_uniform_and_independent_of_each_other() -> None:
    """All 36 pairs of two successive permutations of three items, 36,000 replications, chi-square.

    A true law is refused with a chance of 1e-6, were the seed free.
    """
    key = np.random.default_rng(11).integers(0, 2**64, size=36_000, dtype=np.uint64)
    names = [permutations(key, number, 3) @ [9, 3, 1] for number in (1, 2)]
    _, counts = np.unique(np.stack(names), axis=1, return_counts=True)
    assert len(counts) == 36
    assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize(
    ("drift", "numbers"),
    [(ABRUPT, [1, 2, 3, 4, 5]), (SLOW, [0, 1, 2, 3, 4, 5]), (SEASONAL, [0, 1])],
    ids=["abrupt", "slow", "seasonal"],
)
def test_a_permutation_is_made_once_for_all_rounds_that_need_it(
    drift: Any, numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(key: Any, number: int, items: int) -> IntArray:
        made.append(number)
        return permutations(key, number, items)

    monkeypatch.setattr("rankloop.worlds.drifting.permutations", counted)
    path(drifting(drift), 40)
    assert made == numbers


# Regret and visitors


@every_world
@every_drift
def test_the_best_list_of_each_round_has_no_regret(kind: str, drift: str) -> None:
    """Brute force over all lists: the best of them is worth what the visit says, and none is worth more."""
    instance = drifting(DRIFTS[drift], WORLDS[kind], replications=3)
    rng = np.random.default_rng(2)
    k = instance.at(0).request.k
    winners = set()
    for _ in range(30):
        visit = instance.visit(rng)
        values = np.stack([visit.value(np.tile(items, (3, 1))) for items in every_list(5, k)])
        np.testing.assert_allclose(visit.best, values.max(axis=0), rtol=1e-12)
        winners |= set(values.argmax(axis=0).tolist())
        moving = visit.instance.model.best(visit.instance.nu, k)
        np.testing.assert_allclose(visit.best - visit.value(moving), 0.0, atol=1e-15)
    assert len(winners) > 1, "the best list moves"


@every_drift
def test_a_visit_keeps_the_attractions_of_its_round(drift: str) -> None:
    """It may be clicked later, while others come: visitors of a service are under way together."""
    instance, rng = drifting(DRIFTS[drift], replications=50), np.random.default_rng(3)
    lists = np.tile([4, 1], (50, 1))
    visits = [instance.visit(rng) for _ in range(40)]
    at_once, rng = drifting(DRIFTS[drift], replications=50), np.random.default_rng(3)
    for visit in visits:
        expected = at_once.visit(rng)
        np.testing.assert_array_equal(visit.value(lists), expected.value(lists))
        np.testing.assert_array_equal(visit.click(lists)[0], expected.click(lists)[0])


@every_drift
def test_clicks_follow_the_attractions_of_the_round(drift: str) -> None:
    """20,000 visitors in each of 16 rounds: each share within five standard errors; chance below 1e-5, seed free."""
    instance = drifting(DRIFTS[drift], CASCADE | {"k": 1}, replications=20_000)
    rng = np.random.default_rng(4)
    for t in range(16):
        clicks, _ = instance.visit(rng).click(np.zeros((20_000, 1), dtype=np.int64))
        p = instance.at(t).nu[:, 0]
        assert abs(clicks.mean() - p.mean()) < 5.0 * np.sqrt((p * (1 - p)).sum()) / 20_000


def shows(policy: ShowsAlways, label: str) -> PolicySpec:
    return PolicySpec(id=label, label=label, function=lambda setting: policy)


@every_world
@every_drift
def test_every_policy_meets_the_same_visitors_in_the_same_drift(kind: str, drift: str) -> None:
    spec = WORLDS[kind] | {"drift": DRIFTS[drift]}
    k = settled(spec, 1).setting.slots
    quiet, noisy = (ShowsAlways([3, 0, 2][:k], draws) for draws in (0, 5))
    run = partial(simulate, world=spec, rounds=60, replications=7, seed=1)
    result = run([shows(quiet, "quiet"), "random", shows(noisy, "noisy")])
    np.testing.assert_array_equal(quiet.clicks, noisy.clicks)
    np.testing.assert_array_equal(result["quiet"].regret, result["noisy"].regret)
    assert np.any(quiet.clicks)


@every_drift
def test_regret_is_the_sum_of_what_each_round_says(drift: str) -> None:
    """A list that never changes: best less its own value, with no noise of visitors."""
    spec = DRAWN | {"drift": DRIFTS[drift]}
    shown = np.tile([0, 1], (5, 1))
    found = simulate([shows(ShowsAlways([0, 1]), "fixed")], spec, rounds=50, replications=5, seed=6)["fixed"].regret
    instance = drifting(DRIFTS[drift], seed=6)
    lost = [visit.best - visit.value(shown) for visit in (instance.visit(np.random.default_rng(0)) for _ in range(50))]
    np.testing.assert_allclose(found, np.cumsum(lost, axis=0), rtol=1e-12, atol=1e-12)


# Streams


@every_drift
def test_a_replications_drift_depends_on_seed_and_index_only(drift: str) -> None:
    make = partial(drifting, DRIFTS[drift], seed=3)
    whole = path(make(replications=7), 30)
    parts = [make(replications=3), make(replications=3, first=3), make(replications=1, first=6)]
    np.testing.assert_array_equal(whole, np.concatenate([path(part, 30) for part in parts], axis=1))
    fixed = partial(drifting, DRIFTS[drift], CASCADE, replications=9)
    movements = path(fixed(seed=3), 30)
    assert len(np.unique(movements, axis=1)[0]) > 5, "every replication has its own, also of given numbers"
    assert (path(fixed(seed=4), 30) != movements).any()


@every_drift
def test_one_process_and_two_give_the_same_arrays(drift: str) -> None:
    spec = DRAWN | {"drift": DRIFTS[drift]}
    run = partial(simulate, ["cascade-ucb1", "ts-beta"], spec, rounds=40, replications=10, seed=4, chunk=4)
    for one, two in zip(run(jobs=1), run(jobs=2), strict=True):
        np.testing.assert_array_equal(one.regret, two.regret)
        np.testing.assert_array_equal(one.reward, two.reward)


@every_drift
def test_the_size_of_a_chunk_changes_visitors_and_not_the_drift(drift: str) -> None:
    """As in a world that stands still: the regret of a list that never changes is the world's alone."""
    spec = DRAWN | {"drift": DRIFTS[drift]}
    run = partial(simulate, [shows(ShowsAlways([0, 1]), "fixed")], spec, rounds=50, replications=9, seed=7)
    by_4, by_9 = run(chunk=4)["fixed"], run(chunk=9)["fixed"]
    np.testing.assert_allclose(by_4.regret, by_9.regret, rtol=1e-12, atol=1e-12)
    assert not np.array_equal(by_4.reward, by_9.reward)


def test_a_world_whose_drift_is_never_seen_is_the_steady_one_bit_for_bit() -> None:
    """The first change comes after the last round; the key of the permutations is drawn after everything else."""
    run = partial(simulate, ["ts-beta", "cascade-ucb1"], rounds=60, replications=6, seed=8, chunk=4)
    for never, steady in zip(run(DRAWN | {"drift": {"abrupt": {"every": 60}}}), run(DRAWN), strict=True):
        np.testing.assert_array_equal(never.regret, steady.regret)
        np.testing.assert_array_equal(never.reward, steady.reward)


# What policies know


@every_drift
def test_the_setting_is_that_of_the_steady_world(drift: str) -> None:
    """Features stay with their items, and the prior is that of the first round."""
    x = np.eye(5).tolist()
    spec = POSITION | {"features": x, "prior": {"a": 2, "b": [1, 2, 3, 4, 5]}}
    instance = drifting(DRIFTS[drift], spec)
    for t in (0, 9, 20):
        np.testing.assert_array_equal(instance.at(t).request.features, x)
    setting, steady = instance.setting, settled(spec, 5).setting
    assert (setting.items, setting.slots, setting.dim, setting.lasting) == (5, 3, 5, True)
    for one, other in (
        (setting.bias, steady.bias),
        (setting.prior.a, steady.prior.a),
        (setting.prior.b, steady.prior.b),
    ):
        np.testing.assert_array_equal(one, other)


@dataclass(frozen=True)
class Forgetful(Beta):
    """Beta beliefs; before each list, a share gamma of what was observed is left, and the prior stays."""

    gamma: float = 0.98

    def update(self, state: BetaState, decision: Decision, evidence: Evidence) -> None:
        for now, before in ((state.a, self.prior.a), (state.b, self.prior.b)):
            now[...] = before + self.gamma * (now - before)
        super().update(state, decision, evidence)


def sampling(gamma: float) -> Any:
    def make(setting: Setting) -> Policy[BetaState]:
        prior = BetaPrior(np.ones(setting.items), np.ones(setting.items))
        return Policy(PerItem(), Forgetful(prior, setting.items, gamma), Thompson(), TopK(), Cascade())

    return make


def test_who_forgets_does_better_where_the_world_changes_and_worse_where_it_does_not() -> None:
    """Thompson sampling with and without forgetting on the same visitors, 40 replications of 2,000 rounds.

    Were there no difference, the mean of 40 pairs would be beyond six standard errors with a chance below 1e-6 (t with
    39 degrees of freedom), were the seed free.
    """
    world = {"kind": "cascade", "attraction": [0.6, 0.5, 0.3, 0.2, 0.1, 0.1, 0.05, 0.05], "k": 2}
    both = [{"id": sampling(gamma), "label": str(gamma)} for gamma in (0.98, 1.0)]
    run = partial(simulate, both, rounds=2000, replications=40, seed=5)
    for drift, sign in (({"abrupt": {"every": 400}}, 1.0), (None, -1.0)):
        result = run(world | {"drift": drift})
        gain = sign * (result["1.0"].final - result["0.98"].final)
        assert gain.mean() > 6.0 * gain.std(ddof=1) / np.sqrt(40), drift


# Visitors of a service


@every_drift
def test_visit_number_t_of_a_run_meets_the_attractions_of_round_t(drift: str) -> None:
    spec = DRAWN | {"drift": DRIFTS[drift]}
    who = Audience(from_spec(spec), seed=3, run="a")
    shown = who.columns(["item-2", "item-5"], 2)
    instance = settled(spec, 1, seed=3)
    for t in range(40):
        now = instance.at(t).visit(np.random.default_rng(0))
        visitor = who.next()
        assert visitor.number == t
        assert visitor.click(shown)[1] == float((now.best - now.value(shown))[0])


class Watched(Audience):
    """An audience that remembers the lists which its visitors saw."""

    def __init__(self, world: World, *, seed: int, run: str) -> None:
        super().__init__(world, seed=seed, run=run)
        self.lists: list[IntArray] = []

    def columns(self, ids: Sequence[str], k: int) -> IntArray:
        self.lists.append(super().columns(ids, k))
        return self.lists[-1]


def test_a_drifting_world_is_visited_over_http(tmp_path: Path) -> None:
    """One caller, so that lists are seen in the order of the visits: list t is judged by the attractions of round t."""
    spec = {"kind": "cascade", "attraction": [0.9, 0.4, 0.2, 0.1], "k": 1, "drift": {"abrupt": {"every": 10}}}
    who = Watched(from_spec(spec), seed=1, run="a")
    with serving(ServiceSettings(log=str(tmp_path / "log.db"))) as url:
        with Client(url) as service:
            fit(service, "shop", who, create="random", retry=Retry(60.0))
        run = Run(VisitPlan("shop", rounds=40, callers=1), who, url)
        run.start()
        assert run.wait(300.0)
        assert run.error is None
        summary = run.statistics.summary()
    instance = settled(spec, 1, seed=1)
    lost = [0.9 - instance.at(t).nu[0, items[0, 0]] for t, items in enumerate(who.lists)]
    assert summary["receipts"] == {"learned": 40}
    assert summary["mean_regret"] == pytest.approx(np.mean(lost), rel=1e-12)
    assert summary["mean_regret"] is not None
    assert summary["mean_regret"] > 0.0


# What is refused

WRONG: list[tuple[Any, str]] = [
    (5, "world.drift is 5; accepted: a mapping with abrupt, slow, seasonal."),
    ({}, "world.drift is {}; accepted: exactly one of abrupt, slow, seasonal."),
    (ABRUPT | SLOW, "world.drift is {'abrupt': {'every': 7}, 'slow': {'rounds': 8}}; accepted: exactly one of"),
    ({"sudden": {}}, "world.drift.sudden is {}; accepted: only the fields abrupt, slow, seasonal."),
    ({"abrupt": 1000}, "world.drift.abrupt is 1000; accepted: a mapping with every."),
    ({"abrupt": {}}, "world.drift.abrupt.every is missing; accepted: a value, since world.drift.abrupt needs every."),
    ({"abrupt": {"rounds": 3}}, "world.drift.abrupt.rounds is 3; accepted: only the fields every."),
    ({"abrupt": {"every": 0}}, "world.drift.abrupt.every is 0; accepted: a whole number of at least 1."),
    ({"abrupt": {"every": 2.0}}, "world.drift.abrupt.every is 2.0; accepted: a whole number of at least 1."),
    ({"slow": {"rounds": True}}, "world.drift.slow.rounds is True; accepted: a whole number of at least 1."),
    ({"slow": {"rounds": "5"}}, "world.drift.slow.rounds is '5'; accepted: a whole number of at least 1."),
    (
        {"slow": {"rounds": 10**10}},
        "world.drift.slow.rounds is 10000000000; accepted: a whole number from 1 to 1000000000.",
    ),
    ({"seasonal": {"period": 1}}, "world.drift.seasonal.period is 1; accepted: a whole number of at least 2."),
    ({"seasonal": None}, "world.drift.seasonal is None; accepted: a mapping with period."),
]


@every_world
@pytest.mark.parametrize(("drift", "sentence"), WRONG, ids=lambda value: str(value)[:30])
def test_a_wrong_drift_is_named(kind: str, drift: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        from_spec(WORLDS[kind] | {"drift": drift})
    assert str(refused.value).startswith(sentence)


def test_an_absent_drift_may_be_written_as_null() -> None:
    assert isinstance(from_spec(CASCADE | {"drift": None}), ClickWorld)


@pytest.mark.parametrize("name", ["linear", "logistic"])
@every_drift
def test_attractions_that_features_explain_do_not_drift(name: str, drift: str) -> None:
    spec = {"kind": "cascade", "attraction": {name: {"items": 6, "dim": 2}}, "k": 2, "drift": DRIFTS[drift]}
    with pytest.raises(InvalidInput) as refused:
        from_spec(spec)
    assert str(refused.value) == (
        "world.attraction is a function of the items' features; accepted: numbers or beta together with world.drift, "
        "which moves attractions to other items and nothing else."
    )


def test_judged_documents_do_not_drift() -> None:
    """Some of a query's places have no document, and nothing may attract there."""
    prior = BetaPrior(np.ones((1, 3)), np.ones((1, 3)))
    query = JudgedAttraction(np.array([[0.5, 0.0, 0.1]]), np.ones((1, 3, 2)), np.array([[True, False, True]]), prior)
    with pytest.raises(InvalidInput, match=r"^world\.attraction is a function of the documents' grades; accepted: "):
        DriftingWorld(ClickWorld(CascadeClicks(), query, 2), AbruptDrift(5))


@pytest.mark.parametrize(
    "world",
    [
        {"kind": "choice", "attraction": [0.5, 0.4], "bias": [1.0]},
        {"kind": "cascade-rewards", "attraction": [0.5, 0.4], "budget": 1},
    ],
    ids=lambda world: str(world["kind"]),
)
def test_other_worlds_take_no_drift(world: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"^world\.drift is .*; accepted: only the fields "):
        from_spec(world | {"drift": ABRUPT})


# The command line


def test_a_spec_file_with_a_drift_is_played_and_a_wrong_one_is_refused(tmp_path: Path, capsys: Capture) -> None:
    def played(drift: Any) -> int:
        spec = {"world": CASCADE | {"drift": drift}, "policies": ["cascade-ucb1"], "rounds": 20, "replications": 3}
        (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
        return main(["simulate", str(tmp_path / "spec.yaml"), "--jobs", "1", "--quiet"])

    assert played(ABRUPT) == 0
    assert "cascade-ucb1" in capsys.readouterr().out
    assert played({"abrupt": {"every": -1}}) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "rankloop: world.drift.abrupt.every is -1; accepted: a whole number of at least 1.\n")


@every_world
def test_the_listing_shows_the_option(kind: str, capsys: Capture) -> None:
    assert main(["worlds", kind]) == 0
    assert "drift: " in capsys.readouterr().out
    assert main(["worlds", "cascade"]) == 0
    shown = capsys.readouterr().out
    assert all(f"{{{name}: {{{size}}}}}" in shown for name, size in (("abrupt", "every"), ("slow", "rounds")))
    assert "{seasonal: {period}}" in shown


def test_the_spec_of_the_documentation_is_the_example() -> None:
    (shown,) = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs" / "reference" / "worlds.md").read_text("utf-8"), flags=re.DOTALL
    )
    assert shown == (ROOT / "examples" / "drift.yaml").read_text("utf-8")


def test_draws_of_the_drift_come_after_those_of_the_attractions() -> None:
    """One stream for each replication, and a key of 64 bits from each."""
    rng, plain = streams.replication(2, 0), streams.replication(2, 0)
    world = from_spec(DRAWN | {"drift": SLOW})
    assert isinstance(world, DriftingWorld)
    instance = world.draw([rng], None)
    world.world.draw([plain], None)
    assert instance.key == plain.integers(0, 2**64, size=1, dtype=np.uint64)
    assert rng.random() == plain.random()
