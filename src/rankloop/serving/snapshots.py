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
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
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
from rankloop.eventlog.retention.pruned_history import UnusableBase, base_state, pruned_history
from rankloop.eventlog.store import LogEntry, Snapshot, Store, StoreUnavailable
from rankloop.features import rename_categories
from rankloop.math import numerics
from rankloop.serving.config import LoggedConfig, Plain, RankerConfig
from rankloop.serving.items import feature_history
from rankloop.serving.items.item_table import PER_COLUMN
from rankloop.serving.memory.budget import Room, StateTooLarge
from rankloop.serving.replay_progress import ReplayProgress
from rankloop.serving.replica import Replica
from rankloop.serving.snapshot_frame import UnusableSnapshot, framed, payload_of

log = logging.getLogger("rankloop.serving")
COUNTER_TABLES = ("counters.total", "counters.minutes", "counters.hours", "counters.others")
"""Arrays whose last axis grows with the counts that a version knows."""


@dataclass(frozen=True, slots=True)
class StateCopy:
    """A copy of a replica's state."""

    position: int  # of the last event
    arrays: dict[str, Array]
    open_decisions: OpenCopy
    header: dict[str, object]

    def all_arrays(self) -> dict[str, Array]:
        """Return the arrays, those of the open decisions included."""
        return self.arrays | {f"open.{name}": array for name, array in self.open_decisions.arrays().items()}


def take(replica: Replica) -> StateCopy:
    """Copy the state; packing it needs no lock."""
    parts = {
        "items": replica.items.arrays(),
        "learners": replica.learners.arrays(),
        "counters": replica.counters.arrays(),
        "history": replica.feature_history.arrays(_oldest_foreign(replica)),
    }
    arrays: dict[str, Array] = {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}
    arrays |= replica.guardrail.arrays()
    header = {
        **_valid_for(replica),
        "numerics": numerics.version(mixed=replica.mixed_numerics),
        "decided": replica.decided,
        "contexts": replica.contexts,
        "guardrail_tripped": replica.guardrail_tripped,
        "guardrail_since": replica.guardrail.since,
        "version": replica.version,
        "own_versions": sorted(replica.own_versions),
        "settings": dict(replica.settings),
        "changes": replica.changes,
    }
    return StateCopy(replica.position, arrays, replica.open_decisions.saved(), header)


def packed(copy: StateCopy) -> Snapshot:
    """Return the state as bytes."""
    return _packed_as(copy.position, copy.header, copy.all_arrays())


def _packed_as(position: int, header: Plain, arrays: Mapping[str, Array]) -> Snapshot:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays, header=np.array(json.dumps(header)))
    return framed(position, stream.getvalue())


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
    header, arrays = unpacked(snapshot)
    _check_valid(header, replica)
    _fill(replica, snapshot.position, header, arrays)


def _fill(replica: Replica, position: int, stored: Plain, arrays: Mapping[str, Array]) -> None:
    """Put the header and the arrays of a state at a position into a new replica."""
    header: Any = stored
    replica.mixed_numerics = header["numerics"] != numerics.version()
    replica.learners.make_room(len(arrays["items.ids"]), len(arrays["learners.segments"]))
    replica.items.restore(_part("items.", arrays))
    replica.learners.make_room(priors=replica.items.prior_scores)
    replica.learners.restore(_part("learners.", arrays))
    replica.counters.restore(_part("counters.", arrays))
    replica.guardrail.restore(header.get("guardrail_since", 0), arrays)
    replica.guardrail_tripped = header["guardrail_tripped"]
    replica.decided, replica.position = header["decided"], position
    replica.contexts = header.get("contexts", 0)
    replica.version, replica.settings = header["version"], header["settings"]
    replica.own_versions = set(header["own_versions"])
    replica.changes = [(time, label) for time, label in header["changes"]]
    if replica.version:  # an imported log has no configuration
        replica.config = replica.config.adjusted_as(replica.settings)
    replica.open_decisions.window = replica.config.window
    replica.open_decisions.restore(_part("open.", arrays))
    replica.feature_history.restore(_part("history.", arrays))
    replica.last_foreign = max(
        (one.since_position for one in replica.open_decisions.values() if one.foreign), default=0
    )


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
            require_following(store, name, snapshot)
            replica = restored(config, skipped, snapshot, recall, room=room)
        except UnusableSnapshot as error:
            entries = f"{store.count(name):,} entries"
            log.warning("ranker %s: its snapshot is not used: %s; its whole log is replayed: %s", title, error, entries)
    try:
        replica = first_state(config, store, name, room=room) if replica is None else replica
        after = replica.position
        replica.follow(ReplayProgress(title, lambda: store.count(name, after)).watched(store.read(name, after)))
    except (StoreUnavailable, UnusableBase):
        raise
    except StateTooLarge as error:
        error.position = 0 if replica is None else replica.position
        raise
    except Exception:
        # A page of events does not say which of them cannot be applied, nor whether the snapshot was wrong.
        replica = first_state(config, store, name, room=room)
        after = replica.position
        rest = ReplayProgress(title, lambda: store.count(name, after)).watched(store.read(name, after))
        replica.apply_carefully(rest)
    return replica


