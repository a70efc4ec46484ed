"""Ask again where the service is away or busy, for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from rankloop.client import Call
from rankloop.errors import RankloopError

T = TypeVar("T")
FIRST, LONGEST = 0.05, 2.0
"""Seconds before the second attempt, and at most before any; each pause is twice the one before."""


class SupportsCall(Protocol):
    """Whoever can put a call to a service, such as a `Client`."""

    def ask(self, call: Call[T]) -> T:
        """The answer, or an error of `rankloop.errors`."""


class GaveUp(RankloopError):
    """The service was away for too long."""

    status = 0


class Stopped(Exception):
    """The run ended while somebody waited."""


class Retry:
    """Asks until there is an answer, for so many seconds after the first failure.

    Args:
        seconds: after which it gives up.
        stopped: where set, nobody waits any longer.
        noted: called with each failure, also those that were followed by an answer.
    """

    def __init__(
        self,
        seconds: float,
        stopped: threading.Event | None = None,
        noted: Callable[[RankloopError], None] | None = None,
    ) -> None:
        self._seconds, self._stopped = seconds, stopped or threading.Event()
        self._noted = noted or (lambda error: None)

    def ask(self, service: SupportsCall, call: Call[T]) -> T:
        """The answer; refusals that will stay are raised at once."""
        return self.timed(service, call)[0]

    def timed(self, service: SupportsCall, call: Call[T]) -> tuple[T, float]:
        """The answer, and how long it took by itself: the attempts that failed before it are not in the time."""
        since, failed = 0.0, 0
        while True:
            began = time.monotonic()
            try:
                return service.ask(call), time.monotonic() - began
            except RankloopError as error:
                if not error.retry and error.status < 500:  # the same request will not do better a little later
                    raise
                self._noted(error)
                since = since if failed else time.monotonic()
                failed += 1
                left = since + self._seconds - time.monotonic()
                if left <= 0:
                    raise GaveUp(f"gave up after {self._seconds:g} seconds: {error}") from None
                if self._stopped.wait(min(left, LONGEST, FIRST * 2.0 ** (failed - 1))):
                    raise Stopped from None
