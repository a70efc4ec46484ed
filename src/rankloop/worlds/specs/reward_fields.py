"""Spec fields that are common to worlds with rewards and losses."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rankloop import validate
from rankloop.errors import InvalidInput, Words
from rankloop.types import FloatArray
from rankloop.worlds.rewards import Scenario, Scenarios, scenario

SCENARIO = ("scenario", "rewards", "losses")


def budgets_of(value: object) -> tuple[int, ...]:
    """Return the budgets that are cycled over the rounds."""
    if isinstance(value, list | tuple) and value:
        return tuple(validate.integer(f"world.budget[{i}]", v, low=0, high=10**6) for i, v in enumerate(value))
    return (validate.integer("world.budget", value, low=0, high=10**6),)


def scenario_of(given: Mapping[str, object], slots: int) -> Scenario | Scenarios:
    """Return the rewards and losses for `slots` slots, by scenario name, as numbers, or as numbers of each round."""
    if "rewards" not in given and "losses" not in given:
        names = ("vanilla", "exponential")
        return scenario(validate.choice("world.scenario", given.get("scenario", "vanilla"), names), slots)
    if "scenario" in given:
        raise InvalidInput("world.scenario", given["scenario"], "either a scenario, or rewards and losses")
    rewards = _by_round("world.rewards", given.get("rewards"), low=0.0)
    losses = _by_round("world.losses", given.get("losses"))
    for field, value, row in rewards:
        if (np.diff(row) > 0).any():
            raise InvalidInput(field, value, "rewards that do not increase down the list")
    for field, value, row in losses:
        if (row > 0).any():
            raise InvalidInput(field, value, "losses that are not positive, ℓ_0 first")
    for all_rows, least in ((rewards, slots), (losses, slots + 1)):
        for field, _, row in all_rows:
            if len(row) < least:
                raise InvalidInput(field, Words(f"a list of {len(row)}"), f"a list of at least {least}")
    if len(rewards) == len(losses) == 1:
        return Scenario(rewards[0][2], losses[0][2])
    for field, value, row in losses:
        if (np.diff(row) > 0).any():  # policies refuse requests with such losses
            raise InvalidInput(field, value, "losses that do not increase with the number of items, ℓ_0 first")
    return Scenarios(tuple(row[:slots] for *_, row in rewards), tuple(row[: slots + 1] for *_, row in losses))


def _by_round(field: str, value: object, low: float = -math.inf) -> list[tuple[str, object, FloatArray]]:
    """Return the lists that are cycled over the rounds, each with its name and as it was given."""
    given = [(field, value)]
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        given = [(f"{field}[{i}]", row) for i, row in enumerate(value)]
    return [(name, row, validate.vector(name, row, low=low)) for name, row in given]
