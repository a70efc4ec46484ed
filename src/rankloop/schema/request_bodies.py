"""Bodies over HTTP that hold several payloads, or a part of one."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rankloop.schema.base import Payload
from rankloop.schema.feedback_event import FeedbackEvent
from rankloop.schema.identifiers import Id
from rankloop.schema.item import Item


class BulkFeedback(Payload, frozen=True):
    """Feedback for many lists."""

    events: list[FeedbackEvent]


class Withdrawal(Payload, frozen=True):
    """A list that was never shown."""

    decision: Annotated[Id, Meta(description="id of the decision")]


class ItemsBody(Payload, frozen=True):
    """Items to add or change: all of them, or none."""

    items: list[Item]


class ResetBody(Payload, frozen=True):
    """Whether a ranker learns anew."""

    reset: bool = False


class ItemPage(Struct, frozen=True):
    """Some items, and how many there are."""

    items: list[Item]
    total: int
