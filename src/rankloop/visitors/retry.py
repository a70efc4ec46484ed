"""Retry requests with exponential back-off while the service is unavailable or overloaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from rankloop.client import Call
from rankloop.errors import RankloopError

T = TypeVar("T")
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.05, 2.0
"""The pause before the second attempt, and the longest pause; each pause is twice the one before."""


class SupportsCall(Protocol):
    """Something that sends a call to a service, such as a `Client`."""

    def ask(self, call: Call[T]) -> T:
        """Return the answer, or raise an error of `rankloop.errors`."""


class RetriesExhausted(RankloopError):
    """The service stayed unavailable for longer than a request is retried."""

    status = 0


class RunStopped(Exception):
    """The run was stopped while a request waited for its next attempt."""


class Retry:
    """Send a call again until it succeeds, or until a time limit after its first failure.

    Args:
        seconds: the time limit, counted from the first failure.
        stopped: an event that ends all waiting when it is set.
        on_failure: called with the error of each failed attempt.
    """

    def __init__(
        self,
        seconds: float,
        stopped: threading.Event | None = None,
        on_failure: Callable[[RankloopError], None] | None = None,
    ) -> None:
        self._seconds, self._stopped = seconds, stopped or threading.Event()
        self._noted = on_failure or (lambda error: None)

    def ask(self, service: SupportsCall, call: Call[T]) -> T:
        """Return the answer; an error that a retry cannot cure is raised at once."""
        return self.timed(service, call)[0]

    def timed(self, service: SupportsCall, call: Call[T]) -> tuple[T, float]:
        """Return the answer and the latency of the successful attempt alone, in seconds."""
        since, failed = 0.0, 0
        while True:
            began = time.monotonic()
            try:
                return service.ask(call), time.monotonic() - began
            except RankloopError as error:
                if not error.retry and error.status < 500:  # a retry would fail in the same way
                    raise
                self._noted(error)
                since = since if failed else time.monotonic()
                failed += 1
                left = since + self._seconds - time.monotonic()
                if left <= 0:
                    raise RetriesExhausted(f"gave up after {self._seconds:g} seconds: {error}") from None
                if self._stopped.wait(min(left, MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (failed - 1))):
                    raise RunStopped from None
