"""Which policy to simulate, and how to build it for a world's setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rankloop import catalogue
from rankloop.catalogue.params import Value
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.objective import Amount
from rankloop.policy import SupportsRanking
from rankloop.types import Setting


@dataclass(frozen=True)
class PolicySpec:
    """One policy of a simulation: an id of the catalogue with parameters, or a caller's function."""

    id: str
    label: str
    params: Mapping[str, Value] = field(default_factory=dict)
    function: Callable[[Setting], SupportsRanking] | None = None
    entry: catalogue.PolicyEntry | None = None  # carried along for worker processes

    def __post_init__(self) -> None:
        """Refuse a label that is not one printable line, and parameters that the policy does not have."""
        if not isinstance(self.label, str) or not self.label.strip() or not self.label.isprintable():
            raise InvalidInput("label", self.label, "a text of one line")
        if self.function is None and self.entry is None:
            catalogue.resolve(self.id, self.params)

    @property
    def own(self) -> bool:
        """Return whether the policy is custom code, whose changes cannot be detected."""
        return self.function is not None or (self.entry is not None and self.entry.own)

    def build(self, setting: Setting) -> SupportsRanking:
        """Return the policy for a setting."""
        policy: SupportsRanking
        if self.function is not None:
            policy = self.function(setting)
        else:
            policy = catalogue.build_entry(self.entry or catalogue.find(self.id), setting, self.params)
        if self.own and not all(hasattr(policy, name) for name in ("feedback", "init", "decide", "learn")):
            accepted = "a function from a Setting to a policy, with feedback, init, decide and learn"
            raise InvalidInput("policy", Words(f"{self.id}, which gives a {type(policy).__name__}"), accepted)
        if setting.objective.name == Amount.name and self.learns and not getattr(policy, "takes_amounts", True):
            raise Unsupported(
                f"{self.id} cannot learn amounts, which are the outcomes of this world: its belief must be about "
                "numbers, and every slot observed; choose gts or lin-ts-ltr with feedback semi-bandit or "
                "position-based."
            )
        return policy

    @property
    def learns(self) -> bool:
        """Return whether the policy reads feedback; a baseline that does not can play in every world."""
        return self.function is not None or (self.entry or catalogue.find(self.id)).learns
