"""Pooled segments: the belief equals a dense regression, and a ranker's segments share what they learn."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.belief.hybrid_fit import PRIOR_SD, prior_mean
from rankloop.belief.pooled import PooledHybrid
from rankloop.belief.pooled_fit import adapt, refresh
from rankloop.belief.pooled_state import NO_SEGMENT, PooledState
from rankloop.errors import InvalidInput, Unsupported
from rankloop.eventlog.sqlite import SqliteStore
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.replica import Replica
from rankloop.types import Decision, Evidence, FloatArray, IntArray, Request, Rows

L, K, Q, G = 7, 3, 6, 3
P = Q - 1


def listed(items: IntArray, x: FloatArray) -> Decision:
    return Decision(items, Rows(items, x), Request(1, L, items.shape[1]))


class Dense:
    """The same model as a regression with P + L + G·L coefficients: θ, the items' effects, and those of the cells."""

    def __init__(self, belief: PooledHybrid, state: PooledState) -> None:
        self.belief, self.bias = belief, state.bias[0]
        self.precision = np.diag(np.repeat([PRIOR_SD**-2, 1 / belief.tau2, 1 / belief.omega2], [P, L, G * L]))
        self.right = np.zeros(P + L + G * L)
        self.right[:P] = PRIOR_SD**-2 * prior_mean(state)[0]

    def coefficients(self, items: IntArray, x: FloatArray, segment: int) -> FloatArray:
        rows, at = np.zeros((len(items), len(self.right))), np.arange(len(items))
        rows[:, :P] = x[:, 1:]
        rows[at, P + items] = 1.0
        if segment >= 0:
            rows[at, P + L + segment * L + items] = 1.0
        return rows

    def add(self, item: int, x: FloatArray, segment: int, y: float, exposure: float, weight: float) -> None:
        """Add `weight` observations of an item with this exposure; a negative weight removes them."""
        row = self.coefficients(np.array([item]), x[None], segment)[0]
        self.precision += weight * exposure**2 * np.outer(row, row) / self.belief.s2
        self.right += weight * exposure * (y - exposure * x[0]) * row / self.belief.s2

    def check(self, state: PooledState, x: FloatArray) -> None:
        """Compare means and standard deviations of all items in all segments, of all items and of some of them."""
        covariance = np.linalg.inv(self.precision)
        mean, some = covariance @ self.right, np.array([5, 1, 2])
        for segment in (NO_SEGMENT, *range(G)):
            rows = self.coefficients(np.arange(L), x, segment)
            unknown = self.belief.omega2 if segment == NO_SEGMENT else 0.0
            means, widths = x[:, 0] + rows @ mean, np.sqrt(np.vecdot(rows @ covariance, rows) + unknown)
            one = state.of_segment(segment)
            chosen = Rows(some, x[some])
            for found, expected in (
                (one.mean(Rows(slice(None), x)), means),
                (one.width(Rows(slice(None), x)), widths),
                (one.mean(chosen), means[some]),
                (one.width(chosen), widths[some]),
            ):
                np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("changing", [False, True])
@pytest.mark.parametrize("learns_bias", [False, True])
def test_posterior_equals_a_dense_regression(changing: bool, learns_bias: bool) -> None:
    """After 4,000 lists, some of them amended, after the sums are counted again, and after a prior is removed."""
    rng = np.random.default_rng(5)
    belief = PooledHybrid(L, K, Q, adapt=None, segments=G, learns_bias=learns_bias)
    state = belief.init(1)
    if learns_bias:
        state.bias[0] = [1.0, 0.7, 0.5]
    table = rng.normal(size=(L, Q))
    table[:, 1], table[:, 3] = 1.0, 0.0
    dense, prior = Dense(belief, state), listed(np.array([[2]]), table[None, 2:3])
    later: tuple[int, Decision, Evidence] | None = None
    belief.believe(state, prior, 0.4, 3.0)
    dense.add(2, table[2], NO_SEGMENT, 0.4, 1.0, 3.0)
    for t in range(4000):
        segment, items = int(rng.integers(G)), rng.permutation(L)[None, :K]
        x, exposure = table[items].copy(), rng.integers(0, 2, (1, K)).astype(np.float64)
        if changing and t % 3 == 0:
            x[..., 4:] += rng.normal(size=(1, K, Q - 4))
        y = rng.normal(size=(1, K)) * exposure
        first = y * (t % 4 != 0)  # every fourth outcome is learned as 0 and amended when the next list was learned
        belief.update(state.of_segment(segment), listed(items, x), Evidence(first, exposure))
        if later is not None:
            belief.amend(state.of_segment(later[0]), later[1], np.zeros((1, K)), later[2])
        later = (segment, listed(items, x), Evidence(y, exposure)) if t % 4 == 0 else None
        for k in np.flatnonzero(exposure[0]).tolist():
            dense.add(int(items[0, k]), x[0, k], segment, float(y[0, k]), float(dense.bias[k]), 1.0)
    dense.check(state, table)
    refresh(state)
    dense.check(state, table)
    belief.disbelieve(state, prior, 0.4, 3.0)
    dense.add(2, table[2], NO_SEGMENT, 0.4, 1.0, -3.0)
    dense.check(state, table)
    refresh(state)
    dense.check(state, table)


