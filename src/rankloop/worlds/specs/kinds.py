"""The kinds of world by name, and how each is read from the fields of a spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rankloop import validate
from rankloop.errors import InvalidInput
from rankloop.worlds.attraction import AttractionSource
from rankloop.worlds.base import World
from rankloop.worlds.click_models import CascadeClicks, DependentClicks, PositionClicks
from rankloop.worlds.row_attraction import RowSource
from rankloop.worlds.specs import amounts, datasets, rewards
from rankloop.worlds.specs.attractions import any_source
from rankloop.worlds.specs.click_fields import click_world, slots_of
from rankloop.worlds.specs.objectives import GOAL, cascade_goal, dependent_goal, position_goal

COMMON = ("features", "prior", "drift", "context", "caps")


def cascade(fields: Mapping[str, object]) -> World:
    """Cascade model: clicks the first attractive item from the top and stops; value 1 - ∏(1-ν).

    attraction: L probabilities, or {beta: {items, a, b}}, {linear: {items, dim}}, {logistic: {items, dim}}, or
      {judged: {data}}, a query of mslr-web, letor or istella for each replication, attraction from its grades, with
      scaling of features: range ([0, 1], then documents to unit norm, default), standard (mean 0, deviation 1, then
      unit norm) or range-only ([0, 1], no document above norm 1);
      linear (ν = zᵀw, in [0, 1]) and logistic (ν = σ(zᵀw)) also take
      fresh_features: true, to draw the features of all items anew each round, while w stays (optional)
      features and weights: L x d numbers and w, instead of items and dim; weights alone only with fresh_features
    k: number of slots
    context: the visitor's context x, drawn each round, with linear or logistic attraction (optional), one of
      {dim: dx}: uniform in the unit ball
      {values: n x dx numbers}: a random row; of norm at most 1 where linear weights are drawn
      The row of an item with features y is then z = (x, y, x⊗y) instead of y, with dx + d + dx·d weights. Drawn ones
      are standard normal (logistic), or give ν = ½ Σ_j a_j y_j (1 + m_jᵀx), a ≥ 0 and m_j of unit norm (linear)
    features: L x d numbers, only with an explicit attraction (optional)
    objective: any-click (default), clicks (the same here) or revenue, the expected price of the clicked item;
      policies know the objective if the spec names it
    prices: L numbers of at least 0, or {uniform: [low, high]} for each replication, or {fresh: [low, high]} for each
      round; only for revenue
    caps: {groups: L whole numbers, at_most: n}: at most n items of a list have the same group (-1: not capped); not
      with the objective revenue (optional)
    prior: {a, b}, the Beta prior given to policies instead of the true one (optional)
    drift: how attractions move among the items (optional), one of
      {abrupt: {every}}: a new random permutation of them every `every` rounds
      {slow: {rounds}}: linear interpolation to the next random permutation within `rounds` rounds
      {seasonal: {period}}: a cosine from the first attractions to a random permutation and back within `period` rounds
    """
    given = validate.mapping("world", fields, required=("attraction", "k"), optional=(*COMMON, *GOAL))
    model, arms = CascadeClicks(), _arms(given)
    return click_world(model, arms, given["k"], given, cascade_goal(given, model, arms.items))


def dependent_click(fields: Mapping[str, object]) -> World:
    """Dependent click model: clicks examined attractive items, leaves satisfied after slot k with P = termination_k.

    attraction, context, features, prior, caps, drift: as in cascade
    termination: a probability for each slot
    k: number of slots (optional, the length of termination)
    objective: satisfied (P(leaves satisfied), default) or any-click (1 - ∏(1-ν))
    """
    optional = (*COMMON, "objective", "k")
    given = validate.mapping("world", fields, required=("attraction", "termination"), optional=optional)
    termination = validate.vector("world.termination", given["termination"], low=0.0, high=1.0)
    k = slots_of(given, "termination", len(termination))
    model, arms = DependentClicks(termination), _arms(given)
    return click_world(model, arms, k, given, dependent_goal(given, model, arms.items, termination))


def position_based(fields: Mapping[str, object]) -> World:
    """Position-based model: examines slot k with P = bias_k, independently, and clicks what attracts; value Σ bias_k ν.

    attraction, context, features, prior, caps (also with revenue), drift: as in cascade
    bias: a probability for each slot
    k: number of slots (optional, the length of bias)
    objective: clicks (default), any-click (1 - ∏(1 - bias_k ν)) or revenue (Σ bias_k price ν)
    prices: as in cascade
    """
    given = validate.mapping("world", fields, required=("attraction", "bias"), optional=(*COMMON, *GOAL, "k"))
    bias = validate.vector("world.bias", given["bias"], low=0.0, high=1.0)
    model, arms = PositionClicks(bias), _arms(given)
    k = slots_of(given, "bias", len(bias))
    return click_world(model, arms, k, given, position_goal(given, model, arms.items, bias))


KINDS: dict[str, Callable[[Mapping[str, object]], World]] = {
    "cascade": cascade,
    "dependent-click": dependent_click,
    "position-based": position_based,
    "amounts": amounts.amounts,
    "matrix": datasets.matrix,
    "cascade-rewards": rewards.cascade_rewards,
    "coverage-rewards": rewards.coverage_rewards,
    "choice": rewards.choice,
    "item-position": rewards.item_position,
    "pivot": datasets.pivot,
    "rated": datasets.rated,
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


def _arms(given: Mapping[str, object]) -> AttractionSource | RowSource:
    return any_source(given["attraction"], given.get("features"), given.get("context"))
