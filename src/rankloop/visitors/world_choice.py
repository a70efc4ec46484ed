"""Load the world of the visitors: a built-in one, or one from a YAML file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankloop import validate
from rankloop.errors import InvalidInput
from rankloop.math.logistic import sigmoid
from rankloop.schema.mappings import fields_of
from rankloop.simulator.spec import OPTIONAL, REQUIRED, read_yaml
from rankloop.worlds import KINDS, World, from_spec

DEFAULT = "cafe"


def cafe() -> dict[str, object]:
    """Return the spec of a cascade world with 40 items of 5 features and lists of 4.

    A random list is clicked by 34 % of the visitors, the best one by 76 %. ν = σ(xᵀw), and the first feature is always
    1: a logistic policy is well specified, a linear one nearly.
    """
    x = np.random.default_rng(12).uniform(-1.0, 1.0, (40, 4)).round(3)
    nu = np.asarray(sigmoid(x @ np.array([1.6, -1.2, 0.8, 0.4]) - 2.5))
    features = np.concatenate([np.ones((40, 1)), x], axis=1)
    return {"kind": "cascade", "attraction": nu.tolist(), "features": features.tolist(), "k": 4}


BUILT_IN: dict[str, Callable[[], dict[str, object]]] = {DEFAULT: cafe}


def load_world(given: str = DEFAULT) -> tuple[World, int]:
    """Return the world of a name or a YAML file, and the seed in the file (default 0).

    A file holds a spec of `rankloop simulate`, of which only `world` and `seed` are read, or a world alone.
    """
    if given in BUILT_IN:
        return from_spec(BUILT_IN[given]()), 0
    found = read_yaml(given)
    fields = fields_of(found) or {}
    if "kind" in fields:
        return from_spec(found), 0
    if "world" not in fields:
        accepted = f"a world with 'kind', one of {', '.join(KINDS)}, or a mapping with 'world'"
        raise InvalidInput("--world", given, f"{' or '.join(BUILT_IN)}, or a YAML file that holds {accepted}")
    validate.mapping("spec", found, required=("world",), optional=(*REQUIRED, *OPTIONAL))
    return from_spec(fields["world"]), validate.integer("seed", fields.get("seed", 0), low=0)
