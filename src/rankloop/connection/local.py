"""`LocalConnection`: rankers in this process, over a log in memory, in a file or in a PostgreSQL database."""

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
from rankloop.schema.answers import BatchAnswer
from rankloop.schema.ranker_fields import RankerFields, merge_settings
from rankloop.schema.request_bodies import ItemsAnswer
from rankloop.schema.service_settings import ServiceSettings

MEMORY = ":memory:"
MAX_PAGE, MAX_OFFSET = 10_000, 10**9
P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")


def _takes_fields_of(
    payload: Callable[P, A], names: Sequence[str]
) -> Callable[[Callable[[LocalConnection, str, A], B]], Callable[Concatenate[LocalConnection, str, P], B]]:
    """Return a decorator that lets a method take the fields of a payload instead of the payload."""

    def decorate(method: Callable[[LocalConnection, str, A], B]) -> Callable[Concatenate[LocalConnection, str, P], B]:
        @wraps(method)
        def call(self: LocalConnection, ranker: str, /, *args: P.args, **fields: P.kwargs) -> B:
            for name in fields:
                if name not in names:
                    raise TypeError(f"{method.__name__}() got an unexpected keyword argument {name!r}")
            return method(self, ranker, payload(*args, **fields))

        return call

    return decorate


class LocalConnection:
    """A connection without a service. It is thread-safe; only one process may use a file or a database at a time."""

    def __init__(self, address: str) -> None:
        settings = ServiceSettings() if address == MEMORY else ServiceSettings(log=address)
        self._rankers = RankerRegistry(settings, MemoryStore()) if address == MEMORY else RankerRegistry.open(settings)
        self._scheduler = Scheduler(self._rankers, settings.snapshots, lambda ranker, windows: None)
        self._scheduler.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Store the state and close the log."""
        self._scheduler.close()
        self._rankers.close()

    def put_ranker(
        self,
        ranker: str,
        config: RankerSettings | Mapping[str, object] | None = None,
        **fields: Unpack[RankerFields],
    ) -> RankerAnswer:
        """Create a ranker, or change its settings; see `Connection.put_ranker`."""
        self._rankers.put(ranker, merge_settings(config, fields))
        return self.ranker(ranker)

    def ranker(self, ranker: str) -> RankerAnswer:
        """Return the settings, counts and results of a ranker."""
        return self._rankers.find(ranker).answer()

    def rankers(self) -> list[RankerAnswer]:
        """Return all rankers."""
        return [hosted.answer() for hosted in self._rankers.all()]

    def delete_ranker(self, ranker: str) -> None:
        """Delete a ranker; its log is kept."""
        self._rankers.delete(ranker)

    def put_items(self, ranker: str, items: Sequence[Item | ItemFields]) -> ItemsAnswer | None:
        """Add or change items, all of them or none; return what had no effect, if anything."""
        return self._rankers.put_items(ranker, items)

    def items(self, ranker: str, *, limit: int = 1000, offset: int = 0) -> list[Item]:
        """Return items in the order in which they were added."""
        for field, value, low, high in (("limit", limit, 1, MAX_PAGE), ("offset", offset, 0, MAX_OFFSET)):
            if not low <= value <= high:
                raise InvalidInput(field, value, integer_range(low, high, value))
        return self._rankers.ranker(ranker).items()[offset : offset + limit]

    def item(self, ranker: str, id: str) -> Item:
        """Return one item."""
        return self._rankers.find(ranker).item(id)

    def remove_item(self, ranker: str, id: str) -> None:
        """Remove an item; if its id is added again, it is a new item."""
        self._rankers.remove_item(ranker, id)

    @_takes_fields_of(RankRequest, RankRequest.__struct_fields__)
    def rank(self, ranker: str, request: RankRequest) -> RankAnswer:
        """Decide a list; `schema.RankRequest` describes the options."""
        ranking, commit = self._rankers.ranker(ranker).submit_rank(request)
        if commit is not None:
            commit.result()
        return ranking.answer()

    def rank_many(self, ranker: str, requests: Sequence[RankRequest | Mapping[str, object]]) -> list[BatchAnswer]:
        """Decide a list for each request; each is answered or refused by itself."""
        return self._rankers.ranker(ranker).rank_many(requests)

    @_takes_fields_of(FeedbackEvent, FeedbackEvent.__struct_fields__)
    def feedback(self, ranker: str, event: FeedbackEvent) -> Receipt:
        """Report feedback for a decision; `schema.FeedbackEvent` describes the options."""
        one = self._rankers.ranker(ranker)
        return one.submit_feedback(event, one.find_decision(event.decision)).result()

    def withdraw(self, ranker: str, decision: str) -> Receipt:
        """Withdraw a decision whose list was never shown; nothing is learned from it."""
        return self._rankers.ranker(ranker).withdraw(decision)
