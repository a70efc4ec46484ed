"""Scales of numbers from the first values of a field."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from rankloop.schema.feature_settings import FeatureSettings, FieldSettings
from rankloop.schema.field_values import FieldReader, Mappings
from rankloop.schema.limits import MAX_FIELD_NUMBER
from rankloop.types import FloatArray

QUARTILES_TO_DEVIATION = 1.349
"""Distance of the quartiles of a normal distribution, in standard deviations."""


def freeze(settings: FeatureSettings, items: Mappings, contexts: Mappings) -> FeatureSettings:
    """Return the settings with the center and scale of every number that has none, and the scale of every vector.

    The center is the median. The scale is the distance of the quartiles over 1.349, so that few extreme values do not
    matter; the standard deviation where the quartiles are equal, and 1 where all values are. The entries of a vector
    keep 0 as it is and share one scale, their root mean square. Without any value a field keeps what it has.
    """
    return replace(settings, items=_frozen(settings.items, items), context=_frozen(settings.context, contexts))


def _frozen(fields: Mapping[str, FieldSettings], mappings: Mappings) -> dict[str, FieldSettings]:
    reader = FieldReader(fields)
    columns = reader.columns("fields[{}]", mappings)
    frozen = dict(fields)
    for name, values in zip(reader.numbers, columns.numbers, strict=True):
        if fields[name].kind == "number" and fields[name].scale is None:
            raw = np.array(values, dtype=np.float64)
            frozen[name] = _number(fields[name], raw[~np.isnan(raw)])
    for name, vectors in zip(reader.vectors, columns.vectors, strict=True):
        entries = np.array([value for value in vectors if value is not None], dtype=np.float64)
        if entries.size and fields[name].scale is None:
            largest = float(np.abs(entries).max()) or 1.0  # divided first: small squares would vanish
            scale = largest * float(np.sqrt(np.mean((entries / largest) ** 2)))
            frozen[name] = replace(fields[name], scale=_usable(scale))
    return frozen


def _number(settings: FieldSettings, values: FloatArray) -> FieldSettings:
    if not len(values):
        return settings
    if settings.transform == "log":
        values = np.sign(values) * np.log1p(np.abs(values))
    low, center, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    scale = (high - low) / QUARTILES_TO_DEVIATION or float(np.std(values))
    return replace(settings, center=center if settings.center is None else settings.center, scale=_usable(scale))


def _usable(scale: float) -> float:
    """Return a scale; 1 where all values are the same but for rounding."""
    return min(scale, MAX_FIELD_NUMBER) if scale > 1e-9 else 1.0
