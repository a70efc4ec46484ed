"""A cache of responses for dashboards: many viewers cause as much work as one."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.service import endpoints

MIN_REUSE_FACTOR = 50.0
"""A response is reused for at least this multiple of the time it took to make: repetitions of one request cost at most
a fiftieth of the service's time."""
MAX_RESPONSES = 500
MAX_RESPONSE_BYTES = 200_000
"""Larger responses are not cached."""


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A response with the time at which it was made, the seconds this took, and its body, plain and compressed."""

    hosted: HostedRanker
    made_at: float
    seconds: float
    plain: bytes
    compressed: bytes

    def expires(self, age: float) -> float:
        """Return the time from which on the response is too old for a request that accepts this age."""
        return self.made_at + max(age, MIN_REUSE_FACTOR * self.seconds)

    def to(self, request: Request) -> Response:
        """Return the response in an encoding that the request accepts."""
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return Response(self.compressed, headers=headers, media_type="application/json")
        return Response(self.plain, headers={"Vary": "Accept-Encoding"}, media_type="application/json")


class ResponseCache:
    """The last responses to requests that accept one that is not brand-new."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._responses: dict[tuple[str, Hashable], CachedResponse] = {}

    def find(self, hosted: HostedRanker, query: Hashable, age: float) -> CachedResponse | None:
        """Return the response to a query about a ranker if the cache has a recent one."""
        cached = self._responses.get((hosted.name, query))
        recent = cached is not None and self._clock() < cached.expires(age) and cached.hosted is hosted
        return cached if recent else None

    def answer(self, hosted: HostedRanker, query: Hashable, age: float, make: Callable[[], object]) -> CachedResponse:
        """Return the response to a query about a ranker, from the cache if it is recent enough.

        Args:
            hosted: the ranker that the query is about.
            query: everything that the response depends on.
            age: maximum age of a cached response in seconds.
            make: returns the body of a new response.
        """
        start, key = self._clock(), (hosted.name, query)
        cached = self.find(hosted, query, age)
        if cached is not None:
            return cached
        plain = endpoints.encode(make())
        compressed = gzip.compress(plain, 1, mtime=0)  # level 1: a tenth of the size for a fraction of the time
        now = self._clock()
        response = CachedResponse(hosted, now, now - start, plain, compressed)
        if len(plain) <= MAX_RESPONSE_BYTES:
            if len(self._responses) >= MAX_RESPONSES:
                self._responses.clear()
            self._responses[key] = response
        return response
