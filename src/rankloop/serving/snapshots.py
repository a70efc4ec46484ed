"""Snapshots: the state of a replica as bytes, with what it is valid for."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rankloop import catalogue
from rankloop.analytics.click_counters import TABLES
from rankloop.analytics.counters import FIELDS
from rankloop.arrays import Array, FloatArray
from rankloop.eventlog.events import DecisionMade, decode_as, skipped_positions
from rankloop.eventlog.open_decisions import OpenDecision
from rankloop.eventlog.store import LogEntry, Snapshot, Store, StoreUnavailable
from rankloop.math import numerics
from rankloop.serving.config import RankerConfig
from rankloop.serving.item_table import PER_COLUMN
from rankloop.serving.memory_budget import Room, StateTooLarge
from rankloop.serving.replica import Replica
from rankloop.version import __version__

OpenHeader = tuple[str, float, int | None, float | None]
"""Of an open decision: its id, time, number of outcomes (None before the first feedback) and regret."""


@dataclass(frozen=True, slots=True)
class StateCopy:
    """A copy of a replica's state."""

    position: int  # of the last event
    arrays: dict[str, Array]
    open_decisions: list[tuple[DecisionMade, FloatArray | None, float | None]]
    header: dict[str, object]


def take(replica: Replica) -> StateCopy:
    """Copy the state; packing it needs no lock."""
    parts = {
        "items": replica.items.arrays(),
        "learners": replica.learners.arrays(),
        "counters": replica.counters.arrays(),
    }
    arrays: dict[str, Array] = {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}
    arrays["guardrail_counts"] = np.array(replica.guardrail_counts)
    decisions = [
        (one.event, None if one.outcome is None else one.outcome.copy(), one.regret)
        for one in replica.open_decisions.values()
    ]
    header = {
        **_valid_for(replica),
        "decided": replica.decided,
        "guardrail_tripped": replica.guardrail_tripped,
        "version": replica.version,
        "own_versions": sorted(replica.own_versions),
        "settings": dict(replica.settings),
        "changes": replica.changes,
    }
    return StateCopy(replica.position, arrays, decisions, header)


def packed(copy: StateCopy) -> Snapshot:
    """Return the state as bytes."""
    arrays, entries = dict(copy.arrays), [event.entry() for event, _, _ in copy.open_decisions]
    arrays["open.sizes"] = np.array([len(entry.body) for entry in entries], dtype=np.int64)
    arrays["open.bodies"] = np.frombuffer(b"".join(entry.body for entry in entries), dtype=np.uint8)
    outcomes = [np.empty(0) if outcome is None else outcome for _, outcome, _ in copy.open_decisions]
    arrays["open.outcomes"] = np.concatenate([np.empty(0), *outcomes])
    header = {
        **copy.header,
        "open": [
            (entry.key, entry.time, None if outcome is None else len(outcome), regret)
            for entry, (_, outcome, regret) in zip(entries, copy.open_decisions, strict=True)
        ],
    }
    arrays["header"] = np.array(json.dumps(header))
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return Snapshot(copy.position, stream.getvalue())


def restore(replica: Replica, snapshot: Snapshot) -> bool:
    """Restore a replica; False, with nothing changed, if the snapshot is damaged or of another policy or version."""
    try:
        with np.load(io.BytesIO(snapshot.body), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        header = json.loads(str(arrays["header"]))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError):
        return False  # the log is the truth, so a damaged snapshot costs a replay
    if any(header.get(name) != value for name, value in _valid_for(replica).items()):
        return False
    replica.learners.make_room(len(arrays["items.ids"]), len(arrays["learners.segments"]))
    replica.items.restore(_part("items.", arrays))
    replica.learners.make_room(priors=replica.items.prior_scores)
    replica.learners.restore(_part("learners.", arrays))
    replica.counters.restore(_part("counters.", arrays))
    replica.guardrail_counts = arrays["guardrail_counts"].tolist()
    replica.guardrail_tripped = header["guardrail_tripped"]
    replica.decided, replica.position = header["decided"], snapshot.position
    replica.version, replica.settings = header["version"], header["settings"]
    replica.own_versions = set(header["own_versions"])
    replica.changes = [(time, label) for time, label in header["changes"]]
    if replica.version:  # an imported log has no configuration
        replica.config = replica.config.adjusted_as(replica.settings)
    replica.open_decisions.window = replica.config.window
    _restore_open_decisions(replica, header["open"], arrays)
    return True


def _restore_open_decisions(replica: Replica, decisions: list[OpenHeader], arrays: Mapping[str, Array]) -> None:
    bodies, outcomes = arrays["open.bodies"].tobytes(), arrays["open.outcomes"]
    at = used = 0
    for (key, time, length, regret), size in zip(decisions, arrays["open.sizes"].tolist(), strict=True):
        event = decode_as(DecisionMade, LogEntry(DecisionMade.kind, key, key, time, bodies[at : at + size]))
        outcome = None if length is None else outcomes[used : used + length].astype(np.float64)
        replica.open_decisions[key] = OpenDecision(event, outcome, regret)
        at, used = at + size, used + (length or 0)


def start(
    config: RankerConfig, store: Store, name: str, *, challenger: bool = False, room: Room | None = None
) -> Replica:
    """Return the replica of the newest snapshot and the rest of the log; `StateTooLarge` if it does not fit."""
    skipped = skipped_positions(store, name)
    replica = Replica(config, skipped, room)
    snapshot = store.load_snapshot(name_of(name, challenger=challenger))
    try:
        if snapshot is not None:
            restore(replica, snapshot)
        replica.follow(store.read(name, replica.position))
    except StoreUnavailable:
        raise
    except StateTooLarge as error:
        error.position = replica.position
        raise
    except Exception:
        # The snapshot may be damaged, and a page of events does not say which of them cannot be applied.
        replica = Replica(config, skipped, room)
        replica.apply_carefully(store.read(name))
    return replica


def name_of(ranker: str, *, challenger: bool) -> str:
    """Return the name under which a snapshot is stored; no ranker has a name with a tilde."""
    return f"{ranker}~challenger" if challenger else ranker


def _valid_for(replica: Replica) -> dict[str, object]:
    """Return what a snapshot is valid for: one policy and its code, version, numerics and layout."""
    return {
        "learning": replica.config.learning(),
        "code": catalogue.code_of(replica.config.policy),
        "rankloop": __version__,
        "numerics": numerics.version(),
        "skipped": sorted(replica.skipped),
        "counters": [*FIELDS, *TABLES, "hits"],
        "items": list(PER_COLUMN),
    }


def _part(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
