"""A ranker's whole state as bytes, with what it belongs to."""

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
from rankloop.eventlog.store import LogEntry, Snapshot, Store, StoreUnavailable
from rankloop.math import numerics
from rankloop.serving.config import RankerConfig
from rankloop.serving.item_table import PER_COLUMN
from rankloop.serving.replica import Replica
from rankloop.version import __version__


@dataclass(frozen=True, slots=True)
class StateCopy:
    """Copies of all arrays after the entry of a position, and the open decisions."""

    position: int
    arrays: dict[str, Array]
    waiting: list[tuple[DecisionMade, FloatArray | None, float | None]]
    head: dict[str, object]


def take(replica: Replica) -> StateCopy:
    """Copy the state: whoever holds the ranker's lock does no more than that."""
    parts = {
        "table": replica.items.arrays(),
        "learners": replica.learners.arrays(),
        "tally": replica.counters.arrays(),
    }
    arrays: dict[str, Array] = {f"{part}.{name}": array for part, own in parts.items() for name, array in own.items()}
    arrays["watched"] = np.array(replica.guardrail_counts)
    waiting = [
        (one.shown, None if one.outcome is None else one.outcome.copy(), one.regret) for one in replica.open_decisions
    ]
    head = {
        **_belongs(replica),
        "decided": replica.decided,
        "guardrail_tripped": replica.guardrail_tripped,
        "version": replica.version,
        "own": sorted(replica.own),
        "settings": dict(replica.settings),
        "changes": replica.changes,
    }
    return StateCopy(replica.position, arrays, waiting, head)


def packed(taken: StateCopy) -> Snapshot:
    """The state as bytes."""
    arrays, entries = dict(taken.arrays), [shown.entry() for shown, _, _ in taken.waiting]
    arrays["pending.sizes"] = np.array([len(entry.body) for entry in entries], dtype=np.int64)
    arrays["pending.bodies"] = np.frombuffer(b"".join(entry.body for entry in entries), dtype=np.uint8)
    told = [np.empty(0) if outcome is None else outcome for _, outcome, _ in taken.waiting]
    arrays["pending.outcomes"] = np.concatenate([np.empty(0), *told])
    head = {
        **taken.head,
        "pending": [
            (entry.key, entry.time, None if outcome is None else len(outcome), regret)
            for entry, (_, outcome, regret) in zip(entries, taken.waiting, strict=True)
        ],
    }
    arrays["head"] = np.array(json.dumps(head))
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return Snapshot(taken.position, stream.getvalue())


def restore(replica: Replica, snapshot: Snapshot) -> bool:
    """Become what was taken; not where it belongs to another policy or version: then the log is replayed."""
    try:
        with np.load(io.BytesIO(snapshot.body), allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        head = json.loads(str(arrays["head"]))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError):
        return False  # damaged: the log is what counts
    if any(head.get(name) != value for name, value in _belongs(replica).items()):
        return False
    replica.items.restore(_below("table.", arrays))
    replica.learners.restore(_below("learners.", arrays))
    replica.counters.restore(_below("tally.", arrays))
    replica.guardrail_counts, replica.guardrail_tripped = arrays["watched"].tolist(), head["guardrail_tripped"]
    replica.decided, replica.position = head["decided"], snapshot.position
    replica.version, replica.settings, replica.own = head["version"], head["settings"], set(head["own"])
    replica.changes = [(time, label) for time, label in head["changes"]]
    if replica.version:  # a log that was imported does not say its settings
        replica.config = replica.config.adjusted_as(replica.settings)
    replica.open_decisions.window = replica.config.window
    bodies, outcomes, at, told = arrays["pending.bodies"].tobytes(), arrays["pending.outcomes"], 0, 0
    sizes = arrays["pending.sizes"].tolist()
    for (key, time, known, regret), size in zip(head["pending"], sizes, strict=True):
        shown = decode_as(DecisionMade, LogEntry(DecisionMade.kind, key, key, time, bodies[at : at + size]))
        outcome = None if known is None else outcomes[told : told + known].copy()
        replica.open_decisions.add(shown, outcome, regret)
        at, told = at + size, told + (known or 0)
    return True


def start(config: RankerConfig, store: Store, name: str, *, challenger: bool = False) -> Replica:
    """The newest snapshot and the rest of the log; of the policy that stands by, where `challenger`."""
    skipped = skipped_positions(store, name)
    replica = Replica(config, skipped)
    kept = store.load_snapshot(place(name, challenger))
    try:
        if kept is not None:
            restore(replica, kept)
        replica.follow(store.read(name, replica.position))
    except StoreUnavailable:
        raise
    except Exception:
        # The snapshot may be damaged; and many events at once do not say which of them cannot be applied.
        replica = Replica(config, skipped)
        replica.apply_carefully(store.read(name))
    return replica


def place(name: str, challenger: bool) -> str:
    """Under which name a ranker's snapshot is kept: no ranker has a name with a tilde."""
    return f"{name}~challenger" if challenger else name


def _belongs(replica: Replica) -> dict[str, object]:
    """What a snapshot is valid for: one policy and its code, version, numerics and layout."""
    return {
        "learning": replica.config.learning(),
        "code": catalogue.code_of(replica.config.policy),
        "rankloop": __version__,
        "numerics": numerics.version(),
        "skipped": sorted(replica.skipped),
        "counts": [*FIELDS, *TABLES, "hits"],
        "items": list(PER_COLUMN),
    }


def _below(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
