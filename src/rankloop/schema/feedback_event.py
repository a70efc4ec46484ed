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

    def by_slot(self, listed: Sequence[str | None]) -> list[float]:
        """Return the outcome of every slot: 1 where it was clicked, or its value.

        Args:
            listed: the ids of the decision's list, None in an empty slot.
        """
        outcome = [0.0] * len(listed)
        if self.clicked is not None:
            for i, slot in enumerate(self.clicked):
                if slot >= len(listed) or listed[slot] is None:
                    shown = f"a slot that showed an item, from 0 to {len(listed) - 1}"
                    raise InvalidInput(f"clicked[{i}]", slot, shown)
                outcome[slot] = 1.0
        elif self.values is not None:
            for slot, value in enumerate(_one_per_slot(self.values, listed)):
                outcome[slot] = value
                if value and listed[slot] is None:
                    raise InvalidInput(f"values[{slot}]", value, "0, since nothing was shown in this slot")
        elif self.item_values is not None:
            for id, value in self.item_values.items():
                outcome[_slot_of(f"item_values.{id}", id, listed)] = value
        elif self.items is not None:
            for i, id in enumerate(self.items):
                outcome[_slot_of(f"items[{i}]", id, listed)] = 1.0
        return outcome


def _one_per_slot(values: Sequence[float], listed: Sequence[str | None]) -> Sequence[float]:
    """Check that there is a number for each slot; empty slots at the end may be left out."""
    k = len(listed)
    if len(values) > k or any(id is not None for id in listed[len(values) :]):
        accepted = f"a list of {k} numbers, one for each slot (numbers by item are item_values)"
        raise InvalidInput("values", values, accepted)
    return values


def _slot_of(field: str, id: str, listed: Sequence[str | None]) -> int:
    if id not in listed:
        raise InvalidInput(field, id, "an item of this list")
    return listed.index(id)
