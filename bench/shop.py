"""Run the hybrid policy as a shop would, and print the share of the best list's expected clicks that it earns.

    python -m bench.shop            # five shops × five visitor seeds, 12,000 visits each
    python -m bench.shop --first 100 --shops 2 --seeds 1 --visits 4000

The shop: 500 products in 8 uniform categories with taste (.9, .6, 0, -.4, -.8, -.2, .5, .1), log price ~ N(2.5, .8),
quality ~ N(0, .6), logit appeal = -2.8 + taste + quality - .3 log(price/12), the shop's own score
min(1, appeal·exp N(0, .5)). Features: (log price - 2.5)/2.4 and the category one-hot. A visitor examines slot
k = 1 … 10 with probability 1/√k and clicks what appeals, independently. Cases: the ranker is given the scores, nothing,
or the scores in reversed order.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rankloop import Ranker, RankerConfig, build
from rankloop.math.logistic import sigmoid
from rankloop.simulator.parallel import one_blas_thread
from rankloop.types import Decision, FloatArray, IntArray, Request, Setting

PRODUCTS, SLOTS, QUARTERS = 500, 10, 4
TASTE = np.array([0.9, 0.6, 0.0, -0.4, -0.8, -0.2, 0.5, 0.1])
EXAMINED = 1.0 / np.sqrt(np.arange(1.0, SLOTS + 1.0))
CASES = ("scores", "nothing", "reversed")
TARGETS = {"scores": (0.92, 0.96, 0.84, 0.90), "nothing": (0.89, 0.94, 0.0, 0.0), "reversed": (0.89, 0.94, 0.0, 0.0)}
"""Required share of the best list over all visits and in the last quarter: means, then the smallest run."""


@dataclass(frozen=True)
class Shop:
    """A shop with its products."""

    appeal: FloatArray  # [L], probability of a click on an examined product
    scores: FloatArray  # [L], the shop's own estimates of it
    features: FloatArray  # [L, d]

    @classmethod
    def drawn(cls, seed: int) -> Shop:
        """Return the shop of this seed."""
        rng = np.random.default_rng([seed, 18])
        category = rng.integers(0, len(TASTE), PRODUCTS)
        log_price = rng.normal(2.5, 0.8, PRODUCTS)
        quality = rng.normal(0.0, 0.6, PRODUCTS)
        appeal = np.asarray(sigmoid(-2.8 + TASTE[category] + quality - 0.3 * (log_price - np.log(12.0))))
        scores = np.minimum(1.0, appeal * np.exp(rng.normal(0.0, 0.5, PRODUCTS)))
        features = np.column_stack([(log_price - 2.5) / 2.4, np.eye(len(TASTE))[category]])
        return cls(appeal, scores, features)

    def given(self, case: str) -> FloatArray | None:
        """Return the scores that the ranker is given in this case."""
        if case == "nothing":
            return None
        if case == "scores":
            return self.scores
        found = np.empty(PRODUCTS)
        found[np.argsort(self.scores)] = np.sort(self.scores)[::-1]
        return found

    def value(self, shown: IntArray) -> FloatArray:
        """Return the expected clicks of lists [..., K]."""
        return np.asarray((self.appeal[shown] * EXAMINED).sum(axis=-1))

    @property
    def best(self) -> float:
        """Expected clicks of the best list."""
        return float(self.value(np.argsort(-self.appeal)[:SLOTS]))

    @property
    def own(self) -> float:
        """Expected clicks of the list by the shop's own scores."""
        return float(self.value(np.argsort(-self.scores)[:SLOTS]))


class Caller(Protocol):
    """What a shop calls: one request for each visit, and one report of its clicks."""

    def rank(self) -> IntArray:
        """Return the products to show, [K]."""

    def feedback(self, clicks: FloatArray) -> None:
        """Report the clicks on the last list, [K]."""


class PolicyCaller:
    """The policy itself, without a ranker around it."""

    def __init__(self, shop: Shop, case: str, seed: int, policy: str = "hybrid", **params: object) -> None:
        self.policy = build(policy, Setting(PRODUCTS, SLOTS, dim=shop.features.shape[1]), **params)
        self.state, self.rng = self.policy.init(1), np.random.default_rng([seed, 1])
        self.request = Request(1, PRODUCTS, SLOTS, shop.features, scores=shop.given(case))
        self.decision: Decision | None = None

    def rank(self) -> IntArray:
        """Return the products to show, [K]."""
        self.decision = self.policy.decide(self.state, self.request, self.rng)
        shown: IntArray = self.decision.items[0]
        return shown

    def feedback(self, clicks: FloatArray) -> None:
        """Report the clicks on the last list, [K]."""
        assert self.decision is not None
        self.policy.learn(self.state, self.decision, clicks[None])


