"""Read linear and logistic attractions from the fields of a spec: fixed ones, and those that change by round."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankloop import validate
from rankloop.errors import MISSING, InvalidInput, Words
from rankloop.math.logistic import sigmoid
from rankloop.types import FloatArray
from rankloop.worlds.attraction import AttractionSource, FixedAttraction, LinearAttraction
from rankloop.worlds.contexts import BallContexts, ContextSource, ListedContexts
from rankloop.worlds.row_attraction import Link, RowSource, row_width

MAX_ITEMS = 10**7
MAX_CONTEXT = 10**4
TOLERANCE = 1e-9
"""How far linear attractions of given weights may leave [0, 1] by rounding."""


def contexts_of(value: object) -> ContextSource | None:
    """Return the contexts of {dim: …}, uniform in the unit ball, or of {values: […]}; None without a context."""
    if value is None:
        return None
    given = validate.mapping("world.context", value, optional=("dim", "values"))
    if len(given) != 1:
        raise InvalidInput("world.context", value, "either dim, a number of entries, or values, a list of contexts")
    if "dim" in given:
        return BallContexts(validate.integer("world.context.dim", given["dim"], high=MAX_CONTEXT))
    return ListedContexts(validate.matrix("world.context.values", given["values"]))


def row_source(field: str, options: object, link: Link, contexts: ContextSource | None) -> AttractionSource | RowSource:
    """Return the source of linear or logistic attractions, or of linear amounts (`identity`).

    Args:
        field: where the options stand, such as world.attraction.linear.
        options: {items, dim} with optional fresh_features and weights, or {features, weights}.
        link: how the product of row and weights becomes an attraction.
        contexts: contexts of the visitors, where the world has them.
    """
    optional = ("items", "dim", "features", "weights", "fresh_features")
    given = validate.mapping(field, options, optional=optional)
    return _explicit(field, given, link, contexts) if "features" in given else _drawn(field, given, link, contexts)


def _explicit(
    field: str, given: Mapping[str, object], link: Link, contexts: ContextSource | None
) -> AttractionSource | RowSource:
    for name in ("items", "dim", "fresh_features"):
        if name in given:
            raise InvalidInput(f"{field}.{name}", given[name], f"no {name} together with {field}.features")
    x = validate.matrix(f"{field}.features", given["features"])
    weights = _weights(field, given, x.shape[1], contexts)
    low, high = _range(x, weights, contexts)
    if link == "linear" and (low < -TOLERANCE or high > 1.0 + TOLERANCE):
        value = Words(f"weights of attractions from {low:.6g} to {high:.6g}")
        raise InvalidInput(f"{field}.weights", value, "weights for which all attractions lie in [0, 1]")
    if contexts is not None:
        return RowSource(len(x), x.shape[1], link, contexts, features=x, weights=weights)
    u = x @ weights
    nu = np.asarray(sigmoid(u)) if link == "logistic" else u
    return FixedAttraction(np.clip(nu, 0.0, 1.0) if link == "linear" else nu, x, RowSource.explained_by)


def _drawn(
    field: str, given: Mapping[str, object], link: Link, contexts: ContextSource | None
) -> AttractionSource | RowSource:
    for name in ("items", "dim"):
        if name not in given:
            raise InvalidInput(f"{field}.{name}", MISSING, f"a value, since {field} needs items, dim")
    items = validate.integer(f"{field}.items", given["items"], high=MAX_ITEMS)
    dim = validate.integer(f"{field}.dim", given["dim"])
    fresh = given.get("fresh_features", False)
    if not isinstance(fresh, bool):
        raise InvalidInput(f"{field}.fresh_features", fresh, "true or false")
    weights = None
    if "weights" in given:
        if not fresh:
            raise InvalidInput(f"{field}.weights", given["weights"], "weights only with features or fresh_features")
        weights = _weights(field, given, dim, contexts)
    if link == "linear":
        _check_linear(field, weights, contexts)
    if contexts is None and not fresh:
        return LinearAttraction(items, dim, logistic=link == "logistic")
    return RowSource(items, dim, link, contexts, fresh, weights=weights)


def _weights(field: str, given: Mapping[str, object], dim: int, contexts: ContextSource | None) -> FloatArray:
    dx = None if contexts is None else contexts.dim
    width = row_width(dim, dx)
    weights = validate.vector(f"{field}.weights", given.get("weights"))
    if len(weights) != width:
        row = f"{width}, one for each feature"
        if dx is not None:
            row = f"{width}: {dx} of the context, {dim} of the features and {dx}·{dim} of their products"
        raise InvalidInput(f"{field}.weights", Words(f"a list of {len(weights)}"), f"a list of {row}")
    return weights


def _range(x: FloatArray, weights: FloatArray, contexts: ContextSource | None) -> tuple[float, float]:
    """Return the smallest and the largest zᵀw that a visitor and an item can have."""
    if contexts is None:
        u = x @ weights
        return float(u.min()), float(u.max())
    dx, d = contexts.dim, x.shape[1]
    alone = x @ weights[dx : dx + d]  # [L], in the context 0
    effect = weights[:dx] + x @ weights[dx + d :].reshape(dx, d).T  # [L, dx], of each entry of the context
    if contexts.values is not None:
        u = alone + contexts.values @ effect.T
        return float(u.min()), float(u.max())
    spread = np.linalg.vector_norm(effect, axis=1)  # over the unit ball
    return float((alone - spread).min()), float((alone + spread).max())


def _check_linear(field: str, weights: FloatArray | None, contexts: ContextSource | None) -> None:
    """Refuse weights or contexts with which attractions of drawn features may leave [0, 1]."""
    if weights is not None:
        if contexts is not None:
            accepted = "weights together with features, so that linear attractions are known to lie in [0, 1]"
            raise InvalidInput(f"{field}.weights", Words("given with a context and fresh_features"), accepted)
        norm = float(np.linalg.vector_norm(weights))
        if weights.min() < 0.0 or norm > 1.0 + TOLERANCE:
            value = Words(f"a list of norm {norm:.6g} with smallest entry {weights.min():.6g}")
            raise InvalidInput(f"{field}.weights", value, "numbers of at least 0 and of norm at most 1")
    if contexts is not None and contexts.values is not None:
        norms = np.linalg.vector_norm(contexts.values, axis=1)
        i = int(norms.argmax())
        if norms[i] > 1.0 + TOLERANCE:
            value = Words(f"a context of norm {norms[i]:.6g}")
            raise InvalidInput(f"world.context.values[{i}]", value, "norms of at most 1 with linear attraction")
