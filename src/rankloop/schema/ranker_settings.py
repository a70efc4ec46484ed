"""The settings of a ranker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta, field, to_builtins
from msgspec.structs import asdict

from rankloop.errors import InvalidInput, Words, closest
from rankloop.schema.base import Payload
from rankloop.schema.feature_settings import FeatureSettings
from rankloop.schema.fields import FieldName
from rankloop.schema.identifiers import Id
from rankloop.schema.limits import (
    MAX_CAPPED_FIELDS,
    MAX_FEATURES,
    MAX_FLOAT,
    MAX_PARAMETER,
    MAX_ROUNDS,
    MAX_SEED,
    MAX_SLOTS,
    MIN_PARAMETER,
)
from rankloop.schema.reward import Activation, RewardSettings
from rankloop.schema.slot_values import check_by_slot

Size = Annotated[int, Meta(ge=1, le=MAX_FEATURES)]
Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
Finite = Annotated[float, Meta(ge=-MAX_FLOAT, le=MAX_FLOAT)]
Weight = Annotated[float, Meta(ge=0.0, le=MAX_PARAMETER)]
Shape = Annotated[float, Meta(ge=MIN_PARAMETER, le=MAX_PARAMETER)]
Params = Annotated[dict[str, Any], Meta(extra={"accepted": "a mapping of parameters of the policy"})]
Caps = Annotated[dict[FieldName, Annotated[int, Meta(ge=1, le=MAX_SLOTS)]], Meta(max_length=MAX_CAPPED_FIELDS)]
DEFAULT_POLICY = "hybrid"
Objective = Literal["any-click", "clicks", "satisfied", "revenue", "amount"]
Aggregate = Literal["earliest", "sum"]
OnClose = Literal["nothing", "ignore"]
Commit = Literal["feedback", "all"]
Mode = Literal["live", "shadow"]
Features = FeatureSettings | Literal["auto"]
Drop = Annotated[float, Meta(ge=0.0, le=0.99)]
ONE_VALUE = ("category", "boolean", "number")
"""Kinds of fields that an item has one value of, so that lists can be capped by it."""


class Guardrail(Payload, frozen=True):
    """When to fall back to the control order: if the value per list is credibly below control's by more than `drop`."""

    where: ClassVar[str] = "ranker.guardrail"

    drop: Annotated[
        float, Meta(ge=0.0, le=0.99, description="Fraction of control's value per list that may be lost.")
    ] = 0.1
    error: Annotated[
        float,
        Meta(ge=1e-9, le=0.5, description="Probability of ever falling back although no more than `drop` is lost."),
    ] = 0.01
    min_lists: Annotated[
        int, Meta(ge=1, description="Number of settled decisions of each group before the guardrail can trip.")
    ] = 200
    constraints: Annotated[
        dict[Id, Drop],
        Meta(
            description="Kinds of feedback whose value per list may not fall either, each with the fraction of"
            " control's that may be lost. All tests share `error` equally."
        ),
    ] = field(default_factory=dict)

    def as_mapping(self) -> dict[str, object]:
        """Return the fields in the form that `of` accepts, constraints only if there are any."""
        fields = asdict(self)
        return fields if self.constraints else {name: fields[name] for name in fields if name != "constraints"}


