"""Used or refused: a setting of a ranker changes its behaviour, or the ranker refuses it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankloop.analytics.counters import SQUARES, VALUE
from rankloop.arrays import Array
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
    "termination": ((0.9, 0.5, 0.1), (0.1, 0.5, 0.9)),
    "slot_weights": ((1.0, 0.5, 0.1), (0.1, 0.5, 1.0)),
    "objective": ("any-click", "revenue"),
    "window": (60.0, 5.0),
    "aggregate": ("earliest", "sum"),
    "reward": (None, {"kinds": {"click": {}}, "learn": "at-close"}),
    "activation": ("decision", "impression"),
    "on_close": ("nothing", "ignore"),
    "discount": (1.0, 0.6),
    "seed": (7, 8),
    "commit": ("feedback", "all"),
    "mode": ("live", "shadow"),
    "traffic": (1.0, 0.4),
    "pooled": (False, True),
    "explore_from": (0, 2),
    "explore_daily": (None, 0),
    "caps": (None, {"brand": 1}),
    "guardrail": (None, Guardrail(drop=0.0, error=0.5, min_lists=2)),
}
"""Two values of every setting that must lead to different behaviour."""
REQUIRED_WITH: dict[str, dict[str, object]] = {
    "rewards": {"losses": (0.0, -0.3, -1.0, -3.0)},
    "losses": {"rewards": (1.0, 1.0, 1.0)},
    "termination": {"objective": "satisfied"},
    "guardrail": {"traffic": 0.5},
}
"""Other settings without which a setting has no effect."""
SCRIPTS: dict[str, tuple[int, bool]] = {"rounds": (4 * VISITS, False), "guardrail": (VISITS, True)}
"""Number of visits, and whether only control lists are clicked, for settings that have no effect otherwise."""
OTHER_OBJECTIVES: dict[str, dict[str, object]] = {"amount": {}, "satisfied": {"termination": (0.1, 0.5, 0.9)}}
"""Further objectives, and the settings that they need. Clicks are missing: where a list has at most one click, or all
clicks are independent and an item has one score, the list of most clicks is that of most lists with a click."""


def every_setting_is_used_or_refused(make: Make) -> None:
    """Two rankers that differ in one setting differ in lists, answers, statuses or learned state, or one is refused.

    The echo of the configuration does not count.
    """
    for name, first, second in _pairs():
        try:
            one, other = (_config(make, {**REQUIRED_WITH.get(name, {}), **value}) for value in (first, second))
            for config in (one, other):
                config.check()
        except RankloopError:
            continue
        seen = [_observed(config, *SCRIPTS.get(name, (VISITS, False))) for config in (one, other)]
        assert seen[0] != seen[1], f"ranker.{name} is accepted, but {first} and {second} have the same effect"


def _pairs() -> Iterator[tuple[str, dict[str, object], dict[str, object]]]:
    """Yield the name of a setting, and two groups of settings that must lead to different behaviour."""
    for name, (first, second) in VALUES.items():
        yield name, {name: first}, {name: second}
    for objective, needed_with in OTHER_OBJECTIVES.items():
        yield "objective", {"objective": VALUES["objective"][0]}, {"objective": objective, **needed_with}


def _config(make: Make, settings: dict[str, object]) -> RankerConfig:
    """Return the configuration of a ranker with this policy: the settings that it needs, and the given ones."""

    class SettingLawConfig(RankerConfig, frozen=True):
        """The settings of a ranker whose policy is not in the catalogue and can be discounted."""

        def check_consistency(self) -> None:
            """Accept a policy that is not in the catalogue."""

        def compose(self, setting: Setting) -> RankingPolicy[LearnerState]:
            built: RankingPolicy[Any] = make(setting)  # the type of its state depends on the discount
            if self.discount != 1.0:
                built = Discounted(built, self.discount)
            return built

    given: dict[str, object] = {"policy": "own", "slots": K, "window": 60.0, "seed": 7, **needed(make), **settings}
    if given.get("objective") == "amount":
        given.setdefault("aggregate", "sum")  # the default of `RankerSettings`
    return SettingLawConfig.of(given)


def _observed(config: RankerConfig, visits: int, only_control: bool) -> tuple[list[object], dict[str, bytes]]:
    """Return what a ranker does on a scripted stream, and what it has learned at the end."""
    clock, rng = Clock(), np.random.default_rng(41)
    ranker = Ranker(config, clock=clock)
    x, topics = rng.random((ITEMS, D)), rng.random((ITEMS, D))
    x[-1], topics[-1] = x[-2], topics[-2]  # equal items: which of them is shown is random
    appeal = np.linspace(0.1, 0.9, ITEMS)
    ids = [f"item-{i}" for i in range(ITEMS)]
    ranker.put_items([_item(config, i, x[i], topics[i]) for i in range(ITEMS)])
    seen: list[object] = []
    for n in range(visits):
        clock.now += 1.0
        context = rng.uniform(-0.5, 0.5, D)[: config.context].tolist() if config.context is not None else None
        request = RankRequest(decision=f"d{n}", visitor=f"v{n}", order=ids[::-1], context=context)
        ranking, committed = ranker.submit_rank(request)
        if committed is not None:
            committed.result()
        draws = rng.random(ITEMS)
        clicked = [slot for slot, id in enumerate(ranking.ids) if draws[ids.index(id)] < appeal[ids.index(id)]]
        if only_control:
            clicked = [0] if ranking.group == "control" else []
        seen.append((ranking.ids, ranking.group, committed is None))
        if n % 3:  # the others get no feedback before their windows close
            seen.append(ranker.feedback(ranking.id, clicked=clicked[:1]).status)
        if n % 7 == 6:
            clock.now += 10.0
            ranker.tick()
            seen.append(ranker.counts()["open_decisions"])
    learned = {name: np.asarray(array).tobytes() for name, array in ranker._replica.learners.arrays().items()}
    counters = {name: _unvalued(name, array) for name, array in ranker._replica.counters.arrays().items()}
    ranker.close()
    return seen, learned | counters


def _unvalued(name: str, counts: Array) -> bytes:
    """Return counts without the values of lists, which follow from the settings even if the policy ignores them."""
    return (np.delete(counts, [VALUE, SQUARES], axis=-1) if name in ("total", "minutes", "hours") else counts).tobytes()


def _item(config: RankerConfig, i: int, x: FloatArray, topics: FloatArray) -> dict[str, object]:
    """Return an item with the fields that the settings require, and a price that is unrelated to its appeal."""
    item: dict[str, object] = {"id": f"item-{i}", "price": float(1 + (5 * i) % ITEMS), "fields": {"brand": i % 2}}
    item |= {} if config.dim is None else {"features": x[: config.dim].tolist()}
    return item | ({} if config.coverage is None else {"coverage": topics[: config.coverage].tolist()})
