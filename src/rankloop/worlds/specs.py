"""The kinds of world by name, and how each is read from the fields of a spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rankloop import validate
from rankloop.errors import InvalidInput
from rankloop.types import BetaPrior
from rankloop.worlds import dataset_specs, reward_specs
from rankloop.worlds.attraction_specs import shape, source
from rankloop.worlds.base import World
from rankloop.worlds.click_models import CascadeClicks, ClickModel, DependentClicks, PositionClicks
from rankloop.worlds.click_world import ClickWorld
from rankloop.worlds.drift import drift_of
from rankloop.worlds.drifting import DriftingWorld

COMMON = ("features", "prior", "drift")


def cascade(fields: Mapping[str, object]) -> World:
    """Cascade model: clicks the first attractive item from the top and stops; value 1 - ∏(1-ν).

    attraction: L probabilities, or {beta: {items, a, b}}, {linear: {items, dim}}, {logistic: {items, dim}}, or
      {judged: {data}}, a query of mslr-web, letor or istella for each replication, attraction from its grades
    k: number of slots
    features: L x d numbers, only with an explicit attraction (optional)
    prior: {a, b}, the Beta prior given to policies instead of the true one (optional)
    drift: how attractions move among the items (optional), one of
      {abrupt: {every}}: a new random permutation of them every `every` rounds
      {slow: {rounds}}: linear interpolation to the next random permutation within `rounds` rounds
      {seasonal: {period}}: a cosine from the first attractions to a random permutation and back within `period` rounds
    """
    given = validate.mapping("world", fields, required=("attraction", "k"), optional=COMMON)
    return _click_world(CascadeClicks(), given, given["k"])


def dependent_click(fields: Mapping[str, object]) -> World:
    """Dependent click model: clicks examined attractive items, leaves satisfied after slot k with P = termination_k.

    attraction, features, prior, drift: as in cascade
    termination: a probability for each slot
    k: number of slots (optional, the length of termination)
    """
    given = validate.mapping("world", fields, required=("attraction", "termination"), optional=(*COMMON, "k"))
    termination = validate.vector("world.termination", given["termination"], low=0.0, high=1.0)
    k = _as_many_slots(given, "termination", len(termination))
    return _click_world(DependentClicks(termination), given, k)


def position_based(fields: Mapping[str, object]) -> World:
    """Position-based model: examines slot k with P = bias_k, independently, and clicks what attracts; value Σ bias_k ν.

    attraction, features, prior, drift: as in cascade
    bias: a probability for each slot
    k: number of slots (optional, the length of bias)
    """
    given = validate.mapping("world", fields, required=("attraction", "bias"), optional=(*COMMON, "k"))
    bias = validate.vector("world.bias", given["bias"], low=0.0, high=1.0)
    return _click_world(PositionClicks(bias), given, _as_many_slots(given, "bias", len(bias)))


KINDS: dict[str, Callable[[Mapping[str, object]], World]] = {
    "cascade": cascade,
    "dependent-click": dependent_click,
    "position-based": position_based,
    "matrix": dataset_specs.matrix,
    "cascade-rewards": reward_specs.cascade_rewards,
    "coverage-rewards": reward_specs.coverage_rewards,
    "choice": reward_specs.choice,
    "item-position": reward_specs.item_position,
    "pivot": dataset_specs.pivot,
    "rated": dataset_specs.rated,
}


def from_spec(spec: object) -> World:
    """Return the world of a mapping such as {kind: cascade, attraction: [0.5, 0.1], k: 1}.

    >>> from_spec({"kind": "cascade", "attraction": [0.5, 0.1], "k": 1}).k
    1
    """
    if not isinstance(spec, Mapping) or "kind" not in spec:
        raise InvalidInput("world", spec, f"a mapping with 'kind', one of {', '.join(KINDS)}")
    kind = validate.choice("world.kind", spec["kind"], KINDS)
    return KINDS[kind]({name: value for name, value in spec.items() if name != "kind"})


def _click_world(model: ClickModel, given: Mapping[str, object], k: object) -> World:
    arms = source(given["attraction"], given.get("features"))
    prior = _prior(given["prior"], arms.items) if given.get("prior") is not None else None
    world = ClickWorld(model, arms, validate.integer("world.k", k, high=arms.items), prior)
    return world if given.get("drift") is None else DriftingWorld(world, drift_of(given["drift"]))


def _as_many_slots(given: Mapping[str, object], field: str, length: int) -> int:
    if "k" in given and validate.integer("world.k", given["k"]) != length:
        raise InvalidInput("world.k", given["k"], f"{length}, the length of world.{field}")
    return length


def _prior(value: object, items: int) -> BetaPrior:
    given = validate.mapping("world.prior", value, required=("a", "b"))
    shapes = [shape(f"world.prior.{name}", given[name], items) for name in ("a", "b")]
    for name, one in zip("ab", shapes, strict=True):
        if one.values is None:
            raise InvalidInput(f"world.prior.{name}", given[name], "a number or a list of numbers above 0")
    a, b = (np.array(np.broadcast_to(np.asarray(one.values), (items,))) for one in shapes)
    return BetaPrior(a, b)
