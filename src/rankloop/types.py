"""The types that all parts share. Shapes: B learners, L items, K slots, d features.

The leading axis of a state is B; the last axis of a list is the slot; -1 is an empty slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from rankloop.arrays import EMPTY as EMPTY
from rankloop.arrays import Array
from rankloop.arrays import BoolArray as BoolArray
from rankloop.arrays import FloatArray as FloatArray
from rankloop.arrays import IntArray as IntArray
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.objective import AnyClick, Objective
from rankloop.products import Products as Products
from rankloop.request_arrays import check_caps, check_columns, check_pins, check_table, check_values, shape_of


@dataclass(frozen=True, slots=True)
class BetaPrior:
    """Beta(a, b) priors of the items' attractions."""

    a: FloatArray  # [L] or [B, L]
    b: FloatArray  # [L] or [B, L]


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known when a policy is built, before the first round."""

    items: int  # L
    slots: int  # K
    rounds: int | None = None  # the horizon, where one is known
    dim: int | None = None  # d, where items have features
    prior: BetaPrior | None = None
    bias: FloatArray | None = None  # [K], position bias: probability that a slot is examined, where known
    lasting: bool = True  # items keep identity and features from round to round
    context: int | None = None  # length of the visitor's context, where there is one
    coverage: int | None = None  # number of topics, where items cover topics
    rewards: FloatArray | None = None  # [K], reward of a success in each slot
    losses: FloatArray | None = None  # [K + 1], loss when 0, 1, ..., K items were shown and none succeeded
    present: int | None = None  # number of items in use, where `items` is a larger capacity
    used: int | None = None  # number of leading columns of that capacity that ever held an item
    objective: Objective = field(default_factory=AnyClick)
    changing: bool = (
        False  # rows of an item differ between rounds, by the visitor's context or by features of the round
    )
    termination: FloatArray | None = None  # [K], probability to leave satisfied after a click in each slot, where known
    feedback: str | None = None  # name of the feedback model that replaces the policy's own; None: its own
    slot_weights: FloatArray | None = (
        None  # [K], factor of the gain in each slot, for policies that match items to slots
    )

    segments: int | None = None  # number of segments that share what they learn; None: each has its own learner
    products: Products | None = None  # products of context and features that are features, too; None: all of them
    # Number of coefficients, a power of two, of hashed sparse rows: `dim` and `context` are then twice the positions of
    # an item and of a context, values and the coefficients that these belong to. None: rows are dense.
    hashed: int | None = None

    @property
    def J(self) -> int:
        """Number of items to choose from, for bounds that depend on it."""
        return self.items if self.present is None else max(1, self.present)

    def read_as(self, feedback: str) -> Setting:
        """Return the setting in which a feedback model of this name replaces the policy's own."""
        return replace(self, feedback=feedback)

    @property
    def rows_return(self) -> bool:
        """Whether an item has the same features in every round, so that counts of an item say what rows would."""
        return self.lasting and not self.changing and self.context is None

    def need_rounds(self, policy: str, instead: str) -> int:
        """Return the horizon, or refuse with the parameter to give instead."""
        if self.rounds is None:
            raise Unsupported(f"{policy} needs a known number of rounds here; give {instead}.")
        return self.rounds

    def need_dim(self, policy: str) -> int:
        """Return the number of features, or refuse."""
        if self.dim is None:
            raise Unsupported(f"{policy} needs item features, and this world offers none.")
        return self.dim

    def need_prior(self, policy: str, instead: str = "") -> BetaPrior:
        """Return the Beta prior, or refuse."""
        if self.prior is None:
            raise Unsupported(f"{policy} needs a Beta prior, and this world offers none{instead}.")
        return self.prior

    def need_lasting(self, policy: str) -> None:
        """Refuse a world in which every round brings new items."""
        if not self.lasting:
            raise Unsupported(f"{policy} learns about each item, and in this world no item returns.")

    def need_context(self, policy: str) -> int:
        """Return the length of the context, or refuse."""
        if self.context is None:
            raise Unsupported(f"{policy} needs a context of each visitor, and this world offers none.")
        return self.context

    def need_coverage(self, policy: str) -> int:
        """Return the number of topics, or refuse."""
        if self.coverage is None:
            raise Unsupported(f"{policy} needs items that cover topics, and this world offers none.")
        return self.coverage

    def scenario(self) -> tuple[FloatArray, FloatArray]:
        """Return rewards [K] and losses [K + 1]; 1 and 0 where the world has none."""
        rewards = np.ones(self.slots) if self.rewards is None else self.rewards
        return rewards, np.zeros(self.slots + 1) if self.losses is None else self.losses

    def need_bias(self, policy: str) -> FloatArray:
        """Return the position biases, or refuse."""
        if self.bias is None:
            raise Unsupported(f"{policy} needs known position biases, and this world offers none.")
        bias = np.asarray(self.bias, dtype=np.float64)
        if bias.shape != (self.slots,) or not ((bias >= 0) & (bias <= 1)).all():
            raise InvalidInput("setting.bias", self.bias, f"{self.slots} numbers in [0, 1], one for each slot")
        return bias


