"""Overviews for those who watch: however many they are, a ranker is looked at about once a second."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass

from rankloop.service import bodies, schemas
from rankloop.service.rankers import Hosted

AGE, TIMES = 1.0, 50.0
"""An answer is given again for a second, and for so many times as long as it took to make: watching one ranker costs
at most a fiftieth of the service's time."""
MOST = 1_000
"""Answers that are kept."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, as it is and packed, and until when it is good."""

    hosted: Hosted
    until: float
    plain: bytes
    packed: bytes


class Watched:
    """The last overview of every ranker that somebody watches, by its span of time."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, float, int], Answer] = {}

    def overview(self, hosted: Hosted, hours: float, points: int) -> Answer:
        """How a ranker does, as it was a moment ago."""
        start, key = self._clock(), (hosted.name, hours, points)
        kept = self._kept.get(key)
        if kept is not None and start < kept.until and kept.hosted is hosted:
            return kept
        plain = bodies.encode(schemas.OverviewAnswer(hosted.name, hosted.ranker.overview(hours, points)))
        packed = gzip.compress(plain, 1, mtime=0)  # numbers repeat: a tenth of the size for a fraction of the time
        now = self._clock()
        if len(self._kept) >= MOST:
            self._kept.clear()
        made = self._kept[key] = Answer(hosted, now + max(AGE, TIMES * (now - start)), plain, packed)
        return made
