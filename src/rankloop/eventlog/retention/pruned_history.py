"""What a log says about entries that were removed from it, and which base states stand in for them."""

from __future__ import annotations

from rankloop.eventlog.events import CannotReplay, HistoryPruned, decode_as
from rankloop.eventlog.store import Snapshot, Store

REMEDY = "bring the archive back into a new log with `rankloop log import ARCHIVE LOG`, and serve that one"


class UnusableBase(CannotReplay):
    """The base state of a log without its first entries cannot be used, so that no state follows from the log."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, HistoryPruned.kind, ValueError(reason))
        self.reason = f"entries up to here were removed, and the base state cannot be used: {reason}; {REMEDY}"
        self.args = (f"the log cannot be replayed from position {position}: {self.reason}.",)


def pruned_history(store: Store, log: str) -> HistoryPruned | None:
    """Return the last pruning of a log; None if the log has all its entries, also if an archive brought them back."""
    entries = store.of_kind(log, HistoryPruned.kind)
    if not entries:
        return None
    pruned = max((decode_as(HistoryPruned, entry) for entry in entries), key=lambda event: event.position)
    found = store.count(log) - store.count(log, pruned.position)
    return None if found == pruned.left + pruned.removed else pruned


def base_state(store: Store, pruned: HistoryPruned, name: str) -> Snapshot:
    """Return the base state of a name, or raise `UnusableBase`."""
    snapshot = store.load_snapshot(name)
    if snapshot is None or snapshot.position != pruned.position:
        raise UnusableBase(pruned.position, "it is missing")
    return snapshot
