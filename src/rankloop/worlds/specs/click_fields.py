"""Spec fields that are common to worlds of click models."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankloop import validate
from rankloop.errors import InvalidInput, Words
from rankloop.types import BetaPrior
from rankloop.worlds.attraction import AttractionSource
from rankloop.worlds.base import World
from rankloop.worlds.changing import ChangingWorld
from rankloop.worlds.click_models import ClickModel
from rankloop.worlds.click_world import ClickWorld
from rankloop.worlds.drift import drift_of
from rankloop.worlds.drifting import DRIFT_ACCEPTS, DriftingWorld
from rankloop.worlds.goals import Goal
from rankloop.worlds.list_worth import ModelWorth
from rankloop.worlds.row_attraction import RowSource
from rankloop.worlds.specs.attractions import shape
from rankloop.worlds.specs.objectives import with_cap


def click_world(
    model: ClickModel, source: AttractionSource | RowSource, k: object, given: Mapping[str, object], goal: Goal | None
) -> World:
    """Return the world of a click model and a source, with the prior and the drift of a spec."""
    slots = validate.integer("world.k", k, high=source.items)
    goal = capped(given, model, goal, source.items, slots)
    prior = prior_of(given["prior"], source.items) if given.get("prior") is not None else None
    drift = None if given.get("drift") is None else drift_of(given["drift"])
    if isinstance(source, RowSource):
        if drift is not None:
            raise InvalidInput("world.attraction", Words(f"a function of {source.explained_by}"), DRIFT_ACCEPTS)
        return ChangingWorld(model, source, slots, prior, goal)
    world = ClickWorld(model, source, slots, prior, goal)
    return world if drift is None else DriftingWorld(world, drift)


def capped(given: Mapping[str, object], model: ClickModel, goal: Goal | None, items: int, slots: int) -> Goal | None:
    """Return the goal with the caps of a spec, if it has any."""
    if given.get("caps") is None:
        return goal
    own = Goal(ModelWorth(model)) if goal is None else goal
    return with_cap(given["caps"], own, items, slots, priced=model.bias is not None)


def slots_of(given: Mapping[str, object], field: str, length: int) -> int:
    """Return the number of slots, the length of a list of another field; refuse another k."""
    if "k" in given and validate.integer("world.k", given["k"]) != length:
        raise InvalidInput("world.k", given["k"], f"{length}, the length of world.{field}")
    return length


def prior_of(value: object, items: int) -> BetaPrior:
    """Return the Beta prior of {a, b}, each a number or a list with one for each item."""
    given = validate.mapping("world.prior", value, required=("a", "b"))
    shapes = [shape(f"world.prior.{name}", given[name], items) for name in ("a", "b")]
    for name, one in zip("ab", shapes, strict=True):
        if one.values is None:
            raise InvalidInput(f"world.prior.{name}", given[name], "a number or a list of numbers above 0")
    a, b = (np.array(np.broadcast_to(np.asarray(one.values), (items,))) for one in shapes)
    return BetaPrior(a, b)
