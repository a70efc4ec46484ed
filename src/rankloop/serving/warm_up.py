"""Warm-up: decide and learn a few lists in a scratch ranker, which compiles the kernels that the real one needs."""

from __future__ import annotations

import logging
import threading

import msgspec
from msgspec.structs import replace

from rankloop.schema import FeedbackEvent, Item, RankRequest, RequestItem
from rankloop.schema.feature_settings import FeatureSettings
from rankloop.serving.config import RankerConfig
from rankloop.serving.ranker import Ranker

SLOTS, FEATURES, ITEMS, VISITS = 2, 2, 6, 3
"""Sizes of the scratch ranker: compiled code depends on the types of arrays, not on their sizes."""
log = logging.getLogger("rankloop.serving")
_warm: set[bytes] = set()
_warming = threading.Lock()


def warm_up(config: RankerConfig) -> None:
    """Run everything that a request of such a ranker runs, once in this process for each kind of configuration."""
    try:
        small = scratch_config(config)
        kind = msgspec.json.encode(small.plain(), order="sorted")
        with _warming:
            if kind not in _warm:
                _warm.add(kind)
                _visit(Ranker(small))
    except Exception:  # the ranker itself may well work: its parts may need other sizes
        log.warning("a ranker with policy %s could not be warmed up", config.policy, exc_info=True)


def scratch_config(config: RankerConfig) -> RankerConfig:
    """Return the configuration with few slots and features, in which the policy decides every list."""
    slots = min(config.slots, SLOTS)
    by_slot = dict.fromkeys(("bias", "rewards", "termination", "slot_weights"), slots) | {"losses": slots + 1}
    trimmed = {name: value[:length] for name, length in by_slot.items() if (value := getattr(config, name)) is not None}
    sizes = {
        name: min(value, FEATURES)
        for name in ("dim", "context", "coverage")
        if (value := getattr(config, name)) is not None
    }
    if config.features is not None:  # the same code with features and a context of numbers
        sizes |= {"features": None} | ({} if config.feature_settings is None else _numbers(config.feature_settings))
    rollout = {"mode": "live", "traffic": 1.0, "guardrail": None, "explore_from": min(config.explore_from, slots)}
    return replace(config, slots=slots, **trimmed, **sizes, **rollout)


def _numbers(features: FeatureSettings) -> dict[str, int | None]:
    return {"dim": FEATURES, "context": FEATURES if features.context else None}


def _visit(ranker: Ranker) -> None:
    config = ranker.config
    features = None if config.dim is None else (0.5,) * config.dim
    coverage = None if config.coverage is None else (0.5,) * config.coverage
    context = None if config.context is None else (0.5,) * config.context
    try:
        ranker.put_items([Item(id=str(n), features=features, coverage=coverage) for n in range(ITEMS)])
        for _ in range(VISITS):
            rankings = [ranker.rank(context=context, segment=segment) for segment in ("", "", "", "other")]
            commits = [
                ranker.submit_feedback(FeedbackEvent(one.id, [0], final=True), ranker.find_decision(one.id))
                for one in rankings  # together, since a busy service learns from several lists at once
            ]
            for commit in commits:
                commit.result()
        some = [RequestItem(id=str(n), features=features) for n in range(ITEMS - 1)]
        for request in (RankRequest(context=context, propensity=2), RankRequest(context=context, items=some)):
            ranking, pending = ranker.submit_rank(request)
            if pending is not None:
                pending.result()
            ranker.feedback(ranking.id, clicked=[], final=True)
        ranker.overview()
        ranker.snapshot()
    finally:
        ranker.close()
