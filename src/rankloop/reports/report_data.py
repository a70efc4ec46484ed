"""The data that a report is built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rankloop.analytics.diagnosis import Diagnosis
from rankloop.analytics.overview import Overview
from rankloop.errors import MissingExtra, RankloopError
from rankloop.reports.value_format import ValueFormat
from rankloop.schema import GroupSummary

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ReportData:
    """A ranker with its settings, overview and diagnosis at one time."""

    ranker: str
    time: float  # of the data
    config: Mapping[str, Any]
    overview: Overview
    diagnosis: Diagnosis

    @property
    def written(self) -> ValueFormat:
        """How values in the ranker's objective are written."""
        return ValueFormat(self.overview.objective, self.overview.unit)

    @property
    def treatment(self) -> GroupSummary:
        """The treatment group."""
        return self.overview.groups["treatment"]

    @property
    def control(self) -> GroupSummary:
        """The control group."""
        return self.overview.groups["control"]

    @classmethod
    def of(
        cls, ranker: str, time: float, config: Mapping[str, object], overview: object, diagnosis: object
    ) -> ReportData:
        """Build from JSON answers of the service; refuse those of an incompatible version."""
        return cls(ranker, time, config, _typed(overview, Overview), _typed(diagnosis, Diagnosis))


def _typed(answer: object, type: type[T]) -> T:
    try:
        import msgspec
    except ModuleNotFoundError:  # pragma: no cover
        raise MissingExtra("a report", "serve") from None
    try:
        return msgspec.convert(answer, type)
    except msgspec.ValidationError as error:
        raise RankloopError(f"the service has another version than this command ({error}).") from None
