"""Snapshots: the state of a replica as bytes, with what it is valid for.

The log is the truth: a snapshot that is damaged, or made for something else, costs a replay and nothing more. A new
version of the package uses the snapshots of the one before, unless the arrays of the policy's state changed or the
format of the state was raised (`snapshot_frame.STATE_FORMAT`).

A snapshot of another numerics version is used as well: it is the state that served, and a replay would only give other
last bits. The restored replica is marked as mixed, and so are the lists that it decides, since neither equals a replay
bit for bit from then on; verification compares them within a tolerance.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop import catalogue
from rankloop.analytics.click_counters import TABLES
from rankloop.analytics.counters import FIELDS
from rankloop.arrays import Array
from rankloop.errors import RankloopError
from rankloop.eventlog import open_decisions
from rankloop.eventlog.events import skipped_positions
from rankloop.eventlog.open_decisions import OpenCopy, Recall, recall_from
from rankloop.eventlog.store import Snapshot, Store, StoreUnavailable
from rankloop.math import numerics
from rankloop.serving.config import LoggedConfig, Plain, RankerConfig
from rankloop.serving.items import feature_history
from rankloop.serving.items.item_table import PER_COLUMN
from rankloop.serving.memory.budget import Room, StateTooLarge
from rankloop.serving.replay_progress import ReplayProgress
from rankloop.serving.replica import Replica
from rankloop.serving.snapshot_frame import UnusableSnapshot, framed, payload_of

log = logging.getLogger("rankloop.serving")


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
        "numerics": numerics.version(mixed=replica.mixed_numerics),
        "decided": replica.decided,
        "contexts": replica.contexts,
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
    return framed(copy.position, stream.getvalue())


def unpacked(snapshot: Snapshot) -> tuple[Plain, dict[str, Array]]:
    """Return the header and the arrays of a snapshot, or raise `UnusableSnapshot`; nothing damaged is parsed."""
    with np.load(io.BytesIO(payload_of(snapshot)), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads(str(arrays.pop("header"))), arrays


def restored(
    config: RankerConfig,
    skipped: Collection[int],
    snapshot: Snapshot,
    recall: Recall | None = None,
    *,
    room: Room | None = None,
) -> Replica:
    """Return a new replica in the state of a snapshot, or raise `UnusableSnapshot`; there is none restored halfway."""
    try:
        replica = Replica(config, skipped, recall, room=room)
        _restore(replica, snapshot)
    except (UnusableSnapshot, StateTooLarge):
        raise
    except Exception as error:
        raise UnusableSnapshot(f"its state cannot be restored ({type(error).__name__}: {error})") from error
    return replica


def _restore(replica: Replica, snapshot: Snapshot) -> None:
    stored, arrays = unpacked(snapshot)
    _check_valid(stored, replica)
    header: Any = stored
    replica.mixed_numerics = header["numerics"] != numerics.version()
    replica.learners.make_room(len(arrays["items.ids"]), len(arrays["learners.segments"]))
    replica.items.restore(_part("items.", arrays))
    replica.learners.make_room(priors=replica.items.prior_scores)
    replica.learners.restore(_part("learners.", arrays))
    replica.counters.restore(_part("counters.", arrays))
    replica.guardrail_counts = arrays["guardrail_counts"].tolist()
    replica.guardrail_tripped = header["guardrail_tripped"]
    replica.decided, replica.position = header["decided"], snapshot.position
    replica.contexts = header.get("contexts", 0)
    replica.version, replica.settings = header["version"], header["settings"]
    replica.own_versions = set(header["own_versions"])
    replica.changes = [(time, label) for time, label in header["changes"]]
    if replica.version:  # an imported log has no configuration
        replica.config = replica.config.adjusted_as(replica.settings)
    replica.open_decisions.window = replica.config.window
    replica.open_decisions.restore(_part("open.", arrays))
    replica.feature_history.restore(_part("history.", arrays))
    replica.last_foreign = max((one.position for one in replica.open_decisions.values() if one.foreign), default=0)


def start(
    config: RankerConfig, store: Store, name: str, *, challenger: bool = False, room: Room | None = None
) -> Replica:
    """Return the replica of the newest snapshot and the rest of the log; say why and how long the whole is replayed.

    Raises `StateTooLarge` if the state does not fit into its room.
    """
    skipped, recall = skipped_positions(store, name), recall_from(store, name)
    title = name_of(name, challenger=challenger)
    snapshot, replica = store.load_snapshot(title), None
    if snapshot is not None:
        try:
            replica = restored(config, skipped, snapshot, recall, room=room)
        except UnusableSnapshot as error:
            entries = f"{store.count(name):,} entries"
            log.warning("ranker %s: its snapshot is not used: %s; its whole log is replayed: %s", title, error, entries)
    try:
        replica = Replica(config, skipped, recall, room=room) if replica is None else replica
        after = replica.position
        replica.follow(ReplayProgress(title, lambda: store.count(name, after)).watched(store.read(name, after)))
    except StoreUnavailable:
        raise
    except StateTooLarge as error:
        error.position = 0 if replica is None else replica.position
        raise
    except Exception:
        # A page of events does not say which of them cannot be applied, nor whether the snapshot was wrong.
        replica = Replica(config, skipped, recall, room=room)
        replica.apply_carefully(ReplayProgress(title, lambda: store.count(name)).watched(store.read(name)))
    return replica


def name_of(ranker: str, *, challenger: bool) -> str:
    """Return the name under which a snapshot is stored; no ranker has a name with a tilde."""
    return f"{ranker}~challenger" if challenger else ranker


def _valid_for(replica: Replica) -> dict[str, object]:
    """Return what a snapshot is valid for: one policy with its settings and code, and the layout of its state."""
    config = replica.config
    return {
        "learning": config.learning(),
        "parameters": _parameters(config),
        "code": catalogue.code_of(config.policy),
        "skipped": sorted(replica.skipped),
        "layout": _layout(replica),
    }


def _parameters(config: RankerConfig) -> dict[str, str]:
    """Return all parameters of the policy, since a default may differ between versions; none outside the catalogue."""
    try:
        return {name: repr(value) for name, value in catalogue.resolve(config.policy, config.params).items()}
    except catalogue.UnknownPolicy:
        return {}


def _layout(replica: Replica) -> dict[str, object]:
    """Return the arrays of the state: names, types and numbers of axes. Their lengths follow from the items."""
    return {
        "learners": {name: [array.dtype.str, array.ndim] for name, array in replica.learners.state.arrays()},
        "counters": [*FIELDS, *TABLES, "hits", "explored_days", "own_rewards"],
        "items": list(PER_COLUMN),
        "open": [*open_decisions.SAVED, *feature_history.SAVED],
    }


DIFFERENCES = {
    "learning": "it was made with other settings",
    "parameters": "it was made with other parameters of the policy",
    "code": "the code of its policy has changed since",
    "skipped": "events before it were excluded since",
    "layout": "the arrays of its state differ from those of this version",
}
"""Why a snapshot is not valid, by the part that differs."""


def _check_valid(header: Plain, replica: Replica) -> None:
    """Raise `UnusableSnapshot` where a snapshot is not valid for a replica."""
    for name, value in _valid_for(replica).items():
        stored: Any = header[name]
        if name == "learning" and stored != value:
            stored = _with_new_defaults(stored)
        if stored != value:
            raise UnusableSnapshot(DIFFERENCES[name])


def _with_new_defaults(learning: Mapping[str, object]) -> object:
    """Return stored settings with the defaults of those that did not exist when they were stored."""
    try:
        return LoggedConfig.of(learning).learning()
    except RankloopError:
        return learning


def _oldest_foreign(replica: Replica) -> int | None:
    """Return the position of the oldest open decision of another policy, if former features may be needed for it."""
    return replica.open_decisions.oldest_foreign() if len(replica.feature_history) else None


def _part(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
