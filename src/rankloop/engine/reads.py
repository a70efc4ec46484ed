"""What a ranker's policy assumes of visitors and places."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop import catalogue
from rankloop.belief.order import PairwiseOrder
from rankloop.design import PerItem, Shared
from rankloop.engine.config import RankerConfig
from rankloop.engine.learners import Learners
from rankloop.policy import Policy


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
        policy, inner = learners.policy, learners.inner
        feedback = policy.feedback.name
        blind = (
            inner is not None
            and isinstance(inner.design, PerItem | Shared)
            and not isinstance(inner.belief, PairwiseOrder)
        )
        return cls(
            policy=config.policy,
            feedback=feedback,
            single=policy.feedback.single,
            learns=catalogue.find(config.policy).learns,
            blind=blind,
            plain=isinstance(policy, Policy),
            fractional=inner is not None and inner.belief.fractional,
            slots=config.slots,
            bias=config.bias if feedback in ("position-based", "choice") else None,
            contexts=config.context is not None,
            amounts=config.objective == "amount",
            aggregate=config.aggregate,
            config=config,
        )
