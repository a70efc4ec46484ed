"""Replace what identifies visitors in a log by tombstones; everything that was learned stays as it is.

A decision of an erased visitor keeps its list, features and context, since the state was learned from them and the
verification decides the list from them again. It loses the visitor and the fingerprint of the request, which is a hash
of the visitor among other things; of the fields that the request brought, only texts stay that other visitors have too
(`context_fields`). Ids of decisions and of feedback events that callers made from the visitor's id
are replaced wherever they occur.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rankloop.errors import RankloopError
from rankloop.eventlog.codec import header
from rankloop.eventlog.erasure.context_fields import ContextErasure
from rankloop.eventlog.erasure.rewriting import RewritableStore, Rewriting
from rankloop.eventlog.events import (
    CannotReplay,
    DecisionMade,
    Impression,
    VisitorsErased,
    WindowClosed,
    Withdrawn,
    decode_as,
    skipped_positions,
)
from rankloop.eventlog.events.pruning import BASE
from rankloop.eventlog.store import LogEntry, Snapshot

Renamed = Callable[[Snapshot, Mapping[str, str], Callable[[str, str], str]], Snapshot]
"""Returns a base state with new ids of decisions, given by the old ones, and new texts of fields of contexts, given by
field and old text."""
MAX_TRACES = 1000
"""Texts that a snapshot is searched for; with more of them, it is deleted unread."""


class CannotErase(RankloopError):
    """An entry that may contain what identifies a visitor cannot be read; nothing was changed."""


@dataclass
class Erasure:
    """What an erasure changed."""

    decisions: int = 0
    visitors: set[str] = field(default_factory=set)  # of these decisions
    renamed: int = 0  # ids of decisions and feedback events
    snapshots: int = 0  # that were deleted


def erase(store: RewritableStore, visitors: Collection[str], time: float, rename: Renamed | None = None) -> Erasure:
    """Replace what identifies visitors, in all logs of a store, in one transaction.

    Each log with decisions of the visitors gets an event that records their number. An erasure that was interrupted
    is completed by the next one: the transaction happened or not, and the disk space is released in any case.

    Args:
        store: must not be in use by another process.
        visitors: ids of the visitors.
        time: of the erasure, in seconds since 1970.
        rename: renames decisions and categories in the base states of logs that were pruned.
    """
    done, wanted = Erasure(), frozenset(visitors)
    with store.rewriting() as rewriting:
        snapshots = rewriting.snapshots()
        for log in filter(None, store.rankers()):
            _erase_in_log(store, rewriting, log, wanted, time, snapshots, done, rename)
    store.purge()
    return done


def _erase_in_log(
    store: RewritableStore,
    rewriting: Rewriting,
    log: str,
    visitors: frozenset[str],
    time: float,
    snapshots: list[str],
    done: Erasure,
    rename: Renamed | None,
) -> None:
    contexts = ContextErasure(visitors)
    for entry in store.read(log):
        if entry.kind == DecisionMade.kind and b'"context_fields"' in entry.body:
            with suppress(CannotReplay):  # handled below
                event = decode_as(DecisionMade, entry)
                contexts.note(event.visitor, event.context_fields)
    tombstones = Tombstones(log, visitors, skipped_positions(store, log), contexts)
    for entry in store.read(log):
        replaced = tombstones.of(entry)
        if replaced is not None:
            rewriting.replace(replaced)
    if not tombstones.positions:
        return
    rewriting.append(log, VisitorsErased(time, min(tombstones.positions), len(tombstones.positions)).entry())
    for name in snapshots:
        # The snapshot of a challenger is named after its ranker's log.
        snapshot = store.load_snapshot(name) if name.partition("~")[0] == log else None
        if snapshot is not None and BASE in name:  # nothing could replace it; it names visitors in ids and categories
            if (tombstones.new_ids or contexts.replaced) and rename is not None:
                rewriting.put_snapshot(name, rename(snapshot, tombstones.new_ids, contexts.replacement))
        elif snapshot is not None and tombstones.left_traces_in(snapshot.body):
            rewriting.delete_snapshot(name)
            done.snapshots += 1
    done.decisions += len(tombstones.positions)
    done.visitors |= tombstones.found
    done.renamed += tombstones.renamed


class Tombstones:
    """Gives the tombstones of one log, whose entries it takes in order.

    Args:
        log: name of the log.
        visitors: whom to erase.
        skipped: positions of the events that an operator has excluded.
        contexts: erases the fields of contexts; it has seen those of the whole log.
    """

    def __init__(self, log: str, visitors: frozenset[str], skipped: Collection[int], contexts: ContextErasure) -> None:
        self._contexts = contexts
        self._log, self._visitors, self._skipped = log, visitors, skipped
        self._visitors_of: dict[str, set[str]] = {}  # of the erased decisions, by the decision's old id
        self.new_ids: dict[str, str] = {}  # of the decisions whose ids were replaced, by the old id
        self._fingerprints: set[str] = set()
        self.positions: list[int] = []  # of the erased decisions
        self.found: set[str] = set()  # the visitors of these
        self.renamed = 0  # ids of decisions and feedback events

    def of(self, entry: LogEntry) -> LogEntry | None:
        """Return what replaces an entry, or None if the entry stays."""
        if entry.kind == DecisionMade.kind:
            return self._decision(entry)
        if entry.kind == WindowClosed.kind:
            return self._window_closed(entry) if self.new_ids else None
        return self._about_decision(entry) if entry.subject in self._visitors_of else None

    def left_traces_in(self, snapshot: bytes) -> bool:
        """Return whether a snapshot may contain what was erased."""
        traces = self.found | self._fingerprints | self._contexts.replaced
        if self.new_ids or len(traces) > MAX_TRACES:
            return True
        return any(form in snapshot for trace in traces for form in _stored_forms(trace))

    def _decision(self, entry: LogEntry) -> LogEntry | None:
        try:
            event = decode_as(DecisionMade, entry)
        except CannotReplay:
            return self._damaged(entry)
        visitor = event.visitor
        if visitor is None or visitor not in self._visitors:
            return None
        self.positions.append(entry.position)
        self.found.add(visitor)
        self._visitors_of[event.id] = {visitor}
        if event.asked is not None:
            self._fingerprints.add(event.asked.partition("\n")[0])
        id = self._renamed(event.id, id_without(visitor, event.id, event.time))
        context = self._contexts.erased(event.context_fields)
        tombstone = replace(
            event, id=id, visitor=None, asked=None, context_fields=context, item_fields=None, erased=True
        )
        return tombstone.entry()._replace(position=entry.position)

    def _damaged(self, entry: LogEntry) -> LogEntry | None:
        """Return an empty tombstone if the entry may be of a visitor and no replay reads it."""
        new_ids = {visitor: id_without(visitor, entry.key, entry.time) for visitor in self._visitors}
        in_key = {visitor: id for visitor, id in new_ids.items() if id != entry.key}
        found = {visitor for visitor in self._visitors if visitor in in_key or visitor.encode() in entry.body}
        if not found:
            return None
        tombstone = self._empty(entry, "decision")
        self.positions.append(entry.position)
        self.found |= found
        self._visitors_of[entry.key] = found
        id = self._renamed(entry.key, next(iter(in_key.values()), entry.key))
        return tombstone._replace(key=id, subject=id if entry.subject == entry.key else entry.subject)

    def _empty(self, entry: LogEntry, what: str) -> LogEntry:
        """Return an entry without content in place of one that cannot be read, or refuse if a replay would read it."""
        if entry.position not in self._skipped:
            raise CannotErase(
                f"the {what} at position {entry.position} of {self._log} cannot be read and may contain a visitor's "
                "id; exclude it with `rankloop log skip` first. Nothing was erased."
            )
        return entry._replace(body=header({"erased": True}))

    def _renamed(self, id: str, new_id: str) -> str:
        """Return the new id of a decision, and remember it where it differs from the old one."""
        if new_id != id:
            self.new_ids[id] = new_id
            self.renamed += 1
        return new_id

    def _about_decision(self, entry: LogEntry) -> LogEntry | None:
        """Replace the ids of a decision and of a feedback event."""
        new_id = self.new_ids.get(entry.subject, entry.subject)
        key = entry.key
        if entry.kind in (Withdrawn.kind, Impression.kind):  # whose keys are those of their decisions
            key = new_id
        elif any(visitor in key for visitor in self._visitors_of[entry.subject]):
            key = _new_id()
            self.renamed += 1
        replaced = entry._replace(key=key, subject=new_id)
        return None if replaced == entry else replaced

    def _window_closed(self, entry: LogEntry) -> LogEntry | None:
        try:
            event = decode_as(WindowClosed, entry)
        except CannotReplay:
            return self._empty(entry, "event that closed feedback windows")
        if not self.new_ids.keys() & set(event.decisions):
            return None
        ids = tuple(self.new_ids.get(id, id) for id in event.decisions)
        return replace(event, decisions=ids).entry()._replace(position=entry.position)


def id_without(visitor: str, decision: str, time: float) -> str:
    """Return the id of a decision; a new one if its caller made it from the visitor's id.

    Args:
        visitor: id of the visitor.
        decision: id of the decision.
        time: of the decision; ids that rankers choose start with it, and may contain a short visitor's id by chance.
    """
    chosen_by_caller = not decision.startswith(f"{int(1000 * time):011x}")
    return _new_id() if chosen_by_caller and visitor in decision else decision


def _new_id() -> str:
    """Return an id that says nothing; a caller cannot have guessed it and used it before."""
    return f"erased-{secrets.token_hex(8)}"


def _stored_forms(text: str) -> set[bytes]:
    """Return the bytes that stand for a text in a snapshot: in an event, in JSON, and in an array of texts."""
    escaped = json.dumps(text)[1:-1]
    return {form.encode(encoding) for form in (text, escaped) for encoding in ("utf-8", "utf-32-le")}
