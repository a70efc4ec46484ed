"""Request bodies that contain several payloads, or a part of one."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from rankloop.schema.base import Payload
from rankloop.schema.feedback_event import FeedbackEvent
from rankloop.schema.identifiers import Id
from rankloop.schema.item import Item
from rankloop.schema.rank_request import RankRequest


class BulkFeedback(Payload, frozen=True):
    """Feedback for many decisions."""

    events: Annotated[list[FeedbackEvent], Meta(description="Feedback events; each is accepted or refused by itself.")]


class RankBatch(Payload, frozen=True):
    """Requests for lists."""

    requests: Annotated[
        list[RankRequest], Meta(description="Requests for lists; each is answered or refused by itself.")
    ]


class Withdrawal(Payload, frozen=True):
    """A decision whose list was never shown."""

    decision: Annotated[Id, Meta(description="Id of the decision.")]


class ItemsBody(Payload, frozen=True):
    """Items to add or change, all of them or none."""

    items: Annotated[list[Item], Meta(description="Items to add, or to replace where the id exists.")]


class ItemsAnswer(Struct, frozen=True):
    """What had no effect when items were put: the names of fields that the ranker does not use."""

    unknown_fields: tuple[str, ...]


class TokenRequest(Payload, frozen=True):
    """A token for the browsers of a ranker's visitors."""

    seconds: Annotated[int, Meta(ge=1, description="Seconds for which the token is valid.")] = 600


class TokenAnswer(Struct, frozen=True):
    """A token: the ranker it is valid for, and the time in seconds since 1970 at which it expires."""

    token: str
    ranker: str
    expires: float


class ResetBody(Payload, frozen=True):
    """Whether a ranker starts again with nothing learned."""

    reset: bool = False


class ItemPage(Struct, frozen=True):
    """One page of a ranker's items, and the number of all of them."""

    items: list[Item]
    total: int
