"""The metrics of a service, in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector

from rankloop.hosting.registry import RankerRegistry
from rankloop.service.admission import Admission
from rankloop.service.refusals import DETAILS

MEDIA = "text/plain; version=0.0.4; charset=utf-8"
LATENCY_BUCKETS_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Metrics:
    """Counters and histograms of requests, and the current state of every ranker."""

    def __init__(self, rankers: RankerRegistry, admission: Admission) -> None:
        self.registry = registry = CollectorRegistry()
        self.seconds = Histogram(
            "rankloop_request_seconds",
            "Latency of requests",
            ["route"],
            buckets=LATENCY_BUCKETS_SECONDS,
            registry=registry,
        )
        self.answers = Counter("rankloop_answers", "Answers by status", ["route", "status"], registry=registry)
        self.decisions = Counter("rankloop_decisions", "Decisions", ["ranker"], registry=registry)
        self.feedback = Counter(
            "rankloop_feedback", "Feedback events by status", ["ranker", "status"], registry=registry
        )
        self.closed = Counter("rankloop_windows_closed", "Feedback windows that ended", ["ranker"], registry=registry)
        self.connections = Gauge("rankloop_connections", "Open connections", registry=registry)
        self.connection_limit = Gauge(
            "rankloop_connection_limit", "Connections that may be open at the same time", registry=registry
        )
        self.closed_connections = Counter(
            "rankloop_connections_closed",
            "Connections that the service closed, by reason",
            ["reason"],
            registry=registry,
        )
        registry.register(_RankerState(rankers))
        registry.register(_AdmissionState(admission))

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self.registry)


class _RankerState(Collector):
    """Reads the rankers when the metrics are scraped."""

    def __init__(self, rankers: RankerRegistry) -> None:
        self._rankers = rankers

    def collect(self) -> Iterator[Metric]:
        open_decisions = GaugeMetricFamily("rankloop_open_decisions", "Open decisions", labels=["ranker"])
        limit = GaugeMetricFamily(
            "rankloop_open_decisions_limit", "Open decisions above which the oldest are closed", labels=["ranker"]
        )
        early = CounterMetricFamily(
            "rankloop_windows_closed_early",
            "Feedback windows that were closed because too many decisions were open",
            labels=["ranker"],
        )
        position = GaugeMetricFamily(
            "rankloop_log_position", "Log position of the last applied event", labels=["ranker"]
        )
        items = GaugeMetricFamily("rankloop_items", "Items", labels=["ranker"])
        explored = GaugeMetricFamily(
            "rankloop_exploration_share", "Share of the scores that is exploration", labels=["ranker"]
        )
        delay = HistogramMetricFamily(
            "rankloop_feedback_delay_seconds", "Time from a decision to its first feedback", labels=["ranker"]
        )
        for hosted in self._rankers:
            overview = hosted.ranker.overview(hours=0.0)
            open_decisions.add_metric([hosted.name], overview.open_decisions)
            limit.add_metric([hosted.name], hosted.ranker.open_limit)
            early.add_metric([hosted.name], hosted.ranker.closed_early)
            position.add_metric([hosted.name], overview.position)
            items.add_metric([hosted.name], overview.items)
            share = overview.groups["treatment"].exploration_share
            if share is not None:
                explored.add_metric([hosted.name], share)
            cumulative = list(accumulate(one.lists for one in overview.feedback_delays))
            bounds = ["+Inf" if one.within is None else f"{one.within}" for one in overview.feedback_delays]
            delay.add_metric(
                [hosted.name], list(zip(bounds, cumulative, strict=True)), sum_value=overview.feedback_delay_seconds
            )
        yield from self._values()
        quarantined = GaugeMetricFamily(
            "rankloop_quarantined", "1 if the ranker is quarantined, 0 otherwise", labels=["ranker"]
        )
        for hosted in self._rankers.all():
            quarantined.add_metric([hosted.name], float(hosted.quarantine is not None))
        queue = GaugeMetricFamily("rankloop_log_queue", "Entries that wait for their commit")
        queue.add_metric([], self._rankers.writer.queued)
        writable = GaugeMetricFamily(
            "rankloop_log_writable",
            "1 if the log can be written, 0 while its disk is full or its writer is not running",
        )
        writable.add_metric([], float(self._rankers.writes and self._rankers.store.problem is None))
        yield from (open_decisions, limit, early, position, items, explored, delay, quarantined, queue, writable)
        yield from self._memory()
        yield from self._sharing()

    def _sharing(self) -> Iterator[Metric]:
        """Yield what is known of the other processes that share the log, if there are some."""
        writer = self._rankers.writer
        lag = GaugeMetricFamily(
            "rankloop_log_lag_seconds", "Seconds since this process knew all of a log that it shares with others"
        )
        leads = GaugeMetricFamily(
            "rankloop_leads", "1 if this process closes windows and stores snapshots, 0 if another one does"
        )
        if writer.lag is not None:
            lag.add_metric([], writer.lag)
        leads.add_metric([], float(writer.leads))
        yield from (lag, leads)

    def _values(self) -> Iterator[Metric]:
        """Yield the results in the objective of each ranker; the unit is a label, since values are comparable in it."""
        labels = ["ranker", "group"]
        settled = CounterMetricFamily("rankloop_settled_lists", "Lists with a known outcome", labels=labels)
        clicked = CounterMetricFamily("rankloop_clicked_lists", "Lists with a click", labels=labels)
        value = GaugeMetricFamily(
            "rankloop_value", "Value of all settled lists in the ranker's objective", labels=[*labels, "unit"]
        )
        each = GaugeMetricFamily(
            "rankloop_value_per_list", "Value per settled list in the ranker's objective", labels=[*labels, "unit"]
        )
        lift = GaugeMetricFamily(
            "rankloop_value_lift", "Value per list of treatment minus that of control", labels=["ranker", "unit"]
        )
        for hosted in self._rankers:
            overview = hosted.ranker.overview(hours=0.0)
            for name, group in overview.groups.items():
                settled.add_metric([hosted.name, name], group.settled)
                clicked.add_metric([hosted.name, name], group.clicked)
                value.add_metric([hosted.name, name, overview.unit], group.value)
                if group.value_per_list is not None:
                    each.add_metric([hosted.name, name, overview.unit], group.value_per_list)
            if overview.lift is not None:
                lift.add_metric([hosted.name, overview.unit], overview.lift.difference)
        yield from (settled, clicked, value, each, lift)
        yield from self._kinds()

    def _kinds(self) -> Iterator[Metric]:
        """Yield events and summed values of each kind of feedback."""
        labels = ["ranker", "kind", "group"]
        events = CounterMetricFamily(
            "rankloop_kind_events", "Feedback events that came in time, by kind", labels=labels
        )
        value = GaugeMetricFamily("rankloop_kind_value", "Summed values of feedback, by kind", labels=labels)
        late = CounterMetricFamily(
            "rankloop_kind_late_events", "Feedback events that came too late, by kind", labels=labels[:2]
        )
        for hosted in self._rankers:
            for one in hosted.ranker.overview(hours=0.0).kinds:
                for name, group in (("treatment", one.treatment), ("control", one.control)):
                    events.add_metric([hosted.name, one.kind, name], group.events)
                    value.add_metric([hosted.name, one.kind, name], group.value)
                late.add_metric([hosted.name, one.kind], one.late)
        yield from (events, value, late)

    def _memory(self) -> Iterator[Metric]:
        state = GaugeMetricFamily("rankloop_state_bytes", "Memory of the state, estimated", labels=["ranker"])
        for hosted in self._rankers:
            state.add_metric([hosted.name], hosted.ranker.state_bytes)
        memory = self._rankers.memory
        yield state
        yield GaugeMetricFamily(
            "rankloop_memory_needed_bytes",
            "Memory of all rankers together, with the temporary copies of the largest one",
            memory.needed,
        )
        yield GaugeMetricFamily("rankloop_memory_limit_bytes", "Maximum of rankloop_memory_needed_bytes", memory.limit)


class _AdmissionState(Collector):
    """Reads what waits and what was refused when the metrics are scraped."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def collect(self) -> Iterator[Metric]:
        admission = self._admission
        refused = CounterMetricFamily(
            "rankloop_refused",
            "Requests that were refused because the service was busy, and not executed, by reason",
            labels=["reason"],
        )
        for reason in DETAILS:
            refused.add_metric([reason], admission.refused[reason])
        waited = SummaryMetricFamily(
            "rankloop_queue_seconds", "Time that rank and feedback requests waited, of those that had to wait"
        )
        waited.add_metric([], int(admission.waits), admission.waited)
        waiting = GaugeMetricFamily("rankloop_queue", "Rank and feedback requests that wait")
        waiting.add_metric([], admission.waiting)
        running = GaugeMetricFamily("rankloop_running", "Rank and feedback requests that are being executed")
        running.add_metric([], admission.running)
        overloaded = GaugeMetricFamily("rankloop_overloaded", "1 while the service is overloaded, 0 otherwise")
        overloaded.add_metric([], float(admission.overloaded))
        yield from (refused, waited, waiting, running, overloaded)
