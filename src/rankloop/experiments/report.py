"""Write the outcome of an experiment to a folder, and read back what the page of reproductions needs."""

from __future__ import annotations

import json
import os
import platform
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.errors import MissingExtra, RankloopError
from rankloop.experiments import sensitivity, verdicts
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.outcome import SEED, Outcome
from rankloop.files import replace_file
from rankloop.simulator.plot import save_svg
from rankloop.version import __version__

HEAD = "spec.json"
"""Written last and removed first: a folder that contains it is complete."""
SENSITIVITY = "sensitivity.md"
"""The table of results by the value of constants that the paper does not print; only where there are such constants."""


def result_folder(results: Path, experiment: Experiment, *, quick: bool) -> Path:
    """Return the folder of an experiment; refuse one of another version, and a quick run over a full result."""
    folder = results / experiment.id
    try:
        head = json.loads((folder / HEAD).read_text(encoding="utf-8"))
        version, full = head["version"], not head.get("quick", True)
    except FileNotFoundError:
        return folder
    except (OSError, ValueError, KeyError, TypeError):
        raise RankloopError(f"{folder / HEAD} cannot be read; remove {folder} and run again.") from None
    if version != __version__:
        raise RankloopError(
            f"{folder} was written by rankloop {version}, and this is {__version__}: "
            "remove it, or choose another folder with --out."
        )
    if quick and full and experiment.panels(True):
        raise RankloopError(f"{folder} holds the full result; choose another folder for the quick one with --out.")
    return folder


