"""Settings of features from examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from msgspec.structs import replace

from rankloop.errors import InvalidInput, Words
from rankloop.schema.feature_settings import DEFAULT_HASHED, FeatureSettings, FieldSettings
from rankloop.schema.field_values import FieldReader, Mappings, kind_of
from rankloop.schema.limits import MAX_CROSSED_FEATURES, MAX_FIELDS, MAX_ID_LENGTH

FEW_TEXTS = 20
"""From this number of values on, a text that hardly ever repeats, such as a title, is not taken for a category."""
MOST_CATEGORIES = 32
"""Categories of a field that get coefficients of their own, at most."""
MOSTLY_DIFFERENT = 0.9
"""Share of different texts that counts as hardly ever repeating."""


def infer(items: Mappings, contexts: Mappings = ()) -> FeatureSettings:
    """Return the settings of the fields that these items and contexts have, in the order in which they appear.

    A field whose values are all numbers is a number, on the scale of logarithms if none is negative and the largest
    are far from the middle; the kinds of other values follow likewise. Texts get room for twice as many categories as
    were seen, at most 32. A field is left out if its values are of several kinds, are invalid, or are texts that
    hardly ever repeat.

    All fields of items are crossed with all of the context. If that makes long rows, those pairs of fields are crossed
    that make the fewest columns, as many as there is room for; rows that are long without any cross are hashed.
    """
    fields = _fields(items)
    if not fields:
        raise InvalidInput("features", Words("auto"), "items with fields of which at least one has a kind")
    settings = FeatureSettings(items=fields, context=_fields(contexts))
    if settings.is_sparse:
        return replace(settings, hashed=DEFAULT_HASHED)
    crossed = settings.context_crosses
    return settings if crossed == settings.all_context_crosses else replace(settings, cross=crossed)


def _fields(mappings: Mappings) -> dict[str, FieldSettings]:
    values: dict[str, list[object]] = {}
    for fields in mappings:
        for name, value in fields.items():
            if value is not None:
                values.setdefault(name, []).append(value)
    found = ((name, _settings(name, given)) for name, given in values.items())
    return dict([(name, one) for name, one in found if one is not None][:MAX_FIELDS])


def _settings(name: str, values: Sequence[object]) -> FieldSettings | None:
    """Return the settings that fit all values, or None."""
    kind = kind_of(values)
    if kind is None or not name.isprintable() or name in ("", ".", "..") or len(name) > MAX_ID_LENGTH:
        return None
    sizes = {len(cast("list[float]", value)) for value in values} if kind == "vector" else {1}
    if len(sizes) > 1 or max(sizes) > MAX_CROSSED_FEATURES:
        return None
    settings = FieldSettings(kind=kind, size=max(sizes) if kind == "vector" else None)
    try:
        columns = FieldReader({name: settings}).columns("", [{name: value} for value in values])
    except InvalidInput:
        return None
    if kind == "number" and _is_skewed(columns.numbers[0]):
        return replace(settings, transform="log")
    if kind == "category":
        different = len(set(columns.categories[0]))
        if len(values) >= FEW_TEXTS and different > MOSTLY_DIFFERENT * len(values):
            return None
        return replace(settings, categories=_room(different))
    if kind == "tags":
        return replace(settings, categories=_room(len({tag for tags in columns.tags[0] for tag in tags or ()})))
    return settings


def _is_skewed(values: Sequence[float | None]) -> bool:
    """Return whether no number is negative and the largest are further from the middle than the smallest."""
    low, middle, high = np.quantile(np.array(values, dtype=np.float64), [0.05, 0.5, 0.95]).tolist()
    return low >= 0.0 and min(cast("Sequence[float]", values)) >= 0.0 and high - middle > 2.0 * (middle - low)


def _room(different: int) -> int:
    """Return how many categories get columns of their own: twice as many as were seen."""
    return min(MOST_CATEGORIES, 2 * max(different, 2))
