"""What a policy assumes about visitors and slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rankloop.schema import RankerSettings

Accepts = Callable[[Mapping[str, object]], bool]
"""Whether changed settings, by name, would be accepted for a challenger of the ranker."""


@dataclass(frozen=True, slots=True)
class ClickAssumptions:
    """How a policy reads clicks."""

    settings: RankerSettings
    feedback: str
    single: bool  # a list has at most one click
    learns: bool
    ignores_slots: bool  # what it learns of an item does not depend on the slot
    takes_feedback: bool  # it may be configured to read clicks in another way
    fractional: bool  # also with a partial exposure of slots
    bias: tuple[float, ...] | None  # position bias by slot, where the policy uses it
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
