"""Verify a log: decide every list again, and compare its snapshot with a replay of all of it."""

from __future__ import annotations

import io
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
from rankloop.eventlog.store import LogEntry, Store
from rankloop.math import numerics
from rankloop.serving import snapshots
from rankloop.serving.config import LoggedConfig, RankerConfig, learning_of
from rankloop.serving.decide import in_control_group, policy_list, rng_of_decision
from rankloop.serving.rank_request import PolicyRequest
from rankloop.serving.replica import Replica
from rankloop.types import EMPTY, FloatArray, IntArray

TOLERANCE = 1e-9
"""Relative difference of scores up to which a list of other numerics counts as the same."""
MAX_NAMED_DIFFERENCES = 20

Configure = Callable[[Mapping[str, Any]], RankerConfig]


@dataclass
class VerifiedLists:
    """What became of the lists of one log when they were decided again."""

    decided: int = 0  # lists that a policy decided, or proposed in shadow mode
    equal: int = 0  # bit for bit
    close: int = 0  # of other numerics, and equal within the tolerance
    unknown: int = 0  # written before decisions said from which state they were made
    control: int = 0  # lists that showed the control ranking, which no policy decided
    outdated: int = 0  # made from a state that knew an event which was excluded later
    numerics: set[str] = field(default_factory=set)  # other ones than those of this process
    differences: list[str] = field(default_factory=list)  # the first few, in words

    @property
    def different(self) -> int:
        """Lists that did not come out again."""
        return self.decided - self.equal - self.close - self.unknown - self.outdated

    def differ(self, words: str) -> None:
        """Note a difference, unless there are many already."""
        if len(self.differences) < MAX_NAMED_DIFFERENCES:
            self.differences.append(words)


class _Follower:
    """A replica that follows a log as far as it is asked to."""

    def __init__(self, store: Store, log: str, config: RankerConfig) -> None:
        self.replica = Replica(config, skipped_positions(store, log))
        self._entries = store.read(log)
        self._next: LogEntry | None = next(self._entries, None)

    def to(self, position: int) -> Replica:
        """The replica after the last event up to this position."""
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
    """Decide every list of a log again, each from the state that it says it was made from.

    Args:
        store: the log.
        log: the name of the ranker's log.
        configure: makes a configuration of plain settings.
    """
    configs = _configurations(store, log)
    excluded = [(int(entry.key), entry.position) for entry in store.of_kind(log, EventSkipped.kind)]
    followers: dict[str, _Follower] = {}
    found = VerifiedLists()
    for position, shown in _lists(store, log):
        if shown.group == "control" and shown.proposed is None:
            found.control += 1
            continue
        found.decided += 1
        settings = configs.get(shown.config)
        if settings is None:
            found.unknown += 1
            continue
        if any(event <= shown.position and position < since for event, since in excluded):
            found.outdated += 1
            continue
        learning = json.dumps(learning_of(settings), sort_keys=True)
        follower = followers.get(learning)
        if follower is None or follower.replica.position > shown.position:
            follower = followers[learning] = _Follower(store, log, configure(settings))
        _compare(follower.to(shown.position), shown, log, found)
    return found


def _configurations(store: Store, log: str) -> dict[int, Mapping[str, object]]:
    """The settings of every version of the configuration, as the log says."""
    events = [decode_as(ConfigChanged, entry) for entry in store.of_kind(log, ConfigChanged.kind)]
    return {event.version: event.config for event in events}


def _lists(store: Store, log: str, page: int = 1000) -> Iterator[tuple[int, DecisionMade]]:
    """All lists of a log that no operator has excluded, in its order, each with its position."""
    skipped, some = skipped_positions(store, log), []
    for entry in store.read(log):
        if entry.kind == DecisionMade.kind and entry.position not in skipped:
            some.append(entry)
        if len(some) == page:
            yield from _decoded(some)
            some = []
    yield from _decoded(some)


def _decoded(entries: list[LogEntry]) -> Iterator[tuple[int, DecisionMade]]:
    for entry, shown in zip(entries, decode_all_as(DecisionMade, entries), strict=True):
        yield entry.position, shown.detached()


