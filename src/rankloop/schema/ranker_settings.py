"""The settings of a ranker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from msgspec import Meta, field
from msgspec.structs import asdict

from rankloop.errors import InvalidInput, Words
from rankloop.schema.base import Payload
from rankloop.schema.limits import (
    MAX_FEATURES,
    MAX_FLOAT,
    MAX_PARAMETER,
    MAX_ROUNDS,
    MAX_SEED,
    MAX_SLOTS,
    MIN_PARAMETER,
)

Size = Annotated[int, Meta(ge=1, le=MAX_FEATURES)]
Probability = Annotated[float, Meta(ge=0.0, le=1.0)]
Finite = Annotated[float, Meta(ge=-MAX_FLOAT, le=MAX_FLOAT)]
Shape = Annotated[float, Meta(ge=MIN_PARAMETER, le=MAX_PARAMETER)]
Params = Annotated[dict[str, Any], Meta(extra={"accepted": "a mapping of parameters of the policy"})]
Objective = Literal["any-click", "clicks", "revenue", "amount"]
Aggregate = Literal["earliest", "sum"]
OnClose = Literal["nothing", "ignore"]
Commit = Literal["feedback", "all"]
Mode = Literal["live", "shadow"]


class Guardrail(Payload, frozen=True):
    """When to fall back to the control order: click-through is credibly below control's by more than a share."""

    where: ClassVar[str] = "ranker.guardrail"

    drop: Annotated[float, Meta(ge=0.0, le=0.99, description="share of control's click-through that may be lost")] = 0.1
    error: Annotated[
        float,
        Meta(ge=1e-9, le=0.5, description="probability that it ever falls back although no more than that is lost"),
    ] = 0.01
    min_lists: Annotated[int, Meta(ge=1, description="settled lists of each group before it says anything")] = 200


class RankerSettings(Payload, kw_only=True, frozen=True):
    """A ranker's settings. All but `policy` and `slots` have defaults."""

    where: ClassVar[str] = "ranker"

    policy: Annotated[str, Meta(description="id of a policy of the catalogue")]
    slots: Annotated[int, Meta(ge=1, le=MAX_SLOTS, description="length of the longest list that is asked for")]
    params: Annotated[Params, Meta(description="parameters of the policy")] = field(default_factory=dict)
    dim: Annotated[Size | None, Meta(description="number of features of every item, where the policy uses them")] = None
    context: Annotated[Size | None, Meta(description="length of a visitor's context, where the policy uses one")] = None
    bias: Annotated[
        tuple[Probability, ...] | None,
        Meta(description="probability that each slot is looked at, where the policy needs it"),
    ] = None
    prior: Annotated[
        tuple[Shape, Shape] | None,
        Meta(description="(a, b) of the Beta belief about an item nobody has seen, where the policy takes one"),
    ] = None
    rounds: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_ROUNDS)] | None, Meta(description="horizon, for policies that need one")
    ] = None
    objective: Annotated[
        Objective, Meta(description="value of a list: any-click, clicks, revenue (items have prices) or amount")
    ] = "any-click"
    window: Annotated[
        float,
        Meta(gt=0.0, le=MAX_FLOAT, description="seconds after which a decision without final feedback is settled"),
    ] = 3600.0
    aggregate: Annotated[
        Aggregate,
        Meta(
            description="several events for one decision: earliest (the first settles it) or sum (as the window closes;"
            " the default where the objective is amount)"
        ),
    ] = "earliest"
    on_close: Annotated[
        OnClose,
        Meta(description="a window closes without any event: nothing (it was seen, and nothing happened) or ignore"),
    ] = "nothing"
    discount: Annotated[
        float,
        Meta(gt=0.0, le=1.0, description="share of what was learned that one more lesson leaves; 1 forgets nothing"),
    ] = 1.0
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED, description="equal seeds, logs and requests give equal lists")] = 0
    coverage: Annotated[
        Size | None, Meta(description="number of topics that items cover, where the policy uses them")
    ] = None
    rewards: Annotated[
        tuple[Finite, ...] | None,
        Meta(description="reward of a success in each slot, for policies that choose the length of a list"),
    ] = None
    losses: Annotated[
        tuple[Finite, ...] | None,
        Meta(description="loss when all of 0, 1, 2, … shown fail, one more than there are slots"),
    ] = None
    commit: Annotated[
        Commit, Meta(description="what is answered only when it is on the disk: feedback, or all, also lists")
    ] = "feedback"
    mode: Annotated[Mode, Meta(description="live, or shadow: the control order is shown, and learned from")] = "live"
    traffic: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="share of the visitors whose lists the policy makes; others see control"),
    ] = 1.0
    explore_from: Annotated[
        int, Meta(ge=0, le=MAX_SLOTS, description="slots before this one, counted from 0, are never explored")
    ] = 0
    explore_daily: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="upper limit of lists a day (UTC) that differ from what is believed best"),
    ] = None
    guardrail: Annotated[
        Guardrail | None, Meta(description="when to fall back to the control order; true: the defaults")
    ] = None

    @classmethod
    def of(cls, given: Self | Mapping[str, object], where: str | None = None) -> Self:
        """The settings that a mapping describes; `guardrail: true` means the guardrail's defaults."""
        if isinstance(given, Mapping):
            told = dict(given)
            if "guardrail" in told and isinstance(told["guardrail"], bool):
                told["guardrail"] = Guardrail() if told["guardrail"] else None
            if told.get("objective") == "amount":
                told.setdefault("aggregate", "sum")
            given = told
        return super().of(given, where)

    @staticmethod
    def row_size(given: Mapping[str, object]) -> int:
        """Numbers of a row that settings ask for, features times context: known before all else is checked."""
        asked = (size for size in (given.get("dim"), given.get("context")) if isinstance(size, int))
        return math.prod(max(1, size) for size in asked)

    def given(self) -> dict[str, object]:
        """The settings that differ from their defaults; how events add up where that default would be another."""
        told = super().given()
        return told | {"aggregate": self.aggregate} if self.objective == "amount" else told

    def settle(self) -> None:
        """Refuse lists of another length than the slots ask for."""
        for name, length in (("bias", self.slots), ("rewards", self.slots), ("losses", self.slots + 1)):
            found = getattr(self, name)
            if found is not None and len(found) != length:
                raise InvalidInput(f"ranker.{name}", Words(f"a list of {len(found)}"), f"a list of {length}")
        if self.explore_from > self.slots:
            accepted = f"a whole number from 0 to {self.slots}"
            raise InvalidInput("ranker.explore_from", self.explore_from, accepted)

    def as_mapping(self) -> dict[str, object]:
        """The settings as plain values: what `of` accepts."""
        told = {name: value for name, value in asdict(self).items() if value is not None}
        return told if self.guardrail is None else told | {"guardrail": asdict(self.guardrail)}
