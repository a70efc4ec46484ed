"""What happened to a list."""

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
FORMS = ("clicked", "items", "values", "item_values")
"""One of them says what happened."""


class FeedbackEvent(Payload, frozen=True):
    """Feedback for a decision: clicked slots, or items, or numbers; an empty list: seen, and nothing happened."""

    decision: Annotated[Id, Meta(description="id of the decision")]
    clicked: Annotated[
        Sequence[Slot] | None, Meta(description="slots, from 0, that were clicked; empty: seen, and nothing happened")
    ] = None
    items: Annotated[Sequence[Id] | None, Meta(description="ids that were clicked, instead of slots")] = None
    values: Annotated[
        Values | None, Meta(description="amounts (of a purchase, seconds watched), one for each slot, instead")
    ] = None
    item_values: Annotated[ItemValues | None, Meta(description="amounts by item id, instead")] = None
    event: Annotated[Id | None, Meta(description="your id of the event; the same event twice counts once")] = None
    final: Annotated[bool, Meta(description="nothing more will come for this list: do not wait for the window")] = False
    regret: Annotated[
        Regret | None, Meta(description="value lost against the best list, where it is known (simulated visitors)")
    ] = None

    def __post_init__(self) -> None:
        """Refuse an event that says twice what happened, or whose id cannot be printed."""
        if self.event is not None:
            printable("event", self.event)
        if (self.clicked, self.items, self.values, self.item_values).count(None) < len(FORMS) - 1:
            first, second = [name for name in FORMS if getattr(self, name) is not None][:2]
            raise InvalidInput(second, getattr(self, second), f"only {first}")
