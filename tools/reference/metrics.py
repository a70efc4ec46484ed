"""docs/reference/metrics.md: every Prometheus metric of the service."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tools.reference.markdown import code, escaped, page, sentence, table
from tools.reference.service import application

SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
"""What a metric's type appends to its name in the text that Prometheus reads."""


@dataclass(frozen=True)
class DescribedMetric:
    """A metric as the page shows it."""

    name: str
    type: str
    labels: tuple[str, ...]
    help: str

    @property
    def exposed(self) -> tuple[str, ...]:
        """Return the names of its time series."""
        return tuple(self.name + suffix for suffix in SUFFIXES.get(self.type, ("",)))


@cache
def metrics() -> list[DescribedMetric]:
    """Return all metrics of a service, by name."""
    with application() as app:
        registry = app.state.service.metrics.registry
        labels = {
            name: tuple(collector._labelnames)
            for collector, names in registry._collector_to_names.items()
            for name in names
            if hasattr(collector, "_labelnames")
        }
        found = [
            DescribedMetric(
                family.name,
                family.type,
                tuple(getattr(family, "_labelnames", labels.get(family.name, ()))),
                family.documentation,
            )
            for family in registry.collect()
        ]
    return sorted(found, key=lambda metric: metric.name)


def metrics_page() -> str:
    """Return the page of metrics: name, type, labels and help of each."""
    intro = ["`GET /metrics` answers in the text format of Prometheus. Times are in seconds.", ""]
    rows = [
        (
            ", ".join(map(code, metric.exposed)),
            metric.type,
            ", ".join(map(code, metric.labels)),
            sentence(escaped(metric.help)),
        )
        for metric in metrics()
    ]
    return page(
        "Metrics", "`rankloop.service.metrics`", intro, table(("time series", "type", "labels", "meaning"), rows)
    )
