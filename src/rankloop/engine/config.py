"""What a ranker is: its policy, what it knows of items and visitors, and how feedback settles."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from rankloop import catalogue, validate
from rankloop.engine.guard import Guard
from rankloop.errors import InvalidInput, Unsupported
from rankloop.objective import Amount, AnyClick, Clicks, Objective, Revenue
from rankloop.ranking_policy import RankingPolicy
from rankloop.types import EMPTY, BetaPrior, FloatArray, Request, Setting

OBJECTIVES = ("any-click", "clicks", "revenue", "amount")
AGGREGATES = ("earliest", "sum")
CLOSINGS = ("nothing", "ignore")
COMMITS = ("feedback", "all")
MODES = ("live", "shadow")
ADJUSTABLE = (
    *("commit", "mode", "traffic", "explore_from", "explore_daily", "guard"),
    *("window", "aggregate", "on_close", "seed"),
)
"""Settings that may change while a ranker runs: they say who sees its lists and when feedback settles, from now on.
All others decide what was learned: to change one of them is to learn anew, from nothing or from the log."""
SMALLEST, LARGEST = 1e-12, 1e12
"""Magnitudes of parameters and of Beta priors, other than 0."""
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
        made.check()
        return made

    def check(self) -> None:
        """Refuse settings that each are fine, and not together."""
        try:
            policy = self.build(2, np.zeros(2))
        except ArithmeticError as error:
            raise Unsupported(f"{self.policy} cannot compute with these parameters ({error}).") from None
        if self.guard is not None and self.mode == "live" and self.traffic in (0.0, 1.0):
            raise Unsupported("a guard compares with a control group; set ranker.traffic between 0 and 1.")
        if (self.explore_from or self.explore_daily is not None) and policy.greedy() is None:
            raise Unsupported(f"{self.policy} has no estimates, and so no list that it believes best.")
        self._try()

    def _try(self) -> None:
        """Decide and learn one small list: parameters with which that cannot be computed are refused here."""
        k = min(self.slots, 2)
        first: dict[str, Any] = {name: getattr(self, name) for name in ("bias", "rewards", "losses")}
        small: dict[str, Any] = {name: given and given[: k + (name == "losses")] for name, given in first.items()}
        small |= {name: getattr(self, name) and 1 for name in ("dim", "context", "coverage")}
        policy = replace(self, slots=k, **small).build(2, np.ones(2))
        features, context, coverage = (
            np.ones((rows, 1)) if small[name] else None for name, rows in (("dim", 2), ("context", 1), ("coverage", 2))
        )
        request = Request(1, 2, k, features, context, coverage)
        state = policy.init(1)
        try:
            with np.errstate(all="ignore"):
                decision = policy.decide(state, request, np.random.default_rng(0))
                policy.learn(state, decision, policy.feedback.keep((decision.items != EMPTY).astype(np.float64)))
                policy.decide(state, request, np.random.default_rng(0))
        except (ArithmeticError, np.linalg.LinAlgError, ValueError) as error:
            raise Unsupported(f"{self.policy} cannot compute with these parameters ({error}).") from None
        if not all(np.isfinite(array).all() for _, array in state.arrays() if array.dtype.kind == "f"):
            raise Unsupported(f"{self.policy} cannot compute with these parameters: they are too large or too small.")

    def build(
        self, items: int, prices: FloatArray, present: int | None = None, used: int | None = None
    ) -> RankingPolicy[Any]:
        """The policy for a setting."""
        shared = {} if self.discount == 1.0 else {"discount": self.discount}
        return catalogue.build(self.policy, self.setting(items, prices, present, used), **self.params, **shared)

    def setting(self, items: int, prices: FloatArray, present: int | None = None, used: int | None = None) -> Setting:
        """What the policy is built for.

        Args:
            items: places for items.
            prices: [items]; they may change in place.
            present: items that are there.
            used: places that an item has or had, the first of them.
        """
        shape = (items,)
        prior = None if self.prior is None else BetaPrior(*(np.full(shape, p) for p in self.prior))
        return Setting(
            items=items,
            present=present,
            used=used,
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

    def as_mapping(self) -> dict[str, Any]:
        """The settings as plain values: what `of` accepts."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def plain(self) -> dict[str, Any]:
        """The settings as JSON gives them back."""
        told: dict[str, Any] = json.loads(json.dumps(self.as_mapping()))
        return told

    def learning(self) -> dict[str, Any]:
        """The settings that decide what is learned from a log, as JSON gives them back."""
        return learning_of(self.plain())

    def adjusted_as(self, settings: Mapping[str, Any]) -> Self:
        """These settings of learning with the adjustable ones of other settings, which were checked before."""
        plain: dict[str, Any] = {name: settings[name] for name in ADJUSTABLE if name in settings}
        return replace(self, **{"explore_daily": None, **plain, "guard": Guard.of(settings.get("guard"))})

    def _objective(self, prices: FloatArray) -> Objective:
        made: dict[str, Objective] = {"any-click": AnyClick(), "clicks": Clicks(), "amount": Amount()}
        return Revenue(prices) if self.objective == "revenue" else made[self.objective]


def learning_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of plain settings that decide what is learned from a log."""
    return {name: value for name, value in settings.items() if name not in ADJUSTABLE}


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that differ, with their new values; None where one is gone."""
    return {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}


def _params(policy: Any, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput("ranker.params", value, "a mapping of parameters of the policy")
    try:
        catalogue.resolve(policy, value)
    except InvalidInput as error:
        raise error.within("ranker.params") from None
    for name, given in value.items():
        _usable(f"ranker.params.{name}", given)
    return dict(value)


def _usable(field: str, value: Any) -> None:
    """Refuse numbers whose squares and sums a service could not compute with for years."""
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, int | float) and one != 0 and not SMALLEST <= abs(one) <= LARGEST:
            raise InvalidInput(field, one, f"0, or a magnitude from {SMALLEST:g} to {LARGEST:g}")


def _size(field: str, value: Any, high: int = 10**9) -> int | None:
    return None if value is None else validate.integer(field, value, high=high)


def _numbers(field: str, value: Any, length: int, low: float = -math.inf, high: float = math.inf) -> tuple[float, ...]:
    return tuple(validate.vector(field, value, low=low, high=high, length=length).tolist())


def _pair(field: str, value: Any) -> tuple[float, float]:
    found = validate.vector(field, value, low=SMALLEST, high=LARGEST, length=2)
    return float(found[0]), float(found[1])
