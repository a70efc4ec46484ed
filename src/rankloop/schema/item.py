"""An item: something that can be listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from rankloop.schema.base import Payload, unchecked
from rankloop.schema.identifiers import Id, printable
from rankloop.schema.limits import MAX_AMOUNT, MAX_POSITION, MAX_PRIOR_SEGMENTS, MAX_PRIOR_STRENGTH
from rankloop.schema.rank_request import Number

Price = Annotated[float, Meta(ge=0.0, le=MAX_AMOUNT)]
Strength = Annotated[float, Meta(ge=0.0, le=MAX_PRIOR_STRENGTH)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Position = Annotated[float, Meta(ge=-MAX_POSITION, le=MAX_POSITION)]


class SegmentPrior(Payload, frozen=True):
    """What another ranker says of an item in one segment."""

    where: ClassVar[str] = "prior"

    score: Annotated[Number, Meta(description="mean outcome in the objective's units")]
    strength: Annotated[Strength, Meta(description="number of observations that the score is worth")]


class Prior(SegmentPrior, frozen=True, omit_defaults=True):
    """What another ranker says of an item."""

    segments: Annotated[
        dict[Id, SegmentPrior],
        Meta(max_length=MAX_PRIOR_SEGMENTS, description="scores by segment, each in place of the one above"),
    ] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse names that no segment can have."""
        for segment in self.segments:
            printable("segments", segment)

    def in_segment(self, segment: str | None) -> SegmentPrior:
        """What it says of the item in a segment; None: in those of which it says nothing."""
        return self if segment is None else self.segments.get(segment, self)


class ItemBody(Payload, kw_only=True, frozen=True):
    """An item, its id apart."""

    features: Annotated[
        tuple[Number, ...] | None, Meta(description="features, where the ranker has them (ranker.dim)")
    ] = None
    price: Annotated[Price, Meta(description="value of a click, where the objective is revenue")] = 0.0
    enabled: Annotated[bool, Meta(description="whether it may be listed")] = True
    prior: Annotated[Prior | None, Meta(description="score of another ranker to start from")] = None
    coverage: Annotated[
        tuple[Share, ...] | None, Meta(description="share of each topic that it covers (ranker.coverage)")
    ] = None
    default_position: Annotated[
        Position | None, Meta(description="place in the default order: smaller first, items without one last")
    ] = None


class Item(ItemBody, frozen=True):
    """An item with its id."""

    where: ClassVar[str] = "item"

    id: Annotated[Id, Meta(description="id, printable, unique among the ranker's items")]

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
    ) -> Item:
        """An item as a log or a table has it: what was accepted once, perhaps by an older version, stays accepted."""
        rows = {
            name: None if row is None else tuple(row) for name, row in (("features", features), ("coverage", coverage))
        }
        made = unchecked(
            cls, id="-", price=price, enabled=enabled, prior=prior, default_position=default_position, **rows
        )
        force_setattr(made, "id", id)  # not by the constructor, which would check it
        return made

    def as_mapping(self) -> dict[str, object]:
        """What `of` accepts, what is not known left out."""
        told: dict[str, object] = msgspec.to_builtins(self)
        return {name: value for name, value in told.items() if value is not None}


ItemFields = Mapping[str, object]
"""An item as a mapping, which `Item.of` reads."""


def logged_prior(score: float, strength: float, segments: Mapping[str, Mapping[str, float]]) -> Prior:
    """A prior as a log or a snapshot has it: what was accepted once stays accepted."""
    each = {
        name: unchecked(SegmentPrior, score=one["score"], strength=one["strength"]) for name, one in segments.items()
    }
    return unchecked(Prior, score=score, strength=strength, segments=each)
