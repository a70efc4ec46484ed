"""A news page: articles that live for hours, readers with interests, and candidates that come with requests.

Run `python examples/news.py`. The page sends the articles of the last hours with every request; those that the ranker
does not know are added (`open: true`), and old ones are removed. A new article, which nobody has clicked, is ranked by
its fields: the topic, crossed with the interests of the reader. The own order of the page is newest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np

from rankloop import Ranker, RankerConfig
from rankloop.types import FloatArray, IntArray

TOPICS = ("politics", "sport", "culture", "science", "local", "money")
SLOTS, ARTICLES_PER_HOUR, HOURS_ON_PAGE, READERS_PER_HOUR = 5, 6, 6, 100
EXAMINED = 1.0 / (1.0 + 0.3 * np.arange(SLOTS))
"""Probability that a reader looks at each slot."""
SETTINGS: dict[str, object] = {
    "slots": SLOTS,
    "objective": "clicks",
    "features": {
        "items": {
            "topic": {"kind": "category", "categories": 8},
            "hours": "number",
            "video": "boolean",
        },
        "context": {"interests": {"kind": "tags", "categories": 8}, "returning": "boolean"},
        "cross": [["topic", "interests"]],
    },
    "window": 900.0,
    "seed": 3,
}


@dataclass(frozen=True)
class Article:
    """One article, and how well it is written."""

    id: str
    topic: int
    video: bool
    hour: int  # when it appeared
    quality: float

    def fields(self, hour: int) -> dict[str, float | str | bool]:
        """Return the fields of the article in this hour."""
        return {"topic": TOPICS[self.topic], "hours": float(hour - self.hour), "video": self.video}


@dataclass
class SimulatedClock:
    """A clock that the example moves."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


class Newsroom:
    """Simulated articles and readers."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._written = 0

    def write(self, hour: int) -> list[Article]:
        """Return the articles that appear in this hour."""
        articles = []
        for _ in range(ARTICLES_PER_HOUR):
            self._written += 1
            topic, video = int(self.rng.integers(len(TOPICS))), bool(self.rng.random() < 0.3)
            quality = float(self.rng.normal(0.0, 0.6))
            articles.append(Article(f"article-{self._written}", topic, video, hour, quality))
        return articles

    def interests(self) -> list[int]:
        """Return the topics that the next reader is interested in."""
        return sorted(self.rng.choice(len(TOPICS), int(self.rng.integers(1, 3)), replace=False).tolist())

    @staticmethod
    def appeal(articles: Sequence[Article], interests: Sequence[int], hour: int) -> FloatArray:
        """Return the probability that a reader who looks at an article clicks it."""
        log_odds = np.array(
            [-2.2 + 2.0 * (a.topic in interests) + 0.5 * a.video - 0.15 * (hour - a.hour) + a.quality for a in articles]
        )
        return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))


def value(appeal: FloatArray, shown: Sequence[int] | IntArray) -> float:
    """Return the expected clicks of a list."""
    return float((EXAMINED[: len(shown)] * appeal[np.asarray(shown, dtype=np.int64)]).sum())


def run(hours: int, seed: int = 0) -> tuple[float, float, float]:
    """Return the expected clicks of a list in the second half: ranked, newest first, and the best."""
    room, clock, live = Newsroom(seed), SimulatedClock(), list[Article]()
    totals = np.zeros(3)
    with closing(Ranker(RankerConfig.of(SETTINGS), clock=clock)) as ranker:
        for hour in range(hours):
            gone = [a.id for a in live if hour - a.hour >= HOURS_ON_PAGE]
            if gone:
                ranker.remove_items(gone)  # their late feedback still counts
            live = [*room.write(hour), *(a for a in live if hour - a.hour < HOURS_ON_PAGE)]  # newest first
            numbers = {article.id: n for n, article in enumerate(live)}
            for _ in range(READERS_PER_HOUR):
                clock.now += 3600.0 / READERS_PER_HOUR
                interests, returning = room.interests(), bool(room.rng.random() < 0.5)
                ranking = ranker.rank(
                    items=[{"id": article.id, "fields": article.fields(hour)} for article in live],
                    context={"interests": [TOPICS[topic] for topic in interests], "returning": returning},
                    open=True,
                )
                appeal, shown = room.appeal(live, interests, hour), [numbers[id] for id in ranking.ids]
                clicked = np.flatnonzero(room.rng.random(SLOTS) < EXAMINED * appeal[shown]).tolist()
                ranker.feedback(ranking.id, clicked=clicked)
                if hour >= hours // 2:
                    totals += (
                        value(appeal, shown),
                        value(appeal, range(SLOTS)),
                        value(appeal, np.argsort(-appeal)[:SLOTS]),
                    )
    ranked, newest, best = totals / (READERS_PER_HOUR * (hours - hours // 2))
    return float(ranked), float(newest), float(best)


if __name__ == "__main__":
    ranked, newest, best = run(96)
    print("expected clicks of a list in the second half of 96 hours")
    print(f"  the ranker      {ranked:.3f}  ({ranked / best:.0%} of the best)")
    print(f"  newest first    {newest:.3f}  ({newest / best:.0%})")
    print(f"  the best lists  {best:.3f}")
