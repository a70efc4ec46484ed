"""Answers for those who watch: however many they are, a ranker is looked at as often as one of them would."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.service import bodies

TIMES = 50.0
"""An answer is given again for at least so many times as long as it took to make: those who ask for the same one
cost at most a fiftieth of the service's time."""
MOST, LARGEST = 500, 200_000
"""Answers that are kept, and bytes of one."""


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """An answer, when it was made, how long that took, and its bytes, as they are and packed."""

    hosted: HostedRanker
    at: float
    took: float
    plain: bytes
    packed: bytes

    def to(self, request: Request) -> Response:
        """As the caller takes it."""
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return Response(self.packed, headers=headers, media_type="application/json")
        return Response(self.plain, headers={"Vary": "Accept-Encoding"}, media_type="application/json")


class ResponseCache:
    """The last answers to those to whom it does not matter whether they are a moment old."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, Hashable], CachedResponse] = {}

    def answer(self, hosted: HostedRanker, asked: Hashable, age: float, make: Callable[[], object]) -> CachedResponse:
        """What `make` gives, or gave at most so many seconds ago to somebody who asked the same of this ranker."""
        start, key = self._clock(), (hosted.name, asked)
        kept = self._kept.get(key)
        if kept is not None and start - kept.at < max(age, TIMES * kept.took) and kept.hosted is hosted:
            return kept
        plain = bodies.encode(make())
        packed = gzip.compress(plain, 1, mtime=0)  # numbers repeat: a tenth of the size for a fraction of the time
        now = self._clock()
        made = CachedResponse(hosted, now, now - start, plain, packed)
        if len(plain) <= LARGEST:
            if len(self._kept) >= MOST:
                self._kept.clear()
            self._kept[key] = made
        return made
