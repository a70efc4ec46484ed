"""Streams do not touch each other, ties are fair for equal features, errors travel between processes."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from rankloop import InvalidInput, MissingExtra, Unsupported, build, catalogue
from rankloop.simulator import streams
from rankloop.types import Request, Setting


def test_streams_of_different_paths_are_different() -> None:
    paths = [streams.shared(seed) for seed in (1, 2)]
    paths += [streams.replication(seed, r) for seed in (1, 2) for r in (0, 1)]
    paths += [streams.visitors(seed, chunk) for seed in (1, 2) for chunk in (0, 1)]
    paths += [
        streams.policy(seed, chunk, id, params)
        for seed in (1, 2)
        for chunk in (0, 1)
        for id, params in (("gts", {}), ("gts", {"sigma": 0.25}), ("ts-beta", {}))
    ]
    first = [rng.random(4).tolist() for rng in paths]
    assert all(one != other for one, other in combinations(first, 2))


def test_a_policy_stream_depends_on_nothing_else() -> None:
    one, other = (streams.policy(7, 3, "gts", {"sigma": 0.5}).random(4) for _ in range(2))
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize(("L", "d", "B"), [(257, 20, 64), (30, 5, 100), (259, 7, 33)])
@pytest.mark.parametrize("id", ["cascade-lin-ts", "cascade-lin-ucb", "log-ts-newton"])
def test_items_with_equal_features_are_shown_equally_often(id: str, L: int, d: int, B: int) -> None:
    """Wherever they stand in the catalogue; chi-square, one seed in 10,000 fails and the seeds are fixed."""
    rng = np.random.default_rng(5)
    features = np.tile(rng.standard_normal(d), (L, 1))
    policy = build(id, Setting(L, 4, rounds=1000, dim=d))
    state = policy.init(B)
    request = Request(B, L, 4, features)
    policy.learn(state, policy.decide(state, request, rng), np.zeros((B, 4)))
    shown = np.zeros(L)
    for _ in range(40):
        shown += np.bincount(policy.decide(state, request, rng).items.ravel(), minlength=L)
    assert stats.chisquare(shown).pvalue > 1e-4


@pytest.mark.parametrize(
    "error", [InvalidInput("k", 3, "at most 2"), MissingExtra("a figure", "experiments"), Unsupported("no features.")]
)
def test_errors_survive_the_way_from_a_worker(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)


def test_default_parameters_are_the_contracts() -> None:
    nothing: dict[str, object] = {}
    expected = {
        "random": nothing,
        "cascade-ucb1": nothing,
        "cascade-kl-ucb": nothing,
        "cascade-lin-ts": {"sigma": 1.0},
        "cascade-lin-ucb": {"sigma": 1.0, "theta_norm": 1.0, "c": None},
        "ranked-lin-ts": {"sigma": 1.0},
        "ts-beta": {"a": None, "b": None},
        "bayes-ucb": {"a": None, "b": None},
        "ensemble": {"a": None, "b": None},
        "gts": {"mu0": 0.0, "sigma0": 1.0, "sigma": 0.5, "prior": "none"},
        "ts-cascade": nothing,
        "toprank": {"delta": None},
        "lin-ts-ltr": {"mode": "practical", "lam": None, "scale": None},
        "lin-ts-cascade": {"lam": 1.0, "R": 0.25},
        "cascade-woful": nothing,
        "log-ts-ltr": {"mode": "laplace"},
        "log-ts-newton": {"alpha": None},
        "ind": {"alpha": 0.1, "rate": 4.0, "D": 5.0},
        "dep": {"alpha": 0.1, "rate": 4.0, "D": 5.0},
        "eps-ind": {"eps": 0.1, "rate": 4.0, "D": 5.0},
        "c-ucb1": {"c": 1.0},
        "gl-cdcm": {"alpha": 0.1, "lam": 1.0},
        "ucr": {"xi": 1.0, "T0": 5, "ridge": 1.0, "v_ridge": 1.0, "bonus": 1.0, "fit": "online"},
        "g-mle": {"T0": 5, "ridge": 1.0, "fit": "online"},
        "feature-ucr": {"xi": 1.0, "T0": 5, "ridge": 1.0, "v_ridge": 1.0, "bonus": 3.0, "fit": "online"},
        "epoch-ucb": nothing,
        "epoch-ucb-w": nothing,
        "epoch-ucb-upb": {"estimator": "mle"},
        "epoch-ucb-upb-star": {"estimator": "mle"},
        "mnl-bandit": nothing,
        "pbm-ucb": {"eps": 0.0},
        "hybrid": {"explore": 0.5},
    }
    assert {entry.id: catalogue.resolve(entry.id, {}) for entry in catalogue.entries()} == expected


def test_toprank_takes_delta_from_the_horizon() -> None:
    policy = build("toprank", Setting(3, 2, rounds=500))
    assert policy.belief.delta == 1 / 500  # type: ignore[attr-defined]


def test_a_request_that_no_policy_could_rank_is_refused() -> None:
    x = np.ones((6, 2))
    wrong: list[dict[str, object]] = [
        {"k": -1},
        {"items": 4},
        {"learners": 0},
        {"features": np.full((6, 2), np.nan)},
        {"features": [[1.0]]},
        {"allowed": np.arange(6)},
        {"context": np.ones((2, 3))},
    ]
    for fields in wrong:
        given: dict[str, object] = {"learners": 1, "items": 6, "k": 3, "features": x} | fields
        with pytest.raises(InvalidInput, match=r"^request\."):
            Request(**given)  # type: ignore[arg-type]


def test_a_request_for_other_items_or_learners_is_refused() -> None:
    policy = build("gts", Setting(6, 3))
    state = policy.init(1)
    for request in (Request(1, 4, 3), Request(2, 6, 3)):
        with pytest.raises(InvalidInput, match=r"^request\."):
            policy.decide(state, request, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match=r"items that the request allows"):
        policy.adopt(Request(1, 6, 2, allowed=np.array([True] * 5 + [False])), [[5, 0]])