class Caps(NamedTuple):
    """At most n items of a list may have the same value of a field."""

    groups: IntArray  # [C, 1 or B, L], value of each candidate in each field; negative where it has none
    at_most: IntArray  # [C]
    counted: IntArray  # [n], candidates that are in the list anyway


@dataclass(frozen=True, slots=True)
class Request:
    """A request of one round to a batch of B learners: rank k of these items."""

    learners: int  # B
    items: int  # L
    k: int  # slots to fill
    features: FloatArray | None = None  # [L, d] shared by all learners, or [B, L, d]
    context: FloatArray | None = None  # [B, dx], the visitors' contexts
    coverage: FloatArray | None = None  # [L, topics] or [B, L, topics], each in [0, 1]
    allowed: BoolArray | None = None  # [L] or [B, L]; None allows every item
    pinned: IntArray | None = None  # [k], items fixed in these slots for every learner, EMPTY where free
    slots: IntArray | None = None  # [k], indices of the requested slots; None: the first k
    columns: IntArray | None = None  # [L], the item that each of these candidates is; None: candidate i is item i
    scores: FloatArray | None = None  # [L] or [B, L], the caller's own scores, NaN where there is none
    ranks: FloatArray | None = None  # [L] or [B, L], ranks 0, 1, … in the caller's own order, NaN where there is none
    prices: FloatArray | None = None  # [L] or [B, L], the value of a click on each item; None: those of the objective
    rewards: FloatArray | None = None  # [K], reward of a success in each slot; None: those of the policy's setting
    losses: FloatArray | None = None  # [K + 1], losses if 0, 1, …, K listed items fail; None: those of the setting
    groups: IntArray | None = None  # [C, L] or [C, B, L], value of each candidate in each capped field, -1: has none
    caps: IntArray | None = None  # [C], at most so many items of a list have the same value; None: any number
    counted: IntArray | None = None  # [n], candidates that are in the list anyway and count towards the caps

    @classmethod
    def trusted(cls, learners: int, items: int, k: int, **fields: Array | None) -> Request:
        """Return a request whose arrays were checked before, without checking them again for every decision."""
        request = object.__new__(cls)
        for name in cls.__slots__:
            object.__setattr__(request, name, fields.get(name))
        for name, value in (("learners", learners), ("items", items), ("k", k)):
            object.__setattr__(request, name, value)
        return request

    def __post_init__(self) -> None:
        """Refuse invalid arrays: compiled loops rely on these shapes."""
        B, L = self.learners, self.items
        for name, number, low in (("learners", B, 1), ("items", L, 1), ("k", self.k, 0)):
            if not isinstance(number, int | np.integer) or number < low:
                raise InvalidInput(f"request.{name}", number, f"a whole number of at least {low}")
        tables = (("features", self.features, L), ("coverage", self.coverage, L), ("context", self.context, None))
        for name, table, rows in tables:
            if table is not None:
                check_table(f"request.{name}", table, B, rows)
        may = self.allowed
        if may is not None and (
            not isinstance(may, np.ndarray) or may.dtype != bool or may.shape not in ((L,), (B, L))
        ):
            raise InvalidInput("request.allowed", Words(shape_of(may)), f"booleans of shape ({L},) or ({B}, {L})")
        if self.pinned is not None:
            check_pins(self.pinned, self.k, L)
        if self.columns is not None:
            check_columns(self.columns, L)
        for name, values in (("scores", self.scores), ("ranks", self.ranks), ("prices", self.prices)):
            if values is not None:
                check_values(f"request.{name}", values, [(L,), (B, L)], missing=name != "prices")
        if self.prices is not None and self.prices.min(initial=0.0) < 0.0:
            raise InvalidInput("request.prices", float(self.prices.min()), "numbers of at least 0")
        for name, values, least in (("rewards", self.rewards, self.k), ("losses", self.losses, self.k + 1)):
            if values is not None:
                n = max(least, len(values)) if isinstance(values, np.ndarray) and values.ndim == 1 else least
                check_values(f"request.{name}", values, [(n,)])
        check_caps(self.groups, self.caps, self.counted, B, L)

    def under(self, groups: IntArray, caps: IntArray) -> Request:
        """Return the request with these caps, which were checked before."""
        fields = {name: getattr(self, name) for name in Request.__slots__ if name not in ("groups", "caps")}
        return Request.trusted(**fields, groups=groups, caps=caps)

    def active_caps(self) -> Caps | None:
        """Return the caps that this list could break; None if there are none, so that it is planned as without caps."""
        if self.caps is None or self.groups is None:
            return None
        counted = np.empty(0, dtype=np.int64) if self.counted is None else self.counted
        active = self.caps < self.k + len(counted)
        if not active.any():
            return None
        groups = self.groups if active.all() else self.groups[active]
        return Caps(groups[:, None] if groups.ndim == 2 else groups, self.caps[active], counted)

    def item_of(self, candidates: IntArray) -> IntArray:
        """Return the items that these candidates are; EMPTY stays EMPTY."""
        if self.columns is None:
            return candidates
        items = self.columns.take(candidates)
        items[candidates == EMPTY] = EMPTY
        return items

    def of_items(self) -> Request:
        """Return the request under which lists hold items of the policy instead of candidates."""
        if self.columns is None:
            return self
        fields = {name: getattr(self, name) for name in Request.__slots__ if name != "columns"}
        return Request.trusted(**fields)

    def candidates_of(self, items: IntArray) -> IntArray:
        """Return the candidates that these items are; EMPTY where an item is none of them."""
        if self.columns is None:
            return np.where(items < self.items, items, EMPTY)
        order = np.argsort(self.columns)
        at = order[np.minimum(np.searchsorted(self.columns, items, sorter=order), len(order) - 1)]
        return np.where(self.columns[at] == items, at, EMPTY)


