"""Every question that can be put to the service: how it is sent, and how its answer is read."""

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
)
from rankloop.schema.answers import BulkAnswer, BulkAnswers, RankersAnswer
from rankloop.schema.ranker_fields import RankerFields, merge_settings
from rankloop.schema.request_bodies import ItemPage

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[bytes], T]
    body: Mapping[str, object] | None = None
    query: Mapping[str, str | float] | None = None

    @property
    def content(self) -> bytes | None:
        """The body as JSON."""
        return None if self.body is None else msgspec.json.encode(self.body)

    def result(self, response: httpx.Response) -> T:
        """The answer, or the service's refusal as an error."""
        if response.is_success:
            return self.read(response.content)
        raise refusal(response.status_code, response.content)


def _at(ranker: str, *rest: str) -> str:
    return "/".join(["/v1/rankers", quote(ranker, safe=""), *(quote(step, safe="") for step in rest)])


def _inside(name: str, kind: type[T]) -> Callable[[bytes], T]:
    """Reads what an answer has under this name."""
    return lambda told: msgspec.json.decode(_parts(told)[name], type=kind)


def _nothing(told: bytes) -> None:
    return None


_ranking, _receipt = msgspec.json.Decoder(RankAnswer).decode, msgspec.json.Decoder(Receipt).decode
_item, _page = msgspec.json.Decoder(Item).decode, msgspec.json.Decoder(ItemPage).decode
_rankers, _ranker = msgspec.json.Decoder(RankersAnswer).decode, msgspec.json.Decoder(RankerAnswer).decode
_parts, _same = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode, msgspec.json.Decoder(dict[str, Any]).decode
_bulk = msgspec.json.Decoder(BulkAnswers).decode


