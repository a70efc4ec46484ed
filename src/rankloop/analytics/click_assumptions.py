"""The click model and the position bias that a policy assumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rankloop.schema import RankerSettings

Accepts = Callable[[Mapping[str, object]], bool]
"""Returns whether changed settings, by name, would be accepted for a challenger of the ranker."""


@dataclass(frozen=True, slots=True)
class ClickAssumptions:
    """How a policy interprets clicks."""

    settings: RankerSettings
    feedback: str  # the click model: cascade, last-click, semi-bandit, position-based or choice
    single: bool  # learns from at most one click per list
    learns: bool  # learns from clicks at all
    ignores_slots: bool  # what it learns about an item does not depend on the slot
    takes_feedback: bool  # accepts another click model (params.feedback)
    fractional: bool  # accepts the position-based model too
    bias: tuple[float, ...] | None  # position bias by slot, if the policy uses it
    accepts: Accepts

    @property
    def policy(self) -> str:
        """The id of the policy."""
        return self.settings.policy

    @property
    def slots(self) -> int:
        """The length of the longest list."""
        return self.settings.slots

    @property
    def contextual(self) -> bool:
        """Whether requests carry a context."""
        return self.settings.context is not None

    @property
    def amounts(self) -> bool:
        """Whether outcomes are amounts instead of clicks."""
        return self.settings.objective == "amount"
