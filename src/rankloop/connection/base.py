"""`Connection`: all that one can do with rankers, wherever they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self, Unpack

from rankloop.schema import Item, ItemFields, RankAnswer, RankerAnswer, RankerSettings, Receipt
from rankloop.schema.ranker_fields import RankerFields


class Connection(Protocol):
    """Rankers by name: in memory, in a file, in a database or behind a service, with the same answers and errors.

    What is given wrong raises `InvalidInput` or `Unsupported`; a name of nothing `NotFound`; an id or settings that do
    not go with what is there `Conflict`; a log or a service that cannot be reached `Unavailable`.
    """

    def put_ranker(
        self,
        ranker: str,
        config: RankerSettings | Mapping[str, object] | None = None,
        **fields: Unpack[RankerFields],
    ) -> RankerAnswer:
        """Create a ranker, or adjust it: settings that are not named stay as they are.

        Settings that decide what is learned do not change: `Conflict`.
        """

    def ranker(self, ranker: str) -> RankerAnswer:
        """One ranker: its settings, how far it is, and how it does."""

    def rankers(self) -> list[RankerAnswer]:
        """All rankers."""

    def delete_ranker(self, ranker: str) -> None:
        """Delete a ranker; its log stays."""

    def put_items(self, ranker: str, items: Sequence[Item | ItemFields]) -> None:
        """Add or change items: all of them, or none."""

    def items(self, ranker: str, *, limit: int = 1000, offset: int = 0) -> list[Item]:
        """Items in the order in which they were added."""

    def item(self, ranker: str, id: str) -> Item:
        """One item as it is now."""

    def remove_item(self, ranker: str, id: str) -> None:
        """List an item no more; where its id is put again, it is a new item."""

    def rank(
        self,
        ranker: str,
        *,
        k: int | None = None,
        budget: int | None = None,
        context: Sequence[float] | None = None,
        candidates: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        pin: Mapping[int, str] | None = None,
        segment: str = "",
        propensity: int = 0,
        order: Sequence[str] | None = None,
        visitor: str | None = None,
        strict: bool = False,
        decision: str | None = None,
    ) -> RankAnswer:
        """Decide a list; `schema.RankRequest` says what each of the options is."""

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
    ) -> Receipt:
        """Tell what happened to a list; `schema.FeedbackEvent` says what each of the options is."""

    def withdraw(self, ranker: str, decision: str) -> Receipt:
        """Say that a list was never shown: nothing is learned from it."""

    def close(self) -> None:
        """Keep everything, and let go of files and connections."""

    def __enter__(self) -> Self:
        """The connection itself; the end of the block closes it."""

    def __exit__(self, *error: object) -> None:
        """Close it."""
