"""What Prometheus is told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from rankloop.hosting.registry import RankerRegistry

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """Counters and histograms of one service."""

    def __init__(self, rankers: RankerRegistry) -> None:
        self.registry = own = CollectorRegistry()
        self.seconds = Histogram("rankloop_request_seconds", "Time to answer", ["route"], buckets=QUICK, registry=own)
        self.answers = Counter("rankloop_answers", "Answers by status", ["route", "status"], registry=own)
        self.decisions = Counter("rankloop_decisions", "Lists decided", ["ranker"], registry=own)
        self.feedback = Counter(
            "rankloop_feedback", "Feedback by what became of it", ["ranker", "status"], registry=own
        )
        self.closed = Counter("rankloop_windows_closed", "Feedback windows that ran out", ["ranker"], registry=own)
        own.register(_Now(rankers))

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


class _Now(Collector):
    """How the rankers are when somebody asks."""

    def __init__(self, rankers: RankerRegistry) -> None:
        self._rankers = rankers

    def collect(self) -> Iterator[Metric]:
        pending = GaugeMetricFamily("rankloop_open_decisions", "Open decisions", labels=["ranker"])
        position = GaugeMetricFamily("rankloop_log_position", "Last entry applied", labels=["ranker"])
        items = GaugeMetricFamily("rankloop_items", "Items", labels=["ranker"])
        explored = GaugeMetricFamily("rankloop_exploration_share", "Share of scores that explores", labels=["ranker"])
        lag = HistogramMetricFamily(
            "rankloop_feedback_delay_seconds", "From a list to its first feedback", labels=["ranker"]
        )
        for hosted in self._rankers:
            now = hosted.ranker.overview(hours=0.0)
            pending.add_metric([hosted.name], now.open_decisions)
            position.add_metric([hosted.name], now.position)
            items.add_metric([hosted.name], now.items)
            share = now.groups["treatment"].exploration_share
            if share is not None:
                explored.add_metric([hosted.name], share)
            within = list(accumulate(one.lists for one in now.feedback_delays))
            bounds = ["+Inf" if one.within is None else f"{one.within}" for one in now.feedback_delays]
            lag.add_metric([hosted.name], list(zip(bounds, within, strict=True)), sum_value=now.feedback_delay_seconds)
        aside = GaugeMetricFamily("rankloop_quarantined", "1 where a ranker is set aside", labels=["ranker"])
        for hosted in self._rankers.all():
            aside.add_metric([hosted.name], float(hosted.quarantine is not None))
        yield from (pending, position, items, explored, lag, aside)
