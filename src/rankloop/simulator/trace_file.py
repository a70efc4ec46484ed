"""The tidy trace: a Parquet row for each policy, replication and checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

from rankloop.errors import MissingExtra
from rankloop.simulator.result import Trace


def write_traces(path: Path, traces: Sequence[Trace]) -> None:
    """Columns: label, id, yardstick, replication, round, regret, reward; the last trace is the yardstick."""
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
    """A policy of a result.json: what it is, and how long it took."""

    id: str
    label: str
    params: Mapping[str, object]
    seconds: float


def read_traces(path: Path, policies: Sequence[StoredPolicy]) -> list[Trace]:
    """The traces of these policies of a result.json, then the yardstick's."""
    _, pq = _arrow()
    table = pq.read_table(path)
    names = np.array(table["label"].to_pylist())
    columns = {name: table[name].to_numpy() for name in ("yardstick", "replication", "round", "regret", "reward")}
    traces = []
    took = {policy.label: policy.seconds for policy in policies}
    yardstick = StoredPolicy("random", "random", {}, took.get("random", float("nan")))
    for policy in (*policies, yardstick):
        mine = columns["yardstick"] if policy is yardstick else (names == policy.label) & ~columns["yardstick"]
        R = int(columns["replication"][mine].max()) + 1
        regret, reward = (columns[name][mine].reshape(-1, R) for name in ("regret", "reward"))
        rounds = columns["round"][mine][::R]
        traces.append(Trace(policy.id, policy.label, policy.params, regret, reward, policy.seconds, rounds))
    return traces


def _arrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingExtra("writing or reading a trace", "experiments") from None
    return pyarrow, pyarrow.parquet
