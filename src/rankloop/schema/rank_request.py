"""What is asked for when a list is to be decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from rankloop.schema.base import Payload
from rankloop.schema.identifiers import Id, printable
from rankloop.schema.limits import MAX_DRAWS, MAX_ID_LENGTH, MAX_MAGNITUDE, MAX_SLOTS

Number = Annotated[float, Meta(ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)]
Slot = Annotated[int, Meta(ge=0, le=MAX_SLOTS - 1)]
Ids = Annotated[Sequence[Id], Meta(extra={"accepted": "a list of ids"})]
Length = Annotated[int, Meta(ge=0, le=MAX_SLOTS)]
Natural = Annotated[int, Meta(ge=0)]
Draws = Annotated[int, Meta(ge=0, le=MAX_DRAWS)]
Segment = Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
Pins = Annotated[Mapping[Slot, Id], Meta(extra={"accepted": "a mapping from slots to ids of items"})]


class RankRequest(Payload, kw_only=True, frozen=True):
    """A question for a list. All of it is optional."""

    k: Annotated[Length | None, Meta(description="number of items; default: the ranker's slots")] = None
    budget: Annotated[
        Natural | None,
        Meta(description="upper limit of the list's length, for policies that choose it; others fill what they can"),
    ] = None
    context: Annotated[
        Sequence[Number] | None, Meta(description="features of the visitor, where the ranker has contexts")
    ] = None
    candidates: Annotated[
        Ids | None, Meta(description="ids of the items that may be listed; default: all enabled ones")
    ] = None
    exclude: Annotated[Ids, Meta(description="ids of items that may not be listed")] = ()
    pin: Annotated[Pins | None, Meta(description="slot, from 0, to the item that stands there")] = None
    segment: Annotated[Segment, Meta(description="whose learner decides; a new segment starts from nothing")] = ""
    propensity: Annotated[
        Draws,
        Meta(description="number of draws that estimate how likely the list was, where that has no closed form"),
    ] = 0
    order: Annotated[
        Ids | None,
        Meta(description="your own order, which the control group sees; default: items by default_position"),
    ] = None
    visitor: Annotated[Id | None, Meta(description="who is asking; the same visitor is always in the same group")] = (
        None
    )
    strict: Annotated[
        bool, Meta(description="refuse ids of no item; by default they are ignored and named in the answer")
    ] = False
    decision: Annotated[
        Id | None, Meta(description="your id of the decision; the same request with the same id gets the same list")
    ] = None

    def __post_init__(self) -> None:
        """Refuse names that cannot be printed."""
        if self.segment:
            printable("segment", self.segment)
        if self.visitor is not None:
            printable("visitor", self.visitor)
        if self.decision is not None:
            printable("decision", self.decision)