def _compare(replica: Replica, shown: DecisionMade, log: str, found: VerifiedLists) -> None:
    """Decide one list again, and count what came of it."""
    there = shown.items if shown.proposed is None else shown.proposed
    words = f"decision {shown.id} (number {shown.number}, from position {shown.position})"
    if replica.version != shown.config:
        found.differ(f"{words}: configuration {shown.config}, the log says {replica.version} there")
        return
    who = shown.id if shown.visitor is None else shown.visitor
    control = in_control_group(replica.config, log, who, tripped=replica.guardrail_tripped is not None)
    state, rng = replica.learners.of(shown.segment), rng_of_decision(shown.seed, shown.number)
    made = policy_list(replica, state, _asked(replica, shown, there), rng, withheld=shown.withheld).decision
    again, scores = made.items[0], made.scores
    same = np.array_equal(again, there) and control == (shown.group == "control")
    ours, theirs = (None if scores is None else scores[0]), shown.scores
    if shown.proposed is None:
        same = same and _bits(ours) == _bits(theirs)
    if same:
        found.equal += 1
    elif shown.numerics != numerics.version() and _near(ours, theirs):
        found.close += 1
    else:
        found.differ(f"{words}: {there.tolist()} in the log, {again.tolist()} decided again")
    if shown.numerics != numerics.version():
        found.numerics.add(shown.numerics)


def _asked(replica: Replica, shown: DecisionMade, there: IntArray) -> PolicyRequest:
    """The question that a list answered."""
    learners, table, k = replica.learners, replica.items, len(there)
    allowed = table.enabled
    if shown.allowed is not None:
        allowed = np.unpackbits(shown.allowed)[: table.capacity].astype(np.bool_)
    pinned = None
    if shown.pinned:
        pinned = np.full(k, EMPTY, dtype=np.int64)
        pinned[list(shown.pinned)] = there[list(shown.pinned)]
    context = None if shown.context is None else shown.context[None, :]
    request = learners.request(k, context, allowed=allowed, pinned=pinned)
    return PolicyRequest(request, shown.segment, shown.visitor, shown.pinned, 0, shown.allowed is not None, None)


def _bits(scores: FloatArray | None) -> bytes | None:
    return None if scores is None else scores.tobytes()


def _near(ours: FloatArray | None, theirs: FloatArray | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


@dataclass(frozen=True)
class VerificationFinding:
    """What a snapshot and a replay of one ranker's whole log have in common."""

    position: int  # of the last event
    snapshot: int | None  # position of the snapshot
    usable: bool  # it is of this configuration, version and numerics
    differences: list[str]


def compare_snapshot(store: Store, log: str, config: RankerConfig) -> VerificationFinding:
    """Compare the snapshot and the rest of a log with a replay of all of it."""
    kept, skipped = store.load_snapshot(log), skipped_positions(store, log)
    short, whole = Replica(config, skipped), Replica(config, skipped)
    try:
        usable = kept is not None and snapshots.restore(short, kept)
    except Exception:  # whatever a damaged snapshot does to its reader
        usable = False
    try:
        whole.follow(store.read(log))
    except Exception:  # many events at once do not say which of them cannot be applied
        Replica(config, skipped).apply_carefully(store.read(log))
        raise
    differences: list[str] = []
    if usable:
        short.follow(store.read(log, short.position), until=whole.position)
        one, other = _state(short), _state(whole)
        differences = [
            f"{name}: {_difference(one.get(name), other.get(name))}"
            for name in sorted(one.keys() | other.keys())
            if not _same(one.get(name), other.get(name))
        ]
    return VerificationFinding(whole.position, None if kept is None else kept.position, usable, differences)


def last_settings(store: Store, log: str) -> Mapping[str, object] | None:
    """The settings that a log ends with; None where it was imported, or written by an older version."""
    configs = _configurations(store, log)
    return configs[max(configs)] if configs else None


def _state(replica: Replica) -> dict[str, Array]:
    """All that a replica knows, as arrays."""
    taken = snapshots.packed(snapshots.take(replica))
    with np.load(io.BytesIO(taken.body), allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    head = json.loads(str(found.pop("header")))
    return found | {name: np.array(json.dumps(value)) for name, value in head.items()}


def _same(one: Array | None, other: Array | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())


def _difference(one: Array | None, other: Array | None) -> str:
    """Where two arrays differ first."""
    if one is None or other is None:
        return "only in the snapshot" if other is None else "only in the replay"
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{one.dtype}{list(one.shape)} from the snapshot, {other.dtype}{list(other.shape)} by the replay"
    flat = np.flatnonzero([a.tobytes() != b.tobytes() for a, b in zip(one.ravel(), other.ravel(), strict=True)])
    at = int(flat[0])
    where = "" if one.ndim == 0 else f"{len(flat)} of {one.size} numbers, first {_index(one, at)}: "
    return f"{where}{one.ravel()[at]} from the snapshot, {other.ravel()[at]} by the replay"


def _index(array: Array, at: int) -> str:
    return str([int(i) for i in np.unravel_index(at, array.shape)])
