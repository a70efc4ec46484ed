"""The settings of a ranker as keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from rankloop.schema.ranker_settings import Aggregate, Commit, Guardrail, Mode, Objective, OnClose, RankerSettings


class RankerFields(TypedDict, total=False):
    """The fields of `RankerSettings`; `policy` and `slots` must be among them where a ranker is created."""

    policy: str
    slots: int
    params: Mapping[str, object]
    dim: int | None
    context: int | None
    bias: Sequence[float] | None
    prior: Sequence[float] | None
    rounds: int | None
    objective: Objective
    window: float
    aggregate: Aggregate
    on_close: OnClose
    discount: float
    seed: int
    coverage: int | None
    rewards: Sequence[float] | None
    losses: Sequence[float] | None
    commit: Commit
    mode: Mode
    traffic: float
    explore_from: int
    explore_daily: int | None
    guardrail: Guardrail | bool | None


def named(settings: RankerSettings | Mapping[str, object] | None, fields: Mapping[str, object]) -> dict[str, object]:
    """The settings that a caller has named: those of a structure that differ from their defaults, and keywords."""
    if isinstance(settings, RankerSettings):
        settings = settings.given()
    return {**(settings or {}), **fields}
