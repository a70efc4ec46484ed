"""`Connection`: the operations on rankers, wherever they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self, Unpack

from rankloop.schema import (
    Item,
    ItemFields,
    RankAnswer,
    RankerAnswer,
    RankerSettings,
    RankRequest,
    Receipt,
    RequestItems,
)
from rankloop.schema.answers import BatchAnswer
from rankloop.schema.fields import Fields
from rankloop.schema.ranker_fields import RankerFields
from rankloop.schema.request_bodies import ItemsAnswer


class Connection(Protocol):
    """Rankers by name: in memory, in a file, in a database or behind a service, with the same answers and errors.

    Invalid arguments raise `InvalidInput` or `Unsupported`, unknown names `NotFound`, and an id or settings that
    contradict the current state `Conflict`. A log or a service that cannot be reached raises `Unavailable`.
    """

    def put_ranker(
        self,
        ranker: str,
        config: RankerSettings | Mapping[str, object] | None = None,
        **fields: Unpack[RankerFields],
    ) -> RankerAnswer:
        """Create a ranker, or change its settings; adjustable settings that are not given keep their values.

        A setting that determines what was learned cannot change: `Conflict`.
        """

    def ranker(self, ranker: str) -> RankerAnswer:
        """Return the settings, counts and results of a ranker."""

    def rankers(self) -> list[RankerAnswer]:
        """Return all rankers."""

    def delete_ranker(self, ranker: str) -> None:
        """Delete a ranker; its log is kept."""

    def put_items(self, ranker: str, items: Sequence[Item | ItemFields]) -> ItemsAnswer | None:
        """Add or change items, all of them or none; return what had no effect, if anything."""

    def items(self, ranker: str, *, limit: int = 1000, offset: int = 0) -> list[Item]:
        """Return items in the order in which they were added."""

    def item(self, ranker: str, id: str) -> Item:
        """Return one item."""

    def remove_item(self, ranker: str, id: str) -> None:
        """Remove an item; if its id is added again, it is a new item."""

    def rank(
        self,
        ranker: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        context: Sequence[float] | Fields | None = None,
        candidates: Sequence[str] | None = None,
        items: RequestItems | None = None,
        open: bool = False,
        exclude: Sequence[str] = (),
        pin: Mapping[int, str] | None = None,
        segment: str = "",
        propensity: int = 0,
        order: Sequence[str] | None = None,
        rewards: Sequence[float] | None = None,
        losses: Sequence[float] | None = None,
        visitor: str | None = None,
        strict: bool = False,
        decision: str | None = None,
        after: int | None = None,
    ) -> RankAnswer:
        """Decide a list; `schema.RankRequest` describes the options."""

    def rank_many(self, ranker: str, requests: Sequence[RankRequest | Mapping[str, object]]) -> list[BatchAnswer]:
        """Decide a list for each request; each is answered or refused by itself."""

    def feedback(
        self,
        ranker: str,
        decision: str,
        *,
        clicked: Sequence[int] | None = None,
        items: Sequence[str] | None = None,
        values: Sequence[float] | None = None,
        item_values: Mapping[str, float] | None = None,
        event: str | None = None,
        final: bool = False,
        regret: float | None = None,
        seen: int | Sequence[int] | None = None,
        kind: str = "click",
        value: float | None = None,
    ) -> Receipt:
        """Report feedback for a decision; `schema.FeedbackEvent` describes the options."""

    def withdraw(self, ranker: str, decision: str) -> Receipt:
        """Withdraw a decision whose list was never shown; nothing is learned from it."""

    def close(self) -> None:
        """Store the state and close files and connections."""

    def __enter__(self) -> Self:
        """Return the connection, which is closed at the end of the block."""

    def __exit__(self, *error: object) -> None:
        """Close the connection."""