Read = Literal["features", "context", "coverage", "slot", "prefix", "scores", "prices", "rewards"]
"""What a list may depend on besides the items themselves: their features, the visitor's context, the topics that items
cover, the slot, the items above it (the prefix), the caller's own scores or order, prices, and rewards or losses by
slot."""

Model = int | slice | IntArray
"""Which of a belief's M models a row feeds.

For scoring all L items: an int (one model for all), a slice or an index [L].
For the slots of a list: an int, one model per slot [K], or one per learner and slot [B, K].
"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Input of a belief: model index and features of each candidate or slot."""

    model: Model
    x: FloatArray | None = None  # scoring: [L, d] or [B, L, d]; a list: [B, K, d]
    context: FloatArray | None = None  # [B, dx], scoring: the features are (context, x, context⊗x), not x alone
    products: Products | None = None  # scoring: of context⊗x, only these; None: all
    # Scoring: [1 or B, h, 1 or L], h leading columns that are kept apart, so that the features in x are not copied.
    head: FloatArray | None = None

    @property
    def by_slot(self) -> bool:
        """Whether every slot has its own model index, so that the models of a list may differ."""
        return isinstance(self.model, np.ndarray)

    @property
    def by_learner(self) -> bool:
        """Whether every learner and slot has its own model index, [B, K]."""
        return isinstance(self.model, np.ndarray) and self.model.ndim == 2

    @property
    def is_shared(self) -> bool:
        """Whether all slots of all lists feed the same model."""
        return isinstance(self.model, int)

    def chosen(self) -> IntArray:
        """Return the models of the rows to be scored, [n]; empty where they are all models, in their order."""
        return self.model if isinstance(self.model, np.ndarray) else np.empty(0, dtype=np.int64)

    def models(self) -> IntArray:
        """Return the model of every learner and slot of a list, [B, K]."""
        if not isinstance(self.model, np.ndarray) or self.model.ndim != 2:
            raise TypeError("a belief per item needs a design with one model for each learner and slot")
        return self.model

    def of_learner(self, b: int) -> Rows:
        """Return the list of one learner as rows to be scored; an empty slot has an arbitrary model."""
        if not isinstance(self.model, np.ndarray):
            return Rows(self.model, None if self.x is None else self.x[b : b + 1])
        model = np.maximum(self.model[b] if self.model.ndim == 2 else self.model, 0)
        return Rows(model, None if self.x is None else self.x[b : b + 1])


