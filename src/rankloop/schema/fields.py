"""Named fields of items and of contexts, as callers have them: numbers, texts, booleans and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from rankloop.schema.limits import MAX_FIELD_NUMBER, MAX_ID_LENGTH, MAX_RAW_ENTRIES, MAX_RAW_FIELDS, MAX_RAW_TEXT

FieldName = Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH)]
FieldNumber = Annotated[float, Meta(ge=-MAX_FIELD_NUMBER, le=MAX_FIELD_NUMBER)]
FieldText = Annotated[str, Meta(max_length=MAX_RAW_TEXT)]
ACCEPTED_VALUE = (
    f"a number from {-MAX_FIELD_NUMBER:g} to {MAX_FIELD_NUMBER:g}, true or false, a text of at most {MAX_RAW_TEXT} "
    f"characters, a list of at most {MAX_RAW_ENTRIES} numbers or texts, or null"
)
FieldValue = float | bool | str | Sequence[float | str] | None
"""Value of a field: a number, true or false, a text, a list of numbers or of texts, or null where it is missing."""

if TYPE_CHECKING:
    Fields = Mapping[str, FieldValue]
else:
    FieldEntries = Annotated[Sequence[FieldNumber | FieldText], Meta(max_length=MAX_RAW_ENTRIES)]
    Fields = Annotated[
        dict[
            FieldName,
            Annotated[FieldNumber | bool | FieldText | FieldEntries | None, Meta(extra={"accepted": ACCEPTED_VALUE})],
        ],
        Meta(max_length=MAX_RAW_FIELDS),
    ]
