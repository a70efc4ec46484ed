"""The result of a simulation: curves, table, files and figure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from rankloop.errors import InvalidInput
from rankloop.files import replace_file
from rankloop.simulator.trace import Trace, TraceJson, plain_fields

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ResultJson(TypedDict):
    """The content of `result.json`."""

    spec: dict[str, object]
    version: str
    policies: list[TraceJson]


@dataclass(frozen=True)
class Result:
    """The traces of all policies of a simulation, on the same worlds and visitors."""

    spec: Mapping[str, object]
    version: str
    traces: tuple[Trace, ...]
    random: Trace  # the baseline, whether or not it is in the spec

    def __getitem__(self, label: str) -> Trace:
        """Return the trace of a label."""
        for trace in self.traces:
            if trace.label == label:
                return trace
        raise InvalidInput("label", label, "one of " + ", ".join(t.label for t in self.traces))

    def __iter__(self) -> Iterator[Trace]:
        """Iterate over the traces in the order of the spec."""
        return iter(self.traces)

    def __str__(self) -> str:
        """Return a table: final regret, its share of the random baseline's, speed."""
        from rankloop.simulator.table import render

        return render(self.traces, self.random)

    def as_json(self) -> ResultJson:
        """Return the content of `result.json`."""
        policies = [trace.as_json() for trace in self.traces]
        return {"spec": plain_fields(self.spec), "version": self.version, "policies": policies}

    def plot(self, path: str | Path | None = None) -> Figure:
        """Return a figure of the cumulative regret with 95 % confidence bands; also write it to `path` if given."""
        from rankloop.simulator.plot import regret_figure

        figure = regret_figure(self.traces)
        if path is not None:
            figure.savefig(path)
        return figure

    def save(self, folder: str | Path) -> None:
        """Write result.json, trace.parquet, regret.png and regret.svg, each atomically."""
        from rankloop.simulator.plot import save_svg
        from rankloop.simulator.trace_file import write_traces

        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        figure = self.plot()
        replace_file(where / "trace.parquet", lambda p: write_traces(p, (*self.traces, self.random)))
        replace_file(where / "regret.png", lambda p: figure.savefig(p, format="png"))
        replace_file(where / "regret.svg", lambda p: save_svg(figure, p))
        text = json.dumps(self.as_json(), indent=1, allow_nan=False)
        replace_file(where / "result.json", lambda p: p.write_text(text + "\n", encoding="utf-8"))

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read a result that `save` wrote."""
        from rankloop.simulator.trace_file import StoredPolicy, read_traces

        where = Path(folder)
        try:
            head = json.loads((where / "result.json").read_text(encoding="utf-8"))
            policies = [StoredPolicy(p["id"], p["label"], p["params"], p["seconds"]) for p in head["policies"]]
            *traces, random = read_traces(where / "trace.parquet", policies)
        except (OSError, KeyError, ValueError) as error:
            accepted = f"a folder with the result.json and trace.parquet of a run ({type(error).__name__})"
            raise InvalidInput("folder", str(where), accepted) from None
        return cls(head["spec"], head["version"], tuple(traces), random)