class RowLayout(NamedTuple):
    """Where the features of rows that were made for fewer items are in present rows."""

    columns: IntArray  # present column of each old feature
    width: int  # d of a present row

    def moved(self, x: FloatArray) -> FloatArray:
        """Return old rows [..., features] in the present layout."""
        rows = np.zeros((*x.shape[:-1], self.width))
        rows[..., self.columns] = x
        return rows


Score = Callable[[Rows], FloatArray]
"""Scores of rows: one number for every learner and item, [B, L]. Finite or +inf, never NaN."""

SlotScore = Callable[[IntArray, int], FloatArray]
"""Input of a planner: (prefix [B, j], slot j) -> scores [B, L]."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The lists shown, and their rows at the time of scoring: features may change before the click."""

    items: IntArray  # [B, K], candidates of the request, EMPTY where nothing is shown
    rows: Rows
    request: Request
    scores: FloatArray | None = None  # [B, K] score for which each slot was filled; None for lists made elsewhere
    # [B, K] number of other candidates of a slot with exactly the same score, of which one was chosen uniformly;
    # -1: the list is one of an unknown number of equally good ones; None: no tie affected any list.
    rivals: IntArray | None = None
    # [B] lists with slots that nobody saw, which are empty in `items`; None: none. See `as_seen`.
    partly_seen: BoolArray | None = None

    def as_seen(self, visible: BoolArray) -> Decision:
        """Return the lists that visitors saw: the slots that were not visible [B, K] are empty."""
        hidden = self.shown & ~visible
        if not hidden.any():
            return self
        return replace(self, items=np.where(hidden, EMPTY, self.items), partly_seen=np.asarray(hidden.any(axis=1)))

    @property
    def columns(self) -> IntArray:
        """The lists as items of the policy, [B, K]: other than `items` where the request has its own candidates."""
        return self.request.item_of(self.items)

    @property
    def shown(self) -> BoolArray:
        """Slots that show an item, [B, K]."""
        return np.not_equal(self.items, EMPTY)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What clicks reveal, slot by slot. A slot of exposure 0 carries no information."""

    y: FloatArray  # [B, K] outcome, 0 where the exposure is 0
    exposure: FloatArray  # [B, K] 0 where unobserved, 1 where observed, or the weight of the observation


@dataclass(frozen=True, slots=True)
class SlotEffects:
    """What a click is worth in each slot relative to the first one: learned position biases, with 95 % intervals."""

    mean: FloatArray  # [B, K]; 1 in the first slot
    low: FloatArray  # [B, K], NaN where there is no interval
    high: FloatArray  # [B, K]


@dataclass(frozen=True, slots=True)
class ScoreTrust:
    """How far a policy trusts the caller's own scores: the coefficient of the score in its model.

    1: fully, as given; 0: not at all; negative: higher scores are taken as a sign of lower value.
    """

    mean: FloatArray  # [B]
    deviation: FloatArray  # [B], one standard deviation