def require_following(store: Store, name: str, snapshot: Snapshot) -> None:
    """Raise `UnusableSnapshot` if entries that follow a snapshot were removed."""
    pruned = pruned_history(store, name)
    if pruned is not None and snapshot.position < pruned.position:
        raise UnusableSnapshot("entries that follow it were removed since")


def first_state(config: RankerConfig, store: Store, name: str, *, room: Room | None = None) -> Replica:
    """Return the state from which a log is replayed: empty, or after the last entry up to which it was pruned.

    Where no base state has these settings of learning, it is learned from what is left: items, settings and decisions
    that were open.
    """
    skipped, recall = skipped_positions(store, name), recall_from(store, name)
    pruned = pruned_history(store, name)
    if pruned is None:
        return Replica(config, skipped, recall, room=room)
    for title, learning in pruned.bases.items():
        if config.learning() in (learning, _with_new_defaults(learning)):
            return from_base(config, store, name, base_state(store, pruned, title), room=room)
    replica = Replica(config, skipped, recall, room=room)
    replica.apply_carefully(_entries_until(pruned.position, store, name))
    replica.position = pruned.position
    return replica


def base_of(replica: Replica) -> Snapshot:
    """Return a snapshot from which a log is replayed whose earlier entries were removed."""
    copy = take(replica)
    before = sorted(position for position in replica.skipped if position <= replica.position)
    return packed(StateCopy(copy.position, copy.arrays, copy.open_decisions, copy.header | {"skipped": before}))


def renamed(base: Snapshot, new_ids: Mapping[str, str], text_of: Callable[[str, str], str]) -> Snapshot:
    """Return a base state with new ids of its open decisions, given by the old ones, and new categories of contexts.

    Args:
        base: the state.
        new_ids: of decisions, by the old ones.
        text_of: returns the new text of a field's category.
    """
    header, arrays = unpacked(base)
    learning: Any = header["learning"]
    features = LoggedConfig.of(learning).feature_settings if "items.context_encoder_text" in arrays else None
    if features is not None:
        rename_categories("items.context_encoder_", arrays, list(features.context), text_of)
    old, at, ids = arrays["open.ids"].tobytes(), 0, list[bytes]()
    for size in arrays["open.id_bytes"].tolist():
        id = old[at : at + size].decode()
        ids.append(new_ids.get(id, id).encode())
        at += size
    arrays["open.ids"] = np.frombuffer(b"".join(ids), dtype=np.uint8)
    arrays["open.id_bytes"] = np.array([len(id) for id in ids], dtype=arrays["open.id_bytes"].dtype)
    return _packed_as(base.position, header, arrays)


def from_base(config: RankerConfig, store: Store, name: str, base: Snapshot, *, room: Room | None = None) -> Replica:
    """Return a replica in a base state, or raise `UnusableBase`.

    No replay can replace it, so it is used as long as it has the arrays of the policy: what the policy learned with
    other code or other defaults stays. Other arrays that it lacks are those that follow from the entries left.
    """
    skipped, recall = skipped_positions(store, name), recall_from(store, name)
    try:
        header, arrays = unpacked(base)
        replica = Replica(config, skipped, recall, room=room)
        layout: Any = header["layout"]
        if header["skipped"] != sorted(position for position in skipped if position <= base.position):
            raise UnusableSnapshot(DIFFERENCES["skipped"])
        if layout["learners"] != _layout(replica)["learners"]:
            raise UnusableSnapshot(DIFFERENCES["layout"])
        if layout != _layout(replica):
            fresh = Replica(config, skipped, recall)
            fresh.apply_carefully(_entries_until(base.position, store, name))
            arrays = _completed(arrays, take(fresh).all_arrays())
        for part in ("code", "parameters"):
            if header[part] != _valid_for(replica)[part]:
                log.warning("ranker %s: its base state at %d is used: %s", name, base.position, DIFFERENCES[part])
        _fill(replica, base.position, header, arrays)
    except (StoreUnavailable, StateTooLarge):
        raise
    except Exception as error:
        raise UnusableBase(base.position, str(error)) from error
    return replica


def _entries_until(position: int, store: Store, name: str) -> Iterator[LogEntry]:
    return takewhile(lambda entry: entry.position <= position, store.read(name))


def _completed(stored: Mapping[str, Array], fresh: Mapping[str, Array]) -> dict[str, Array]:
    """Return stored arrays, those of a fresh state where they lack one, with zeros in columns that they lack."""
    arrays = dict(fresh) | dict(stored)
    for name, array in stored.items():
        is_table = name.startswith(COUNTER_TABLES) and name in fresh and array.ndim == fresh[name].ndim > 0
        if is_table and (missing := fresh[name].shape[-1] - array.shape[-1]) > 0:
            arrays[name] = np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])
    return arrays


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
