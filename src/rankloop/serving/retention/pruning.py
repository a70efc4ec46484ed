"""Prune a log: remove settled decisions and their feedback up to a position that an archive and base states cover.

Items, settings, exclusions, the guardrail and the registry of rankers stay: they are few, and everything that reads a
log from its beginning needs them. Decisions that are open at the position stay with their feedback. The state after the
last entry up to the position is stored as a base state for each policy that decided since, or follows as a challenger:
every replay begins there. All changes are made in one transaction.
"""

from __future__ import annotations

import json
import time as clocks
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rankloop.errors import InvalidInput, RankloopError, Words
from rankloop.eventlog.erasure.rewriting import SqlRewriting, SqlStore
from rankloop.eventlog.events import (
    ConfigChanged,
    DecisionMade,
    FeedbackReceived,
    HistoryPruned,
    WindowClosed,
    Withdrawn,
    decode_as,
)
from rankloop.eventlog.events.pruning import BASE, base_name
from rankloop.eventlog.retention.archive import identity, require_same_log
from rankloop.eventlog.retention.archive_parts import ArchivePart
from rankloop.eventlog.retention.import_archive import existing_parts
from rankloop.eventlog.retention.pruned_history import pruned_history
from rankloop.eventlog.retention.whole_log import LoggedEntry, all_entries
from rankloop.eventlog.store import LogEntry, Snapshot, Store, StoreUnavailable
from rankloop.serving import snapshots
from rankloop.serving.config import LoggedConfig
from rankloop.serving.replay_progress import ReplayProgress
from rankloop.serving.replica import Replica

REMOVABLE = (DecisionMade.kind, FeedbackReceived.kind, WindowClosed.kind, Withdrawn.kind)
"""Kinds of entries that are removed; without their entries of items and settings, later ones would mean nothing."""
MIN_AGE_SECONDS = 86400.0
"""How old entries must be: requests are repeated with the same ids for at most a day."""
Settings = Mapping[str, object]


@dataclass(slots=True)
class PrunedLog:
    """What is removed from the log of one ranker."""

    log: str
    position: int  # of its last entry before the date
    bases: dict[str, Snapshot]
    learning: dict[str, Settings]  # of the bases, by their names
    decided: int  # number of the last decision
    open: frozenset[str]  # ids of the decisions that are open at the position
    removed_before: int
    entries: int = 0  # that are removed
    decisions: int = 0  # of these

    def removes(self, entry: LogEntry) -> bool:
        """Return whether an entry is removed; count it if so."""
        if entry.position > self.position or entry.kind not in REMOVABLE or entry.subject in self.open:
            return False
        self.entries += 1
        self.decisions += entry.kind == DecisionMade.kind
        return True


@dataclass(frozen=True, slots=True)
class Pruning:
    """What was removed from a log, and which rankers' logs were left as they are."""

    pruned: list[PrunedLog]
    kept: dict[str, str]  # why, by the name of the log


def prune(
    store: SqlStore,
    folder: Path,
    before: float,
    challengers: Mapping[str, Settings],
    now: float | None = None,
) -> Pruning:
    """Remove entries before a time; return what was removed. Disk space is released in any case.

    Args:
        store: must not be in use by another process.
        folder: of the archive, which must have every entry that is removed.
        before: in seconds since 1970.
        challengers: settings of the challengers that follow the logs, by the name of the log.
        now: in seconds since 1970.
    """
    now = clocks.time() if now is None else now
    if before > now - MIN_AGE_SECONDS:
        raise InvalidInput("--before", Words("a later time"), "a time that is more than 24 hours ago")
    parts = existing_parts(folder)
    require_same_log(parts, identity(store), store.last_position())
    position = _last_before(store, before)
    if position > parts[-1].about.last:
        accepted = f"one that covers the log up to position {position}; run `rankloop log archive` first"
        raise InvalidInput("archive", Words(f"complete up to position {parts[-1].about.last}"), accepted)
    plans, kept = dict[str, PrunedLog](), dict[str, str]()
    for log in filter(None, store.rankers()):
        try:
            plan = _plan(store, log, position, challengers.get(log))
        except StoreUnavailable:
            raise
        except RankloopError as error:
            kept[log] = str(error)
        else:
            plans |= {} if plan is None else {log: plan}
    ranges = list(_ranges(_compared(store, folder, parts, position), plans))
    done = [plan for plan in plans.values() if plan.entries]
    if done:
        outdated = _outdated_snapshots(store, done)
        events = [(plan.log, _event(store, plan, now).entry()) for plan in done]
        with store.rewriting() as rewriting:
            _replace_bases(rewriting, done, outdated)
            for log, entry in events:
                rewriting.append(log, entry)
            rewriting.delete(ranges)
    store.purge()
    return Pruning(done, kept)


