"""The log's writer: one thread, one bounded queue, group commit."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from copy import copy
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from rankloop.eventlog.store import ClaimLost, LogEntry, LogMoved, Store, StoreUnavailable

MAX_BATCH_ENTRIES = 512
"""Entries of one commit."""
MAX_QUEUED_ENTRIES = 10_000
"""Entries that wait for their commit; beyond this limit the writer pushes back and refuses more."""
BATCH_WINDOW_SECONDS = 0.02
"""How long entries without a waiter are held back, so that they share a commit with the entries that follow."""
RETRY_SECONDS = 0.2
"""Pause before entries without a waiter are written again after a failure."""
log = logging.getLogger("rankloop.eventlog")

T = TypeVar("T")
Apply = Callable[[Sequence[tuple[int, Any]]], Sequence[T]]
"""Applies (position, event) pairs of one ranker in log order and returns the result of each."""
Follow = Callable[[Sequence[LogEntry]], None]
"""Applies entries of one ranker that another process wrote, in log order."""


class Commit(Future[T]):
    """The outcome of a submitted entry: `result()` waits in a thread, `await` waits on an event loop.

    It is done after the entry was committed and applied. Giving up the wait does not cancel the write.
    """

    position: int | None = None  # of the log, once it is done: the entry is applied there

    def __init__(self, wakeups: _Wakeups) -> None:
        super().__init__()
        self._wakeups = wakeups
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[object, None, T]:
        """Wait on the running event loop."""
        if self.done():
            return self.result()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()
        self.add_done_callback(lambda _: self._wakeups.add(loop, waiter, self))
        if self.done():
            self._wakeups.send()
        return (yield from waiter)


class _Wakeups:
    """Wakes every event loop once for all commits of a batch."""

    def __init__(self) -> None:
        self._due: deque[tuple[asyncio.AbstractEventLoop, Callable[[], None]]] = deque()

    def add(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[T], commit: Commit[T]) -> None:
        """Note a waiter whose commit is done."""
        self._due.append((loop, lambda: _resolve(waiter, commit)))

    def send(self) -> None:
        """Wake the waiters noted so far."""
        loops: dict[asyncio.AbstractEventLoop, list[Callable[[], None]]] = {}
        while True:
            try:
                loop, resolve = self._due.popleft()
            except IndexError:
                break
            loops.setdefault(loop, []).append(resolve)
        for loop, resolves in loops.items():
            try:
                loop.call_soon_threadsafe(_call_all, resolves)
            except RuntimeError:  # the loop has ended, and its waiters with it
                log.debug("an event loop ended before its commits were done")


def _call_all(functions: Sequence[Callable[[], None]]) -> None:
    for function in functions:
        function()


def _resolve(waiter: asyncio.Future[T], commit: Commit[T]) -> None:
    if waiter.done():  # cancelled
        return
    error = commit.exception()
    if error is None:
        waiter.set_result(commit.result())
    else:
        waiter.set_exception(error)


class Submission(NamedTuple):
    """An entry that waits for its commit, with what happens then."""

    ranker: str
    entry: LogEntry | None  # None: a barrier
    event: object
    apply: Apply[Any]
    duplicate: Callable[[], object] | None  # makes the result of an entry that was committed before
    commit: Commit[Any] | None  # None: no one waits
    check: Callable[[], None] | None = None  # refuses the entry, given the state in which the log would get it


class Writer:
    """Appends entries to a log, then applies them, both in one order and on one thread.

    The thread drains the queue and appends what it took in one transaction (group commit). Then it applies the events,
    consecutive ones of a ranker in one call, and wakes the waiters. Entries without a waiter are committed with the
    next entry that has one, or when the batch window ends. If the log cannot be written, every waiter gets the error;
    entries without a waiter stay at the head of the queue and are written again.

    Every append demands that the log ends where this writer's last append ended, so that entries are only added to
    events that were applied here. While another process holds the claim to the log, the writer refuses entries and
    tries to claim the log again; after another process has written, it refuses everything for good.

    Args:
        store: the log. A state is read from it after the writer was created, so that no event is missed in between.
        queue_limit: upper limit of the entries that wait for their commit.
    """

    def __init__(self, store: Store, *, queue_limit: int = MAX_QUEUED_ENTRIES) -> None:
        self.store, self._limit = store, queue_limit
        self._queue: deque[Submission] = deque()
        self._waited_for = 0  # entries of the queue that have a waiter
        self._last = store.last_position()  # of the log, as far as it is applied here
        self._moved = False  # another process has written to the log
        self.refusal: StoreUnavailable | None = None  # why entries are refused: another process serves the log
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._idle = False  # the thread sleeps until an entry comes
        self._wakeups = _Wakeups()
        self._thread = threading.Thread(target=self._run, name="rankloop-writer", daemon=True)
        self._start()

    def _start(self) -> None:
        self._thread.start()

    def _new_commit(self) -> Commit[T]:
        return Commit(self._wakeups)

    @property
    def leads(self) -> bool:
        """Whether this process closes windows, watches the guardrail and stores snapshots: alone it always does."""
        return True

    @property
    def process(self) -> int:
        """Number of this process among those that share the log, from 1; 0 where it is alone."""
        return 0

    def follow(self, ranker: str, own: Apply[object], apply: Follow, catch_up: Callable[[int], None]) -> None:
        """Let a ranker follow what other processes write, from the end of the log on: here nobody else writes.

        Args:
            ranker: the log that is followed.
            own: what the ranker gives to `submit` to apply the entries that it submits itself.
            apply: applies entries that others have submitted, in log order.
            catch_up: applies what the log has up to a position, before `apply` is called for the first time.
        """

    def unfollow(self, ranker: str) -> None:
        """Follow a ranker no longer, since it is deleted."""

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def require_claim(self) -> None:
        """Refuse if another process serves the log."""
        if self.refusal is not None:
            raise copy(self.refusal)  # an exception that is raised again and again would collect traceback entries

    @property
    def queued(self) -> int:
        """Return the number of entries that wait for their commit."""
        return len(self._queue)

    def submit(
        self,
        ranker: str,
        entry: LogEntry,
        event: object,
        apply: Apply[T],
        duplicate: Callable[[], T] | None = None,
        check: Callable[[], None] | None = None,
    ) -> Commit[T]:
        """Queue an entry; the commit has the result of `apply` once the entry is durable and applied.

        Args:
            ranker: the log of the entry.
            entry: the entry.
            event: passed to `apply` together with the position.
            apply: called after the commit.
            duplicate: called instead if the log has an entry of this kind and key already.
            check: called by a writer that shares its log, in the state right before the entry; what it raises refuses
                the entry. Here nobody else can have changed what the caller has checked.
        """
        commit: Commit[T] = self._new_commit()
        self._enqueue(Submission(ranker, entry, event, apply, duplicate, commit, check))
        return commit

    def post(self, ranker: str, entry: LogEntry, event: object, apply: Apply[object]) -> None:
        """Queue an entry without a waiter."""
        self._enqueue(Submission(ranker, entry, event, apply, None, None))

    def barrier(self) -> Commit[None]:
        """Return a commit that is done when everything submitted so far is committed and applied.

        It fails if the log cannot be written now, or if another process serves it.
        """
        barrier: Commit[None] = self._new_commit()
        self._enqueue(Submission("", None, None, no_results, None, barrier))
        return barrier

    @property
    def lag(self) -> float | None:
        """Seconds since everything that was committed then was applied here; None where nobody else writes."""
        return None

    def wait_for(self, position: int) -> None:
        """Wait until an entry that is in the log is applied; fail if this process cannot apply it."""
        self.flush()

    def reached(self, position: int, seconds: float) -> Commit[None]:
        """Return a commit that is done when the log is applied up to a position; fails if it is not after some time."""
        commit: Commit[None] = self._new_commit()
        if position <= self._last:  # nobody is told a position before it is applied
            commit.set_result(None)
        else:
            commit.set_exception(StoreUnavailable(f"the log ends at position {self._last}, not at {position} yet."))
        return commit

    def flush(self) -> None:
        """Wait until everything submitted so far is committed and applied."""
        self.barrier().result()

    def close(self) -> None:
        """Write what is queued, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _enqueue(self, one: Submission) -> None:
        with self._changed:
            if self._closed:
                raise StoreUnavailable("the log is closed.")
            self.require_claim()
            if one.entry is not None and len(self._queue) >= self._limit:
                raise StoreUnavailable(f"{self._limit} entries wait for their commit, which is the limit; try again.")
            self._queue.append(one)
            if one.commit is not None:
                self._waited_for += 1
            if self._idle or (one.commit is not None and self._waited_for == 1):
                self._changed.notify()

    def _run(self) -> None:
        delay = BATCH_WINDOW_SECONDS
        while (batch := self._next_batch(delay)) or (self.refusal is not None and not self._closed):
            delay = BATCH_WINDOW_SECONDS if self._write(batch) else RETRY_SECONDS
            if self._moved:
                break

    def _next_batch(self, delay: float) -> list[Submission]:
        """Wait for entries and take a batch; empty when the writer is closed and has nothing left, or refuses."""
        with self._changed:
            # The window comes first: entries without a waiter need not wake a thread that has just been busy.
            self._changed.wait_for(lambda: self._waited_for or self._closed, delay)
            if not self._queue and self.refusal is None:
                self._idle = True
                self._changed.wait_for(lambda: self._queue or self._closed)
                self._idle = False
                self._changed.wait_for(lambda: self._waited_for or self._closed, delay)
            return self._take_batch()

    def _take_batch(self) -> list[Submission]:
        batch = [self._queue.popleft() for _ in range(min(MAX_BATCH_ENTRIES, len(self._queue)))]
        self._waited_for -= sum(one.commit is not None for one in batch)
        return batch

    def _write(self, batch: list[Submission]) -> bool:
        """Commit and apply a batch, then wake its waiters; False if the log could not be written."""
        try:
            stored = self._append(batch)
        except ClaimLost as error:
            self._fail(batch, error, refusal=error)
            return False
        except LogMoved as error:
            log.error("%s", error)
            self._moved = True
            self._fail(batch, error, refusal=error)
            return False
        except Exception as error:
            self._fail(batch, error)
            return False
        self.refusal = None
        self._last = next((position for position in reversed(stored) if position is not None), self._last)
        positions = iter(stored)
        committed = [(one, None if one.entry is None else next(positions)) for one in batch]
        new = ((one, position) for one, position in committed if position is not None)
        for apply, group in groupby(new, key=lambda pair: pair[0].apply):
            self._apply_own(apply, list(group))
        for one, position in committed:
            if position is None:
                _answer_duplicate(one, self._last)
        self._wakeups.send()
        return True

    def _apply_own(self, apply: Apply[object], committed: list[tuple[Submission, int]]) -> None:
        """Apply entries that one ranker submitted here."""
        _apply(apply, committed)

    def _append(self, batch: list[Submission]) -> list[int | None]:
        """Commit the entries of a batch; return the position of each, None for duplicates."""
        return self.store.append([(one.ranker, one.entry) for one in batch if one.entry is not None], self._last)

    def _fail(self, batch: list[Submission], error: Exception, refusal: StoreUnavailable | None = None) -> None:
        """Fail every waiter of the batch and of the queue; keep the other entries unless the writer is at its end."""
        with self._changed:
            self.refusal = refusal or self.refusal
            everything = [*batch, *self._queue]
            self._queue.clear()
            self._waited_for = 0
            kept = [one for one in everything if one.commit is None]
            if not (self._closed or self._moved):
                self._queue.extend(kept)
            elif kept:
                log.error("%d decisions that were answered could not be written to the log: %s", len(kept), error)
        for one in everything:
            if one.commit is not None:
                one.commit.set_exception(error)
        self._wakeups.send()


def positions(committed: Sequence[tuple[int, object]]) -> list[int]:
    """Apply nothing and return the log position of each entry."""
    return [position for position, _ in committed]


def no_results(committed: Sequence[tuple[int, object]]) -> list[None]:
    """Apply nothing and return None for each entry."""
    return [None for _ in committed]


def _apply(apply: Apply[object], committed: list[tuple[Submission, int]]) -> None:
    try:
        results = apply([(position, one.event) for one, position in committed])
        pairs = list(zip(committed, results, strict=True))
    except Exception as error:
        log.exception("committed entries of ranker %s could not be applied", committed[0][0].ranker)
        for one, _ in committed:
            if one.commit is not None:
                one.commit.set_exception(error)
        return
    for (one, position), result in pairs:
        if one.commit is not None:
            one.commit.position = position
            one.commit.set_result(result)


def _answer_duplicate(one: Submission, last: int) -> None:
    if one.commit is None:
        return
    one.commit.position = last
    try:
        result = None if one.duplicate is None else one.duplicate()
    except Exception as error:
        one.commit.set_exception(error)
    else:
        one.commit.set_result(result)
