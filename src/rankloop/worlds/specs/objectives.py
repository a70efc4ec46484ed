"""Read objectives and prices from the fields of a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from rankloop import validate
from rankloop.errors import MISSING, InvalidInput
from rankloop.objective import AnyClick, Clicks, Objective, Satisfied
from rankloop.types import FloatArray
from rankloop.worlds.caps import GroupCap
from rankloop.worlds.click_models import ClickModel
from rankloop.worlds.goals import Goal, Prices
from rankloop.worlds.list_worth import (
    AnyClickWorth,
    CascadeRevenueWorth,
    ChoiceRevenueWorth,
    ChoiceWorth,
    ListWorth,
    ModelWorth,
    SlotRevenueWorth,
)

GOAL = ("objective", "prices")
NAMES = ("any-click", "clicks", "satisfied", "revenue")
ACCEPTED = {
    "cascade": ("any-click", "clicks", "revenue"),
    "dependent-click": ("satisfied", "any-click"),
    "position-based": ("clicks", "any-click", "revenue"),
    "choice": ("any-click", "clicks", "revenue"),
}
"""Objectives of each kind of world whose best list is known."""


def cascade_goal(given: Mapping[str, object], model: ClickModel, items: int) -> Goal | None:
    """Return the goal of a cascade: any-click and clicks are its own value, as a visitor clicks at most once."""
    own = ModelWorth(model)
    values: dict[str, ListWorth] = {"any-click": own, "clicks": own, "revenue": CascadeRevenueWorth()}
    return _goal(given, "cascade", items, values)


def dependent_goal(given: Mapping[str, object], model: ClickModel, items: int, termination: FloatArray) -> Goal | None:
    """Return the goal of dependent clicks; every slot is examined until a click satisfies."""
    values: dict[str, ListWorth] = {
        "satisfied": ModelWorth(model),
        "any-click": AnyClickWorth(np.ones(len(termination))),
    }
    return _goal(given, "dependent-click", items, values, Satisfied(termination))


def position_goal(given: Mapping[str, object], model: ClickModel, items: int, bias: FloatArray) -> Goal | None:
    """Return the goal of position-based clicks."""
    values: dict[str, ListWorth] = {
        "clicks": ModelWorth(model),
        "any-click": AnyClickWorth(bias),
        "revenue": SlotRevenueWorth(bias),
    }
    return _goal(given, "position-based", items, values)


def choice_goal(given: Mapping[str, object], items: int, bias: FloatArray) -> Goal:
    """Return the goal of a choice: any-click and clicks are the same, as a visitor clicks at most once."""
    own = ChoiceWorth(bias)
    values: dict[str, ListWorth] = {"any-click": own, "clicks": own, "revenue": ChoiceRevenueWorth(bias)}
    return _goal(given, "choice", items, values) or Goal(own)


def _goal(
    given: Mapping[str, object],
    kind: str,
    items: int,
    values: Mapping[str, ListWorth],
    *more: Objective,
) -> Goal | None:
    """Return the goal that a spec names; None where it names none."""
    if given.get("objective") is None:
        if "prices" in given:
            raise InvalidInput("world.prices", given["prices"], "prices only with the objective revenue")
        return None
    name = validate.choice("world.objective", given["objective"], NAMES)
    if name not in ACCEPTED[kind]:
        accepted = f"one of {', '.join(ACCEPTED[kind])}: for {kind} worlds the best list of no other objective is known"
        raise InvalidInput("world.objective", name, accepted)
    if name != "revenue":
        if "prices" in given:
            raise InvalidInput("world.prices", given["prices"], "prices only with the objective revenue")
        objectives: tuple[Objective, ...] = (AnyClick(), Clicks(), *more)
        return Goal(values[name], next(one for one in objectives if one.name == name))
    prices = prices_of(given.get("prices", MISSING), items)
    return Goal(values[name], prices.objective(items), prices)


def prices_of(value: object, items: int) -> Prices:
    """Return the prices of L numbers, {uniform: [low, high]} or {fresh: [low, high]}."""
    if isinstance(value, Mapping):
        given = validate.mapping("world.prices", value, optional=("uniform", "fresh"))
        if len(given) != 1:
            raise InvalidInput("world.prices", value, "either uniform or fresh, each with a lowest and a highest price")
        ((name, bounds),) = given.items()
        field = f"world.prices.{name}"
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise InvalidInput(field, bounds, "two numbers, the lowest and the highest price")
        low = validate.number(f"{field}[0]", bounds[0], low=0.0)
        return Prices(low=low, high=validate.number(f"{field}[1]", bounds[1], low=low), fresh=name == "fresh")
    if value is MISSING:
        accepted = f"{items} prices of at least 0, or uniform or fresh ones, since the objective is revenue"
        raise InvalidInput("world.prices", MISSING, accepted)
    return Prices(validate.vector("world.prices", value, low=0.0, length=items))


def with_cap(value: object, goal: Goal, items: int, slots: int, *, priced: bool = False) -> Goal:
    """Return the goal with the cap of {groups, at_most}.

    Args:
        value: the mapping.
        goal: what lists are worth.
        items: number of items.
        slots: number of slots, all of which can be filled.
        priced: whether the best list under a cap is known for revenue too.
    """
    given = validate.mapping("world.caps", value, required=("groups", "at_most"))
    if goal.prices is not None and not priced:
        accepted = "no caps with the objective revenue here, since the best list is not known; position-based has both"
        raise InvalidInput("world.caps", value, accepted)
    groups = given["groups"]
    if not isinstance(groups, list | tuple) or len(groups) != items:
        raise InvalidInput("world.caps.groups", groups, f"a list of {items} whole numbers, one for each item")
    numbers = [validate.integer(f"world.caps.groups[{i}]", one, low=-1) for i, one in enumerate(groups)]
    cap = GroupCap(np.array(numbers, dtype=np.int64), validate.integer("world.caps.at_most", given["at_most"]))
    if cap.fitting() < slots:
        accepted = f"caps under which all {slots} slots can be filled; these fit {cap.fitting()} items"
        raise InvalidInput("world.caps", value, accepted)
    return replace(goal, cap=cap)
