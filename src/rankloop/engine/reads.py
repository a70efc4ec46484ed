"""What a ranker's policy assumes of visitors and places."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop import catalogue
from rankloop.engine.config import RankerConfig
from rankloop.engine.learners import Learners


@dataclass(frozen=True, slots=True)
class Reads:
    """How a policy reads clicks."""

    policy: str
    feedback: str
    single: bool  # one click of a list at most
    learns: bool
    blind: bool  # what it learns of an item does not depend on the place
    plain: bool  # it may be told to read clicks in another way
    fractional: bool  # also with the exposure of places
    slots: int
    bias: tuple[float, ...] | None  # of places, where it uses them
    contexts: bool
    amounts: bool
    aggregate: str
    config: RankerConfig

    @classmethod
    def of(cls, config: RankerConfig, learners: Learners) -> Reads:
        """Of a ranker's policy."""
        policy = learners.policy
        feedback = policy.feedback.name
        return cls(
            policy=config.policy,
            feedback=feedback,
            single=policy.feedback.single,
            learns=catalogue.find(config.policy).learns,
            blind=policy.ignores_slots,
            plain=policy.takes_feedback,
            fractional=policy.fractional,
            slots=config.slots,
            bias=config.bias if feedback in ("position-based", "choice") else None,
            contexts=config.context is not None,
            amounts=config.objective == "amount",
            aggregate=config.aggregate,
            config=config,
        )
