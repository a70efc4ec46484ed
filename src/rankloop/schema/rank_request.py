"""`RankRequest`: the options of a request for a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from msgspec import Meta

from rankloop.errors import InvalidInput
from rankloop.schema.base import Payload
from rankloop.schema.fields import Fields, FieldValue
from rankloop.schema.identifiers import Id, printable
from rankloop.schema.limits import MAX_AMOUNT, MAX_DRAWS, MAX_ID_LENGTH, MAX_MAGNITUDE, MAX_SLOTS

Number = Annotated[float, Meta(ge=-MAX_MAGNITUDE, le=MAX_MAGNITUDE)]
Price = Annotated[float, Meta(ge=0.0, le=MAX_AMOUNT)]
Amount = Annotated[float, Meta(ge=-MAX_AMOUNT, le=MAX_AMOUNT)]
Slot = Annotated[int, Meta(ge=0, le=MAX_SLOTS - 1)]
Ids = Annotated[Sequence[Id], Meta(extra={"accepted": "a list of ids"})]
Length = Annotated[int, Meta(ge=0, le=MAX_SLOTS)]
Natural = Annotated[int, Meta(ge=0)]
Draws = Annotated[int, Meta(ge=0, le=MAX_DRAWS)]
Segment = Annotated[str, Meta(max_length=MAX_ID_LENGTH)]
Pins = Annotated[Mapping[Slot, Id], Meta(extra={"accepted": "a mapping from slots to ids of items"})]


class RequestItem(Payload, kw_only=True, frozen=True, omit_defaults=True):
    """An item that a request may list, with its values in this request."""

    where: ClassVar[str] = "item"

    id: Annotated[Id, Meta(description="Id of the item.")]
    features: Annotated[
        Sequence[Number] | None,
        Meta(description="Features of the item in this request, `dim` numbers (default: the stored ones)."),
    ] = None
    score: Annotated[
        Number | None,
        Meta(description="Your own score of the item in this request, if the policy starts from scores."),
    ] = None
    price: Annotated[
        Price | None, Meta(description="Value of a click on the item in this request, if the objective is revenue.")
    ] = None
    fields: Annotated[
        Fields | None,
        Meta(description="Fields of the item in this request, which take the place of its stored fields."),
    ] = None


if TYPE_CHECKING:
    RequestItems = Sequence[RequestItem | Mapping[str, object]]  # mappings are read as items
else:
    RequestItems = Annotated[
        Sequence[RequestItem], Meta(extra={"accepted": "a list of mappings with the ids of items"})
    ]


class RankRequest(Payload, kw_only=True, frozen=True):
    """A request for a list. Every field is optional."""

    k: Annotated[Length | None, Meta(description="Number of items in the list (default: the ranker's slots).")] = None
    budget: Annotated[
        Natural | None,
        Meta(
            description="Maximum length of the list, for policies that choose the length; other policies fill as many"
            " slots as they can."
        ),
    ] = None
    context: Annotated[
        Sequence[Number] | Fields | None,
        Meta(
            description="Fields of the visitor and the request by name, such as device and hour; or `context` numbers,"
            " if the ranker takes these."
        ),
    ] = None
    candidates: Annotated[
        Ids | None, Meta(description="Ids of the items that may be listed (default: all enabled items).")
    ] = None
    items: Annotated[
        RequestItems | None,
        Meta(
            description="Items that may be listed, each with its `id` and optionally with `features`, `fields`, `score`"
            " and `price` of this request, as an alternative to `candidates`."
        ),
    ] = None
    open: Annotated[
        bool,
        Meta(
            description="Whether items that the ranker does not have are added with the values of this request, before"
            " the list is decided; over HTTP this needs the role admin."
        ),
    ] = False
    exclude: Annotated[Ids, Meta(description="Ids of items that may not be listed.")] = ()
    pin: Annotated[Pins | None, Meta(description="Mapping from slots, counted from 0, to the items pinned there.")] = (
        None
    )
    segment: Annotated[
        Segment,
        Meta(description="Segment of visitors whose learner decides; a new segment starts with nothing learned."),
    ] = ""
    propensity: Annotated[
        Draws,
        Meta(
            description="Number of Monte Carlo draws for the propensity of the list, if it has no closed form; 0"
            " estimates none."
        ),
    ] = 0
    order: Annotated[
        Ids | None,
        Meta(
            description="Your own order, which the control group sees and a policy that reads scores starts from"
            " (default: items by `default_position`)."
        ),
    ] = None
    rewards: Annotated[
        Sequence[Amount] | None,
        Meta(description="Rewards of a success in each slot, for this request (default: the ranker's `rewards`)."),
    ] = None
    losses: Annotated[
        Sequence[Amount] | None,
        Meta(
            description="Losses if all of 0, 1, 2, … listed items fail, for this request (default: the ranker's"
            " `losses`)."
        ),
    ] = None
    visitor: Annotated[Id | None, Meta(description="Id of the visitor; a visitor is always in the same A/B group.")] = (
        None
    )
    strict: Annotated[
        bool,
        Meta(description="Whether to refuse unknown item ids instead of listing them in `ignored` of the answer."),
    ] = False
    decision: Annotated[
        Id | None,
        Meta(description="Your id of the decision; repeating the same request with the same id returns the same list."),
    ] = None

    after: Annotated[
        Natural | None,
        Meta(
            description="Log position up to which the process that decides must have applied the log, such as the"
            " `position` of a feedback answer of another process."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Refuse two kinds of candidates, and names that cannot be printed."""
        if self.items is not None and self.candidates is not None:
            raise InvalidInput("items", self.items, "only candidates")
        if self.open and self.items is None:
            raise InvalidInput("open", self.open, "false, since the request brings no items")
        if self.segment:
            printable("segment", self.segment)
        if self.visitor is not None:
            printable("visitor", self.visitor)
        if self.decision is not None:
            printable("decision", self.decision)

    @property
    def context_numbers(self) -> Sequence[float] | None:
        """The context as numbers; None if it is given as fields, or not at all."""
        return None if isinstance(self.context, Mapping) else self.context

    @property
    def context_fields(self) -> Mapping[str, FieldValue] | None:
        """The fields of the context; None if it is given as numbers, or not at all."""
        return self.context if isinstance(self.context, Mapping) else None

    @property
    def given_items(self) -> Sequence[RequestItem]:
        """The items that the request brings; none if it names candidates by id, or all enabled items may be listed."""
        return cast("Sequence[RequestItem]", self.items or ())