def test_variances_are_recovered() -> None:
    """Of 300 items in 8 segments with τ² = 0.04, ω² = 0.01 and s² = 0.09.

    The estimates of τ² and ω² have relative standard errors of about √(2/300) = 0.08 and √(2/2400) = 0.03; five of them
    are exceeded with a probability below 1e-5.
    """
    rng, items, segments = np.random.default_rng(3), 300, 8
    belief = PooledHybrid(items, items, Q, adapt=None, segments=segments, learns_bias=False)
    state = belief.init(1)
    effects, own = rng.normal(0.0, 0.2, items), rng.normal(0.0, 0.1, (segments, items))
    x = np.zeros((1, items, Q))
    x[..., 1] = 1.0
    lists, exposure = np.arange(items)[None], np.ones((1, items))
    for segment in range(segments):
        for _ in range(20):
            y = (effects + own[segment] + rng.normal(0.0, 0.3, items))[None]
            decision = Decision(lists, Rows(lists, x), Request(1, items, items))
            belief.update(state.of_segment(segment), decision, Evidence(y, exposure))
    for _ in range(8):
        adapt(state, learns_bias=False, most_mean=np.inf, first=(belief.tau2, belief.omega2))
    assert state.tau2[0] == pytest.approx(0.04, rel=0.4)
    assert state.omega2[0] == pytest.approx(0.01, rel=0.15)
    assert state.s2[0] == pytest.approx(0.09, rel=0.05)


def config(**more: object) -> RankerConfig:
    return RankerConfig.of({"policy": "hybrid", "slots": 2, "seed": 4, "pooled": True, **more})


def visit(ranker: Ranker, rng: np.random.Generator, segment: str, rates: FloatArray) -> list[str]:
    """Rank for a visitor of a segment, who clicks each item with its rate."""
    ranking = ranker.rank(segment=segment)
    clicked = [slot for slot, id in enumerate(ranking.ids) if rng.random() < rates[int(id)]]
    ranker.feedback(ranking.id, clicked=clicked)
    return list(ranking.ids)


def bytes_of(replica: Replica) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in replica.learners.arrays().items()}


RATES = np.array([0.05] * 8 + [0.4, 0.6])


def test_a_new_segment_starts_from_what_the_others_have_learned() -> None:
    """The items differ by 0.35 and more, ten standard errors after 1,500 lists; a separate segment starts at random."""
    rng, ranker = np.random.default_rng(1), Ranker(config())
    ranker.put_items([{"id": str(i)} for i in range(len(RATES))])
    for t in range(1500):
        visit(ranker, rng, f"segment-{t % 3}", RATES)
    best = {id for _ in range(10) for id in ranker.rank(segment="new").ids}
    assert best == {"8", "9"}


def test_a_segment_keeps_its_own_taste() -> None:
    """Segment b likes other items than segments a and c; of 300 lists nearly all begin with the right item."""
    rng, ranker = np.random.default_rng(2), Ranker(config())
    ranker.put_items([{"id": str(i)} for i in range(len(RATES))])
    for t in range(6000):
        segment = "abc"[t % 3]
        visit(ranker, rng, segment, RATES[::-1] if segment == "b" else RATES)
    shown = [visit(ranker, rng, "ab"[t % 2], RATES[::-1] if t % 2 else RATES) for t in range(300)]
    right = sum({*ids} == ({"0", "1"} if t % 2 else {"8", "9"}) for t, ids in enumerate(shown))
    assert right >= 0.9 * len(shown)


@pytest.mark.parametrize("more", [{}, {"dim": 2, "context": 1}, {"discount": 0.99}])
def test_a_ranker_restarts_with_the_same_state(tmp_path: Path, more: dict[str, Any]) -> None:
    """From a replay and from a snapshot, with more segments than the state had room for at first."""
    rng, states, settings = np.random.default_rng(9), list[dict[str, bytes]](), config(**more)
    store = SqliteStore(tmp_path / "log.db")
    ranker = Ranker(settings, store=store)
    features = {"features": [0.3, 0.7]} if "dim" in more else {}
    ranker.put_items([{"id": str(i), "score": 0.3, **features} for i in range(10)])
    for t in range(450):
        context = [float(rng.normal())] if "context" in more else None
        ranking = ranker.rank(segment=f"segment-{t % 7}", context=context)
        ranker.feedback(ranking.id, clicked=[0] if rng.random() < 0.4 else [])
        if t == 300:
            ranker.snapshot()
    states.append(bytes_of(ranker._replica))
    ranker.close()
    with closing(SqliteStore(tmp_path / "log.db")) as store:
        replayed = Replica(settings)
        replayed.follow(store.read("ranker"))
        started = Ranker(settings, store=store)
        states += [bytes_of(replayed), bytes_of(started._replica)]
        started.close()
    assert states[0] == states[1] == states[2]


def test_other_policies_and_priors_by_segment_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"gts does not use ranker\.pooled; leave it out, or choose one of hybrid"):
        RankerConfig.of({"policy": "gts", "slots": 2, "pooled": True})
    ranker = Ranker(config())
    prior = {"score": 0.3, "strength": 2.0, "segments": {"a": {"score": 0.1, "strength": 1.0}}}
    with pytest.raises(InvalidInput, match=r"segments is \['a'\]; accepted: no scores by segment"):
        ranker.put_items([{"id": "x", "prior": prior}])
    assert not ranker.counts()["items"]
