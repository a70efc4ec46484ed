"""Traces as a tidy Parquet file: a row for each policy, replication and checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from rankloop.errors import MissingExtra
from rankloop.simulator.trace import Trace


def write_traces(path: Path, traces: Sequence[Trace]) -> None:
    """Write columns label, id, yardstick, replication, round, regret and reward; the last trace is the baseline.

    The column `yardstick`, part of the stored format, marks the rows of the baseline.
    """
    pa, pq = _arrow()
    parts = []
    for i, trace in enumerate(traces):
        C, R = trace.regret.shape
        columns = {
            "label": pa.array([trace.label] * (C * R)).dictionary_encode(),
            "id": pa.array([trace.id] * (C * R)).dictionary_encode(),
            "yardstick": pa.array(np.full(C * R, i == len(traces) - 1)),
            "replication": pa.array(np.tile(np.arange(R, dtype=np.int32), C)),
            "round": pa.array(np.repeat(trace.rounds, R)),
            "regret": pa.array(trace.regret.ravel()),
            "reward": pa.array(trace.reward.ravel()),
        }
        parts.append(pa.table(columns))
    pq.write_table(pa.concat_tables(parts).unify_dictionaries(), path)


@dataclass(frozen=True)
class StoredPolicy:
    """A policy of a result.json, with its run time in seconds."""

    id: str
    label: str
    params: Mapping[str, object]
    seconds: float


def read_traces(path: Path, policies: Sequence[StoredPolicy]) -> list[Trace]:
    """Return the traces of these policies of a result.json, then that of the baseline."""
    _, pq = _arrow()
    table = pq.read_table(path)
    names = np.array(table["label"].to_pylist())
    columns = {name: table[name].to_numpy() for name in ("yardstick", "replication", "round", "regret", "reward")}
    traces = []
    run_times = {policy.label: policy.seconds for policy in policies}
    baseline = StoredPolicy("random", "random", {}, run_times.get("random", float("nan")))
    for policy in (*policies, baseline):
        rows = columns["yardstick"] if policy is baseline else (names == policy.label) & ~columns["yardstick"]
        R = int(columns["replication"][rows].max()) + 1
        regret, reward = (columns[name][rows].reshape(-1, R) for name in ("regret", "reward"))
        rounds = columns["round"][rows][::R]
        traces.append(Trace(policy.id, policy.label, policy.params, regret, reward, policy.seconds, rounds))
    return traces


def _arrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingExtra("writing or reading a trace", "experiments") from None
    return pyarrow, pyarrow.parquet
