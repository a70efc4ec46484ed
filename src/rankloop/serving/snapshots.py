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
from rankloop.arrays import Array
from rankloop.eventlog import open_decisions
from rankloop.eventlog.events import skipped_positions
from rankloop.eventlog.open_decisions import OpenCopy, recall_from
from rankloop.eventlog.store import Snapshot, Store, StoreUnavailable
from rankloop.math import numerics
from rankloop.serving import feature_history
from rankloop.serving.config import RankerConfig
from rankloop.serving.item_table import PER_COLUMN
from rankloop.serving.replica import Replica
from rankloop.version import __version__


@dataclass(frozen=True, slots=True)
class StateCopy:
    """A copy of a replica's state."""

    position: int  # of the last event
    arrays: dict[str, Array]
    open_decisions: OpenCopy
    header: dict[str, object]


def take(replica: Replica) -> StateCopy:
    """Copy the state; packing it needs no lock."""
    parts = {
        "items": replica.items.arrays(),
        "learners": replica.learners.arrays(),
        "counters": replica.counters.arrays(),
        "history": replica.feature_history.arrays(_oldest_foreign(replica)),
    }
    arrays: dict[str, Array] = {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}
    arrays["guardrail_counts"] = np.array(replica.guardrail_counts)
    header = {
        **_valid_for(replica),
        "decided": replica.decided,
        "guardrail_tripped": replica.guardrail_tripped,
        "version": replica.version,
        "own_versions": sorted(replica.own_versions),
        "settings": dict(replica.settings),
        "changes": replica.changes,
    }
    return StateCopy(replica.position, arrays, replica.open_decisions.saved(), header)


def packed(copy: StateCopy) -> Snapshot:
    """Return the state as bytes."""
    arrays = copy.arrays | {f"open.{name}": array for name, array in copy.open_decisions.arrays().items()}
    arrays["header"] = np.array(json.dumps(copy.header))
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
    replica.items.restore(_part("items.", arrays))
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
    replica.open_decisions.restore(_part("open.", arrays))
    replica.feature_history.restore(_part("history.", arrays))
    replica.last_foreign = max((one.position for one in replica.open_decisions.values() if one.foreign), default=0)
    return True


def start(config: RankerConfig, store: Store, name: str, *, challenger: bool = False) -> Replica:
    """Return the replica of the newest snapshot and the rest of the log."""
    skipped, recall = skipped_positions(store, name), recall_from(store, name)
    replica = Replica(config, skipped, recall)
    snapshot = store.load_snapshot(name_of(name, challenger=challenger))
    try:
        if snapshot is not None:
            restore(replica, snapshot)
        replica.follow(store.read(name, replica.position))
    except StoreUnavailable:
        raise
    except Exception:
        # The snapshot may be damaged, and a page of events does not say which of them cannot be applied.
        replica = Replica(config, skipped, recall)
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
        "counters": [*FIELDS, *TABLES, "hits", "explored_days"],
        "items": list(PER_COLUMN),
        "open": [*open_decisions.SAVED, *feature_history.SAVED],
    }


def _oldest_foreign(replica: Replica) -> int | None:
    """Return the position of the oldest open decision of another policy, if former features may be needed for it."""
    return replica.open_decisions.oldest_foreign() if len(replica.feature_history) else None


def _part(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
