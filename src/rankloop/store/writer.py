"""One thread writes: entries that arrive together are committed together, then applied in their order."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from rankloop.store.base import Entry, Store, StoreUnavailable

MOST = 512
"""Entries of one commit."""
LINGER = 0.02
"""Seconds that an entry nobody waits for may wait for company."""
AGAIN = 0.2
"""Seconds before entries that nobody waits for are tried again, where they could not be written."""
log = logging.getLogger("rankloop.store")


@dataclass(frozen=True, slots=True)
class _Work:
    ranker: str
    entry: Entry | None  # None: only the line up to here matters
    apply: Callable[[int], Any]  # called with its position after the commit
    known: Callable[[], Any] | None  # called instead where the entry was there before
    done: Future[Any] | None  # None where nobody waits


class Writer:
    """Keeps entries and then lets their rankers learn, in one order for both.

    What a future gives is what `apply` returned; it comes only after the entry is on the disk. Entries that nobody
    waits for are written with the next ones that somebody waits for, or soon; where the log cannot be written they
    stay first in line.
    """

    def __init__(self, store: Store, *, waiting: int = 10_000) -> None:
        self.store, self._most = store, waiting
        self._line: deque[_Work] = deque()
        self._urgent = 0  # of those in line, how many somebody waits for
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="rankloop-writer", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether somebody writes."""
        return self._thread.is_alive()

    def submit(
        self, ranker: str, entry: Entry, apply: Callable[[int], Any], known: Callable[[], Any] | None = None
    ) -> Future[Any]:
        """Hand over an entry and wait for it with the future; refused at once where too many are in line."""
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()  # what is handed over is written, whether or not somebody still waits
        try:
            self._enter(_Work(ranker, entry, apply, known, done))
        except StoreUnavailable as error:
            done.set_exception(error)
        return done

    def post(self, ranker: str, entry: Entry, apply: Callable[[int], Any]) -> None:
        """Hand over an entry that nobody waits for; raises where too many are in line."""
        self._enter(_Work(ranker, entry, apply, None, None))

    def flush(self) -> None:
        """Wait until all that was handed over before is on the disk and applied."""
        done: Future[Any] = Future()
        self._enter(_Work("", None, lambda position: None, None, done))
        done.result()

    def _enter(self, work: _Work) -> None:
        with self._changed:
            if self._closed:
                raise StoreUnavailable("the log is closed.")
            if work.entry is not None and len(self._line) >= self._most:
                raise StoreUnavailable("too many entries wait to be written; try again.")
            self._line.append(work)
            if work.done is not None:
                self._urgent += 1
                if self._urgent == 1:
                    self._changed.notify()

    def close(self) -> None:
        """Write what is waiting, then end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        pause = LINGER
        while True:
            works, last = self._take(pause)
            kept = not works or self._keep(works)
            pause = LINGER if kept else AGAIN
            if last:
                return

    def _take(self, pause: float) -> tuple[list[_Work], bool]:
        """The next entries: what somebody waits for at once, the rest after a pause; and whether that is all."""
        with self._changed:
            if not self._urgent and not self._closed:
                self._changed.wait(pause)
            works = [self._line.popleft() for _ in range(min(MOST, len(self._line)))]
            self._urgent -= sum(work.done is not None for work in works)
            return works, self._closed and not self._line

    def _keep(self, works: list[_Work]) -> bool:
        try:
            positions = iter(self.store.append([(work.ranker, work.entry) for work in works if work.entry is not None]))
        except Exception as error:
            self._failed(works, error)
            return False
        for work in works:
            _settle(work, None if work.entry is None else next(positions))
        return True

    def _failed(self, works: list[_Work], error: Exception) -> None:
        """Tell those who wait; the others go back to the head of the line, unless this is the end."""
        again = [work for work in works if work.done is None]
        with self._changed:
            if self._closed:
                if again:
                    log.error("%d entries could not be written before the end: %s", len(again), error)
            else:
                self._line.extendleft(reversed(again))
        for work in works:
            if work.done is not None:
                work.done.set_exception(error)


def _settle(work: _Work, position: int | None) -> None:
    try:
        known = work.known or (lambda: None)
        told = known() if position is None else work.apply(position)
    except Exception as error:
        if work.done is None:
            log.exception("an entry of %s could not be applied", work.ranker)
        else:
            work.done.set_exception(error)
    else:
        if work.done is not None:
            work.done.set_result(told)
