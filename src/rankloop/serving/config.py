"""The configuration of a ranker: settings that are checked against the policy, which is built from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from msgspec.structs import replace

from rankloop import catalogue
from rankloop.catalogue.setting_use import OF_LOG, OF_POLICY, composed, refuse_unable, refuse_unread
from rankloop.errors import InvalidInput, Unsupported
from rankloop.features import RankerFeatures
from rankloop.objective import Objective, objective_of
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema import Guardrail, RankerSettings
from rankloop.schema.limits import MAX_CROSSED_FEATURES, MAX_PARAMETER, MIN_PARAMETER
from rankloop.types import EMPTY, BetaPrior, FloatArray, Request, Setting

Plain = dict[str, object]
"""Settings as JSON values."""

ADJUSTABLE = (
    *("commit", "mode", "traffic", "explore_from", "explore_daily", "caps", "guardrail"),
    *("window", "aggregate", "activation", "on_close", "seed"),
)
"""Settings that may change while a ranker runs: they affect who sees its lists and when feedback settles, from now on.
All others affect what was learned: changing one of them requires learning again, from scratch or from the log."""


MAX_TRIAL_BYTES, MAX_TRIAL_ROUNDS = 10**8, 1_000
"""Bytes of the state with which a configuration is tried; the rounds of a larger one, whose state grows with them."""


class RankerConfig(RankerSettings, frozen=True):
    """Settings of a ranker, checked: the policy is in the catalogue and can compute with all of them together.

    >>> RankerConfig(policy="cascade-ucb1", slots=3).objective
    'any-click'
    """

    inherited: ClassVar[tuple[str, ...]] = ()
    """Settings that may be given even if the policy does not read them."""

    def check_consistency(self) -> None:
        """Refuse settings from which no policy can be built."""
        super().check_consistency()
        try:
            catalogue.find(self.policy)
        except InvalidInput as error:
            raise type(error)("ranker.policy", self.policy, error.accepted, error.meant) from None
        _check_params(self.policy, self.params)
        self.check()

    def check(self) -> None:
        """Refuse settings that are valid one by one but not together."""
        try:
            policy, read = composed(self.compose, self.setting(2, np.zeros(2)))
        except ArithmeticError as error:
            raise Unsupported(f"{self.policy} cannot compute with these parameters ({error}).") from None
        except Unsupported as error:
            if self.features != "auto":
                raise
            raise Unsupported(
                f"with ranker.features 'auto' there are no features at first ({str(error).rstrip('.')}); declare"
                " them, or choose hybrid."
            ) from None
        refuse_unread(self, read, self.inherited)
        refuse_unable(self, policy)
        self._refuse_wide_rows(policy)
        if self.guardrail is not None and self.mode == "live" and self.traffic in (0.0, 1.0):
            raise Unsupported("a guardrail compares with a control group; set ranker.traffic between 0 and 1.")
        self._try_one_list()

    def _refuse_wide_rows(self, policy: RankingPolicy[LearnerState]) -> None:
        """Refuse more features and context than a dense model of their products can have."""
        if self.features is not None:  # its own settings limit the width
            return
        crosses = self.dim is not None and self.context is not None and policy.reads >= {"features", "context"}
        if crosses and not self.logged and self.row_width > MAX_CROSSED_FEATURES:
            accepted = (
                f"a context with which the {self.row_width} features of a row (ranker.dim, ranker.context and their "
                f"products) are at most {MAX_CROSSED_FEATURES}"
            )
            raise InvalidInput("ranker.context", self.context, accepted)

    def _try_one_list(self) -> None:
        """Decide and learn one small list; refuse parameters with which this cannot be computed."""
        k = min(self.slots, 2)
        names = ("bias", "rewards", "losses", "termination", "slot_weights")
        by_slot: dict[str, Any] = {name: getattr(self, name) for name in names}
        small: dict[str, Any] = {name: value and value[: k + (name == "losses")] for name, value in by_slot.items()}
        small |= {name: getattr(self, name) and 1 for name in ("dim", "context", "coverage")}
        fields = self.feature_settings
        small |= {} if fields is None else {"features": None, "dim": 1, "context": 1 if fields.context else None}
        trial = replace(self, slots=k, **small)
        policy = trial.build(2, np.ones(2))
        try:
            size = policy.learner_bytes()
        except Exception as error:  # from code outside the package
            raise Unsupported(f"{self.policy} cannot make a state of 0 learners, init(0) ({error}).") from error
        if size > MAX_TRIAL_BYTES and self.rounds is not None:  # it has room for all rounds
            policy = replace(trial, rounds=min(self.rounds, MAX_TRIAL_ROUNDS)).build(2, np.ones(2))
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
        self,
        items: int,
        prices: FloatArray,
        present: int | None = None,
        used: int | None = None,
        *,
        segments: int = 1,
    ) -> RankingPolicy[LearnerState]:
        """Return the policy for a number of items; see `setting` for the arguments."""
        return self.compose(self.setting(items, prices, present, used, segments=segments))

    def compose(self, setting: Setting) -> RankingPolicy[LearnerState]:
        """Return the policy for a setting."""
        shared = {} if self.discount == 1.0 else {"discount": self.discount}
        return catalogue.build(self.policy, setting, **self.params, **shared)

    def setting(
        self,
        items: int,
        prices: FloatArray,
        present: int | None = None,
        used: int | None = None,
        *,
        segments: int = 1,
    ) -> Setting:
        """Return the setting that the policy is built for.

        Args:
            items: number of item columns.
            prices: [items]; they may change in place.
            present: number of items that were not removed.
            used: number of columns that an item has or had; these come first.
            segments: number of segments to make room for, where they are pooled.
        """
        shape, dim, context, products, hashed = (items,), self.dim, self.context, None, None
        if self.feature_settings is not None:
            rows = RankerFeatures(self.feature_settings)
            dim, context, products, hashed = rows.dim, rows.context_width, rows.products, rows.hashed
        prior = None if self.prior is None else BetaPrior(*(np.full(shape, p) for p in self.prior))
        return Setting(
            items=items,
            present=present,
            used=used,
            slots=self.slots,
            rounds=self.rounds,
            dim=dim,
            prior=prior,
            bias=None if self.bias is None else np.array(self.bias),
            context=context,
            products=products,
            hashed=hashed,
            coverage=self.coverage,
            rewards=None if self.rewards is None else np.array(self.rewards),
            losses=None if self.losses is None else np.array(self.losses),
            termination=None if self.termination is None else np.array(self.termination),
            slot_weights=None if self.slot_weights is None else np.array(self.slot_weights),
            objective=self._objective(prices),
            segments=segments if self.pooled else None,
        )

    def plain(self) -> Plain:
        """Return the settings as they come back from JSON."""
        settings: Plain = json.loads(json.dumps(self.as_mapping()))
        return settings

    def learning(self) -> Plain:
        """Return the settings that affect what is learned from a log, as they come back from JSON."""
        return learning_of(self.plain())

    def adjusted_as(self, settings: Mapping[str, object]) -> Self:
        """Return this configuration with the adjustable settings of another one, which are valid already."""
        plain: dict[str, Any] = {name: settings[name] for name in ADJUSTABLE if name in settings}
        guardrail: Any = settings.get("guardrail")
        return replace(
            self,
            **{
                "explore_daily": None,
                "activation": "decision",
                "caps": None,
                **plain,
                "guardrail": None if guardrail is None else Guardrail.of(guardrail),
            },
        )

    def _objective(self, prices: FloatArray) -> Objective:
        termination = None if self.termination is None else np.array(self.termination)
        return objective_of(self.objective, prices=prices, termination=termination, slots=self.slots)


class ChallengerConfig(RankerConfig, frozen=True):
    """Settings of a challenger; the log determines what items and requests carry."""

    inherited: ClassVar[tuple[str, ...]] = OF_LOG


class LoggedConfig(RankerConfig, frozen=True):
    """Settings read from a log: they were accepted once, perhaps for a policy that was replaced later."""

    inherited: ClassVar[tuple[str, ...]] = (*OF_POLICY, "objective")
    logged: ClassVar[bool] = True


def learning_of(settings: Mapping[str, object]) -> Plain:
    """Return the plain settings that affect what is learned from a log."""
    return {name: value for name, value in settings.items() if name not in ADJUSTABLE}


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> Plain:
    """Return the settings that differ, with their new values; None for a removed one."""
    return {name: after.get(name) for name in {**before, **after} if before.get(name) != after.get(name)}


def _check_params(policy: str, params: Mapping[str, object]) -> None:
    """Refuse parameters that the policy does not have, or that a service cannot compute with."""
    try:
        catalogue.resolve(policy, params)
    except InvalidInput as error:
        raise error.within("ranker.params") from None
    for name, value in params.items():
        _check_param(f"ranker.params.{name}", value)


def _check_param(field: str, value: object) -> None:
    """Refuse lists by item, and numbers whose squares and sums lose precision in a service that runs for years."""
    if isinstance(value, list | tuple):
        accepted = "a number for all items; put an item with a prior, {score, strength}, to set that of a single item"
        raise InvalidInput(field, value, accepted)
    if isinstance(value, int | float) and value != 0 and not MIN_PARAMETER <= abs(value) <= MAX_PARAMETER:
        raise InvalidInput(field, value, f"0, or a magnitude from {MIN_PARAMETER:g} to {MAX_PARAMETER:g}")
