"""Read the spec of a world whose outcomes are amounts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankloop import validate
from rankloop.errors import MISSING, InvalidInput
from rankloop.objective import Amount
from rankloop.worlds.amounts import GaussianAmounts, PositionAmounts
from rankloop.worlds.attraction import AttractionSource, FixedAttraction
from rankloop.worlds.base import World
from rankloop.worlds.goals import Goal
from rankloop.worlds.list_worth import ModelWorth
from rankloop.worlds.row_attraction import RowSource
from rankloop.worlds.specs.click_fields import click_world, slots_of
from rankloop.worlds.specs.rows import MAX_ITEMS, contexts_of, row_source


def amounts(fields: Mapping[str, object]) -> World:
    """Amounts such as watch time: an examined item brings ν + noise, not a click; value Σ bias_k ν.

    amount: L expected amounts of at least 0, or {gaussian: {items, mu0, sigma0}}, ν ~ N(mu0, sigma0²), or
      {linear: {items, dim}}, ν = xᵀθ; linear takes fresh_features, weights, features and a context as in cascade, with
      amounts of any size where weights are given
    sigma: standard deviation of the normal noise (default 0.5)
    bias: a probability for each slot to be examined (optional, default 1); a slot that is not brings 0
    k: number of slots (optional with bias, whose length it is)
    features: L x d numbers, only with explicit amounts (optional)
    context, drift: as in cascade
    The best list fills all slots. Policies must learn amounts and observe every slot: gts and lin-ts-ltr with feedback
    semi-bandit or position-based.
    """
    optional = ("k", "bias", "sigma", "features", "context", "drift")
    given = validate.mapping("world", fields, required=("amount",), optional=optional)
    source = _source(given)
    sigma = validate.number("world.sigma", given.get("sigma", 0.5), low=0.0)
    if "bias" in given:
        bias = validate.vector("world.bias", given["bias"], low=0.0, high=1.0)
        k = slots_of(given, "bias", len(bias))
    elif "k" in given:
        k = validate.integer("world.k", given["k"], high=source.items)
        bias = np.ones(k)
    else:
        raise InvalidInput("world.k", MISSING, "a number of slots, or a bias for each of them")
    model = PositionAmounts(bias, sigma)
    return click_world(model, source, k, given, Goal(ModelWorth(model), Amount()))


def _source(given: Mapping[str, object]) -> AttractionSource | RowSource:
    field, amount, features = "world.amount", given["amount"], given.get("features")
    contexts = contexts_of(given.get("context"))
    if isinstance(amount, Mapping):
        if features is not None:
            raise InvalidInput("world.features", features, "features only together with explicit amounts")
        if len(amount) != 1:
            raise InvalidInput(field, dict(amount), "one generator: gaussian or linear")
        ((name, options),) = amount.items()
        if validate.choice(field, name, ("gaussian", "linear")) == "linear":
            return row_source(f"{field}.linear", options, "identity", contexts)
    if contexts is not None:
        raise InvalidInput("world.context", given["context"], "a context only with linear amounts, which depend on it")
    if isinstance(amount, Mapping):
        sizes = validate.mapping(f"{field}.gaussian", options, required=("items", "mu0", "sigma0"))
        items = validate.integer(f"{field}.gaussian.items", sizes["items"], high=MAX_ITEMS)
        mu0 = validate.number(f"{field}.gaussian.mu0", sizes["mu0"])
        return GaussianAmounts(items, mu0, validate.number(f"{field}.gaussian.sigma0", sizes["sigma0"], low=0.0))
    nu = validate.vector(field, amount, low=0.0)
    x = None if features is None else validate.matrix("world.features", features, rows=len(nu))
    return FixedAttraction(nu, x)
