"""A shop: products and visitors with fields, clicks now and purchases later, a guardrail on what is sold, a restart.

Run `python examples/shop.py`. Products have a price, a category and a brand; visitors have a device. What they like
depends on both, which the shop's own order, bestsellers first, does not know. A fifth of the visitors see that order.
Purchases are reported about an hour after the list was shown, and the ranker is closed and opened again halfway.
"""

from __future__ import annotations

import tempfile
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankloop import Ranker, RankerConfig
from rankloop.types import FloatArray, IntArray

PRODUCTS, SLOTS = 60, 6
CATEGORIES = ("tea", "coffee", "cups", "sweets", "books", "gifts")
BRANDS = ("north", "south", "east", "west")
DEVICES = ("phone", "desk")
EXAMINED = 1.0 / np.sqrt(np.arange(1.0, SLOTS + 1.0))
"""Probability that a visitor looks at each slot."""
BUYS = 0.3
"""Probability of a purchase after a click."""
SECONDS_BETWEEN_VISITS, VISITS_UNTIL_PURCHASE = 60.0, 60
SETTINGS: dict[str, object] = {
    "slots": SLOTS,
    "features": {
        "items": {
            "price": {"kind": "number", "transform": "log"},
            "category": {"kind": "category", "categories": 8},
            "brand": {"kind": "category", "categories": 6},
        },
        "context": {"device": {"kind": "category", "categories": 3}},
        "cross": [["category", "device"]],
    },
    "objective": "amount",  # of a list: Σ weight·value
    "reward": {"kinds": {"click": {"weight": 0.2}, "purchase": {"weight": 0.05}}},
    "window": 7200.0,
    "traffic": 0.8,
    "guardrail": {"drop": 0.1, "min_lists": 500, "constraints": {"purchase": 0.1}},
    "seed": 5,
}


@dataclass(frozen=True)
class Result:
    """What the second half of the visits earned, and what the ranker reports."""

    earned: float  # expected purchase value of a list of the policy
    own_order: float  # of the shop's own order
    best: float  # of the best list for each visitor
    reported: float  # purchase value of all lists, as the ranker counts it
    sent: float  # purchase value that was reported to it
    tripped: str | None  # why the guardrail fell back to the shop's order, if it did


@dataclass
class SimulatedClock:
    """A clock that the example moves."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


class Shop:
    """Simulated products, and visitors who click and buy."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.category, self.brand = rng.integers(0, len(CATEGORIES), PRODUCTS), rng.integers(0, len(BRANDS), PRODUCTS)
        self.price = np.round(np.exp(rng.normal(2.5, 0.5, PRODUCTS)), 2)
        taste = rng.normal(0.0, 1.2, (len(DEVICES), len(CATEGORIES)))
        quality = rng.normal(0.0, 0.5, PRODUCTS)
        log_odds = -1.5 + taste[:, self.category] + quality - 0.3 * np.log(self.price / 12.0)
        self.appeal: FloatArray = 1.0 / (1.0 + np.exp(-log_odds))  # [devices, products], clicks of those who look
        self.bestsellers: IntArray = np.argsort(-self.appeal.mean(axis=0))

    def items(self) -> list[dict[str, object]]:
        """Return the products as the ranker gets them, in the shop's own order."""
        place = np.argsort(self.bestsellers)
        return [
            {
                "id": f"product-{i}",
                "default_position": float(place[i]),
                "fields": {
                    "price": float(self.price[i]),
                    "category": CATEGORIES[self.category[i]],
                    "brand": BRANDS[self.brand[i]],
                },
            }
            for i in range(PRODUCTS)
        ]

    def value(self, device: int, shown: IntArray) -> float:
        """Return the expected purchase value of a list."""
        return float((EXAMINED * BUYS * self.appeal[device, shown] * self.price[shown]).sum())

    def best(self, device: int) -> float:
        """Return the expected purchase value of the best list."""
        return self.value(device, np.argsort(-self.appeal[device] * self.price)[:SLOTS])

    def visit(self, device: int, shown: IntArray) -> tuple[list[int], list[int]]:
        """Return the slots that a visitor clicks, and those that the visitor buys from later."""
        clicked = np.flatnonzero(self.rng.random(SLOTS) < EXAMINED * self.appeal[device, shown])
        return clicked.tolist(), [slot for slot in clicked.tolist() if self.rng.random() < BUYS]


def run(visits: int, seed: int = 0) -> Result:
    """Serve visitors, with a restart of the ranker halfway, and return what the second half earned."""
    shop, clock, sent = Shop(seed), SimulatedClock(), 0.0
    later: deque[tuple[int, str, dict[str, float]]] = deque()  # purchases to report: at which visit, decision, values
    totals, counts = np.zeros(3), np.zeros(2)
    with tempfile.TemporaryDirectory() as folder:
        log, config = Path(folder) / "shop.db", RankerConfig.of(SETTINGS)
        ranker = Ranker.open(log, config, clock=clock)
        ranker.put_items(shop.items())
        for number in range(visits):
            if number == visits // 2:
                ranker.close()  # or a crash: what was acknowledged is in the log
                ranker = Ranker.open(log, config, clock=clock)
            clock.now += SECONDS_BETWEEN_VISITS
            ranker.tick()
            while later and later[0][0] <= number:
                _, decision, values = later.popleft()
                ranker.feedback(decision, kind="purchase", item_values=values)
                sent += sum(values.values())
            device = int(shop.rng.integers(len(DEVICES)))
            ranking = ranker.rank(context={"device": DEVICES[device]})
            shown = np.array([int(id.removeprefix("product-")) for id in ranking.ids])
            clicked, bought = shop.visit(device, shown)
            ranker.feedback(ranking.id, clicked=clicked)
            if bought:
                values = {ranking.ids[slot]: float(shop.price[shown[slot]]) for slot in bought}
                later.append((number + VISITS_UNTIL_PURCHASE, ranking.id, values))
            if number >= visits // 2:
                if ranking.group == "treatment":
                    totals[0] += shop.value(device, shown)
                    counts[0] += 1
                totals[1:] += shop.value(device, shop.bestsellers[:SLOTS]), shop.best(device)
                counts[1] += 1
        with closing(ranker):
            overview = ranker.overview(hours=0.0)
            (purchases,) = (kind for kind in overview.kinds if kind.kind == "purchase")
            reported = purchases.treatment.value + purchases.control.value
            earned, (own, best) = totals[0] / counts[0], totals[1:] / counts[1]
            return Result(float(earned), float(own), float(best), reported, sent, overview.guardrail_tripped)


if __name__ == "__main__":
    result = run(8_000)
    print("expected purchase value of a list in the second half of 8,000 visits")
    print(f"  the ranker          {result.earned:.2f}  ({result.earned / result.best:.0%} of the best)")
    print(f"  the shop's order    {result.own_order:.2f}  ({result.own_order / result.best:.0%})")
    print(f"  the best lists      {result.best:.2f}")
    print(f"purchases: {result.sent:,.2f} sent, {result.reported:,.2f} reported by the ranker")
    print(f"guardrail: {result.tripped or 'did not trip'}")
