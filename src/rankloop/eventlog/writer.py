"""One writes at a time: entries that arrive together are committed together, then applied in their order."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from rankloop.eventlog.store import LogEntry, Store, StoreUnavailable

MOST = 512
"""Entries of one commit."""
LINGER = 0.02
"""Seconds that an entry nobody waits for may wait for company."""
GATHER = 0.004
"""Seconds from one commit to the next where one thread serves callers in numbers and applies. Every commit takes turns
with it for the interpreter: fewer commits leave it more, and all are served sooner."""
ALONE = 2
"""Entries of a commit that may be of one caller, the list and its feedback: he need not wait for company."""
AGAIN = 0.2
"""Seconds before entries that nobody waits for are tried again, where they could not be written."""
FEW = 64
"""Entries of one commit, at most, that another thread is asked to apply: it has more to do than that."""
log = logging.getLogger("rankloop.eventlog")


Told = TypeVar("Told")
Apply = Callable[[Sequence[tuple[int, Any]]], Sequence[Told]]
"""Takes positions and records of entries that are kept, in their order; gives what those who wait are told of each."""
Elsewhere = Callable[[Callable[[], None]], object]
"""Has something done by another thread, soon; raises `RuntimeError` where that thread has ended."""


class _Work(NamedTuple):
    ranker: str
    entry: LogEntry | None  # None: only the line up to here matters
    apply: Apply[Any]
    record: object
    known: Callable[[], object] | None  # called instead where the entry was there before
    done: Future[Any] | None  # None where nobody waits
    light: bool = True  # soon applied


class Writer:
    """Keeps entries and then lets their rankers learn, in one order for both.

    What a future gives is what `apply` said of the entry; it comes only after the entry is on the disk. Entries that
    were committed together are applied together, those of one ranker that follow each other. Entries that nobody
    waits for are written with the next ones that somebody waits for, or soon; where the log cannot be written they
    stay first in line. A thread of its own writes, at an even pace for a busy loop; a caller who would only wait may
    write instead where nobody does, for the whole line: that spares two changes of thread. Another thread may be asked
    to apply what was kept: one whose own work stands still while somebody else applies.
    """

    def __init__(self, store: Store, *, waiting: int = 10_000) -> None:
        self.store, self._most = store, waiting
        self._line: deque[_Work] = deque()
        self._urgent = 0  # of those in line, how many somebody waits for
        self._changed = threading.Condition(threading.Lock())
        self._turn = threading.Lock()  # of whoever writes: what is first in line is first in the log
        self._kept: deque[list[tuple[_Work, int | None]]] = deque()  # commits that are not applied yet
        self._applying = threading.Lock()  # of whoever applies them, in their order
        self._elsewhere: Elsewhere | None = None
        self._closed = False
        self._idle = False  # the thread has nothing to do, and sleeps until it is called
        self._thread = threading.Thread(target=self._run, name="rankloop-writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether somebody writes."""
        return self._thread.is_alive()

    def submit(
        self,
        ranker: str,
        entry: LogEntry,
        apply: Apply[Told],
        record: object = None,
        known: Callable[[], Told] | None = None,
        *,
        waits: bool = False,
        light: bool = False,
    ) -> Future[Told]:
        """Hand over an entry and wait for it with the future; refused at once where too many are in line.

        Args:
            ranker: whose entry it is.
            entry: to be kept.
            apply: called after the commit.
            record: what `apply` gets with the position.
            known: called instead where the entry was there before.
            waits: the caller has nothing else to do, and may write himself.
            light: it is soon applied, so that another thread may be asked to.
        """
        done: Future[Told] = Future()
        done.set_running_or_notify_cancel()  # what is handed over is written, whether or not somebody still waits
        leads = waits and self._turn.acquire(blocking=False)
        try:
            self._enter(_Work(ranker, entry, apply, record, known, done, light), call=not leads)
            while leads and not done.done():
                self._keep(self._next())
                self._apply()
        except StoreUnavailable as error:
            done.set_exception(error)
        finally:
            if leads:
                self._turn.release()
                self._call()
        return done

    def post(self, ranker: str, entry: LogEntry, apply: Apply[object], record: object = None) -> None:
        """Hand over a light entry that nobody waits for; raises where too many are in line."""
        self._enter(_Work(ranker, entry, apply, record, None, None))

    def flush(self) -> None:
        """Wait until all that was handed over before is on the disk and applied."""
        done: Future[Any] = Future()
        self._enter(_Work("", None, positions, None, None, done))
        done.result()

    def apply_in(self, elsewhere: Elsewhere | None) -> None:
        """Let another thread apply light entries from now on; None: whoever writes, as at first.

        A thread must not wait for an entry that only itself would apply: it says None before it begins to.
        """
        with self._turn:
            self._elsewhere = elsewhere
        self._apply()

    def _call(self) -> None:
        """Whoever waits in line now is the thread's to serve."""
        with self._changed:
            if self._urgent:
                self._changed.notify()

    def _enter(self, work: _Work, call: bool = True) -> None:
        with self._changed:
            if self._closed:
                raise StoreUnavailable("the log is closed.")
            if work.entry is not None and len(self._line) >= self._most:
                raise StoreUnavailable("too many entries wait to be written; try again.")
            self._line.append(work)
            if work.done is not None:
                self._urgent += 1
            if call and (self._idle or (work.done is not None and self._urgent == 1)):
                self._changed.notify()

    def close(self) -> None:
        """Write what is waiting, then end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()
        self._apply()

    def _run(self) -> None:
        pause, next_at = LINGER, 0.0
        works: list[_Work] = []
        while True:
            paced = self._elsewhere is not None and len(works) > ALONE and not self._closed
            if paced and (early := next_at - time.monotonic()) > 0:
                time.sleep(early)
            with self._changed:
                if not self._line and not self._closed:
                    self._idle = True
                    self._changed.wait()
                    self._idle = False
                if not self._urgent and not self._closed:
                    self._changed.wait(pause)
            with self._turn:
                next_at = time.monotonic() + GATHER
                works = self._next()
                pause = LINGER if not works or self._keep(works) else AGAIN
            with self._changed:
                if self._closed and not self._line:
                    return

    def _next(self) -> list[_Work]:
        """The first in line."""
        with self._changed:
            works = [self._line.popleft() for _ in range(min(MOST, len(self._line)))]
            self._urgent -= sum(work.done is not None for work in works)
            return works

    def _keep(self, works: list[_Work]) -> bool:
        try:
            positions = iter(self.store.append([(work.ranker, work.entry) for work in works if work.entry is not None]))
        except Exception as error:
            self._failed(works, error)
            return False
        kept: list[tuple[_Work, int | None]] = []
        for work in works:
            position = None if work.entry is None else next(positions)
            if work.entry is None or position is not None:
                kept.append((work, position))
            else:
                _again(work)  # here, since it may have to look into the log
        self._kept.append(kept)
        if self._elsewhere is None or len(works) > FEW or not all(work.light for work in works):
            self._apply()
            return True
        try:
            self._elsewhere(self._apply_unless_others_do)
        except RuntimeError:
            self._apply()
        return True

    def _apply(self) -> None:
        """Apply all that is kept, in the order of the log; any thread may, and waits for those who do already."""
        while True:
            with self._applying:
                self._apply_kept()
            if not self._kept:
                return

    def _apply_unless_others_do(self) -> None:
        """As `_apply`, but leave it to those who do already: they look again after they let go."""
        while self._kept and self._applying.acquire(blocking=False):
            try:
                self._apply_kept()
            finally:
                self._applying.release()

    def _apply_kept(self) -> None:
        while self._kept:
            commit = self._kept.popleft()
            # What is no entry at all does not part what stands around it.
            entries = ((work, position) for work, position in commit if position is not None)
            for apply, group in groupby(entries, key=lambda one: one[0].apply):
                _settle(apply, list(group))
            for work, position in commit:
                if position is None:
                    _again(work)

    def _failed(self, works: list[_Work], error: Exception) -> None:
        """Tell all who wait, also those further back; the others stay in line, unless this is the end."""
        with self._changed:
            works = [*works, *self._line]
            self._line.clear()
            self._urgent = 0
            again = [work for work in works if work.done is None]
            if self._closed:
                if again:
                    log.error("%d entries could not be written before the end: %s", len(again), error)
            else:
                self._line.extend(again)
                self._changed.notify()
        for work in works:
            if work.done is not None:
                work.done.set_exception(error)


def positions(kept: Sequence[tuple[int, object]]) -> list[int]:
    """Nothing is to be applied: those who wait are told where their entries stand."""
    return [position for position, _ in kept]


def _settle(apply: Apply[object], kept: list[tuple[_Work, int]]) -> None:
    """Apply what is in the log now, and tell those who wait."""
    try:
        told = apply([(position, work.record) for work, position in kept])
    except Exception as error:
        log.exception("entries of %s could not be applied", kept[0][0].ranker)
        for work, _ in kept:
            if work.done is not None:
                work.done.set_exception(error)
        return
    for (work, _), one in zip(kept, told, strict=True):
        if work.done is not None:
            work.done.set_result(one)


def _again(work: _Work) -> None:
    """Tell somebody that nothing was written for him."""
    if work.done is None:
        return
    try:
        told = None if work.known is None else work.known()
    except Exception as error:
        work.done.set_exception(error)
    else:
        work.done.set_result(told)
