"""A ranker's whole state as bytes, with what it belongs to."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from rankloop.engine.records import Shown, decode, encode
from rankloop.store.base import Entry, Snapshot
from rankloop.version import __version__

if TYPE_CHECKING:
    from rankloop.engine.ranker import Ranker


def take(ranker: Ranker) -> Snapshot:
    """Items, learners and open decisions after the last entry applied."""
    arrays: dict[str, Any] = {f"table.{name}": array for name, array in ranker._table.arrays().items()}
    arrays |= {f"learners.{name}": array for name, array in ranker._learners.arrays().items()}
    waiting = list(ranker._pending)
    entries = [encode(one.shown) for one in waiting]
    arrays["pending.sizes"] = np.array([len(entry.body) for entry in entries], dtype=np.int64)
    arrays["pending.bodies"] = np.frombuffer(b"".join(entry.body for entry in entries), dtype=np.uint8)
    for i, one in enumerate(waiting):
        if one.outcome is not None:
            arrays[f"pending.outcome.{i}"] = one.outcome
    head = {
        **_belongs(ranker),
        "decided": ranker._decided,
        "pending": [(entry.key, entry.time) for entry in entries],
    }
    arrays["head"] = np.array(json.dumps(head))
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return Snapshot(ranker.position, stream.getvalue())


def restore(ranker: Ranker, snapshot: Snapshot) -> bool:
    """Become what was taken; not where it belongs to another policy or version: then the log is replayed."""
    try:
        with np.load(io.BytesIO(snapshot.body), allow_pickle=False) as kept:
            arrays = {name: kept[name] for name in kept.files}
        head = json.loads(str(arrays["head"]))
    except (zipfile.BadZipFile, KeyError, ValueError, OSError):
        return False  # damaged: the log is what counts
    if any(head.get(name) != value for name, value in _belongs(ranker).items()):
        return False
    ranker._table.restore(_below("table.", arrays))
    ranker._learners.restore(_below("learners.", arrays))
    ranker._decided, ranker.position = head["decided"], snapshot.position
    bodies, at = arrays["pending.bodies"].tobytes(), 0
    for i, ((key, time), size) in enumerate(zip(head["pending"], arrays["pending.sizes"].tolist(), strict=True)):
        shown = decode(Entry("shown", key, key, time, bodies[at : at + size]))
        if not isinstance(shown, Shown):
            raise TypeError("a snapshot holds open decisions only")
        ranker._pending.add(shown, arrays.get(f"pending.outcome.{i}"))
        at += size
    return True


def _belongs(ranker: Ranker) -> dict[str, Any]:
    """What a snapshot is of: it is of no use to another policy."""
    return {"config": json.loads(json.dumps(ranker.config.as_mapping())), "version": __version__}


def _below(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
