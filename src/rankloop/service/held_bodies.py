"""The memory of request bodies that are not complete: many large ones that arrive slowly make room for each other."""

from __future__ import annotations

from typing import Protocol

MAX_HELD_BYTES = 64_000_000
"""Bytes of all incomplete large bodies together."""


class BodyHolder(Protocol):
    """A connection that keeps the bodies of requests that have not started."""

    def give_up(self) -> None:
        """Refuse the request and close the connection."""


class HeldBodies:
    """The connections that keep large bodies, the one that has done so for longest first.

    Beyond the limit, that one gives up: a client that sends its body without delay is not the oldest for long.
    """

    def __init__(self, limit: int = MAX_HELD_BYTES) -> None:
        self._limit, self._sizes = limit, dict[BodyHolder, int]()
        self.size = 0

    def note(self, holder: BodyHolder, size: int) -> None:
        """Note how many bytes a connection keeps; 0 if none that count."""
        self.size += size - self._sizes.get(holder, 0)
        if size:
            self._sizes[holder] = size  # it keeps its place
        else:
            self._sizes.pop(holder, None)
        while self.size > self._limit:
            oldest = next(iter(self._sizes))
            self.size -= self._sizes.pop(oldest)
            oldest.give_up()
