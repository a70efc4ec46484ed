"""One thread writes: entries that arrive together are committed together, then applied in their order."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from rankloop.store.base import Entry, Store, StoreUnavailable

MOST = 512
"""Entries of one commit."""


@dataclass(frozen=True, slots=True)
class _Work:
    ranker: str
    entry: Entry
    apply: Callable[[Entry], Any]  # called after the commit
    known: Callable[[], Any]  # called instead where the entry was there before
    done: Future[Any]


class Writer:
    """Keeps entries and then lets their rankers learn, in one order for both.

    What a future gives is what `apply` returned; it comes only after the entry is on the disk.
    """

    def __init__(self, store: Store, *, waiting: int = 10_000) -> None:
        self.store = store
        self._queue: queue.Queue[_Work | None] = queue.Queue(maxsize=waiting)
        self._thread = threading.Thread(target=self._run, name="rankloop-writer", daemon=True)
        self._closed, self._closing = False, threading.Lock()  # nothing is handed over after the end
        self._thread.start()

    def submit(
        self, ranker: str, entry: Entry, apply: Callable[[Entry], Any], known: Callable[[], Any] = lambda: None
    ) -> Future[Any]:
        """Hand over an entry; refused at once where too many are waiting."""
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()  # what is handed over is written, whether or not somebody still waits
        try:
            with self._closing:
                if self._closed:
                    raise StoreUnavailable("the log is closed.")
                self._queue.put_nowait(_Work(ranker, entry, apply, known, done))
        except queue.Full:
            done.set_exception(StoreUnavailable("too many entries wait to be written; try again."))
        except StoreUnavailable as error:
            done.set_exception(error)
        return done

    def close(self) -> None:
        """Write what is waiting, then end."""
        with self._closing:
            first, self._closed = not self._closed, True
        if first:
            self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            batch = self._take()
            works = [work for work in batch if work is not None]
            if works:
                self._keep(works)
            if len(works) < len(batch):
                return

    def _take(self) -> list[_Work | None]:
        """The next entries: at least one, and all that came while the last ones were written."""
        batch = [self._queue.get()]
        while len(batch) < MOST and batch[-1] is not None:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch

    def _keep(self, works: list[_Work]) -> None:
        try:
            positions = self.store.append([(work.ranker, work.entry) for work in works])
        except Exception as error:
            for work in works:
                work.done.set_exception(error)
            return
        for work, position in zip(works, positions, strict=True):
            try:
                if position is None:
                    work.done.set_result(work.known())
                else:
                    work.done.set_result(work.apply(replace(work.entry, position=position)))
            except Exception as error:
                work.done.set_exception(error)
