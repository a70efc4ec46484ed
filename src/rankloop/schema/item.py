"""`Item`: an object that can be listed, and its prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from rankloop.schema.base import Payload, construct_unchecked
from rankloop.schema.fields import Fields
from rankloop.schema.identifiers import Id, printable
from rankloop.schema.limits import MAX_POSITION, MAX_PRIOR_SEGMENTS, MAX_PRIOR_STRENGTH
from rankloop.schema.rank_request import Number, Price

Strength = Annotated[float, Meta(ge=0.0, le=MAX_PRIOR_STRENGTH)]
Fraction = Annotated[float, Meta(ge=0.0, le=1.0)]
Position = Annotated[float, Meta(ge=-MAX_POSITION, le=MAX_POSITION)]


class SegmentPrior(Payload, frozen=True):
    """A prior score of an item in one segment, such as the score of another ranker."""

    where: ClassVar[str] = "prior"

    score: Annotated[Number, Meta(description="Expected outcome in the units of the objective.")]
    strength: Annotated[Strength, Meta(description="Weight of the score, as a number of observations.")]


class Prior(SegmentPrior, frozen=True, omit_defaults=True):
    """A prior score of an item, such as the score of another ranker."""

    segments: Annotated[
        dict[Id, SegmentPrior],
        Meta(max_length=MAX_PRIOR_SEGMENTS, description="Scores by segment, which replace the general score there."),
    ] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names that are not valid for a segment."""
        for segment in self.segments:
            printable("segments", segment)

    def in_segment(self, segment: str | None) -> SegmentPrior:
        """Return the prior in a segment; None stands for the segments without a separate score."""
        return self if segment is None else self.segments.get(segment, self)


class ItemBody(Payload, kw_only=True, frozen=True):
    """An item without its id."""

    features: Annotated[
        tuple[Number, ...] | None, Meta(description="Features of the item, if the ranker uses features (`dim`).")
    ] = None
    price: Annotated[Price, Meta(description="Value of a click, if the objective is revenue.")] = 0.0
    enabled: Annotated[bool, Meta(description="Whether the item may be listed.")] = True
    prior: Annotated[
        Prior | None, Meta(description="Prior score from which learning starts, such as the score of another ranker.")
    ] = None
    coverage: Annotated[
        tuple[Fraction, ...] | None,
        Meta(description="Fraction of each topic that the item covers, if the ranker uses topics (`coverage`)."),
    ] = None
    default_position: Annotated[
        Position | None, Meta(description="Sort key of the default order: smaller first, items without one last.")
    ] = None
    score: Annotated[
        Number | None,
        Meta(description="Your own score of the item, from which a policy that reads scores starts."),
    ] = None
    fields: Annotated[
        Fields | None,
        Meta(
            description="Fields of the item by name, such as its price, category and tags, from which the ranker"
            " computes features (`features`); without them, an existing item keeps its fields."
        ),
    ] = None


class Item(ItemBody, frozen=True):
    """An item with its id."""

    where: ClassVar[str] = "item"

    id: Annotated[Id, Meta(description="Id of the item: printable, and unique within the ranker.")]

    def __post_init__(self) -> None:
        """Refuse an id that cannot be printed."""
        printable("id", self.id)

    @classmethod
    def logged(
        cls,
        id: str,
        features: Sequence[float] | None,
        price: float,
        enabled: bool,
        prior: Prior | None,
        coverage: Sequence[float] | None,
        default_position: float | None,
        score: float | None = None,
        fields: Fields | None = None,
    ) -> Item:
        """Return an item of a log or a table without checks: an older version may have accepted it."""
        rows = {
            name: None if row is None else tuple(row) for name, row in (("features", features), ("coverage", coverage))
        }
        item = construct_unchecked(
            cls,
            id="-",
            price=price,
            enabled=enabled,
            prior=prior,
            default_position=default_position,
            score=score,
            fields=fields,
            **rows,
        )
        force_setattr(item, "id", id)  # the constructor would check it
        return item

    def as_mapping(self) -> dict[str, object]:
        """Return the fields that are not None, in the form that `of` accepts."""
        fields: dict[str, object] = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if value is not None}


ItemFields = Mapping[str, object]
"""An item as a mapping, in the form that `Item.of` accepts."""


def logged_prior(score: float, strength: float, segments: Mapping[str, Mapping[str, float]]) -> Prior:
    """Return a prior of a log or a snapshot without checks: an older version may have accepted it."""
    each = {
        name: construct_unchecked(SegmentPrior, score=one["score"], strength=one["strength"])
        for name, one in segments.items()
    }
    return construct_unchecked(Prior, score=score, strength=strength, segments=each)