def write(experiment: Experiment, outcome: Outcome, folder: Path) -> None:
    """Write spec.json, trace.parquet, figure.png and .svg, tables as .md and .csv, and claims.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HEAD).unlink(missing_ok=True)
    figure = experiment.arrangement.draw(outcome)
    caption = f"{experiment.id}, {outcome.size}; 95 % intervals of the mean"
    figure.supxlabel(caption, x=0.005, ha="left", fontsize=7, color="#666666")
    replace_file(folder / "figure.png", lambda p: figure.savefig(p, format="png"))
    replace_file(folder / "figure.svg", lambda p: save_svg(figure, p))
    for name, table in experiment.arrangement.tables(outcome).items():
        _text(folder / f"{name}.md", f"{table.markdown()}\n\n{outcome.size[0].upper()}{outcome.size[1:]}.\n")
        _text(folder / f"{name}.csv", table.csv())
    if experiment.sensitivity:
        _text(folder / SENSITIVITY, sensitivity.table(experiment.sensitivity, outcome).markdown() + "\n")
    _text(folder / "claims.json", json.dumps(claim_verdicts(experiment, outcome), indent=1, ensure_ascii=False) + "\n")
    replace_file(folder / "trace.parquet", lambda p: _trace(outcome, p))
    _text(folder / HEAD, json.dumps(_head(experiment, outcome), indent=1, ensure_ascii=False) + "\n")


def claim_verdicts(experiment: Experiment, outcome: Outcome) -> list[dict[str, str]]:
    """Return every claim with its verdict and numbers."""
    return [
        {
            "claim": c.text,
            "source": c.source,
            "data": c.data,
            "verdict": str(f.verdict),
            "numbers": f.numbers,
            "size": outcome.size,
        }
        for c, f in verdicts.judge(experiment, outcome)
    ]


def time_breakdown(outcome: Outcome, most: int = 4) -> str:
    """Return, as text, the rounds per second of one process and the policies that took the most time."""
    spent: dict[str, float] = defaultdict(float)
    played = 0
    for _, result in outcome.parts:
        for trace in result:
            spent[trace.id] += trace.seconds
            played += int(trace.rounds[-1]) * trace.regret.shape[1]
    total = sum(spent.values())
    shares = ", ".join(
        f"{id} {s / total:.0%}".replace("%", " %") for id, s in sorted(spent.items(), key=lambda kv: -kv[1])[:most]
    )
    return f"{played / total:,.0f} rounds/s of one process; time: {shares}" if total else "nothing to play"


def full_cost(experiment: Experiment, outcome: Outcome) -> str:
    """Return, as text, what the full version takes at the rates of a smaller one, by policy; empty for a full one.

    The smaller version simulates fewer replications at once, which is slower: the estimate is an upper bound.
    """
    if not outcome.quick or not outcome.parts:
        return ""
    seconds: dict[str, float] = defaultdict(float)
    rounds: dict[str, int] = defaultdict(int)
    for _, result in outcome.parts:
        for trace in (*result, result.random):
            seconds[trace.id] += trace.seconds
            rounds[trace.id] += int(trace.rounds[-1]) * trace.regret.shape[1]
    total = 0.0
    for panel in experiment.panels(False):
        for id in ("random", *(str(p["id"]) for p in panel.policies if isinstance(p, Mapping))):
            total += panel.rounds * panel.replications * seconds[id] / max(rounds[id], 1)
    return f"a full run takes about {_duration(total)} of one process at these rates"


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} minutes" if seconds < 5400 else f"{round(seconds / 3600)} hours"


@dataclass(frozen=True)
class StoredResult:
    """The parts of a result folder that the page shows."""

    head: Mapping[str, Any]
    claims: tuple[Mapping[str, str], ...]
    figure: Path
    table: str
    sensitivity: str = ""


def read(folder: Path) -> StoredResult | None:
    """Return the result that `write` stored; None where there is no complete one."""
    if not (folder / HEAD).exists():
        return None
    try:
        head = json.loads((folder / HEAD).read_text(encoding="utf-8"))
        claims = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
        table = (folder / "table.md").read_text(encoding="utf-8")
        beside = folder / SENSITIVITY
        text = beside.read_text(encoding="utf-8") if beside.exists() else ""
        return StoredResult(head, tuple(claims), folder / "figure.png", table, text)
    except (OSError, ValueError) as error:
        raise RankloopError(
            f"{folder} is not a complete result ({type(error).__name__}); remove it and run again."
        ) from None


def _head(experiment: Experiment, outcome: Outcome) -> dict[str, object]:
    return {
        "id": experiment.id,
        "title": experiment.title,
        "version": __version__,
        "quick": outcome.quick,
        "seed": SEED,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "speed": "; ".join(filter(None, (time_breakdown(outcome), full_cost(experiment, outcome)))),
        "data": dict(outcome.inputs),
        "panels": [
            {
                "title": panel.title,
                "key": dict(panel.key),
                "world": dict(panel.world),
                "policies": [{"label": t.label, "id": t.id, "params": dict(t.params)} for t in result],
                "rounds": panel.rounds,
                "replications": panel.replications,
                "chunk": panel.chunk,
            }
            for panel, result in outcome.parts
        ],
    }


def _text(path: Path, text: str) -> None:
    replace_file(path, lambda p: p.write_text(text, encoding="utf-8"))


def _trace(outcome: Outcome, path: Path) -> None:
    """Write a row for each panel, policy, replication and checkpoint."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise MissingExtra("writing a trace", "experiments") from None
    parts = []
    for panel, trace in outcome.traces():
        C, R = trace.regret.shape
        same = {"panel": panel.title, "label": trace.label, "id": trace.id}
        columns = {name: pa.array([text] * (C * R)).dictionary_encode() for name, text in same.items()}
        columns |= {
            "replication": pa.array(np.tile(np.arange(R, dtype=np.int32), C)),
            "round": pa.array(np.repeat(trace.rounds, R)),
            "regret": pa.array(trace.regret.ravel()),
            "reward": pa.array(trace.reward.ravel()),
        }
        parts.append(pa.table(columns))
    schema = [("panel", pa.string()), ("label", pa.string()), ("id", pa.string())]
    numbers = [("regret", pa.float64()), ("reward", pa.float64())]
    empty = pa.schema([*schema, ("replication", pa.int32()), ("round", pa.int64()), *numbers])
    table = pa.concat_tables(parts).unify_dictionaries() if parts else empty.empty_table()
    pq.write_table(table, path)
