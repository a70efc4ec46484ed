"""Settings of features over time: inferred, given fixed scales, and carried over to the next configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from rankloop.errors import InvalidInput
from rankloop.eventlog.events import DecisionMade, decode_as
from rankloop.eventlog.store import Store
from rankloop.features import freeze, infer
from rankloop.schema.feature_settings import FeatureSettings, FieldSettings
from rankloop.schema.fields import Fields
from rankloop.serving.items.field_encoding import decode_fields

FEW_CATEGORIES = 4
"""Categories of a field with coefficients of their own, where rows would otherwise be too long."""
FIRST_CONTEXTS = 50
"""Requests with fields of a context from which `features: auto` infers those of the context."""


def due(
    features: FeatureSettings | None, items: Sequence[Fields], contexts: Sequence[Fields]
) -> FeatureSettings | None:
    """Return the features that a ranker should have next, if these are others.

    Args:
        features: those that it has; None if they are to be inferred and nothing was yet.
        items: fields of the first items.
        contexts: fields of the first contexts.
    """
    known = contexts if len(contexts) >= FIRST_CONTEXTS else ()
    next = features
    if next is None or next.infer_items or (next.infer_context and known):
        try:
            inferred = infer(items, known)
        except InvalidInput:  # no item has a field that can be used
            return None
        if next is not None:
            inferred = replace(carried_over(inferred, next), freeze_after=next.freeze_after)
        next = replace(inferred, infer_items=len(items) < inferred.freeze_after, infer_context=not known)
    enough = next.freeze_after
    frozen = freeze(next, items if len(items) >= enough else (), contexts if len(contexts) >= enough else ())
    return None if frozen == features else frozen


def simplified(features: FeatureSettings, before: FeatureSettings | None) -> Iterator[FeatureSettings]:
    """Yield features and, for policies whose rows cannot be as long, simpler ones: no products, then few categories.

    Args:
        features: that are due.
        before: those that the ranker has; what a user has declared stays as it is.
    """
    yield features
    if before is None or before.infer_items or before.infer_context:
        short = replace(features, hashed=None, cross=())
        yield short
        yield replace(short, items=_few_categories(short.items), context=_few_categories(short.context))


def _few_categories(fields: Mapping[str, FieldSettings]) -> dict[str, FieldSettings]:
    return {
        name: one if one.categories is None else replace(one, categories=min(one.categories, FEW_CATEGORIES))
        for name, one in fields.items()
    }


def carried_over(given: FeatureSettings, before: FeatureSettings) -> FeatureSettings:
    """Return given features with the scales that fields of the same kind had before, so that these stay as they are."""
    return replace(given, items=_scaled(given.items, before.items), context=_scaled(given.context, before.context))


def _scaled(given: Mapping[str, FieldSettings], before: Mapping[str, FieldSettings]) -> dict[str, FieldSettings]:
    return {name: one if name not in before else _with_scale(one, before[name]) for name, one in given.items()}


def _with_scale(given: FieldSettings, before: FieldSettings) -> FieldSettings:
    alike = (given.kind, given.transform, given.size) == (before.kind, before.transform, before.size)
    if not alike or given.scale is not None or given.center is not None:
        return given
    return replace(given, center=before.center, scale=before.scale)


def first_contexts(store: Store, log: str, most: int) -> list[Fields]:
    """Return the fields of the first contexts in a log, at most this number."""
    events = (
        decode_as(DecisionMade, entry)
        for entry in store.read(log)
        if entry.kind == DecisionMade.kind and b'"context_fields"' in entry.body
    )
    texts = (event.context_fields for event in events if event.context_fields is not None)
    return [decode_fields(text) for text in islice(texts, most)]
