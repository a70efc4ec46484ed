"""A schedule of jobs for several threads: visits as they arrive, delayed feedback when it is due."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class Schedule(Generic[T]):
    """Hand out jobs to several threads in the order of their due times, delayed feedback before visits.

    Args:
        arrivals: visits with the time at which each is due, drawn one by one as they are needed.
        stopped: an event that is set when no job is left; setting it from outside ends the schedule.
    """

    def __init__(self, arrivals: Iterator[tuple[float, T]], stopped: threading.Event) -> None:
        self._arrivals, self.stopped = arrivals, stopped
        self._next: tuple[float, T] | None = None
        self._exhausted = False  # all arrivals have been drawn
        self._delayed: list[tuple[float, int, T]] = []
        self._order = count()
        self._busy = 0  # threads whose job may still add another one
        self._timed = False  # one thread waits for the clock, the others for a notification
        self._changed = threading.Condition()

    def take(self) -> tuple[float, T] | None:
        """Wait until the next job is due and return its due time and the job; None at the end."""
        with self._changed:
            while not self.stopped.is_set():
                now = time.monotonic()
                job = self._due(now)
                if job is not None:
                    self._busy += 1
                    self._changed.notify()  # another thread takes over waiting for the clock
                    return job
                self._wait(now)
            return None

    def done(self) -> None:
        """Mark the job that this thread took as finished."""
        with self._changed:
            self._busy -= 1

    def later(self, due: float, job: T) -> None:
        """Add a job that is due at the given time."""
        with self._changed:
            heapq.heappush(self._delayed, (due, next(self._order), job))
            self._changed.notify_all()  # it may be due before all others

    def stop(self) -> None:
        """Hand out no further jobs."""
        with self._changed:
            self.stopped.set()
            self._changed.notify_all()

    def _due(self, now: float) -> tuple[float, T] | None:
        if self._delayed and self._delayed[0][0] <= now:
            due, _, job = heapq.heappop(self._delayed)
            return due, job
        if self._next is None and not self._exhausted:
            self._next = next(self._arrivals, None)
            self._exhausted = self._next is None
        arrival = self._next
        if arrival is None or arrival[0] > now:
            return None
        self._next = None
        return arrival

    def _wait(self, now: float) -> None:
        due_times = [job[0] for job in (self._next, *self._delayed[:1]) if job is not None]
        if not due_times and not self._busy:
            self.stopped.set()
            self._changed.notify_all()
        elif due_times and not self._timed:
            self._timed = True
            self._changed.wait(min(due_times) - now)
            self._timed = False
        else:
            self._changed.wait()
