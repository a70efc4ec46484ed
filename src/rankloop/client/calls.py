"""Every request of the service's API: how it is sent, and how its response is decoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Unpack
from urllib.parse import quote

import httpx
import msgspec

from rankloop.client.errors import refusal
from rankloop.schema import (
    FeedbackEvent,
    Item,
    ItemFields,
    RankAnswer,
    RankerAnswer,
    RankerSettings,
    RankRequest,
    Receipt,
    RequestItems,
)
from rankloop.schema.answers import BatchAnswer, BatchAnswers, BulkAnswer, BulkAnswers, RankersAnswer
from rankloop.schema.fields import Fields
from rankloop.schema.ranker_fields import RankerFields, merge_settings
from rankloop.schema.request_bodies import ItemPage, ItemsAnswer, TokenAnswer, TokenRequest

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and the decoder of its response."""

    method: str
    path: str
    read: Callable[[bytes], T]
    body: Mapping[str, object] | None = None
    query: Mapping[str, str | float] | None = None
    text: bytes | None = None  # a body of another type than JSON
    media: str = "application/json"  # type of the body

    @property
    def content(self) -> bytes | None:
        """The bytes of the body, or None."""
        return self.text if self.body is None else msgspec.json.encode(self.body)

    def result(self, response: httpx.Response) -> T:
        """Return the decoded response, or raise the exception of an error response."""
        if response.is_success:
            return self.read(response.content)
        raise refusal(response.status_code, response.content)


def _path(ranker: str, *rest: str) -> str:
    return "/".join(["/v1/rankers", quote(ranker, safe=""), *(quote(step, safe="") for step in rest)])


def _field(name: str, kind: type[T]) -> Callable[[bytes], T]:
    """Return the decoder of one field of a response."""
    return lambda body: msgspec.json.decode(_parts(body)[name], type=kind)


def _nothing(body: bytes) -> None:
    return None


def _ignored(body: bytes) -> ItemsAnswer | None:
    return msgspec.json.decode(body, type=ItemsAnswer) if body else None


_list, _receipt = msgspec.json.Decoder(RankAnswer).decode, msgspec.json.Decoder(Receipt).decode
_item, _page = msgspec.json.Decoder(Item).decode, msgspec.json.Decoder(ItemPage).decode
_rankers, _ranker = msgspec.json.Decoder(RankersAnswer).decode, msgspec.json.Decoder(RankerAnswer).decode
_parts, _plain = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode, msgspec.json.Decoder(dict[str, Any]).decode
_batch = msgspec.json.Decoder(BatchAnswers).decode
_bulk, _token = msgspec.json.Decoder(BulkAnswers).decode, msgspec.json.Decoder(TokenAnswer).decode


