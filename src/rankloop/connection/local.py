"""Rankers in this process, over a log in memory, in a file or in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar, Unpack

from rankloop.errors import InvalidInput
from rankloop.eventlog import MemoryStore
from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.scheduler import Scheduler
from rankloop.schema import (
    FeedbackEvent,
    Item,
    ItemFields,
    RankAnswer,
    RankerAnswer,
    RankerSettings,
    RankRequest,
    Receipt,
)
from rankloop.schema.accepted_values import integer_range
from rankloop.schema.ranker_fields import RankerFields, merge_settings
from rankloop.schema.service_settings import ServiceSettings

MEMORY = ":memory:"
MAX_PAGE, MAX_OFFSET = 10_000, 10**9
P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")


def _with(
    payload: Callable[P, A], names: Sequence[str]
) -> Callable[[Callable[[Local, str, A], B]], Callable[Concatenate[Local, str, P], B]]:
    """Let a method that takes a payload take the fields of the payload instead."""

    def of(method: Callable[[Local, str, A], B]) -> Callable[Concatenate[Local, str, P], B]:
        @wraps(method)
        def call(self: Local, ranker: str, /, *args: P.args, **fields: P.kwargs) -> B:
            for name in fields:
                if name not in names:
                    raise TypeError(f"{method.__name__}() got an unexpected keyword argument {name!r}")
            return method(self, ranker, payload(*args, **fields))

        return call

    return of


class Local:
    """A connection that needs no service. Any thread may use it; a file or a database is for one process only."""

    def __init__(self, place: str) -> None:
        settings = ServiceSettings() if place == MEMORY else ServiceSettings(log=place)
        self._limits = settings.limits
        self._rankers = RankerRegistry(settings, MemoryStore()) if place == MEMORY else RankerRegistry.open(settings)
        self._scheduler = Scheduler(self._rankers, settings.snapshots, lambda ranker, windows: None)
        self._scheduler.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Keep everything, and let go of the log."""
        self._scheduler.close()
        self._rankers.close()

    def put_ranker(
        self,
        ranker: str,
        config: RankerSettings | Mapping[str, object] | None = None,
        **fields: Unpack[RankerFields],
    ) -> RankerAnswer:
        """Create a ranker, or adjust it; see `Connection.put_ranker`."""
        self._rankers.put(ranker, merge_settings(config, fields))
        return self.ranker(ranker)

    def ranker(self, ranker: str) -> RankerAnswer:
        """One ranker: its settings, how far it is, and how it does."""
        return self._rankers.find(ranker).answer()

    def rankers(self) -> list[RankerAnswer]:
        """All rankers."""
        return [hosted.answer() for hosted in self._rankers.all()]

    def delete_ranker(self, ranker: str) -> None:
        """Delete a ranker; its log stays."""
        self._rankers.delete(ranker)

    def put_items(self, ranker: str, items: Sequence[Item | ItemFields]) -> None:
        """Add or change items: all of them, or none."""
        self._rankers.put_items(ranker, items)

    def items(self, ranker: str, *, limit: int = 1000, offset: int = 0) -> list[Item]:
        """Items in the order in which they were added."""
        for field, value, low, high in (("limit", limit, 1, MAX_PAGE), ("offset", offset, 0, MAX_OFFSET)):
            if not low <= value <= high:
                raise InvalidInput(field, value, integer_range(low, high, value))
        return self._rankers.find(ranker).ranker.items()[offset : offset + limit]

    def item(self, ranker: str, id: str) -> Item:
        """One item as it is now."""
        return self._rankers.find(ranker).item(id)

    def remove_item(self, ranker: str, id: str) -> None:
        """List an item no more; where its id is put again, it is a new item."""
        self._rankers.remove_item(ranker, id)

    @_with(RankRequest, RankRequest.__struct_fields__)
    def rank(self, ranker: str, asked: RankRequest) -> RankAnswer:
        """Decide a list; `schema.RankRequest` says what each of the options is."""
        hosted = self._rankers.find(ranker)
        hosted.admit(asked, self._limits)
        ranking, kept = hosted.ranker.submit_rank(asked)
        if kept is not None:
            kept.result()
        return ranking.answer()

    @_with(FeedbackEvent, FeedbackEvent.__struct_fields__)
    def feedback(self, ranker: str, told: FeedbackEvent) -> Receipt:
        """Tell what happened to a list; `schema.FeedbackEvent` says what each of the options is."""
        return self._rankers.find(ranker).ranker.submit_feedback(told, waits=True).result()

    def withdraw(self, ranker: str, decision: str) -> Receipt:
        """Say that a list was never shown: nothing is learned from it."""
        return self._rankers.find(ranker).ranker.withdraw(decision)
