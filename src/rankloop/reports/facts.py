"""All that a report is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rankloop.analytics.diagnosis import Diagnosis
from rankloop.analytics.overview import Overview
from rankloop.errors import MissingExtra, RankloopError
from rankloop.schema import GroupSummary

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Facts:
    """A ranker as its service told of it."""

    ranker: str
    made: float  # when this was asked
    config: Mapping[str, Any]
    overview: Overview
    diagnosis: Diagnosis

    @property
    def policy(self) -> GroupSummary:
        """Lists of the policy."""
        return self.overview.groups["treatment"]

    @property
    def control(self) -> GroupSummary:
        """Lists of the control group."""
        return self.overview.groups["control"]

    @classmethod
    def of(cls, ranker: str, made: float, config: Mapping[str, object], overview: object, diagnosis: object) -> Facts:
        """Of answers as JSON gives them."""
        return cls(ranker, made, config, _typed(overview, Overview), _typed(diagnosis, Diagnosis))


def _typed(told: object, type: type[T]) -> T:
    try:
        import msgspec
    except ModuleNotFoundError:  # pragma: no cover
        raise MissingExtra("a report", "serve") from None
    try:
        return msgspec.convert(told, type)
    except msgspec.ValidationError as error:
        raise RankloopError(f"the service is of another version than this command ({error}).") from None