class Calls:
    """Builds the call of every request; the methods of `Client` and `AsyncClient` send these."""

    @staticmethod
    def rank(
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
    ) -> Call[RankAnswer]:
        """Decide a list; `schema.RankRequest` describes the options."""
        request = RankRequest(
            k=k,
            budget=budget,
            context=context,
            candidates=candidates,
            items=items,
            open=open,
            exclude=exclude,
            pin=pin,
            segment=segment,
            propensity=propensity,
            order=order,
            rewards=rewards,
            losses=losses,
            visitor=visitor,
            strict=strict,
            decision=decision,
            after=after,
        )
        return Call("POST", _path(ranker, "rank"), _list, request.non_default_fields())

    @staticmethod
    def rank_many(ranker: str, requests: Sequence[RankRequest | Mapping[str, object]]) -> Call[list[BatchAnswer]]:
        """Decide a list for each request; each is answered or refused by itself."""
        checked = [RankRequest.of(one, f"requests[{i}]").non_default_fields() for i, one in enumerate(requests)]
        return Call(
            "POST", _path(ranker, "rank", "batch"), lambda answer: _batch(answer).results, {"requests": checked}
        )

    @staticmethod
    def upload_items(ranker: str, items: Sequence[Item | ItemFields]) -> Call[ItemsAnswer | None]:
        """Do as `put_items` with one item in each line of the body, which is the fastest way to put many."""
        mappings = [Item.of(item, f"items[{i}]").as_mapping() for i, item in enumerate(items)]
        lines = b"\n".join(map(msgspec.json.encode, mappings))
        return Call("PUT", _path(ranker, "items"), _ignored, text=lines, media="application/x-ndjson")

    @staticmethod
    def feedback(
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
    ) -> Call[Receipt]:
        """Report feedback for a decision; `schema.FeedbackEvent` describes the options."""
        feedback = FeedbackEvent(decision, clicked, items, values, item_values, event, final, regret, seen, kind, value)
        return Call("POST", _path(ranker, "feedback"), _receipt, feedback.non_default_fields())

    @staticmethod
    def feedback_bulk(ranker: str, events: Sequence[FeedbackEvent | Mapping[str, object]]) -> Call[list[BulkAnswer]]:
        """Report feedback for many decisions; each event is accepted or refused by itself."""
        body = {"events": [one.non_default_fields() if isinstance(one, FeedbackEvent) else one for one in events]}
        return Call("POST", _path(ranker, "feedback", "bulk"), lambda response: _bulk(response).results, body)

    @staticmethod
    def token(ranker: str, *, seconds: int = 600) -> Call[TokenAnswer]:
        """Return a token with which a browser may rank and report feedback for one ranker, for some seconds."""
        return Call("POST", _path(ranker, "tokens"), _token, TokenRequest(seconds).non_default_fields())

    @staticmethod
    def withdraw(ranker: str, decision: str) -> Call[Receipt]:
        """Withdraw a decision whose list was never shown; nothing is learned from it."""
        return Call("POST", _path(ranker, "withdraw"), _receipt, {"decision": decision})

    @staticmethod
    def decision(ranker: str, decision: str) -> Call[dict[str, Any]]:
        """Return the list of a decision, the numbers behind it, and its feedback."""
        return Call("GET", _path(ranker, "decisions", decision), _plain)

    @staticmethod
    def report(ranker: str, **query: str | float) -> Call[dict[str, Any]]:
        """Return results and item estimates.

        Args:
            ranker: name of the ranker.
            query: segment, sort, order, search, hours, limit, offset and age.
        """
        return Call("GET", _path(ranker, "report"), _plain, query=query)

    @staticmethod
    def overview(ranker: str, **query: str | float) -> Call[dict[str, Any]]:
        """Return the results without items, at most a second old, for frequent polling.

        Args:
            ranker: name of the ranker.
            query: hours and points.
        """
        return Call("GET", _path(ranker, "overview"), _field("overview", dict[str, Any]), query=query)

    @staticmethod
    def segments(ranker: str) -> Call[list[str]]:
        """Return the segments that have a learner."""
        return Call("GET", _path(ranker, "segments"), _field("segments", list[str]))

    @staticmethod
    def slot_counts(ranker: str, **query: str | float) -> Call[list[dict[str, Any]]]:
        """Return how often the most shown items were shown and clicked in each slot.

        Args:
            ranker: name of the ranker.
            query: limit and age.
        """
        return Call("GET", _path(ranker, "slots"), _field("items", list[dict[str, Any]]), query=query)

    @staticmethod
    def diagnosis(ranker: str) -> Call[dict[str, Any]]:
        """Return which items are favoured, what exploration costs, and whether clicks fit the click model."""
        return Call("GET", _path(ranker, "diagnosis"), _plain)

    @staticmethod
    def items(ranker: str, *, limit: int = 1000, offset: int = 0) -> Call[list[Item]]:
        """Return items in the order in which they were added."""
        query = {"limit": limit, "offset": offset}
        return Call("GET", _path(ranker, "items"), lambda response: _page(response).items, query=query)

    @staticmethod
    def item(ranker: str, id: str) -> Call[Item]:
        """Return one item."""
        return Call("GET", _path(ranker, "items", id), _item)

    @staticmethod
    def put_items(ranker: str, items: Sequence[Item | ItemFields]) -> Call[ItemsAnswer | None]:
        """Add or change items, all of them or none; return what had no effect, if anything."""
        mappings = [Item.of(item, f"items[{i}]").as_mapping() for i, item in enumerate(items)]
        return Call("PUT", _path(ranker, "items"), _ignored, {"items": mappings})

    @staticmethod
    def remove_item(ranker: str, id: str) -> Call[None]:
        """Remove an item; if its id is added again, it is a new item."""
        return Call("DELETE", _path(ranker, "items", id), _nothing)

    @staticmethod
    def rankers() -> Call[list[RankerAnswer]]:
        """Return all rankers."""
        return Call("GET", "/v1/rankers", lambda response: _rankers(response).rankers)

    @staticmethod
    def ranker(ranker: str) -> Call[RankerAnswer]:
        """Return the settings, counts and results of a ranker."""
        return Call("GET", _path(ranker), _ranker)

    @staticmethod
    def put_ranker(
        ranker: str,
        config: RankerSettings | Mapping[str, object] | None = None,
        **fields: Unpack[RankerFields],
    ) -> Call[RankerAnswer]:
        """Create a ranker, or change its settings; adjustable settings that are not given keep their values."""
        return Call("PUT", _path(ranker), _ranker, merge_settings(config, fields))

    @staticmethod
    def patch_ranker(ranker: str, settings: Mapping[str, object], *, reset: bool = False) -> Call[RankerAnswer]:
        """Change the given settings; `reset` discards everything learned and keeps the items."""
        return Call("PATCH", _path(ranker), _ranker, {**settings, "reset": True} if reset else dict(settings))

    @staticmethod
    def history(ranker: str) -> Call[list[dict[str, Any]]]:
        """Return every change of a ranker's settings, oldest first."""
        return Call("GET", _path(ranker, "history"), _field("events", list[dict[str, Any]]))

    @staticmethod
    def put_challenger(ranker: str, config: Mapping[str, object]) -> Call[dict[str, Any]]:
        """Rebuild a challenger from the ranker's log in the background."""
        return Call("PUT", _path(ranker, "challenger"), _plain, dict(config))

    @staticmethod
    def challenger(ranker: str) -> Call[dict[str, Any]]:
        """Return the status of the challenger, and how well both policies predict the clicks of the same log."""
        return Call("GET", _path(ranker, "challenger"), _plain)

    @staticmethod
    def discard_challenger(ranker: str) -> Call[None]:
        """Discard the challenger."""
        return Call("DELETE", _path(ranker, "challenger"), _nothing)

    @staticmethod
    def promote(ranker: str) -> Call[RankerAnswer]:
        """Let the challenger decide; the active policy becomes the challenger."""
        return Call("POST", _path(ranker, "promote"), _ranker)

    @staticmethod
    def reset_guardrail(ranker: str) -> Call[RankerAnswer]:
        """Let the policy decide again after the guardrail has tripped."""
        return Call("POST", _path(ranker, "guardrail/reset"), _ranker)

    @staticmethod
    def delete_ranker(ranker: str) -> Call[None]:
        """Delete a ranker; its log is kept."""
        return Call("DELETE", _path(ranker), _nothing)
