"""The results of each kind of feedback, by group."""

from __future__ import annotations

from rankloop.analytics.counters import LISTS, Counters
from rankloop.analytics.kind_counters import EVENTS, KIND_SQUARES, KIND_VALUE, LATE_EVENTS, LATE_VALUE, LISTS_WITH
from rankloop.analytics.mean_intervals import Moments, mean_difference, mean_interval
from rankloop.schema.answers import KindGroup, KindSummary, Lift


def kind_summaries(counters: Counters) -> list[KindSummary]:
    """Return the results of every kind of feedback; none for a ranker without a `reward` section."""
    return [_summary(counters, number, kind) for number, kind in enumerate(counters.kinds.kinds)]


def _summary(counters: Counters, number: int, kind: str) -> KindSummary:
    counts = counters.kinds.total[:, number].tolist()
    moments = [
        Moments(shown[LISTS], of[KIND_VALUE], of[KIND_SQUARES])
        for shown, of in zip(counters.total, counts, strict=True)
    ]
    treatment, control = (_group(of, values) for of, values in zip(counts, moments, strict=True))
    late = counters.kinds.late[number].tolist()
    lift = _lift(*moments)
    return KindSummary(kind, treatment, control, lift, int(late[LATE_EVENTS]), late[LATE_VALUE])


def _group(counts: list[float], values: Moments) -> KindGroup:
    low, high = mean_interval(values) or (None, None)
    return KindGroup(
        events=int(counts[EVENTS]),
        lists=int(counts[LISTS_WITH]),
        value=counts[KIND_VALUE],
        value_per_list=values.mean if values.n else None,
        low=low,
        high=high,
    )


def _lift(treatment: Moments, control: Moments) -> Lift | None:
    estimate = mean_difference(treatment, control)
    if estimate is None:
        return None
    absolute, low, high, better = estimate
    return Lift(absolute, low, high, absolute / abs(control.mean) if control.total else None, better)