class RankerSettings(Payload, kw_only=True, frozen=True):
    """Settings of a ranker. All but `slots` have defaults."""

    where: ClassVar[str] = "ranker"
    logged: ClassVar[bool] = False  # they come from a log, so that the version which wrote it has accepted them

    policy: Annotated[str, Meta(description="Id of the policy.")] = DEFAULT_POLICY
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS, description="Number of slots: the length of the longest list.")]
    params: Annotated[Params, Meta(description="Parameters of the policy.")] = field(default_factory=dict)
    dim: Annotated[Size | None, Meta(description="Number of features of every item, if the policy uses features.")] = (
        None
    )
    context: Annotated[
        Size | None, Meta(description="Number of features of a visitor's context, if the policy uses a context.")
    ] = None
    features: Annotated[
        Features | None,
        Meta(
            description="Fields of items and contexts from which features are computed, instead of `dim` and"
            " `context`: a mapping, or auto, which infers it from the first items and contexts."
        ),
    ] = None
    bias: Annotated[
        tuple[Probability, ...] | None,
        Meta(description="Position bias: probability that a visitor examines each slot, if the policy needs it."),
    ] = None
    prior: Annotated[
        tuple[Shape, Shape] | None,
        Meta(description="Parameters (a, b) of the Beta prior of every item, if the policy has such a prior."),
    ] = None
    rounds: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_ROUNDS)] | None,
        Meta(description="Horizon in rounds, for policies that need one."),
    ] = None
    objective: Annotated[
        Objective,
        Meta(
            description="Value of a list: any-click, clicks, satisfied (visitors who leave satisfied), revenue (clicks"
            " times prices) or amount (reported values)."
        ),
    ] = "any-click"
    window: Annotated[
        float,
        Meta(
            gt=0.0,
            le=MAX_FLOAT,
            description="Feedback window: seconds after which a decision without final feedback is settled.",
        ),
    ] = 3600.0
    aggregate: Annotated[
        Aggregate,
        Meta(
            description="How several events for one decision are combined: earliest (the first event settles it) or sum"
            " (when the window closes; the default if the objective is amount)."
        ),
    ] = "earliest"
    reward: Annotated[
        RewardSettings | None,
        Meta(
            description="Kinds of feedback such as click and purchase, with their weights, aggregations and windows"
            " (default: one kind, click)."
        ),
    ] = None
    activation: Annotated[
        Activation,
        Meta(
            description="What makes a list count and starts its window: the decision, or an impression event, without"
            " which it is withdrawn when the window ends (for callers who prefetch lists)."
        ),
    ] = "decision"
    on_close: Annotated[
        OnClose,
        Meta(
            description="Meaning of a window without any event: nothing (the list was seen and not clicked) or ignore."
        ),
    ] = "nothing"
    discount: Annotated[
        float,
        Meta(
            gt=0.0, le=1.0, description="Factor by which each update discounts earlier observations; 1 forgets nothing."
        ),
    ] = 1.0
    seed: Annotated[
        int, Meta(ge=0, le=MAX_SEED, description="Random seed; equal seeds, logs and requests give equal lists.")
    ] = 0
    coverage: Annotated[
        Size | None, Meta(description="Number of topics that items cover, if the policy uses topics.")
    ] = None
    rewards: Annotated[
        tuple[Finite, ...] | None,
        Meta(description="Reward of a success in each slot, for policies that choose the length of the list."),
    ] = None
    losses: Annotated[
        tuple[Finite, ...] | None,
        Meta(description="Losses if all of 0, 1, 2, … listed items fail; one more than there are slots."),
    ] = None
    termination: Annotated[
        tuple[Probability, ...] | None,
        Meta(
            description="Termination probability: that a visitor leaves satisfied after a click in each slot, for the"
            " objective satisfied."
        ),
    ] = None
    slot_weights: Annotated[
        tuple[Weight, ...] | None,
        Meta(description="Factor of the gain in each slot, for policies that match items to slots."),
    ] = None
    pooled: Annotated[
        bool,
        Meta(
            description="Whether segments share what they learn, so that a segment starts from what all others have"
            " learned and deviates as far as its own feedback says; otherwise every segment has a learner of its own."
        ),
    ] = False
    commit: Annotated[
        Commit,
        Meta(description="Answers that wait until the log is synced to disk: feedback, or all, which includes lists."),
    ] = "feedback"
    mode: Annotated[
        Mode, Meta(description="Mode: live, or shadow, in which the control order is shown while the policy learns.")
    ] = "live"
    traffic: Annotated[
        float,
        Meta(
            ge=0.0, le=1.0, description="Traffic share: fraction of visitors in treatment; the others are in control."
        ),
    ] = 1.0
    explore_from: Annotated[
        int, Meta(ge=0, le=MAX_SLOTS, description="First slot, counted from 0, in which the policy may explore.")
    ] = 0
    explore_daily: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Maximum number of lists per day (UTC) that differ from the best known list."),
    ] = None
    caps: Annotated[
        Caps | None,
        Meta(description="Most items of a list that may have the same value of a field, by the field's name."),
    ] = None
    guardrail: Annotated[
        Guardrail | None, Meta(description="Automatic fallback to the control order; true uses the defaults.")
    ] = None

    @classmethod
    def of(cls, given: Self | Mapping[str, object], where: str | None = None) -> Self:
        """Return the settings of a mapping; `guardrail: true` means the guardrail's defaults."""
        if isinstance(given, Mapping):
            fields = dict(given)
            if "guardrail" in fields and isinstance(fields["guardrail"], bool):
                fields["guardrail"] = Guardrail() if fields["guardrail"] else None
            if fields.get("objective") == "amount":
                fields.setdefault("aggregate", "sum")
            given = fields
        return super().of(given, where)

    @staticmethod
    def row_size(given: Mapping[str, object]) -> int:
        """Return the size of a feature vector, `dim` times `context`, before anything else is checked.

        Features are crossed with the context, so that a row has about as many numbers (`row_width`).
        """
        sizes = (size for size in (given.get("dim"), given.get("context")) if isinstance(size, int))
        return math.prod(max(1, size) for size in sizes)

    @property
    def row_width(self) -> int:
        """Numbers of a row in which features, context and their products stand side by side; at least 1."""
        if self.feature_settings is not None:
            return self.feature_settings.row_width
        dx, dy = self.context or 0, self.dim or 0
        return max(1, dx + dy + dx * dy)

    @property
    def feature_settings(self) -> FeatureSettings | None:
        """The features that are declared; None if there are none yet."""
        return None if self.features is None or self.features == "auto" else self.features

    def non_default_fields(self) -> dict[str, object]:
        """Return the settings that differ from their defaults, and `aggregate` where its default is another."""
        fields = super().non_default_fields()
        return fields | {"aggregate": self.aggregate} if self.objective == "amount" else fields

    def check_consistency(self) -> None:
        """Refuse lists whose length does not match the number of slots, and rewards that no list can be planned for."""
        for name in ("bias", "termination", "slot_weights"):
            values = getattr(self, name)
            if values is not None and len(values) != self.slots:
                raise InvalidInput(f"ranker.{name}", Words(f"a list of {len(values)}"), f"a list of {self.slots}")
        for name in ("dim", "context"):
            if self.features is not None and getattr(self, name) is not None:
                accepted = f"no {name} together with ranker.features, from which it follows"
                raise InvalidInput(f"ranker.{name}", getattr(self, name), accepted)
        check_by_slot("ranker.", self.slots, self.rewards, self.losses)
        self._check_reward()
        if self.caps is not None and not self.caps:
            raise InvalidInput("ranker.caps", self.caps, "a mapping with at least one field, or null")
        if not self.logged:
            self.check_capped_fields()
        if self.explore_from > self.slots:
            accepted = f"a whole number from 0 to {self.slots}"
            raise InvalidInput("ranker.explore_from", self.explore_from, accepted)

    def _check_reward(self) -> None:
        """Refuse kinds of feedback that do not fit to the other settings, and constraints on kinds that are missing."""
        kinds: list[str] = []
        if self.reward is not None:
            self.reward.check_within("ranker.reward", self.window, self.objective)
            kinds = list(self.reward.kinds)
            if self.aggregate != ("sum" if self.objective == "amount" else "earliest"):  # not the default
                accepted = "nothing beside ranker.reward, in which every kind has its own"
                raise InvalidInput("ranker.aggregate", self.aggregate, accepted)
        for name in self.guardrail.constraints if self.guardrail is not None else ():
            if name not in kinds:
                accepted = f"kinds of ranker.reward: {', '.join(kinds) or 'there are none'}"
                raise InvalidInput("ranker.guardrail.constraints", name, accepted, closest(name, kinds))

    def check_capped_fields(self) -> None:
        """Refuse caps on fields that the features do not declare for items, or of which an item has several values.

        Features that were inferred from items do not refuse the caps that the ranker has already.
        """
        if self.caps is not None and self.feature_settings is not None:
            one = [name for name, field in self.feature_settings.items.items() if field.kind in ONE_VALUE]
            for name in self.caps:
                if name not in one:
                    kinds, names = ", ".join(ONE_VALUE), ", ".join(one) or "none is declared"
                    accepted = f"a field of items in ranker.features with one value ({kinds}): {names}"
                    raise InvalidInput("ranker.caps", name, accepted, closest(name, one))

    def as_mapping(self) -> dict[str, object]:
        """Return the settings that are neither None nor False as plain values, in the form that `of` accepts.

        The activation is left out where it is the default: the logs of older versions do not have it.
        """
        fields = {name: value for name, value in asdict(self).items() if value is not None and value is not False}
        if self.features is not None:
            fields["features"] = to_builtins(self.features)
        if self.activation == "decision":
            del fields["activation"]
        if self.reward is not None:
            fields["reward"] = to_builtins(self.reward)
        return fields if self.guardrail is None else fields | {"guardrail": self.guardrail.as_mapping()}
