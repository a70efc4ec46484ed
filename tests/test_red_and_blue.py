"""Red and blue visitors of opposite tastes through a ranker: what differs between requests decides what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import catalogue
from rankloop.serving import Ranker, RankerConfig
from test_same_as_simulator import Asked

SHARED: list[str] = [
    id
    for id in (
        *("cascade-lin-ts", "cascade-lin-ucb", "ranked-lin-ts", "lin-ts-ltr", "lin-ts-cascade", "cascade-woful"),
        *("log-ts-ltr", "log-ts-newton", "ind", "eps-ind", "c-ucb1", "gl-cdcm", "feature-ucr", "hybrid"),
    )
    if id in {entry.id for entry in catalogue.entries()}
]
"""Policies with a model that all items share."""
ROUNDS, LAST, SEED = 3000, 1000, 8
LIKED, DISLIKED = 0.6, 0.1
"""Probability of a click on the item that a visitor likes, and on the other one."""
LEAST: dict[str, float] = {
    **dict.fromkeys(SHARED, 0.95),
    "eps-ind": 0.88,
    # Radii for the worst case: they are still wide after 3,000 lists.
    "cascade-lin-ucb": 0.6,
    "lin-ts-cascade": 0.6,
    "cascade-woful": 0.6,
}
STARK: dict[str, tuple[float, float]] = {"cascade-woful": (0.9, 0.05)}
"""Clearer tastes, for a policy whose radius still exceeds a difference of 0.5 tenfold after 3,000 lists: with √n = 55
and a radius of 8√(d·log(1+n/d)·log(4n²/δ)) + 4·log(4n²/δ) of about 300, both items stay in use, and the better one is
shown (1 + 2·difference·√n/radius) times as often as the other."""
ONE_HOT, SIGNS = ([1.0, 0.0], [0.0, 1.0]), ([1.0], [-1.0])
"""Two ways to encode the two items. Under signs, rows of the request that bring opposite features are equally wide."""
KINDS = ("context", "features")


def encoded(id: str) -> tuple[list[float], list[float]]:
    """The features of the item that is liked, or red, and of the other one."""
    return SIGNS if id in STARK else ONE_HOT


def items_of(id: str) -> list[dict[str, Any]]:
    """The two items as a ranker of this policy gets them."""
    return [{"id": name, "features": x} for name, x in zip(("red", "blue"), encoded(id), strict=True)]


def settings_of(id: str, kind: str) -> dict[str, Any]:
    """A ranker of one slot, with a context where it carries the difference, or where the policy needs one."""
    given: dict[str, Any] = {"policy": id, "slots": 1, "dim": len(encoded(id)[0]), "seed": 3}
    given |= {"context": 1} if kind == "context" or "context" in catalogue.find(id).needs else {}
    given |= {"rounds": ROUNDS} if id in ("cascade-lin-ucb", "cascade-woful") else {}
    return given


def request_of(given: dict[str, Any], kind: str, visitor: int) -> dict[str, Any]:
    """What a red (0) or a blue (1) visitor asks for."""
    if kind == "context":
        return {"context": [1.0 - 2.0 * visitor]}
    liked, other = encoded(given["policy"])
    brought = [{"id": id, "features": liked if n == visitor else other} for n, id in enumerate(("red", "blue"))]
    return {"items": brought} | ({"context": [1.0]} if "context" in given else {})


class Share:
    """Visitors, and how often they were shown what they like among the last lists."""

    def __init__(self, id: str) -> None:
        self._rng, self._t, self._right = np.random.default_rng(SEED), 0, 0
        self._liked, self._disliked = STARK.get(id, (LIKED, DISLIKED))

    def visitor(self) -> int:
        self._t += 1
        return int(self._rng.integers(2))

    def clicked(self, visitor: int, ids: list[str]) -> list[int]:
        """The clicks of a visitor on a list of at most one item."""
        item = ("red", "blue").index(ids[0]) if ids else None
        self._right += self._t > ROUNDS - LAST and item == visitor
        rate = self._liked if item == visitor else self._disliked
        return [0] if item is not None and self._rng.random() < rate else []

    @property
    def value(self) -> float:
        return self._right / LAST


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("id", SHARED)
def test_visitors_are_shown_what_they_like(id: str, kind: str) -> None:
    """Of 1,000 lists with a true share of 98 %, fewer than 950 show the right item with a probability of 1e-9."""
    given, share = settings_of(id, kind), Share(id)
    ranker = Ranker(RankerConfig.of(given))
    ranker.put_items(items_of(id))
    for _ in range(ROUNDS):
        visitor = share.visitor()
        ranking = ranker.rank(**request_of(given, kind, visitor))
        ranker.feedback(ranking.id, clicked=share.clicked(visitor, list(ranking.ids)))
    assert share.value >= LEAST[id]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("id", SHARED)
def test_visitors_are_shown_what_they_like_over_http(id: str, kind: str, tmp_path: Path) -> None:
    """Error probability as above."""
    given, share, service = settings_of(id, kind), Share(id), Asked(tmp_path)
    service("PUT", "", given)
    service("PUT", "/items", {"items": items_of(id)})
    for _ in range(ROUNDS):
        visitor = share.visitor()
        (answer,) = service("POST", "/rank", request_of(given, kind, visitor))
        clicked = share.clicked(visitor, [one["item"] for one in answer["items"]])
        service("POST", "/feedback", {"decision": answer["decision"], "clicked": clicked})
    service.close()
    assert share.value >= LEAST[id]