class RankerCaller:
    """A ranker with its log in memory. Only the slots are set, and the number of features of the products."""

    def __init__(self, shop: Shop, case: str, seed: int) -> None:
        self.ranker = Ranker(RankerConfig(slots=SLOTS, dim=shop.features.shape[1], seed=seed))
        scores = shop.given(case)
        self.ranker.put_items(
            [
                {"id": str(n), "features": row} | ({} if scores is None else {"score": float(scores[n])})
                for n, row in enumerate(shop.features.tolist())
            ]
        )
        self.decision = ""

    def rank(self) -> IntArray:
        """Return the products to show, [K]."""
        ranking = self.ranker.rank()
        self.decision = ranking.id
        return np.array([int(id) for id in ranking.ids])

    def feedback(self, clicks: FloatArray) -> None:
        """Report the clicks on the last list, [K]."""
        self.ranker.feedback(self.decision, clicked=np.flatnonzero(clicks).tolist())


def visits(shop: Shop, caller: Caller, number: int, seed: int) -> FloatArray:
    """Return the share of the best list's expected clicks in each of a number of visits, [number]."""
    rng, shown = np.random.default_rng([seed, 2]), np.empty((number, SLOTS), dtype=np.int64)
    for t in range(number):
        shown[t] = caller.rank()
        examined, attracted = rng.random((2, SLOTS)) < np.stack([EXAMINED, shop.appeal[shown[t]]])
        caller.feedback(np.asarray(examined & attracted, dtype=np.float64))
    return shop.value(shown) / shop.best


def measured(case: str, shops: range, seeds: int, number: int, bare: bool) -> FloatArray:
    """Print one case and return the share by run and quarter, [runs, 4]."""
    make: type[PolicyCaller | RankerCaller] = PolicyCaller if bare else RankerCaller
    runs, ahead = [], []
    for shop_seed in shops:
        shop = Shop.drawn(shop_seed)
        for seed in range(seeds):
            shares = visits(shop, make(shop, case, seed), number, seed)
            runs.append(shares.reshape(QUARTERS, -1).mean(axis=1))
            ahead.append(runs[-1] - shop.own / shop.best)
    found, lead = np.array(runs), np.array(ahead)
    all_visits, last = found.mean(axis=1), found[:, -1]
    wanted = TARGETS[case]
    print(
        f"{case:9} all visits {all_visits.mean():.1%} (min {all_visits.min():.1%}; "
        f"targets {wanted[0]:.0%}, {wanted[2]:.0%})"
        f"  last quarter {last.mean():.1%} (min {last.min():.1%}; targets {wanted[1]:.0%}, {wanted[3]:.0%})"
        f"  by quarter {' '.join(f'{q:.1%}' for q in found.mean(axis=0))}"
        f"  smallest lead on the shop's own order {lead.min():+.1%}",
        flush=True,
    )
    return found


def main() -> None:
    """Print the three cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1000, help="Seed of the first shop (default 1000).")
    parser.add_argument("--shops", type=int, default=5, help="Number of shops (default 5).")
    parser.add_argument("--seeds", type=int, default=5, help="Number of visitor seeds of each shop (default 5).")
    parser.add_argument("--visits", type=int, default=12_000, help="Visits of a run (default 12000).")
    parser.add_argument("--case", choices=CASES, help="Run one case only.")
    parser.add_argument("--bare", action="store_true", help="Call the policy without a ranker around it.")
    given = parser.parse_args()
    shops = range(given.first, given.first + given.shops)
    own = [Shop.drawn(seed).own / Shop.drawn(seed).best for seed in shops]
    print(f"the shop's own order: {min(own):.1%} to {max(own):.1%} of the best list")
    for case in CASES if given.case is None else (given.case,):
        measured(case, shops, given.seeds, given.visits, given.bare)


if __name__ == "__main__":
    with one_blas_thread():
        main()
