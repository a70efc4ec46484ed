"""The hybrid policy where features explain all, half or nothing, and in a shop: as good as what it replaces."""

from __future__ import annotations

import numpy as np
import pytest
from bench.shop import CASES, RankerCaller, Shop, visits

from hybrid_worlds import RIVALS, ExplainedWorld

ROUNDS, REPLICATIONS = 10_000, 16


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "limits"),
    [(1.0, {"lin-ts-ltr": 1.2}), (0.5, {"lin-ts-ltr": 1.0, "gts": 1.0}), (0.0, {"gts": 1.2})],
    ids=["all", "half", "none"],
)
def test_regret_against_policies_that_know_the_biases(share: float, limits: dict[str, float]) -> None:
    """With 64 replications of 20,000 rounds the ratios are far below the limits (seeds fixed)."""
    world = ExplainedWorld.drawn(share, REPLICATIONS, seed=7)
    own = world.final_regret("hybrid", ROUNDS, seed=8).mean()
    for rival in RIVALS:
        if rival in limits:
            assert own <= limits[rival] * world.final_regret(rival, ROUNDS, seed=8).mean()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_shop_earns_more_than_by_its_own_order(case: str) -> None:
    """One shop, 6,000 visits: most of the best list's clicks in the last quarter (seeds fixed)."""
    shop = Shop.drawn(2)
    shares = visits(shop, RankerCaller(shop, case, 3), 6000, 3).reshape(4, -1).mean(axis=1)
    assert shares[-1] > 0.88
    assert np.all(shares[1:] > shop.own / shop.best)
