"""Read sources of attraction from the fields of a spec."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankloop import validate
from rankloop.datasets import prepared
from rankloop.errors import InvalidInput
from rankloop.types import BetaPrior
from rankloop.worlds.attraction import (
    AttractionSource,
    BetaAttraction,
    BetaShape,
    FixedAttraction,
    JudgedAttraction,
)
from rankloop.worlds.contexts import ContextSource
from rankloop.worlds.row_attraction import RowSource
from rankloop.worlds.specs.rows import contexts_of, row_source

JUDGED = ("mslr-web", "letor", "istella")
"""Ids of the data sets with judged documents."""


def source(attraction: object, features: object) -> AttractionSource:
    """Return the source for numbers with optional features, or for a generator, of attractions that do not change."""
    found = any_source(attraction, features)
    if isinstance(found, RowSource):
        raise InvalidInput("world.attraction", attraction, "attractions without fresh_features in this kind of world")
    return found


def any_source(attraction: object, features: object, context: object = None) -> AttractionSource | RowSource:
    """Return the source for numbers with optional features, or for a generator: beta, linear, logistic or judged.

    With a context, or with features that are drawn each round, the attractions change from round to round.
    """
    field = "world.attraction"
    contexts = contexts_of(context)
    if isinstance(attraction, Mapping):
        if features is not None:
            raise InvalidInput("world.features", features, "features only together with explicit attraction numbers")
        if len(attraction) != 1:
            raise InvalidInput(field, dict(attraction), "one generator: beta, linear, logistic or judged")
        ((name, options),) = attraction.items()
        validate.choice(field, name, ("beta", "linear", "logistic", "judged"))
        if name in ("linear", "logistic"):
            return row_source(f"{field}.{name}", options, "linear" if name == "linear" else "logistic", contexts)
        _refuse_context(context, contexts)
        return _generator(f"{field}.{name}", name, options)
    _refuse_context(context, contexts)
    nu = validate.vector(field, attraction, low=0.0, high=1.0)
    x = None if features is None else validate.matrix("world.features", features, rows=len(nu))
    return FixedAttraction(nu, x)


def _generator(field: str, name: str, options: object) -> AttractionSource:
    if name == "beta":
        given = validate.mapping(field, options, required=("items", "a", "b"))
        items = validate.integer(f"{field}.items", given["items"], high=10**7)
        return BetaAttraction(items, shape(f"{field}.a", given["a"], items), shape(f"{field}.b", given["b"], items))
    given = validate.mapping(field, options, required=("data",), optional=("scaling",))
    scaling = validate.choice(f"{field}.scaling", given.get("scaling", "range"), prepared.SCALINGS)
    queries = prepared.judged_queries(validate.choice(f"{field}.data", given["data"], JUDGED), scaling=scaling)
    return JudgedAttraction(queries.nu, queries.x, queries.present, BetaPrior(queries.a, queries.b))


def _refuse_context(context: object, contexts: ContextSource | None) -> None:
    if contexts is not None:
        accepted = "a context only with linear or logistic attraction, which depends on it"
        raise InvalidInput("world.context", context, accepted)


def shape(field: str, value: object, items: int) -> BetaShape:
    """Return the shape for a number, a list of numbers for each item, or {integers: [low, high]}."""
    if isinstance(value, Mapping):
        bounds = validate.mapping(field, value, required=("integers",))["integers"]
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise InvalidInput(f"{field}.integers", bounds, "two whole numbers, lowest and highest")
        low = validate.integer(f"{field}.integers[0]", bounds[0])
        return BetaShape(integers=(low, validate.integer(f"{field}.integers[1]", bounds[1], low=low, high=2**53)))
    if isinstance(value, list | tuple | np.ndarray):
        return BetaShape(validate.vector(field, value, low=0.0, open_low=True, length=items))
    return BetaShape(np.asarray(validate.number(field, value, low=0.0, open_low=True)))
