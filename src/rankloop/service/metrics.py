"""What Prometheus is told."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rankloop.hosting.registry import RankerRegistry
from rankloop.service import problems

log = logging.getLogger("rankloop.service")
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

        # Looking up a label costs as much as counting; the few there are, are kept.
        self._answered: dict[tuple[str, int], tuple[Histogram, Counter]] = {}
        self._told: dict[tuple[str, str], Counter] = {}
        self._listed: dict[str, Counter] = {}

    def count_answer(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        kept = self._answered.get((route, status))
        if kept is None:
            kept = self.seconds.labels(route), self.answers.labels(route, str(status))
            self._answered[route, status] = kept
        kept[0].observe(seconds)
        kept[1].inc()

    def count_decision(self, ranker: str) -> None:
        """A list was decided."""
        kept = self._listed.get(ranker)
        if kept is None:
            kept = self._listed[ranker] = self.decisions.labels(ranker)
        kept.inc()

    def count_feedback(self, ranker: str, status: str) -> None:
        """Feedback came."""
        kept = self._told.get((ranker, status))
        if kept is None:
            kept = self._told[ranker, status] = self.feedback.labels(ranker, status)
        kept.inc()

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


class MeasuredRequests:
    """ASGI middleware that measures every request and answers for unexpected errors."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count its answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        except Exception:
            log.exception("a request failed")
            if status:
                raise
            await problems.internal()(scope, receive, note_status)
        finally:
            route: Any = scope.get("route") or scope.get("endpoint")
            self._metrics.count_answer(getattr(route, "path", "other"), status, time.perf_counter() - start)


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
