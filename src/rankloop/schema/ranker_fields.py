"""The settings of a ranker as typed keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from rankloop.schema.feature_settings import FeatureSettings
from rankloop.schema.ranker_settings import Aggregate, Commit, Guardrail, Mode, Objective, OnClose, RankerSettings
from rankloop.schema.reward import Activation, RewardSettings


class RankerFields(TypedDict, total=False):
    """The fields of `RankerSettings`; a new ranker needs `slots`."""

    policy: str
    slots: int
    params: Mapping[str, object]
    dim: int | None
    context: int | None
    features: FeatureSettings | Mapping[str, object] | Literal["auto"] | None
    bias: Sequence[float] | None
    prior: Sequence[float] | None
    rounds: int | None
    objective: Objective
    window: float
    aggregate: Aggregate
    reward: RewardSettings | Mapping[str, object] | None
    activation: Activation
    on_close: OnClose
    discount: float
    seed: int
    coverage: int | None
    rewards: Sequence[float] | None
    losses: Sequence[float] | None
    termination: Sequence[float] | None
    slot_weights: Sequence[float] | None
    pooled: bool
    commit: Commit
    mode: Mode
    traffic: float
    explore_from: int
    explore_daily: int | None
    caps: Mapping[str, int] | None
    guardrail: Guardrail | Mapping[str, object] | bool | None


def merge_settings(
    settings: RankerSettings | Mapping[str, object] | None, fields: Mapping[str, object]
) -> dict[str, object]:
    """Return the settings that a caller has chosen: the non-default ones of `settings`, overridden by `fields`."""
    if isinstance(settings, RankerSettings):
        settings = settings.non_default_fields()
    return {**(settings or {}), **fields}
