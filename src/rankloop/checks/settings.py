"""Used or refused: a setting of a ranker changes what it does, or the ranker refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankloop.checks.serving import Clock, needed
from rankloop.checks.trial import D, K, Make
from rankloop.errors import RankloopError
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema import Guardrail, RankRequest
from rankloop.serving import Ranker, RankerConfig
from rankloop.types import FloatArray, Setting
from rankloop.wrappers import Discounted

ITEMS = 6
VISITS = 60

VALUES: dict[str, tuple[object, object]] = {
    "dim": (D, D - 1),
    "context": (D, D - 1),
    "coverage": (D, D - 1),
    "bias": ((1.0, 0.7, 0.4), (0.2, 0.5, 1.0)),
    "prior": ((1.0, 3.0), (30.0, 4.0)),
    "rounds": (10**6, 1),
    "rewards": ((1.0, 1.0, 1.0), (1.0, 0.0, 0.0)),
    "losses": ((0.0, -0.1, -0.2, -0.3), (0.0, -8.0, -8.0, -8.0)),
    "objective": ("any-click", "clicks"),
    "window": (60.0, 5.0),
    "aggregate": ("earliest", "sum"),
    "on_close": ("nothing", "ignore"),
    "discount": (1.0, 0.6),
    "seed": (7, 8),
    "commit": ("feedback", "all"),
    "mode": ("live", "shadow"),
    "traffic": (1.0, 0.4),
    "explore_from": (0, 2),
    "explore_daily": (None, 0),
    "guardrail": (None, Guardrail(drop=0.0, error=0.5, min_lists=2)),
}
"""Two values of every setting that say different things."""
BESIDE: dict[str, dict[str, object]] = {
    "rewards": {"losses": (0.0, -0.3, -1.0, -3.0)},
    "losses": {"rewards": (1.0, 1.0, 1.0)},
    "guardrail": {"traffic": 0.5},
}
"""What a setting needs beside it to mean something."""
SCRIPTS: dict[str, tuple[int, bool]] = {"rounds": (4 * VISITS, False), "guardrail": (VISITS, True)}
"""Visits, and whether only control's lists are clicked, where a setting shows only then."""
ALSO = (("objective", "revenue"), ("objective", "amount"))


def used_or_refused(make: Make) -> None:
    """Two rankers that differ in one setting differ in lists, answers, statuses or what is learned; or one is refused.

    An echo of the configuration does not count.
    """
    for name, first, second in _pairs():
        one, other = (_config(make, {**BESIDE.get(name, {}), name: value}) for value in (first, second))
        try:
            for config in (one, other):
                config.check()
        except RankloopError:
            continue
        seen = [_observed(config, *SCRIPTS.get(name, (VISITS, False))) for config in (one, other)]
        assert seen[0] != seen[1], f"ranker.{name} is accepted, and {first!r} and {second!r} do the same"


def _pairs() -> Iterator[tuple[str, object, object]]:
    for name, (first, second) in VALUES.items():
        yield name, first, second
    for name, second in ALSO:
        yield name, VALUES[name][0], second


def _config(make: Make, settings: dict[str, object]) -> RankerConfig:
    """The settings of a ranker with this policy; what it needs is there, unless another value is asked for."""

    class Own(RankerConfig, frozen=True):
        """The settings of a ranker with a policy that is in no catalogue."""

        def check_consistency(self) -> None:
            """It need not be there."""

        def compose(self, setting: Setting) -> RankingPolicy[LearnerState]:
            built: RankingPolicy[Any] = make(setting)  # of one state or another, as the discount wants it
            if self.discount != 1.0:
                built = Discounted(built, self.discount)
            return built

    given: dict[str, object] = {"policy": "own", "slots": K, "window": 60.0, "seed": 7, **needed(make), **settings}
    if given.get("objective") == "amount":
        given.setdefault("aggregate", "sum")  # as `RankerSettings` has it where nothing is said
    return Own.of(given)


def _observed(config: RankerConfig, visits: int, only_control: bool) -> tuple[list[object], dict[str, bytes]]:
    """Return what a ranker does on a scripted stream, and what it has learned at the end."""
    clock, rng = Clock(), np.random.default_rng(41)
    ranker = Ranker(config, clock=clock)
    x, topics = rng.random((ITEMS, D)), rng.random((ITEMS, D))
    x[-1], topics[-1] = x[-2], topics[-2]  # twins: which of them is shown is a fair draw
    appeal = np.linspace(0.1, 0.9, ITEMS)
    ids = [f"item-{i}" for i in range(ITEMS)]
    ranker.put_items([_item(config, i, x[i], topics[i]) for i in range(ITEMS)])
    seen: list[object] = []
    for n in range(visits):
        clock.now += 1.0
        context = rng.uniform(-0.5, 0.5, D)[: config.context].tolist() if config.context is not None else None
        asked = RankRequest(decision=f"d{n}", visitor=f"v{n}", order=ids[::-1], context=context)
        ranking, kept = ranker.submit_rank(asked)
        if kept is not None:
            kept.result()
        luck = rng.random(ITEMS)
        clicked = [slot for slot, id in enumerate(ranking.ids) if luck[ids.index(id)] < appeal[ids.index(id)]]
        if only_control:
            clicked = [0] if ranking.group == "control" else []
        seen.append((ranking.ids, ranking.group, kept is None))
        if n % 3:  # of the others nothing is heard until their windows close
            seen.append(ranker.feedback(ranking.id, clicked=clicked[:1]).status)
        if n % 7 == 6:
            clock.now += 10.0
            ranker.tick()
            seen.append(ranker.counts()["open_decisions"])
    learned = {name: np.asarray(array).tobytes() for name, array in ranker._replica.learners.arrays().items()}
    told = {name: np.asarray(array).tobytes() for name, array in ranker._replica.counters.arrays().items()}
    ranker.close()
    return seen, learned | told


def _item(config: RankerConfig, i: int, x: FloatArray, topics: FloatArray) -> dict[str, object]:
    """An item as the settings ask for, with a price that is not what it is clicked for."""
    made: dict[str, object] = {"id": f"item-{i}", "price": float(1 + (5 * i) % ITEMS)}
    made |= {} if config.dim is None else {"features": x[: config.dim].tolist()}
    return made | ({} if config.coverage is None else {"coverage": topics[: config.coverage].tolist()})
