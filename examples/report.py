"""Simulate two days of a café whose menu rankloop orders, and write the HTML report.

python examples/report.py report.html
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from rankloop import Ranker, RankerConfig, reports

MENU = [
    "espresso", "cappuccino", "croissant", "flat white", "tea", "bagel", "cookie", "cold brew", "matcha", "latte",
    "mocha", "banana bread", "chai", "muffin", "granola", "scone", "juice", "cocoa",
]  # fmt: skip
"""The control ranking: an experienced owner chose this order."""


def simulate(lists: int = 12_000, days: float = 2.0) -> tuple[Ranker, float]:
    """Return a ranker after this many lists, half of them in the control group, and the simulated time."""
    now, rng = 1_790_000_000.0, np.random.default_rng(4)
    config = {
        "policy": "ts-beta",
        "prior": [1, 8],
        "slots": 5,
        "traffic": 0.5,
        "guardrail": True,
        "explore_daily": 2_000,
    }
    ranker = Ranker(RankerConfig.of(config), clock=lambda: now)
    ranker.put_items([{"id": id} for id in MENU])
    attraction = dict(zip(MENU, np.linspace(0.08, 0.04, len(MENU)) * rng.uniform(0.2, 1.8, len(MENU)), strict=True))
    best = sorted(attraction.values())[-5:]
    for visitor in range(lists):
        now += rng.exponential(days * 86400 / lists)
        ranking = ranker.rank(order=MENU, visitor=f"visitor-{visitor}")
        probabilities = [attraction[id] for id in ranking.ids]
        clicked = [slot for slot, p in enumerate(probabilities) if rng.random() < p]
        regret = np.prod([1 - p for p in probabilities]) - np.prod([1 - p for p in best])
        if rng.random() < 0.95:  # 5 % of the feedback is lost
            ranker.feedback(ranking.id, clicked=clicked[:1], regret=float(regret))
        if visitor % 100 == 0:
            ranker.tick()
    ranker.flush()
    return ranker, now


def main(path: Path, lists: int = 12_000) -> None:
    """Write the report."""
    ranker, now = simulate(lists)
    overview, diagnosis = ranker.overview(hours=72.0), ranker.diagnosis()
    data = reports.ReportData("cafe", now, ranker.config.as_mapping(), overview, diagnosis)
    path.write_text(reports.page(data), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
