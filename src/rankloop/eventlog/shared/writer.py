"""The writer of a process that shares its log: it appends, and applies the entries of all processes in one order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Protocol

from rankloop.errors import RankloopError
from rankloop.eventlog.shared.store import MAX_FOLLOWED_ENTRIES, LogEnd, RankerEntry, SharedStore
from rankloop.eventlog.store import LogEntry, LogMoved, StoreUnavailable
from rankloop.eventlog.writer import (
    BATCH_WINDOW_SECONDS,
    MAX_BATCH_ENTRIES,
    MAX_QUEUED_ENTRIES,
    RETRY_SECONDS,
    Apply,
    Commit,
    Follow,
    Submission,
    Writer,
    no_results,
)

IDLE_POLL_SECONDS = 0.2
"""Pause between two looks at the end of the log while notifications arrive and this process writes nothing."""
DEAF_POLL_SECONDS = 0.02
"""The same while notifications do not arrive."""
PACE_SECONDS = 0.005
"""Least time from one append to the next: under load, more entries share one, here and where they are followed."""
MAX_WAIT_SECONDS = 2.0
"""How long a caller waits for an entry that is in the log and not applied here."""
log = logging.getLogger("rankloop.eventlog")


class Watch(Protocol):
    """What tells a writer of the other processes."""

    @property
    def leads(self) -> bool:
        """Whether this process holds the lease."""

    @property
    def listens(self) -> bool:
        """Whether it would say when another process appends."""

    def start(self, ring: Callable[[], None]) -> None:
        """Call a function when another process has appended entries."""

    def close(self) -> None:
        """Stop, and give up the lease."""


class _Following(NamedTuple):
    own: Apply[object]  # of its own entries
    apply: Follow  # of all others


class _Awaited(NamedTuple):
    position: int  # that a caller waits for
    deadline: float  # in monotonic time
    commit: Commit[None]


class SharedWriter(Writer):
    """Appends entries wherever the log ends, and applies every entry of the log, those of other processes included.

    An append reads, under the log's lock, what others have written since the last one. These entries are applied first,
    then its own: every process applies the same entries in the same order. While there is nothing to append, the
    writer looks at the end of the log when another process says that it has appended, and from time to time.

    Most entries are appended unconditionally, since what becomes of them is decided when they are applied. An entry
    with a `check` is appended alone: the check sees the state right before the entry, while nobody else can append.

    Args:
        store: the log.
        watch: tells when other processes append, and holds the lease.
        queue_limit: upper limit of the entries that wait for their commit.
    """

    store: SharedStore

    def __init__(self, store: SharedStore, watch: Watch | None = None, *, queue_limit: int = MAX_QUEUED_ENTRIES):
        self._watch = watch
        self._followers: dict[str, _Following] = {}
        self._rung = False  # another process has appended
        self._end = store.end()  # as far as it is applied here
        self._complete_at = time.monotonic()  # when everything that was committed was applied here
        self._own_end: LogEnd | None = None  # of entries that were appended just now and are not applied yet
        self._awaited: list[_Awaited] = []
        super().__init__(store, queue_limit=queue_limit)
        if watch is not None:
            watch.start(self.ring)

    @property
    def leads(self) -> bool:
        """Whether this process holds the lease."""
        return self._watch is None or self._watch.leads

    @property
    def process(self) -> int:
        """The number of this process."""
        return self.store.process

    @property
    def applied(self) -> int:
        """The log position up to which every entry is applied here."""
        return self._end.position

    @property
    def lag(self) -> float | None:
        """Seconds since everything that was committed then was applied here."""
        return time.monotonic() - self._complete_at

    def follow(self, ranker: str, own: Apply[object], apply: Follow, catch_up: Callable[[int], None]) -> None:
        """Apply what the log has got for a ranker until now, then what it gets, without a gap."""

        def begin() -> None:
            catch_up((self._own_end or self._end).position)
            self._followers[ranker] = _Following(own, apply)

        commit: Commit[None] = self._new_commit()
        self._enqueue(Submission("", None, None, no_results, begin, commit))
        commit.result()

    def unfollow(self, ranker: str) -> None:
        """Follow a ranker no longer."""
        self._followers.pop(ranker, None)

    def reached(self, position: int, seconds: float) -> Commit[None]:
        """Return a commit that is done when the log is applied here up to a position; it fails after some seconds."""
        commit: Commit[None] = self._new_commit()
        with self._changed:
            self.require_claim()
            if self._end.position < position:
                self._awaited.append(_Awaited(position, time.monotonic() + seconds, commit))
                self._rung = True
                self._changed.notify()
                return commit
        commit.set_result(None)
        return commit

    def wait_for(self, position: int) -> None:
        """Wait until the log is applied up to a position."""
        self.reached(position, MAX_WAIT_SECONDS).result()

    def ring(self) -> None:
        """Look at the end of the log soon."""
        with self._changed:
            self._rung = True
            if self._idle:
                self._changed.notify()

    def close(self) -> None:
        """Write what is queued, then stop and give up the lease."""
        super().close()
        if self._watch is not None:
            self._watch.close()

    # On the writer's thread

    def _run(self) -> None:
        delay = BATCH_WINDOW_SECONDS
        while not self._moved:
            batch = self._next_batch(delay)
            if not batch and self._closed:
                break
            started = time.monotonic()
            done = self._write(batch) if batch or self.refusal is not None else self._look()
            self._answer_awaited()
            if not self._closed:
                time.sleep(max(0.0, started + PACE_SECONDS - time.monotonic()))
            delay = BATCH_WINDOW_SECONDS if done else RETRY_SECONDS

    def _next_batch(self, delay: float) -> list[Submission]:
        with self._changed:
            # Rings within the window share one look, as entries without a waiter share one commit.
            self._changed.wait_for(lambda: self._waited_for or self._closed or self._awaited, delay)
            if not (self._queue or self._rung or self._closed or self.refusal):
                deaf = self._watch is None or not self._watch.listens
                self._idle = True
                self._changed.wait_for(
                    lambda: self._queue or self._rung or self._closed,
                    DEAF_POLL_SECONDS if deaf else IDLE_POLL_SECONDS,
                )
                self._idle = False
                if self._queue and not self._waited_for:
                    self._changed.wait_for(lambda: self._waited_for or self._closed, delay)
            self._rung = False
            return self._take_batch()

    def _take_batch(self) -> list[Submission]:
        """Take entries up to the next one with a check, which is appended alone."""
        batch: list[Submission] = []
        while self._queue and len(batch) < MAX_BATCH_ENTRIES and not (batch and self._queue[0].check is not None):
            batch.append(self._queue.popleft())
            if batch[-1].check is not None:
                break
        self._waited_for -= sum(one.commit is not None for one in batch)
        return batch

    def _write(self, batch: list[Submission]) -> bool:
        written = super()._write(batch)
        if self._own_end is not None:  # applied by now
            self._end, self._own_end = self._own_end, None
        return written

    def _append(self, batch: list[Submission]) -> list[int | None]:
        entries = [(one.ranker, one.entry) for one in batch if one.entry is not None]
        check = batch[0].check if batch else None
        wanted = None if check is None else lambda found: self._refusal(found, check)
        while True:
            appended = self.store.append_after(self._end, entries, wanted)
            if check is None or (appended.positions is None and appended.refusal is None):
                self._apply_found(appended.found)
            if appended.refusal is not None:
                self._refuse(batch, appended.refusal)
                return []
            if appended.positions is not None:
                break
        stored = list(appended.positions)
        new = [(*one, position) for one, position in zip(entries, stored, strict=True) if position is not None]
        if new:
            ranker, entry, position = new[-1]
            self._own_end = LogEnd(position, ranker, entry.kind, entry.key, entry.time)
        self._complete_at = time.monotonic()
        return stored

    def _refusal(self, found: Sequence[RankerEntry], check: Callable[[], None]) -> RankloopError | None:
        """Apply what was found; return why the entry is refused then, if it is."""
        self._apply_found(found)
        try:
            check()
        except RankloopError as error:
            return error
        return None

    def _refuse(self, batch: list[Submission], error: RankloopError) -> None:
        """Refuse the one entry of a batch that was checked."""
        (one,) = batch
        batch.clear()
        if one.commit is not None:
            one.commit.set_exception(error)

    def _look(self) -> bool:
        """Apply what other processes have appended; False if the log could not be read."""
        try:
            while True:
                started = time.monotonic()
                found = self.store.found_after(self._end)
                self._apply_found(found)
                if len(found) < MAX_FOLLOWED_ENTRIES:
                    break
        except LogMoved as error:
            log.error("%s", error)
            self._moved = True
            self._fail([], error, refusal=error)
            return False
        except Exception as error:
            log.warning("the log cannot be followed now: %s", error)
            return False
        self._complete_at = started
        return True

    def _apply_found(self, found: Sequence[RankerEntry]) -> None:
        for ranker, group in groupby(found, key=attrgetter("ranker")):
            self._tell(ranker, [one.entry for one in group])
        if found:
            self._end = LogEnd.of(*found[-1])
            self._last = self._end.position

    def _apply_own(self, apply: Apply[object], committed: list[tuple[Submission, int]]) -> None:
        super()._apply_own(apply, committed)
        ranker = committed[0][0].ranker
        follower = self._followers.get(ranker)
        if follower is not None and follower.own != apply:  # by a ranker that was opened again meanwhile
            entries = [one.entry._replace(position=position) for one, position in committed if one.entry is not None]
            self._tell(ranker, entries)

    def _tell(self, ranker: str, entries: Sequence[LogEntry]) -> None:
        """Let a ranker apply entries that it has not submitted itself."""
        follower = self._followers.get(ranker)
        if follower is None:
            return
        try:
            follower.apply(entries)
        except Exception:
            log.exception("entries of the log could not be applied to ranker %s", ranker)

    def _answer_awaited(self) -> None:
        """Wake the callers whose position is applied, and those that have waited for too long."""
        if not self._awaited:
            return
        now = time.monotonic()
        left: list[_Awaited] = []
        with self._changed:
            awaited, self._awaited = self._awaited, left
            for one in awaited:
                if one.position > self._end.position and one.deadline > now and not self._moved:
                    left.append(one)
        for one in awaited:
            if one.position <= self._end.position:
                one.commit.set_result(None)
            elif one not in left:
                one.commit.set_exception(
                    StoreUnavailable(f"the log is applied up to {self._end.position} here, not to {one.position} yet.")
                )
        self._wakeups.send()
