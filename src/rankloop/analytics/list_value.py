"""The value of a list in the ranker's objective, once its outcome is known.

| objective | value of a list |
|---|---|
| any-click | 1 if anything was clicked, else 0 |
| clicks | number of clicked slots |
| revenue | Σ price · click, with the prices at the time of the decision |
| amount | Σ of the reported values |
| net-reward | r_j if slot j is the first success, ℓ_s if all s listed items fail |
| satisfied | Σ τ_k · click in slot k |

Satisfaction is not observed, clicks are. A visitor of the dependent click model who has clicked in slot k leaves
satisfied with probability τ_k, whatever happened before, and leaves at most once. So
P(satisfied) = Σ_k P(leaves after slot k) = Σ_k E[τ_k · click_k]: the sum of τ_k over all clicks is an unbiased estimate
that needs no attractions. A single list may be worth more than 1; the mean over lists is a share of visitors.
Conditioning on the whole list gives τ_l / (τ_l + (1 - τ_l) ∏_{k>l} (1 - ν_k)) for the last click l. That has less
variance, but its attractions ν would have to be estimates, and the control group has none of the same quality: the two
groups would be measured by different scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rankloop.eventlog.events import DecisionMade
from rankloop.types import EMPTY, FloatArray, Setting

UNITS = {
    "any-click": "lists with a click",
    "clicks": "clicks",
    "revenue": "revenue",
    "amount": "amount",
    "net-reward": "net reward",
    "satisfied": "satisfied visitors",
}
"""What the values of each objective count."""
NET_REWARD = "net-reward"


def is_binary(objective: str) -> bool:
    """Return whether a list is worth 0 or 1, so that its mean value is a proportion."""
    return objective == "any-click"


class HasPrices(Protocol):
    """Items with prices."""

    @property
    def prices(self) -> FloatArray:
        """The price of each column, [capacity]."""


@dataclass(frozen=True, slots=True)
class ListValue:
    """How a ranker values the outcome of a list.

    Args:
        objective: the name of the objective in the settings, or net-reward.
        rewards: reward of a success in each slot; 1 without them.
        losses: losses if all of 0, 1, … listed items fail; 0 without them.
        termination: probability that a click in each slot ends the visit satisfied; 1 without them.
    """

    objective: str
    rewards: tuple[float, ...] | None = None
    losses: tuple[float, ...] | None = None
    termination: tuple[float, ...] | None = None

    @classmethod
    def of_setting(cls, setting: Setting) -> ListValue:
        """Return the value in the objective of a setting; rewards or losses by slot make it a net reward."""
        by_slot = (setting.rewards, setting.losses, setting.termination)
        rewards, losses, termination = (None if array is None else tuple(array.tolist()) for array in by_slot)
        objective = setting.objective.name if rewards is None and losses is None else NET_REWARD
        return cls(objective, rewards, losses, termination)

    def of(self, decision: DecisionMade, outcome: FloatArray, items: HasPrices) -> float:
        """Return the value of a settled list.

        Args:
            decision: the list.
            outcome: [k] clicks, or amounts.
            items: with their prices now, for decisions of a log that has no prices.
        """
        if decision.rewards is not None or decision.losses is not None:
            return self._net_reward(decision, outcome.tolist())
        match self.objective:
            case "any-click":
                return 1.0 if outcome.any() else 0.0
            case "clicks":
                return float(sum(value != 0.0 for value in outcome.tolist()))
            case "revenue":
                own = items.prices[decision.items] if decision.prices is None else decision.prices
                return float(sum(p for p, value in zip(own.tolist(), outcome.tolist(), strict=True) if value))
            case "net-reward":
                return self._net_reward(decision, outcome.tolist())
            case "satisfied":
                values = outcome.tolist()
                leaves = self.termination or (1.0,) * len(values)
                return float(sum(tau for tau, value in zip(leaves, values, strict=False) if value))
        return float(sum(outcome.tolist()))

    def _net_reward(self, decision: DecisionMade, outcome: Sequence[float]) -> float:
        """Return the reward of the first success, or the loss of a list without one; a request may have its own."""
        rewards = self.rewards if decision.rewards is None else decision.rewards.tolist()
        losses = self.losses if decision.losses is None else decision.losses.tolist()
        first = next((slot for slot, value in enumerate(outcome) if value), None)
        if first is not None:
            return 1.0 if rewards is None else float(rewards[first])
        listed = int((decision.items != EMPTY).sum())
        return 0.0 if losses is None else float(losses[listed])
