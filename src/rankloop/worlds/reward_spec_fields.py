"""Spec fields that are common to worlds with rewards and losses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankloop import validate
from rankloop.errors import InvalidInput, Words
from rankloop.worlds.rewards import Scenario, scenario

SCENARIO = ("scenario", "rewards", "losses")


def budgets_of(value: object) -> tuple[int, ...]:
    """Return the budgets that are cycled over the rounds."""
    if isinstance(value, list | tuple) and value:
        return tuple(validate.integer(f"world.budget[{i}]", v, low=0, high=10**6) for i, v in enumerate(value))
    return (validate.integer("world.budget", value, low=0, high=10**6),)


def scenario_of(given: Mapping[str, object], slots: int) -> Scenario:
    """Return the rewards and losses for `slots` slots, by scenario name or as numbers."""
    if "rewards" not in given and "losses" not in given:
        return scenario(
            validate.choice("world.scenario", given.get("scenario", "vanilla"), ("vanilla", "exponential")), slots
        )
    if "scenario" in given:
        raise InvalidInput("world.scenario", given["scenario"], "either a scenario, or rewards and losses")
    rewards = validate.vector("world.rewards", given.get("rewards"), low=0.0)
    losses = validate.vector("world.losses", given.get("losses"))
    if (np.diff(rewards) > 0).any():
        raise InvalidInput("world.rewards", given["rewards"], "rewards that do not increase down the list")
    if (losses > 0).any():
        raise InvalidInput("world.losses", given["losses"], "losses that are not positive, ℓ_0 first")
    for field, values, least in (("rewards", rewards, slots), ("losses", losses, slots + 1)):
        if len(values) < least:
            raise InvalidInput(f"world.{field}", Words(f"a list of {len(values)}"), f"a list of at least {least}")
    return Scenario(rewards, losses)
