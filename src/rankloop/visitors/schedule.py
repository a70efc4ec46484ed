"""What is to be done, and when: visits as they arrive, late feedback as it falls due."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Schedule(Generic[T]):
    """Jobs for several threads. What fell due first comes first, and feedback before visits.

    Args:
        arrivals: visits with the time at which each is due, drawn one by one as they are needed.
        stopped: set when there is nothing more to do, or by whoever wants the end.
    """

    def __init__(self, arrivals: Iterator[tuple[float, T]], stopped: threading.Event) -> None:
        self._arrivals, self.stopped = arrivals, stopped
        self._next: tuple[float, T] | None = None
        self._drawn = False  # the last arrival
        self._late: list[tuple[float, int, T]] = []
        self._order = count()
        self._busy = 0  # threads whose job may still give another one
        self._timed = False  # one thread waits for the clock, the others for it
        self._changed = threading.Condition()

    def take(self) -> tuple[float, T] | None:
        """The next job and when it was due, once it is; None at the end."""
        with self._changed:
            while not self.stopped.is_set():
                now = time.monotonic()
                job = self._due(now)
                if job is not None:
                    self._busy += 1
                    self._changed.notify()  # somebody else may look at the clock now
                    return job
                self._wait(now)
            return None

    def done(self) -> None:
        """The job that was taken is done."""
        with self._changed:
            self._busy -= 1

    def later(self, due: float, job: T) -> None:
        """Add a job for that time."""
        with self._changed:
            heapq.heappush(self._late, (due, next(self._order), job))
            self._changed.notify_all()  # it may be the first to fall due

    def stop(self) -> None:
        """Nothing more is handed out."""
        with self._changed:
            self.stopped.set()
            self._changed.notify_all()

    def _due(self, now: float) -> tuple[float, T] | None:
        if self._late and self._late[0][0] <= now:
            due, _, job = heapq.heappop(self._late)
            return due, job
        if self._next is None and not self._drawn:
            self._next = next(self._arrivals, None)
            self._drawn = self._next is None
        found = self._next
        if found is None or found[0] > now:
            return None
        self._next = None
        return found

    def _wait(self, now: float) -> None:
        dues = [queue[0] for queue in (self._next, self._late[0] if self._late else None) if queue is not None]
        if not dues and not self._busy:
            self.stopped.set()
            self._changed.notify_all()
        elif dues and not self._timed:
            self._timed = True
            self._changed.wait(min(dues) - now)
            self._timed = False
        else:
            self._changed.wait()
