"""Verify a log: decide every list again, and compare the snapshot with a replay of the whole log."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankloop.arrays import Array
from rankloop.eventlog.events import (
    CannotReplay,
    ConfigChanged,
    DecisionMade,
    EventSkipped,
    decode_all_as,
    decode_as,
    skipped_positions,
)
from rankloop.eventlog.open_decisions import recall_from
from rankloop.eventlog.retention.pruned_history import pruned_history
from rankloop.eventlog.store import LogEntry, Store
from rankloop.math import numerics
from rankloop.serving import snapshots
from rankloop.serving.config import LoggedConfig, RankerConfig, learning_of
from rankloop.serving.decide import in_control_group, policy_list, rng_of_decision, under_caps
from rankloop.serving.rank_request import PolicyRequest
from rankloop.serving.replica import Replica
from rankloop.serving.snapshot_frame import UnusableSnapshot, payload_of
from rankloop.types import FloatArray

TOLERANCE = 1e-9
"""Relative and absolute difference up to which scores of another numerics version count as equal."""
MAX_NAMED_DIFFERENCES = 20

Configure = Callable[[Mapping[str, Any]], RankerConfig]


@dataclass
class VerifiedLists:
    """Counts of the lists of one log by the result of deciding them again."""

    decided: int = 0  # lists that a policy decided, or proposed in shadow mode
    equal: int = 0  # bit for bit
    close: int = 0  # within the tolerance, computed by another numerics version
    unknown: int = 0  # the log, of an older version, does not have their configuration
    control: int = 0  # lists of the control ranking, which no policy decided
    pruned: int = 0  # made from a state that included events which were removed later
    outdated: int = 0  # made from a state that included an event which was skipped later
    erased: int = 0  # lists of erased visitors whose group, assigned by the visitor, is taken from the log
    numerics: set[str] = field(default_factory=set)  # versions other than that of this process
    differences: list[str] = field(default_factory=list)  # descriptions of the first MAX_NAMED_DIFFERENCES

    @property
    def different(self) -> int:
        """Number of lists that came out differently."""
        return self.decided - self.equal - self.close - self.unknown - self.outdated - self.pruned

    def add_difference(self, description: str) -> None:
        """Describe a difference, unless there are many already."""
        if len(self.differences) < MAX_NAMED_DIFFERENCES:
            self.differences.append(description)


MAX_FOLLOWERS = 8
"""Replicas of one configuration that follow the log at a time."""


class _Follower:
    """A replica that follows a log up to the requested position."""

    def __init__(self, store: Store, log: str, config: RankerConfig) -> None:
        self.replica = snapshots.first_state(config, store, log)
        self._entries = store.read(log, self.replica.position)
        self._next: LogEntry | None = next(self._entries, None)

    def to(self, position: int) -> Replica:
        """Return the replica after the last event up to this position."""
        due: list[LogEntry] = []
        while self._next is not None and self._next.position <= position:
            due.append(self._next)
            self._next = next(self._entries, None)
        try:
            self.replica.follow(due)
        except CannotReplay:
            raise
        except Exception as error:
            raise CannotReplay(due[0].position, due[0].kind, error) from error
        return self.replica


def decide_again(store: Store, log: str, configure: Configure = LoggedConfig.of) -> VerifiedLists:
    """Decide every list of a log again, each from the state at the log position it was made from.

    Args:
        store: the log.
        log: the name of the ranker's log.
        configure: returns a configuration from plain settings.
    """
    configs = _configurations(store, log)
    skipped = [(int(entry.key), entry.position) for entry in store.of_kind(log, EventSkipped.kind)]
    followers: dict[str, list[_Follower]] = {}
    result, pruned = VerifiedLists(), pruned_history(store, log)
    for position, decision in _decisions(store, log):
        if decision.group == "control" and decision.proposed is None:
            result.control += 1
            continue
        result.decided += 1
        if pruned is not None and decision.position < pruned.position:
            result.pruned += 1
            continue
        settings = configs.get(decision.config)
        if settings is None:
            result.unknown += 1
            continue
        if any(event <= decision.position and position < since for event, since in skipped):
            result.outdated += 1
            continue
        learning = json.dumps(learning_of(settings), sort_keys=True)
        # Lists whose propensity was estimated are logged later than lists that were decided after them.
        started = followers.setdefault(learning, [])
        behind = [one for one in started if one.replica.position <= decision.position]
        if behind:
            follower = max(behind, key=lambda one: one.replica.position)
        else:
            follower = _Follower(store, log, configure(settings))
            started[MAX_FOLLOWERS - 1 :] = [follower]
        _compare(follower.to(decision.position), decision, log, result)
    return result


def _configurations(store: Store, log: str) -> dict[int, Mapping[str, object]]:
    """Return the logged settings of every version of the configuration."""
    events = [decode_as(ConfigChanged, entry) for entry in store.of_kind(log, ConfigChanged.kind)]
    return {event.version: event.config for event in events}


def _decisions(store: Store, log: str, page_entries: int = 1000) -> Iterator[tuple[int, DecisionMade]]:
    """Yield all decisions of a log that no operator skipped, in order, each with its position."""
    skipped, page = skipped_positions(store, log), []
    for entry in store.read(log):
        if entry.kind == DecisionMade.kind and entry.position not in skipped:
            page.append(entry)
        if len(page) == page_entries:
            yield from _decode(page)
            page = []
    yield from _decode(page)


def _decode(entries: list[LogEntry]) -> Iterator[tuple[int, DecisionMade]]:
    for entry, decision in zip(entries, decode_all_as(DecisionMade, entries), strict=True):
        yield entry.position, decision.detached()


def _compare(replica: Replica, logged: DecisionMade, log: str, result: VerifiedLists) -> None:
    """Decide one list again, and count the result."""
    logged_items = logged.items if logged.proposed is None else logged.proposed
    name = f"decision {logged.id} (number {logged.number}, from position {logged.position})"
    if replica.version != logged.config:
        result.add_difference(
            f"{name}: configuration {logged.config}, but {replica.version} at this position of the log"
        )
        return
    in_control = logged.group == "control"
    if logged.erased and _assigns_by_visitor(replica):
        control = in_control  # only the log still knows it
        result.erased += 1
    else:
        unit = logged.id if logged.visitor is None else logged.visitor
        control = in_control_group(replica.config, log, unit, tripped=replica.guardrail_tripped is not None)
    state = replica.learners.of(logged.segment)
    rng = rng_of_decision(logged.seed, logged.number, process=logged.process)
    wanted = replica.learners.logged_request(logged, logged_items)
    request = PolicyRequest(wanted, logged.segment, logged.visitor, logged.pinned, item_fields=logged.item_fields)
    decision = policy_list(replica, state, under_caps(replica, request), rng, withheld=logged.withheld).decision
    items, scores = decision.columns[0], None if decision.scores is None else decision.scores[0]
    same = np.array_equal(items, logged_items) and control == in_control
    if logged.proposed is None:
        same = same and _bits(scores) == _bits(logged.scores)
    if same:
        result.equal += 1
    elif logged.numerics != numerics.version() and _scores_close(scores, logged.scores):
        result.close += 1
    else:
        result.add_difference(f"{name}: {logged_items.tolist()} in the log, {items.tolist()} decided again")
    if logged.numerics != numerics.version():
        result.numerics.add(logged.numerics)


def _assigns_by_visitor(replica: Replica) -> bool:
    """Return whether the group depends on the visitor: not in shadow mode, nor after the guardrail tripped."""
    config = replica.config
    return config.mode != "shadow" and replica.guardrail_tripped is None and 0.0 < config.traffic < 1.0


def _bits(scores: FloatArray | None) -> bytes | None:
    return None if scores is None else scores.tobytes()


def _scores_close(one: FloatArray | None, other: FloatArray | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


@dataclass(frozen=True)
class VerificationFinding:
    """The result of comparing a snapshot with a replay of the whole log of one ranker."""

    position: int  # of the last event
    snapshot: int | None  # position of the snapshot
    usable: bool  # it has this configuration and format
    differences: list[str]
    unusable: tuple[str, ...] = ()  # one sentence about each snapshot that a start does not use
    mixed_numerics: bool = False  # made by another numerics version, so compared within the tolerance


def compare_snapshot(store: Store, log: str, config: RankerConfig) -> VerificationFinding:
    """Compare the state from the snapshot and the rest of the log with a replay of the whole log."""
    snapshot, skipped, recall = store.load_snapshot(log), skipped_positions(store, log), recall_from(store, log)
    restored, unusable = None, []
    if snapshot is not None:
        try:
            snapshots.require_following(store, log, snapshot)
            restored = snapshots.restored(config, skipped, snapshot, recall)
        except UnusableSnapshot as error:
            unusable.append(f"the snapshot at {snapshot.position} is not used: {error}.")
    challenger = store.load_snapshot(snapshots.name_of(log, challenger=True))
    if challenger is not None:
        try:
            payload_of(challenger)
        except UnusableSnapshot as error:
            unusable.append(f"the snapshot of the challenger at {challenger.position} is not used: {error}.")
    replayed = snapshots.first_state(config, store, log)
    after = replayed.position
    try:
        replayed.follow(store.read(log, after))
    except Exception:  # one by one, to name the event that cannot be applied
        snapshots.first_state(config, store, log).apply_carefully(store.read(log, after))
        raise
    mixed, differences = restored is not None and restored.mixed_numerics, []
    if restored is not None:
        restored.follow(store.read(log, restored.position), until=replayed.position)
        one, other = _state(restored), _state(replayed)
        differences = [
            f"{name}: {_difference(one.get(name), other.get(name))}"
            for name in sorted(one.keys() | other.keys())
            if not (_same(one.get(name), other.get(name)) or (mixed and _close(one.get(name), other.get(name))))
        ]
    position = None if snapshot is None else snapshot.position
    return VerificationFinding(replayed.position, position, restored is not None, differences, tuple(unusable), mixed)


def last_settings(store: Store, log: str) -> Mapping[str, object] | None:
    """Return the last settings of a log; None if it was imported, or written by an older version."""
    configs = _configurations(store, log)
    return configs[max(configs)] if configs else None


def _state(replica: Replica) -> dict[str, Array]:
    """Return the whole state of a replica as arrays."""
    header, state = snapshots.unpacked(snapshots.packed(snapshots.take(replica)))
    del header["numerics"]  # says how the state was computed
    return state | {name: np.array(json.dumps(value)) for name, value in header.items()}


def _same(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())


def _close(one: Array | None, other: Array | None) -> bool:
    """Return whether two arrays differ by rounding only, relative to their greatest number."""
    if one is None or other is None or one.shape != other.shape or not (one.dtype == other.dtype == np.float64):
        return False
    scale = float(np.max(np.abs(other), initial=1.0, where=np.isfinite(other)))
    return np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)


def _difference(one: Array | None, other: Array | None) -> str:
    """Describe the first difference of two arrays."""
    if one is None or other is None:
        return "only in the snapshot" if other is None else "only in the replay"
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype}{list(one.shape)} from the snapshot, {other.dtype}{list(other.shape)} by the replay"
    flat = np.flatnonzero([a.tobytes() != b.tobytes() for a, b in zip(one.ravel(), other.ravel(), strict=True)])
    at = int(flat[0])
    prefix = "" if one.ndim == 0 else f"{len(flat)} of {one.size} numbers, first {_index(one, at)}: "
    return f"{prefix}{one.ravel()[at]} from the snapshot, {other.ravel()[at]} by the replay"


def _index(array: Array, at: int) -> str:
    return str([int(i) for i in np.unravel_index(at, array.shape)])
