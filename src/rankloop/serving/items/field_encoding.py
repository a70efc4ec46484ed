"""The encoders of a ranker's fields: what they learned from the log, and when."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from rankloop.arrays import Array
from rankloop.errors import InvalidInput
from rankloop.features import Encoder, RankerFeatures, context_encoder, item_encoder
from rankloop.schema.feature_settings import FeatureSettings
from rankloop.schema.fields import Fields
from rankloop.types import FloatArray

Read = Mapping[str, object]
"""Fields as they are read: values of any kind."""
decode_fields = msgspec.json.Decoder(dict[str, float | bool | str | list[float | str] | None]).decode
decode_list = msgspec.json.Decoder(list[dict[str, float | bool | str | list[float | str] | None] | None]).decode
NO_FIELDS: Fields = {}


class LoggedEncoder:
    """An encoder that learns from the events of a log, and encodes as of any position of it.

    A category has a column of its own once an event with it was applied. Rows of a list that was decided before are
    encoded with what was known then.

    Args:
        blank: returns an encoder that has learned nothing.
    """

    def __init__(self, blank: Callable[[], Encoder]) -> None:
        self.encoder, self._blank = blank(), blank
        self._former = self.encoder
        self._positions: list[int] = []  # of the events from which it learned something
        self._sizes: list[tuple[int, ...]] = [self.encoder.sizes]  # what was known of each field before these, and now
        self._former_is: int | None = None  # the number of these events that the former encoder knows

    def learn(self, mappings: Sequence[Read], position: int) -> None:
        """Note what is new in the event at a position; values of another kind than declared count as missing."""
        try:
            self.encoder.learn(mappings)
        except InvalidInput:
            self.encoder.learn(_usable(self.encoder, mappings))
        if self.encoder.sizes != self._sizes[-1]:
            self._positions.append(position)
            self._sizes.append(self.encoder.sizes)

    def rows(self, mappings: Sequence[Read], as_of: int | None = None) -> FloatArray:
        """Return the rows of mappings [n, width] with what was known at a position, by default now."""
        encoder = self.encoder if as_of is None else self._as_of(as_of)
        try:
            return encoder.encode(mappings)
        except InvalidInput:
            return encoder.encode(_usable(encoder, mappings))

    def _as_of(self, position: int) -> Encoder:
        known = bisect_right(self._positions, position)
        if known == len(self._positions):
            return self.encoder
        if self._former_is != known:
            self._former = self._blank()
            self._former.restore(_first(self.encoder.arrays(), self._sizes[known]))
            self._former_is = known
        return self._former

    def arrays(self) -> dict[str, Array]:
        """Return what was learned, for a snapshot."""
        return {
            **self.encoder.arrays(),
            "positions": np.array(self._positions, dtype=np.int64),
            "sizes": np.array(self._sizes, dtype=np.int64),
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what `arrays` returned."""
        self.encoder.restore(arrays)
        self._positions = arrays["positions"].tolist()
        self._sizes = [tuple(sizes) for sizes in arrays["sizes"].tolist()]
        self._former_is = None


def _usable(encoder: Encoder, mappings: Sequence[Read]) -> list[dict[str, object]]:
    """Return the mappings without values of the wrong kind, as a log of other settings may have them."""
    return [{name: value for name, value in fields.items() if _fits(encoder, name, value)} for fields in mappings]


def _fits(encoder: Encoder, name: str, value: object) -> bool:
    try:
        encoder.check("", {name: value})
    except InvalidInput:
        return False
    return True


def _first(arrays: Mapping[str, Array], sizes: Sequence[int]) -> dict[str, Array]:
    """Return the arrays of an encoder as they were when it knew this number of texts of each field; -1: no value."""
    of_field, ends = arrays["field"].tolist(), [0, *arrays["ends"].tolist()]
    left, kept, texts = list(sizes), [], bytearray()
    new_ends: list[int] = []
    for n, field in enumerate(of_field):
        if left[field] > 0:
            left[field] -= 1
            kept.append(field)
            texts += arrays["text"][ends[n] : ends[n + 1]].tobytes()
            new_ends.append(len(texts))
    return {
        "seen": np.array([size >= 0 for size in sizes], dtype=np.bool_),
        "field": np.array(kept, dtype=np.int64),
        "ends": np.array(new_ends, dtype=np.int64),
        "text": np.frombuffer(bytes(texts), dtype=np.uint8),
    }


class FieldEncoding:
    """The encoders of a ranker's items and contexts."""

    def __init__(self, settings: FeatureSettings) -> None:
        features = RankerFeatures(settings)
        self.settings, self.dim, self.context_width = settings, features.dim, features.context_width
        self.note = features.note
        self.items = LoggedEncoder(lambda: item_encoder(settings))
        self.context = LoggedEncoder(lambda: context_encoder(settings)) if settings.context else None

    # Requests

    def check_item(self, field: str, fields: Fields) -> None:
        """Refuse values of another kind than declared."""
        self.items.encoder.check(field, fields)

    def given_context(self, fields: Fields | None) -> FloatArray | None:
        """Return the context of a request [1, dx], or refuse values of another kind than declared."""
        if self.context is None:
            return None
        fields = NO_FIELDS if fields is None else fields
        return self.context.encoder.encode([fields], "context")

    def unknown_in_items(self, mappings: Sequence[Fields | None]) -> list[str]:
        """Return the names of fields of items that are not declared, each once."""
        unknown = self.items.encoder.unknown
        return list({name: None for fields in mappings if fields for name in unknown(fields)})

    def unknown_in_context(self, fields: Fields) -> list[str]:
        """Return the names of fields of the context that are not declared."""
        return list(fields) if self.context is None else self.context.encoder.unknown(fields)

    # The log

    def learn_context(self, context: str | None, position: int) -> None:
        """Note the categories of the context of a decision, as JSON."""
        if self.context is not None and context is not None:
            self.context.learn([decode_fields(context)], position)

    def logged_context(self, context: str | None, as_of: int) -> FloatArray | None:
        """Return the context of a logged decision [1, dx] with what was known at a position."""
        if self.context is None:
            return None
        return self.context.rows([NO_FIELDS if context is None else decode_fields(context)], as_of)

    def logged_rows(self, stored: FloatArray, items: str, as_of: int) -> FloatArray:
        """Return the rows of candidates [C, d]: those of the fields that a request brought, else the stored ones."""
        mappings = decode_list(items)
        brought = [n for n, fields in enumerate(mappings) if fields is not None]
        rows = stored.copy()
        rows[brought] = self.items.rows([fields for fields in mappings if fields is not None], as_of)
        return rows

    # Snapshots

    def arrays(self) -> dict[str, Array]:
        """Return what was learned, for a snapshot."""
        parts = {"encoder": self.items} | ({} if self.context is None else {"context_encoder": self.context})
        return {f"{part}_{name}": array for part, one in parts.items() for name, array in one.arrays().items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what `arrays` returned."""
        self.items.restore(_part("encoder_", arrays))
        if self.context is not None:
            self.context.restore(_part("context_encoder_", arrays))


def _part(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
