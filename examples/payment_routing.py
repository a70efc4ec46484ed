"""Payment routing: which processors to try for a transaction, in which order, and when to give up.

Run `python examples/payment_routing.py`. Every transaction brings features of its own for each processor, and costs of
its own: the fee of an attempt depends on the processor's contract and the margin on the amount. The policy `ind` orders
the processors by their probability of success and chooses the number of attempts of largest expected net reward.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np

from rankloop import Ranker, RankerConfig
from rankloop.types import FloatArray

PROCESSORS = ("north", "south", "east", "west")
CURRENCIES, CARDS = 3, 2
FEATURES = len(PROCESSORS) * CURRENCIES + CARDS
ATTEMPT_COST = 0.3
"""What an attempt that fails costs: the fee, and a customer who waits."""
MARGIN = 0.02
"""Share of a transaction's amount that is earned if it succeeds."""


@dataclass(frozen=True)
class Transaction:
    """One payment: its currency, the kind of card and the amount."""

    currency: int
    card: int
    amount: float

    def features(self, processor: int) -> list[float]:
        """Return the features of an attempt with a processor: which one, for which currency, and its kind of card."""
        x = np.zeros(FEATURES)
        x[processor * CURRENCIES + self.currency] = 1.0
        x[len(PROCESSORS) * CURRENCIES + self.card] = 0.5
        return [float(number) for number in x / np.linalg.vector_norm(x)]

    def rewards(self) -> list[float]:
        """Return the net reward of a success at the first, second, … attempt."""
        return [max(0.0, MARGIN * self.amount - ATTEMPT_COST * j) for j in range(len(PROCESSORS))]

    @staticmethod
    def losses() -> list[float]:
        """Return the loss if all of 0, 1, 2, … attempts fail."""
        return [-ATTEMPT_COST * s for s in range(len(PROCESSORS) + 1)]


class Payments:
    """Simulated transactions: every processor has a success probability for each currency and kind of card."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._log_odds = self._rng.normal(-0.6, 1.6, (len(PROCESSORS), CURRENCIES))
        self._card = np.array([0.4, -0.4])

    def next(self) -> Transaction:
        """Return the next transaction."""
        rng = self._rng
        return Transaction(int(rng.integers(CURRENCIES)), int(rng.integers(CARDS)), float(rng.lognormal(3.5, 1.0)))

    def success(self, transaction: Transaction) -> FloatArray:
        """Return the probability that each processor accepts a transaction."""
        log_odds = self._log_odds[:, transaction.currency] + self._card[transaction.card]
        return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))

    def attempt(self, transaction: Transaction, order: list[int]) -> int | None:
        """Try processors in order; return the index of the attempt that succeeded, or None."""
        p = self.success(transaction)
        accepted = self._rng.random(len(PROCESSORS)) < p
        return next((j for j, processor in enumerate(order) if accepted[processor]), None)


def expected(transaction: Transaction, p: FloatArray, order: list[int]) -> float:
    """Return the expected net reward of attempts in this order."""
    rewards, losses, failed, value = transaction.rewards(), transaction.losses(), 1.0, 0.0
    for j, processor in enumerate(order):
        value += rewards[j] * failed * float(p[processor])
        failed *= 1.0 - float(p[processor])
    return value + losses[len(order)] * failed


def best(transaction: Transaction, p: FloatArray) -> float:
    """Return the largest expected net reward: processors by falling probability, the best number of attempts."""
    order = np.argsort(-p).tolist()
    return max(expected(transaction, p, order[:s]) for s in range(len(order) + 1))


def route(transactions: int, seed: int = 0) -> tuple[float, float, float]:
    """Route transactions; return the expected net rewards in the second half: routed, in fixed order, and the best."""
    payments = Payments(seed)
    config = RankerConfig.of(
        {
            "policy": "ind",
            "slots": len(PROCESSORS),
            "dim": FEATURES,
            "rewards": [1.0] * len(PROCESSORS),
            "losses": [0.0] * (len(PROCESSORS) + 1),
            "seed": seed,
        }
    )
    totals = np.zeros(3)
    with closing(Ranker(config)) as ranker:
        ranker.put_items([{"id": id, "features": [0.0] * FEATURES} for id in PROCESSORS])
        for number in range(transactions):
            one = payments.next()
            attempts = [{"id": id, "features": one.features(i)} for i, id in enumerate(PROCESSORS)]
            ranking = ranker.rank(items=attempts, rewards=one.rewards(), losses=one.losses())
            order = [PROCESSORS.index(id) for id in ranking.ids]
            success = payments.attempt(one, order)
            ranker.feedback(ranking.id, clicked=[] if success is None else [success])
            if number >= transactions // 2:
                p = payments.success(one)
                totals += expected(one, p, order), expected(one, p, list(range(len(PROCESSORS)))), best(one, p)
    routed, fixed, most = totals / (transactions - transactions // 2)
    return float(routed), float(fixed), float(most)


if __name__ == "__main__":
    routed, fixed, most = route(4_000)
    print(f"net reward of a transaction: {routed:.3f} routed, {fixed:.3f} in fixed order, {most:.3f} at best")
