"""`FeedbackEvent`: clicks, values or "no click", reported for a decision."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from rankloop.errors import InvalidInput, closest
from rankloop.schema.base import Payload
from rankloop.schema.identifiers import Id, printable
from rankloop.schema.limits import MAX_AMOUNT
from rankloop.schema.rank_request import Number, Slot
from rankloop.schema.reward import CLICK, IMPRESSION, Activation

Regret = Annotated[float, Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT)]
Values = Annotated[
    Sequence[Number],
    Meta(extra={"accepted": "a list of numbers, one for each slot (numbers by item are item_values)"}),
]
SeenSlots = Slot | Sequence[Slot]
"""The last slot that was visible, or all slots that were."""
ItemValues = Annotated[Mapping[Id, Number], Meta(extra={"accepted": "a mapping from items of this list to numbers"})]
OUTCOME_FIELDS = ("clicked", "items", "values", "item_values")
"""Alternative fields for the outcome; an event has at most one of them."""
NOT_OF_IMPRESSIONS = (*OUTCOME_FIELDS, "final", "regret", "seen", "value")
"""Fields that an impression event does not have."""


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

    seen: Annotated[
        SeenSlots | None,
        Meta(
            description="The last slot that was visible, or a list of the visible slots; nothing is learned about the"
            " others. Without it, all slots count as visible.",
            extra={"accepted": "the last visible slot, or a list of the visible slots, counted from 0"},
        ),
    ] = None
    kind: Annotated[
        Id,
        Meta(
            description="Kind of the event, one of those that the ranker's `reward` declares; or impression, which"
            " says only that the list was shown."
        ),
    ] = CLICK
    value: Annotated[
        Number | None,
        Meta(description="Value of each slot or item that `clicked` or `items` names, such as a price (default: 1)."),
    ] = None

    def __post_init__(self) -> None:
        """Refuse an event with two outcomes or with a value of nothing, and an id that cannot be printed."""
        if self.event is not None:
            printable("event", self.event)
        if (self.clicked, self.items, self.values, self.item_values).count(None) < len(OUTCOME_FIELDS) - 1:
            first, second = [name for name in OUTCOME_FIELDS if getattr(self, name) is not None][:2]
            raise InvalidInput(second, getattr(self, second), f"only {first}")
        if self.kind == IMPRESSION:
            for name in NOT_OF_IMPRESSIONS:
                if getattr(self, name) not in (None, False):
                    raise InvalidInput(name, getattr(self, name), "nothing in an impression, which is no feedback yet")
        elif self.value is not None and self.clicked is None and self.items is None:
            raise InvalidInput("value", self.value, "a value only beside the slots (clicked) or items that it is of")

    def check_kind(self, kinds: Collection[str], activation: Activation) -> None:
        """Refuse a kind that a ranker does not take.

        Args:
            kinds: that its `reward` declares; none without this section, and then there are clicks only.
            activation: of the ranker.
        """
        if self.kind in kinds or (self.kind == CLICK and not kinds):
            return
        if self.kind != IMPRESSION:
            accepted = f"one of {', '.join(kinds)}" if kinds else f"{CLICK}, since the ranker has no reward section"
            raise InvalidInput("kind", self.kind, accepted, closest(self.kind, kinds or (CLICK,)))
        if activation != "impression":
            accepted = f"one of {', '.join(kinds or (CLICK,))}, since ranker.activation is {activation!r}"
            raise InvalidInput("kind", self.kind, accepted)

    def by_slot(self, listed: Sequence[str | None]) -> list[float]:
        """Return the outcome of every slot: 1 where it was clicked, or the value.

        Args:
            listed: the ids of the decision's list, None in an empty slot.
        """
        outcome, value = [0.0] * len(listed), 1.0 if self.value is None else self.value
        if self.clicked is not None:
            for i, slot in enumerate(self.clicked):
                if slot >= len(listed) or listed[slot] is None:
                    shown = f"a slot that showed an item, from 0 to {len(listed) - 1}"
                    raise InvalidInput(f"clicked[{i}]", slot, shown)
                outcome[slot] = value
        elif self.values is not None:
            for slot, one in enumerate(_one_per_slot(self.values, listed)):
                outcome[slot] = one
                if one and listed[slot] is None:
                    raise InvalidInput(f"values[{slot}]", one, "0, since nothing was shown in this slot")
        elif self.item_values is not None:
            for id, one in self.item_values.items():
                outcome[_slot_of(f"item_values.{id}", id, listed)] = one
        elif self.items is not None:
            for i, id in enumerate(self.items):
                outcome[_slot_of(f"items[{i}]", id, listed)] = value
        return outcome

    def check_seen(self, outcome: Sequence[float]) -> None:
        """Refuse slots that the list does not have, a slot that is named twice, and a click in a slot nobody saw.

        Args:
            outcome: of every slot, from `by_slot`.
        """
        if self.seen is None:
            return
        slots = f"slots of the list, from 0 to {len(outcome) - 1}, each once"
        if isinstance(self.seen, int):
            if self.seen >= len(outcome):
                raise InvalidInput("seen", self.seen, slots)
        else:
            for i, slot in enumerate(self.seen):
                if slot >= len(outcome) or slot in self.seen[:i]:
                    raise InvalidInput(f"seen[{i}]", slot, slots)
        visible = set(visible_slots(self.seen))
        for slot, value in enumerate(outcome):
            if value and slot not in visible:
                raise InvalidInput("seen", self.seen, f"slots that include slot {slot}, for which feedback is reported")


def visible_slots(seen: SeenSlots) -> Sequence[int]:
    """Return the slots that were visible."""
    return range(seen + 1) if isinstance(seen, int) else seen


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
