"""The features of a ranker: which fields items and contexts have, and how these become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from msgspec import Meta, field

from rankloop.errors import MISSING, InvalidInput, Words, closest
from rankloop.schema.base import Payload
from rankloop.schema.identifiers import printable
from rankloop.schema.limits import (
    MAX_CATEGORIES,
    MAX_CROSSED_FEATURES,
    MAX_FEATURES,
    MAX_FIELD_NUMBER,
    MAX_FIELDS,
    MAX_HASHED,
    MAX_POSITIONS,
    MAX_TAGS,
    MIN_HASHED,
)

Kind = Literal["number", "boolean", "category", "tags", "vector"]
Transform = Literal["none", "log"]
FREEZE_AFTER = 100
"""Items after which scales are frozen, where the settings do not say."""
DEFAULT_CATEGORIES = 16
"""Categories of a field that have coefficients of their own, where the settings do not say: so many that the products
of two such fields fit into a dense row."""
SHARED_COLUMNS = 4
"""Columns of a dense row that all further categories of a field share, by their hash."""
DEFAULT_HASHED = 2**18
"""Coefficients of hashed rows, where a dense row would be too wide and the settings do not say."""
Scale = Annotated[float, Meta(ge=1e-12, le=MAX_FIELD_NUMBER)]
Center = Annotated[float, Meta(ge=-MAX_FIELD_NUMBER, le=MAX_FIELD_NUMBER)]


class FieldSettings(Payload, kw_only=True, frozen=True, omit_defaults=True):
    """How one field becomes columns of a row. The kind alone may be given as a text."""

    where: ClassVar[str] = "field"

    kind: Annotated[
        Kind,
        Meta(description="number, boolean, category (a text), tags (a list of texts) or vector (a list of numbers)."),
    ]
    transform: Annotated[
        Transform | None, Meta(description="For numbers: none, or log for sign(v)·log(1 + |v|) (default: none).")
    ] = None
    categories: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_CATEGORIES)] | None,
        Meta(
            description="For categories and tags: how many have coefficients of their own, first come, first served;"
            f" later ones share {SHARED_COLUMNS} columns (default: {DEFAULT_CATEGORIES})."
        ),
    ] = None
    size: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_CROSSED_FEATURES)] | None, Meta(description="For vectors: their length.")
    ] = None
    center: Annotated[
        Center | None, Meta(description="For numbers: what is subtracted after the transform (default: frozen later).")
    ] = None
    scale: Annotated[
        Scale | None,
        Meta(description="For numbers and vectors: what they are divided by after that (default: frozen later)."),
    ] = None

    @classmethod
    def of(cls, given: Self | Mapping[str, object] | str, field: str | None = None) -> Self:
        """Return the settings of a mapping, or of the kind alone."""
        return super().of({"kind": given} if isinstance(given, str) else given, field)

    def __post_init__(self) -> None:
        """Refuse settings that the kind does not have, and a vector without a size."""
        for name, kinds in _OF_KINDS.items():
            if getattr(self, name) is not None and self.kind not in kinds:
                raise InvalidInput(name, getattr(self, name), f"only for the kind {' or '.join(kinds)}")
        if self.kind == "vector" and self.size is None:
            raise InvalidInput("size", MISSING, "the length of the vector")

    @property
    def own_columns(self) -> int:
        """Columns of a dense row without that of missing values: a number, each category, each entry of a vector."""
        if self.kind in ("category", "tags"):
            return (self.categories or DEFAULT_CATEGORIES) + SHARED_COLUMNS
        return self.size or 1

    @property
    def columns(self) -> int:
        """Columns of a dense row."""
        return self.own_columns + 1

    @property
    def positions(self) -> int:
        """Most non-zero entries of a row."""
        return MAX_TAGS if self.kind == "tags" else self.size or 1


_OF_KINDS: dict[str, tuple[Kind, ...]] = {
    "transform": ("number",),
    "categories": ("category", "tags"),
    "size": ("vector",),
    "center": ("number",),
    "scale": ("number", "vector"),
}

FieldTable = Annotated[dict[str, FieldSettings], Meta(extra={"accepted": "a mapping from names to settings of fields"})]


class FeatureSettings(Payload, kw_only=True, frozen=True, omit_defaults=True):
    """The fields of items and contexts, and what is crossed."""

    where: ClassVar[str] = "features"

    items: Annotated[FieldTable, Meta(description="Fields of items, with their kind.")]
    context: Annotated[FieldTable, Meta(description="Fields of the context of a request, with their kind.")] = field(
        default_factory=dict
    )
    cross: Annotated[
        tuple[tuple[str, str], ...] | None,
        Meta(
            description="Pairs of fields whose products are features, too: of an item and of the context, or of two"
            " items (default: all fields of items with all of the context, or as many as fit into"
            f" {MAX_CROSSED_FEATURES} columns)."
        ),
    ] = None
    hashed: Annotated[
        Annotated[int, Meta(ge=MIN_HASHED, le=MAX_HASHED)] | None,
        Meta(
            description="Number of coefficients, a power of two, that sparse rows are hashed into; their covariance is"
            f" diagonal (default: dense rows, or {DEFAULT_HASHED} if these were longer than {MAX_CROSSED_FEATURES})."
        ),
    ] = None
    infer_items: Annotated[
        bool, Meta(description="Whether the fields of items are inferred again until `freeze_after` items are known.")
    ] = False
    infer_context: Annotated[
        bool, Meta(description="Whether the fields of the context are inferred from the first contexts.")
    ] = False
    freeze_after: Annotated[
        int,
        Meta(ge=1, le=10**6, description="Number of items after which the scales of numbers are frozen."),
    ] = FREEZE_AFTER

    def __post_init__(self) -> None:
        """Refuse unfit names, crosses of undeclared fields, and rows that are too long."""
        for where, fields in (("items", self.items), ("context", self.context)):
            least = 1 if where == "items" else 0
            if not least <= len(fields) <= MAX_FIELDS:
                raise InvalidInput(where, Words(f"a mapping with {len(fields)} fields"), f"{least} to {MAX_FIELDS}")
            for name in fields:
                printable(f"{where}.{name}", name)
        for i, pair in enumerate(self.cross or ()):
            self._check_pair(f"cross[{i}]", pair)
        if self.hashed is not None and self.hashed & (self.hashed - 1):
            raise InvalidInput("hashed", self.hashed, f"a power of two from {MIN_HASHED} to {MAX_HASHED}")
        if self.is_sparse and self.positions > MAX_POSITIONS:
            given = Words(f"{self.positions} positions of a sparse row, with its crosses")
            raise InvalidInput("cross", given, f"pairs of fields that make at most {MAX_POSITIONS}")
        if self.is_sparse and 2 * max(self._width("item", "positions"), self._width("context", "positions")) > (
            MAX_FEATURES
        ):
            raise InvalidInput("items", Words("too many values"), f"at most {MAX_FEATURES // 2} values in all")

    def _check_pair(self, where: str, pair: tuple[str, str]) -> None:
        """Refuse a pair that does not name a field of the items and another of the items or the context."""
        known = [*self.items, *self.context]
        for j, name in enumerate(pair):
            if name not in known:
                accepted = f"one of the declared fields {', '.join(known)}"
                raise InvalidInput(f"{where}[{j}]", name, accepted, closest(name, known))
        if pair[0] not in self.items or (pair[0] == pair[1] and pair[1] not in self.context):
            raise InvalidInput(where, list(pair), "a field of items first, then one of the context or another of items")
        if self.cross is not None and self.cross.count(pair) > 1:
            raise InvalidInput(where, list(pair), "each pair once")

    @property
    def item_crosses(self) -> tuple[tuple[str, str], ...]:
        """The declared pairs of two fields of items: those whose second name is no field of the context."""
        return tuple(pair for pair in self.cross or () if pair[1] not in self.context)

    @property
    def context_crosses(self) -> tuple[tuple[str, str], ...]:
        """The pairs of a field of items and one of the context.

        Where the settings declare none, these are all, or as many as fit into a dense row: those with the fewest
        products first. Hashed rows have room for all.
        """
        if self.cross is not None:
            return tuple(pair for pair in self.cross if pair[1] in self.context)
        room = MAX_CROSSED_FEATURES - 1 - self._width("item", "columns") - self._width("context", "columns")
        if self.hashed is not None or room < 0:
            return self.all_context_crosses
        kept = set()
        for pair in sorted(self.all_context_crosses, key=self._columns_of):
            room -= self._columns_of(pair)
            if room < 0:
                break
            kept.add(pair)
        return tuple(pair for pair in self.all_context_crosses if pair in kept)

    @property
    def all_context_crosses(self) -> tuple[tuple[str, str], ...]:
        """All pairs of a field of items and one of the context."""
        return tuple((item, context) for item in self.items for context in self.context)

    def _columns_of(self, pair: tuple[str, str]) -> int:
        return _product(self.items[pair[0]], self.context[pair[1]], "columns")

    @property
    def row_columns(self) -> int:
        """Columns of a dense row: a constant, the fields, and the products of those that are crossed."""
        return 1 + self._width("item", "columns") + self._width("context", "columns") + self._products("columns")

    @property
    def row_width(self) -> int:
        """Numbers of a row, as a policy has it: columns, or values and coefficients of sparse positions."""
        return 2 * self.positions if self.is_sparse else self.row_columns

    @property
    def positions(self) -> int:
        """Most non-zero entries of a row."""
        return 1 + self._width("item", "positions") + self._width("context", "positions") + self._products("positions")

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse: because the settings say so, or because a dense row would be too long."""
        return self.hashed is not None or self.row_columns > MAX_CROSSED_FEATURES

    @property
    def coefficients(self) -> int | None:
        """Number of coefficients of sparse rows; None where rows are dense."""
        return (self.hashed or DEFAULT_HASHED) if self.is_sparse else None

    def _width(self, of: Literal["item", "context"], measure: Literal["columns", "positions"]) -> int:
        """Return the columns or positions of the items, with those of their crosses, or of the context."""
        fields = self.items if of == "item" else self.context
        own = sum(int(getattr(one, measure)) for one in fields.values())
        pairs = self.item_crosses if of == "item" else ()
        return own + sum(_product(self.items[a], self.items[b], measure) for a, b in pairs)

    def _products(self, measure: Literal["columns", "positions"]) -> int:
        """Return the columns or positions of the products of fields of items and of the context."""
        return sum(_product(self.items[a], self.context[b], measure) for a, b in self.context_crosses)


def _product(a: FieldSettings, b: FieldSettings, measure: Literal["columns", "positions"]) -> int:
    """Return the number of products of two fields; the column of a missing value is not crossed."""
    if measure == "columns":
        return a.own_columns * b.own_columns
    return a.positions * b.positions
