"""`FeedbackEvent`: clicks, values or "no click", reported for a decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from rankloop.errors import InvalidInput
from rankloop.schema.base import Payload
from rankloop.schema.identifiers import Id, printable
from rankloop.schema.limits import MAX_AMOUNT
from rankloop.schema.rank_request import Number, Slot

Regret = Annotated[float, Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT)]
Values = Annotated[
    Sequence[Number],
    Meta(extra={"accepted": "a list of numbers, one for each slot (numbers by item are item_values)"}),
]
ItemValues = Annotated[Mapping[Id, Number], Meta(extra={"accepted": "a mapping from items of this list to numbers"})]
OUTCOME_FIELDS = ("clicked", "items", "values", "item_values")
"""Alternative fields for the outcome; an event has at most one of them."""


class FeedbackEvent(Payload, frozen=True):
    """Feedback for a decision: clicked slots, clicked items, or values. An empty list means seen and not clicked."""

    decision: Annotated[Id, Meta(description="Id of the decision.")]
    clicked: Annotated[
        Sequence[Slot] | None,
        Meta(description="Slots that were clicked, counted from 0; an empty list means that nothing was clicked."),
    ] = None
    items: Annotated[
        Sequence[Id] | None, Meta(description="Ids of the items that were clicked, as an alternative to `clicked`.")
    ] = None
    values: Annotated[
        Values | None,
        Meta(
            description="Values such as purchase amounts or seconds watched, one for each slot, as an alternative to"
            " `clicked`."
        ),
    ] = None
    item_values: Annotated[ItemValues | None, Meta(description="Values by item id, as an alternative to `values`.")] = (
        None
    )
    event: Annotated[
        Id | None, Meta(description="Your id of the event; an event that is sent twice is learned once.")
    ] = None
    final: Annotated[
        bool,
        Meta(description="Whether this is the last event of the decision, which is then settled without its window."),
    ] = False
    regret: Annotated[
        Regret | None,
        Meta(description="Value lost compared with the best list, if it is known (simulated visitors)."),
    ] = None

    def __post_init__(self) -> None:
        """Refuse an event with two outcomes, and an id that cannot be printed."""
        if self.event is not None:
            printable("event", self.event)
        if (self.clicked, self.items, self.values, self.item_values).count(None) < len(OUTCOME_FIELDS) - 1:
            first, second = [name for name in OUTCOME_FIELDS if getattr(self, name) is not None][:2]
            raise InvalidInput(second, getattr(self, second), f"only {first}")
