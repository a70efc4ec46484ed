"""What a ranker is: its policy, what it knows of items and visitors, and how feedback settles."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from rankloop import catalogue, validate
from rankloop.belief.weighting import can_forget
from rankloop.engine.guard import Guard
from rankloop.engine.inside import belief_of, greedy
from rankloop.errors import InvalidInput, Unsupported
from rankloop.objective import Amount, AnyClick, Clicks, Objective, Revenue
from rankloop.policy import Ranks
from rankloop.types import BetaPrior, FloatArray, Setting

OBJECTIVES = ("any-click", "clicks", "revenue", "amount")
AGGREGATES = ("earliest", "sum")
CLOSINGS = ("nothing", "ignore")
COMMITS = ("feedback", "all")
MODES = ("live", "shadow")
ROLLOUT = ("commit", "mode", "traffic", "explore_from", "explore_daily", "guard")
"""Settings that may change while a ranker runs: they say who sees its lists, not what it learns."""
WIDEST = 5_000
"""Features of an item, or numbers of a context: a belief keeps the square of them for each learner."""


@dataclass(frozen=True)
class RankerConfig:
    """A ranker's settings, checked. All but `policy` and `slots` have defaults.

    Args:
        policy: an id of the catalogue.
        slots: the longest list that is asked for.
        params: of the policy.
        dim: number of features of every item, where the policy uses features.
        context: length of a visitor's context, where the policy uses one.
        bias: probability that each slot is looked at, where the policy needs it.
        prior: (a, b) of the Beta belief about an item nobody has seen, where the policy takes one.
        rounds: the horizon, for policies that need one.
        objective: what a list is worth: any-click, clicks, revenue (items have prices) or amount.
        window: seconds after which a decision without final feedback is settled.
        aggregate: several events for one decision: `earliest` (the first settles it) or `sum` (as the window closes).
        discount: share of what was learned that one more lesson leaves, for worlds that drift; 1 forgets nothing.
        on_close: a window closes without any event: `nothing` (it was seen, and nothing happened) or `ignore`.
        seed: equal seeds, logs and requests give equal lists.
        coverage: number of topics that items cover, where the policy uses them.
        rewards: of a success in each slot, for policies that choose the length of a list.
        losses: when all of 0, 1, 2, … shown fail, one more than there are slots.
        commit: what is answered only when it is on the disk: `feedback`, or `all`, also lists.
        mode: `live`, or `shadow`: the caller's order is shown, and learned from.
        traffic: share of the visitors whose lists the policy makes; the others see the caller's order.
        explore_from: slots before this one, counted from 0, are never explored.
        explore_daily: at most so many lists a day (UTC) differ from what is believed best.
        guard: when to fall back to the caller's order; see `Guard`.
    """

    policy: str
    slots: int
    params: Mapping[str, Any] = field(default_factory=dict)
    dim: int | None = None
    context: int | None = None
    bias: tuple[float, ...] | None = None
    prior: tuple[float, float] | None = None
    rounds: int | None = None
    objective: str = "any-click"
    window: float = 3600.0
    aggregate: str = "earliest"
    on_close: str = "nothing"
    discount: float = 1.0
    seed: int = 0
    coverage: int | None = None
    rewards: tuple[float, ...] | None = None
    losses: tuple[float, ...] | None = None
    commit: str = "feedback"
    mode: str = "live"
    traffic: float = 1.0
    explore_from: int = 0
    explore_daily: int | None = None
    guard: Guard | None = None

    @classmethod
    def of(cls, given: Any) -> Self:
        """Check a mapping; what is wrong is said with the field's name."""
        optional = tuple(name for name in cls.__dataclass_fields__ if name not in ("policy", "slots"))
        fields = validate.mapping("ranker", given, required=("policy", "slots"), optional=optional)
        slots = validate.integer("ranker.slots", fields["slots"], high=1000)
        bias, prior = fields.get("bias"), fields.get("prior")
        rewards, losses, daily = fields.get("rewards"), fields.get("losses"), fields.get("explore_daily")
        objective = validate.choice("ranker.objective", fields.get("objective", "any-click"), OBJECTIVES)
        usual = "sum" if objective == "amount" else "earliest"
        made = cls(
            policy=catalogue.find(fields["policy"]).id,
            slots=slots,
            params=_params(fields["policy"], fields.get("params", {})),
            dim=_size("ranker.dim", fields.get("dim"), high=WIDEST),
            context=_size("ranker.context", fields.get("context"), high=WIDEST),
            bias=None if bias is None else _numbers("ranker.bias", bias, slots, low=0.0, high=1.0),
            prior=None if prior is None else _pair("ranker.prior", prior),
            rounds=_size("ranker.rounds", fields.get("rounds")),
            objective=objective,
            window=validate.number("ranker.window", fields.get("window", 3600.0), low=0.0, open_low=True),
            aggregate=validate.choice("ranker.aggregate", fields.get("aggregate", usual), AGGREGATES),
            on_close=validate.choice("ranker.on_close", fields.get("on_close", "nothing"), CLOSINGS),
            discount=validate.number("ranker.discount", fields.get("discount", 1.0), low=0.0, high=1.0, open_low=True),
            seed=validate.integer("ranker.seed", fields.get("seed", 0), low=0, high=2**63 - 1),
            coverage=_size("ranker.coverage", fields.get("coverage"), high=WIDEST),
            rewards=None if rewards is None else _numbers("ranker.rewards", rewards, slots),
            losses=None if losses is None else _numbers("ranker.losses", losses, slots + 1),
            commit=validate.choice("ranker.commit", fields.get("commit", "feedback"), COMMITS),
            mode=validate.choice("ranker.mode", fields.get("mode", "live"), MODES),
            traffic=validate.number("ranker.traffic", fields.get("traffic", 1.0), low=0.0, high=1.0),
            explore_from=validate.integer("ranker.explore_from", fields.get("explore_from", 0), low=0, high=slots),
            explore_daily=None if daily is None else validate.integer("ranker.explore_daily", daily, low=0),
            guard=Guard.of(fields.get("guard")),
        )
        policy = made.build(2, np.zeros(2))
        if made.discount < 1.0 and not can_forget(belief_of(policy, policy.init(1))[1]):
            raise Unsupported(f"{made.policy} cannot forget; leave out ranker.discount or choose another policy.")
        if made.guard is not None and made.mode == "live" and made.traffic in (0.0, 1.0):
            raise Unsupported("a guard compares with a control group; set ranker.traffic between 0 and 1.")
        if (made.explore_from or made.explore_daily is not None) and greedy(policy) is None:
            raise Unsupported(f"{made.policy} has no estimates, and so no list that it believes best.")
        return made

    @property
    def forget_every(self) -> int:
        """Lessons after which the past is discounted, in one step for all of them: a twentieth of the memory."""
        return max(1, round(0.05 / (1.0 - self.discount))) if self.discount < 1.0 else 0

    def build(self, items: int, prices: FloatArray, present: int | None = None) -> Ranks:
        """The policy with room for so many items, so many of them present; `prices` [items] may change in place."""
        shape = (items,)
        prior = None if self.prior is None else BetaPrior(*(np.full(shape, p) for p in self.prior))
        setting = Setting(
            items=items,
            present=present,
            slots=self.slots,
            rounds=self.rounds,
            dim=self.dim,
            prior=prior,
            bias=None if self.bias is None else np.array(self.bias),
            context=self.context,
            coverage=self.coverage,
            rewards=None if self.rewards is None else np.array(self.rewards),
            losses=None if self.losses is None else np.array(self.losses),
            objective=self._objective(prices),
        )
        return catalogue.build(self.policy, setting, **self.params)

    def as_mapping(self) -> dict[str, Any]:
        """The settings as plain values: what `of` accepts."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def rolled_out_as(self, other: RankerConfig) -> Self:
        """These settings of learning with another's of the rollout, checked."""
        told = {name: value for name, value in self.as_mapping().items() if name not in ROLLOUT}
        return self.of(told | {name: value for name, value in other.as_mapping().items() if name in ROLLOUT})

    def learning(self) -> dict[str, Any]:
        """The settings that decide what is learned from a log, as JSON gives them back."""
        told: dict[str, Any] = json.loads(json.dumps(self.as_mapping()))
        return {name: value for name, value in told.items() if name not in ROLLOUT}

    def _objective(self, prices: FloatArray) -> Objective:
        made: dict[str, Objective] = {"any-click": AnyClick(), "clicks": Clicks(), "amount": Amount()}
        return Revenue(prices) if self.objective == "revenue" else made[self.objective]


def _params(policy: Any, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput("ranker.params", value, "a mapping of parameters of the policy")
    try:
        catalogue.resolve(policy, value)
    except InvalidInput as error:
        raise error.within("ranker.params") from None
    return dict(value)


def _size(field: str, value: Any, high: int = 10**9) -> int | None:
    return None if value is None else validate.integer(field, value, high=high)


def _numbers(field: str, value: Any, length: int, low: float = -math.inf, high: float = math.inf) -> tuple[float, ...]:
    return tuple(validate.vector(field, value, low=low, high=high, length=length).tolist())


def _pair(field: str, value: Any) -> tuple[float, float]:
    found = validate.vector(field, value, low=0.0, open_low=True, length=2)
    if not np.isfinite(found).all():
        raise InvalidInput(field, value, "two finite numbers above 0")
    return float(found[0]), float(found[1])
