"""What a belief has learned from a list can be amended: the state is that of learning the final outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankloop import build
from rankloop.belief.hybrid import Hybrid
from rankloop.belief.pooled import PooledHybrid
from rankloop.design.hybrid_rows import HybridRows
from rankloop.types import Decision, Evidence, Request, Rows, Setting

L, K, D = 8, 3, 2
Q = HybridRows(D).row_features or 0
OF_HISTORY = ("by_slot",)
"""Sums that hold estimates of the time at which a list was learned."""


@pytest.mark.parametrize("pools", [False, True])
@pytest.mark.parametrize("changing", [False, True])
def test_every_sum_of_the_hybrid_belief_is_that_of_the_final_outcomes(pools: bool, changing: bool) -> None:
    """Also the sums from which variances, biases and the trust in the caller's order are fitted."""
    rng = np.random.default_rng(7)
    belief: Hybrid = PooledHybrid(L, K, Q, adapt=None, segments=2) if pools else Hybrid(L, K, Q, adapt=None)
    early, late, pending = belief.init(1), belief.init(1), list[tuple[int, Decision, Evidence, Any]]()
    table = rng.normal(size=(L, Q))
    table[:, 1], table[::2, 3] = 1.0, 0.5
    for t in range(60):
        items, x = rng.permutation(L)[None, :K], table.copy()
        if changing and t % 3 == 0:
            x[: L // 2, 4:] = rng.normal(size=(L // 2, Q - 4))
        decision = Decision(items, Rows(items, x[items]), Request(1, L, K))
        evidence, first = Evidence(rng.normal(size=(1, K)), np.ones((1, K))), rng.normal(size=(1, K))
        belief.update(early.of_segment(t % 2), decision, Evidence(first, evidence.exposure))
        belief.update(late.of_segment(t % 2), decision, evidence)
        pending.append((t % 2, decision, evidence, first))
    for segment, decision, evidence, first in pending[::-1]:
        belief.amend(early.of_segment(segment), decision, first, evidence)
    for (name, left), (_, right) in zip(early.arrays(), late.arrays(), strict=True):
        if name not in OF_HISTORY:
            np.testing.assert_allclose(left.astype(float), right.astype(float), rtol=1e-9, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(early.by_slot[:, 2:], late.by_slot[:, 2:], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(early.by_slot[:, 0], late.by_slot[:, 0], rtol=1e-9, atol=1e-9)


def test_the_policies_that_amend_are_those_whose_belief_is_a_sum() -> None:
    """A conjugate belief amends under every feedback model; wrappers that learn whole epochs or batches do not."""
    setting = Setting(L, K, rounds=100, dim=D, bias=np.array([1.0, 0.7, 0.4]), context=D, coverage=D)
    amends = {id for id in ("hybrid", "gts", "cascade-ucb1", "cascade-lin-ts") if build(id, setting).amends}
    assert amends == {"hybrid", "gts", "cascade-ucb1", "cascade-lin-ts"}
    assert not build("hybrid", setting, discount=0.9).amends, "an older observation has a weight that nobody kept"
    assert not build("epoch-ucb", setting).amends


def test_under_the_cascade_only_slots_that_were_observed_can_be_amended() -> None:
    policy = build("cascade-ucb1", Setting(L, K, rounds=100))
    lists = np.arange(K)[None]
    clicked, value = np.array([[0.0, 1.0, 0.0]]), np.array([[0.0, 2.0, 0.0]])
    assert policy.amendable(lists, clicked, value), "the same slot is clicked"
    assert not policy.amendable(lists, clicked, np.array([[1.0, 1.0, 0.0]])), "the click would have been in slot 0"
    assert not policy.amendable(lists, np.zeros((1, K)), clicked), "slot 2 was observed, and would not have been"