def _last_before(store: Store, before: float) -> int:
    """Return the position before the first entry at a time or later."""
    last = 0
    for _, entry in all_entries(store):
        if entry.time >= before:
            break
        last = entry.position
    return last


# Base states


def _plan(store: Store, log: str, until: int, challenger: Settings | None) -> PrunedLog | None:
    """Return what can be removed from a log, with the base states after it; None if it has nothing so old."""
    pruned = pruned_history(store, log)
    configs = [(entry.position, decode_as(ConfigChanged, entry)) for entry in store.of_kind(log, ConfigChanged.kind)]
    if not configs:
        raise InvalidInput("log", log, "a log with the settings of its ranker, which an imported one lacks")
    begin = 0 if pruned is None else pruned.position
    if configs[0][0] > until or begin >= until or store.count(log, begin) == store.count(log, until):
        return None
    in_force = [event.config for _, event in [one for one in configs if one[0] <= until][-1:]]
    later = [event.config for position, event in configs if position > until]
    wanted: dict[str, LoggedConfig] = {}
    for settings in [*in_force, *later, *([] if challenger is None else [challenger])]:
        config = LoggedConfig.of(settings)
        wanted.setdefault(json.dumps(config.learning(), sort_keys=True), config)
    replicas = [_followed(store, log, config, until) for config in wanted.values()]
    bases = {base_name(log, number): snapshots.base_of(replica) for number, replica in enumerate(replicas)}
    _check(store, log, bases, replicas)
    return PrunedLog(
        log=log,
        position=replicas[0].position,
        bases=bases,
        learning={name: replica.config.learning() for name, replica in zip(bases, replicas, strict=True)},
        decided=max(replica.decided for replica in replicas),
        open=frozenset(id for replica in replicas for id in replica.open_decisions),
        removed_before=0 if pruned is None else pruned.removed,
    )


def _followed(store: Store, log: str, config: LoggedConfig, until: int) -> Replica:
    """Return the replica with these settings after the last entry up to a position."""
    replica = snapshots.first_state(config, store, log)
    after = replica.position
    progress = ReplayProgress(log, lambda: store.count(log, after) - store.count(log, until))
    replica.follow(progress.watched(store.read(log, after)), until=until)
    return replica


def _check(store: Store, log: str, bases: Mapping[str, Snapshot], replicas: list[Replica]) -> None:
    """Refuse base states that do not give back the states that they were made of."""
    for base, replica in zip(bases.values(), replicas, strict=True):
        again = snapshots.from_base(replica.config, store, log, base)
        if snapshots.base_of(again) != base:
            raise InvalidInput("log", log, "a log whose state can be stored and restored")


def _outdated_snapshots(store: Store, plans: list[PrunedLog]) -> list[str]:
    """Return the names of snapshots that entries follow which are removed."""
    titles = [(plan, snapshots.name_of(plan.log, challenger=c)) for plan in plans for c in (False, True)]
    found = [(plan, title, store.load_snapshot(title)) for plan, title in titles]
    return [title for plan, title, one in found if one is not None and one.position < plan.position]


def _replace_bases(rewriting: SqlRewriting, plans: list[PrunedLog], outdated: list[str]) -> None:
    """Delete the snapshots that cannot be used any more, and store the new base states."""
    logs = {plan.log for plan in plans}
    for name in rewriting.snapshots():
        log, mark, _ = name.partition(BASE)
        if name in outdated or (mark and log in logs):
            rewriting.delete_snapshot(name)
    for plan in plans:
        for name, base in plan.bases.items():
            rewriting.put_snapshot(name, base)


def _event(store: Store, plan: PrunedLog, now: float) -> HistoryPruned:
    before = store.count(plan.log) - store.count(plan.log, plan.position)
    return HistoryPruned(
        time=now,
        position=plan.position,
        decided=plan.decided,
        removed=plan.removed_before + plan.entries,
        left=before - plan.entries,
        bases=plan.learning,
    )


# Entries


def _compared(store: Store, folder: Path, parts: list[ArchivePart], until: int) -> Iterator[tuple[bool, LoggedEntry]]:
    """Yield the entries up to a position, each with whether the archive has the same one."""
    archived = (one for part in parts for one in part.read())
    for logged in all_entries(store, until=until):
        found = next((one for one in archived if one[1].position >= logged[1].position), None)
        yield found == logged, logged


def _ranges(entries: Iterator[tuple[bool, LoggedEntry]], plans: Mapping[str, PrunedLog]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of positions between which all entries are removed; refuse if the archive lacks one of them."""
    first = last = 0
    for is_archived, (ranker, entry) in entries:
        plan = plans.get(ranker)
        if plan is not None and plan.removes(entry):
            if not is_archived:
                accepted = "one with the same entries; archive the log into a new folder"
                raise InvalidInput("archive", Words(f"different from the log at position {entry.position}"), accepted)
            first, last = first or entry.position, entry.position
        elif first:
            yield first, last
            first = 0
    if first:
        yield first, last