class Calls:
    """Every question that can be put to the service, as a call."""

    @staticmethod
    def rank(
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
    ) -> Call[RankAnswer]:
        """Decide a list; `schema.RankRequest` says what each of the options is."""
        asked = RankRequest(
            k=k,
            budget=budget,
            context=context,
            candidates=candidates,
            exclude=exclude,
            pin=pin,
            segment=segment,
            propensity=propensity,
            order=order,
            visitor=visitor,
            strict=strict,
            decision=decision,
        )
        return Call("POST", _at(ranker, "rank"), _ranking, asked.non_default_fields())

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
    ) -> Call[Receipt]:
        """Tell what happened to a list; `schema.FeedbackEvent` says what each of the options is."""
        told = FeedbackEvent(decision, clicked, items, values, item_values, event, final, regret)
        return Call("POST", _at(ranker, "feedback"), _receipt, told.non_default_fields())

    @staticmethod
    def feedback_bulk(ranker: str, events: Sequence[FeedbackEvent | Mapping[str, object]]) -> Call[list[BulkAnswer]]:
        """What happened to many lists; each event is taken or refused by itself."""
        body = {"events": [one.non_default_fields() if isinstance(one, FeedbackEvent) else one for one in events]}
        return Call("POST", _at(ranker, "feedback", "bulk"), lambda told: _bulk(told).results, body)

    @staticmethod
    def withdraw(ranker: str, decision: str) -> Call[Receipt]:
        """A list was never shown."""
        return Call("POST", _at(ranker, "withdraw"), _receipt, {"decision": decision})

    @staticmethod
    def decision(ranker: str, decision: str) -> Call[dict[str, Any]]:
        """What was shown and why, and what happened."""
        return Call("GET", _at(ranker, "decisions", decision), _same)

    @staticmethod
    def report(ranker: str, **query: str | float) -> Call[dict[str, Any]]:
        """How it does, and its items: segment, sort, order, search, hours, limit, offset, age."""
        return Call("GET", _at(ranker, "report"), _same, query=query)

    @staticmethod
    def overview(ranker: str, **query: str | float) -> Call[dict[str, Any]]:
        """How it does, as of a second ago at most, for those who ask again and again: hours, points."""
        return Call("GET", _at(ranker, "overview"), _inside("overview", dict[str, Any]), query=query)

    @staticmethod
    def segments(ranker: str) -> Call[list[str]]:
        """The segments that have a learner."""
        return Call("GET", _at(ranker, "segments"), _inside("segments", list[str]))

    @staticmethod
    def slot_counts(ranker: str, **query: str | float) -> Call[list[dict[str, Any]]]:
        """How often the items shown most stood in each place: limit, age."""
        return Call("GET", _at(ranker, "slots"), _inside("items", list[dict[str, Any]]), query=query)

    @staticmethod
    def diagnosis(ranker: str) -> Call[dict[str, Any]]:
        """Which items it favours, what exploring costs, and whether visitors click as it assumes."""
        return Call("GET", _at(ranker, "diagnosis"), _same)

    @staticmethod
    def items(ranker: str, *, limit: int = 1000, offset: int = 0) -> Call[list[Item]]:
        """Items in the order in which they were added."""
        query = {"limit": limit, "offset": offset}
        return Call("GET", _at(ranker, "items"), lambda told: _page(told).items, query=query)

    @staticmethod
    def item(ranker: str, id: str) -> Call[Item]:
        """One item."""
        return Call("GET", _at(ranker, "items", id), _item)

    @staticmethod
    def put_items(ranker: str, items: Sequence[Item | ItemFields]) -> Call[None]:
        """Add or change items: all of them, or none."""
        made = [Item.of(item, f"items[{i}]").as_mapping() for i, item in enumerate(items)]
        return Call("PUT", _at(ranker, "items"), _nothing, {"items": made})

    @staticmethod
    def remove_item(ranker: str, id: str) -> Call[None]:
        """List an item no more; where its id is put again, it is a new item."""
        return Call("DELETE", _at(ranker, "items", id), _nothing)

    @staticmethod
    def rankers() -> Call[list[RankerAnswer]]:
        """All rankers."""
        return Call("GET", "/v1/rankers", lambda told: _rankers(told).rankers)

    @staticmethod
    def ranker(ranker: str) -> Call[RankerAnswer]:
        """One ranker: its settings, how far it is, and how it does."""
        return Call("GET", _at(ranker), _ranker)

    @staticmethod
    def put_ranker(
        ranker: str,
        config: RankerSettings | Mapping[str, object] | None = None,
        **fields: Unpack[RankerFields],
    ) -> Call[RankerAnswer]:
        """Create a ranker, or adjust it: settings that are not named stay, and those that decide what is learned."""
        return Call("PUT", _at(ranker), _ranker, merge_settings(config, fields))

    @staticmethod
    def patch_ranker(ranker: str, settings: Mapping[str, object], *, reset: bool = False) -> Call[RankerAnswer]:
        """Change named settings; `reset` learns anew where what was learned would not fit them."""
        return Call("PATCH", _at(ranker), _ranker, {**settings, "reset": True} if reset else dict(settings))

    @staticmethod
    def history(ranker: str) -> Call[list[dict[str, Any]]]:
        """Every change of a ranker's settings, oldest first."""
        return Call("GET", _at(ranker, "history"), _inside("events", list[dict[str, Any]]))

    @staticmethod
    def put_challenger(ranker: str, config: Mapping[str, object]) -> Call[dict[str, Any]]:
        """Rebuild a challenger from the ranker's log, in the background."""
        return Call("PUT", _at(ranker, "challenger"), _same, dict(config))

    @staticmethod
    def challenger(ranker: str) -> Call[dict[str, Any]]:
        """Return the state of the challenger, and how well both predicted the clicks of the same log."""
        return Call("GET", _at(ranker, "challenger"), _same)

    @staticmethod
    def discard_challenger(ranker: str) -> Call[None]:
        """Discard the challenger."""
        return Call("DELETE", _at(ranker, "challenger"), _nothing)

    @staticmethod
    def promote(ranker: str) -> Call[RankerAnswer]:
        """Promote the challenger; the policy that decided becomes the challenger."""
        return Call("POST", _at(ranker, "promote"), _ranker)

    @staticmethod
    def reset_guardrail(ranker: str) -> Call[RankerAnswer]:
        """Let the policy decide again after the guard fell back."""
        return Call("POST", _at(ranker, "guardrail/reset"), _ranker)

    @staticmethod
    def delete_ranker(ranker: str) -> Call[None]:
        """Delete a ranker; its log stays."""
        return Call("DELETE", _at(ranker), _nothing)
