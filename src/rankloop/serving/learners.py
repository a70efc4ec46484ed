"""The learners of a ranker: one batch state with a row for each segment and columns for each item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.arrays import Array
from rankloop.errors import Unsupported
from rankloop.eventlog.events import DecisionMade
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema import Prior
from rankloop.schema.item import SegmentPrior
from rankloop.serving.config import RankerConfig
from rankloop.serving.items.item_table import ItemTable
from rankloop.serving.items.named_items import NamedItems, candidates_request, in_own_features, ranks_in
from rankloop.serving.lesson import Lesson
from rankloop.serving.memory.budget import MemoryBudget, Room, StateSize
from rankloop.serving.memory.state_size import Extent, state_size
from rankloop.types import EMPTY, BoolArray, Decision, FloatArray, IntArray, Request, Rows

NO_SEGMENT = -1
"""The row of a segment without observations, for a learner that pools segments."""
ChangePrior = Callable[[LearnerState, Request, int, float, float], None]
G = TypeVar("G", bound=np.generic)


class Learners:
    """The states of all segments; rows and columns double when they are used up.

    The memory is reserved before it is allocated, without a given room from all memory of the machine.
    """

    def __init__(self, config: RankerConfig, table: ItemTable, room: Room | None = None) -> None:
        self._config, self._table, self.row_numbers = config, table, 1 + config.row_width  # of features and products
        self.room = MemoryBudget.of_machine().room() if room is None else room
        self._extent = Extent.of(table.capacity, 1, table.prior_scores)
        self.room.reserve(state_size(config, self._extent), "a configuration that")
        self.segments: dict[str, int] = {}  # rows by segment
        self.items, self._present = table.capacity, (len(table), len(table.ids))
        self._rows = 1  # segments that there is room for
        self._build()
        self.fresh: LearnerState = self.policy.init(1)  # a new segment: no feedback, only the priors of items
        self.state: LearnerState = self.policy.init(1)

    def _build(self) -> None:
        """Build the policy for the items as they are now."""
        prices, rows = self._table.prices, self._rows
        self.policy: RankingPolicy[LearnerState] = self._config.build(self.items, prices, *self._present, segments=rows)
        self._pools = self.policy.pools
        self.greedy = self.policy.greedy()
        self.lists = self.policy.list_distribution()
        self._binary, self._checks_rows, self._batches = self.policy.binary, self.policy.checks_rows, True
        self.reads = self.policy.reads
        self._views: dict[int, LearnerState] = {}
        self._requests: dict[tuple[int, bool], Request] = {}  # without context, by k and whether only enabled items
        self._one_model: Rows | None = None  # of any list, if all slots of all lists feed one model

    # Segments

    def row(self, segment: str) -> int:
        """Return the row of a segment, a new one for a new segment."""
        at = self.segments.get(segment)
        if at is None:
            at = len(self.segments)
            if at >= self._rows:
                self.make_room(segments=at + 1)
                self._double_rows()
            self.segments[segment] = at
            if not self._pools:
                self.view(at).assign(dict(self.fresh.arrays()))
                self._apply_segment_priors(self.view(at), segment)
        return at

    def learner(self, segment: str) -> int:
        """Return the learner that learns the lessons of a segment: those of one learner keep their order."""
        return 0 if self._pools else self.row(segment)

    def _double_rows(self) -> None:
        """Make room for twice as many segments: learners, or segments of the one learner that pools them."""
        self._rows *= 2
        if self._pools:
            self._build()
            self.state, self.fresh = self.policy.grow(self.state), self.policy.grow(self.fresh)
            return
        larger = self.policy.init(self._rows)
        larger.view(slice(0, self._rows // 2)).assign(dict(self.state.arrays()))
        self.state = larger
        self._views.clear()

    def _apply_segment_priors(self, state: LearnerState, segment: str) -> None:
        """Replace the general priors of items by those of a segment, where items have some."""
        request = None
        for column, prior in self._table.priors.items():
            if segment in prior.segments and self.policy.takes_priors:
                request = self.request(self._config.slots, self.no_context()) if request is None else request
                one = prior.segments[segment]
                if prior.strength and self.policy.replaces_priors and self._is_outcome(prior.score):
                    self.policy.disbelieve(state, request, column, prior.score, prior.strength)
                if self._is_outcome(one.score):
                    self.policy.believe(state, request, column, one.score, one.strength)

    def view(self, row: int) -> LearnerState:
        """Return the learner of a segment's row, which shares memory with the whole state."""
        view = self._views.get(row)
        if view is None:
            one = self.state.of_segment(row) if self._pools else self.state.view(slice(row, row + 1))
            view = self._views[row] = one
        return view

    def of(self, segment: str) -> LearnerState:
        """Return the learner of a segment; a fresh one if the segment has none."""
        row = self.segments.get(segment)
        if row is not None:
            return self.view(row)
        if self._pools:
            return self.state.of_segment(NO_SEGMENT)
        if not any(segment in prior.segments for prior in self._table.priors.values()):
            return self.fresh
        new = self.fresh.copy()
        self._apply_segment_priors(new, segment)
        return new

    # Memory

    @property
    def extent(self) -> Extent:
        """How large the state is."""
        return self._extent

    def larger(self, columns: int = 0, segments: int = 0, priors: int = 0) -> StateSize | None:
        """Return the size of the state with this number of columns, segments and prior scores; None if it has room."""
        wanted = self._extent.including(columns, segments, priors)
        if wanted == self._extent:
            return None
        fits = wanted.columns == self.items and not self._pools
        return state_size(self._config, wanted, self.policy if fits else None)

    def make_room(self, columns: int = 0, segments: int = 0, priors: int = 0) -> None:
        """Reserve the memory of this number of columns, segments and prior scores before it is allocated."""
        size = self.larger(columns, segments, priors)
        if size is not None:
            wanted = self._extent.including(columns, segments, priors)
            self.room.reserve(size, f"a state for {wanted.columns} items and {wanted.rows} segments, which")
            self._extent = wanted

    # Requests

    def request(self, k: int, context: FloatArray | None, learners: int = 1, **more: Array | None) -> Request:
        """Return a request for k of the items as they are now; context is [learners, dx]."""
        table = self._table
        arrays: dict[str, Array | None] = {
            "features": table.features,
            "coverage": table.coverage,
            "context": context,
            **more,
        }
        if "scores" in self.reads:
            arrays["scores"] = scores = table.scores
            if scores is None and arrays.get("ranks") is None:
                arrays["ranks"] = table.default_ranks
        return Request.trusted(learners, table.capacity, k, **arrays)

    def restricted_request(
        self, k: int, context: FloatArray | None, allowed: BoolArray, named: NamedItems, pinned: IntArray | None
    ) -> Request:
        """Return a request for k of the allowed items [capacity], with the values that the request brings."""
        ranks = None if named.order is None else ranks_in(named.order, self._table.capacity)
        more = {"ranks": ranks, "rewards": named.rewards, "losses": named.losses}
        return self.request(k, context, 1, allowed=allowed, pinned=pinned, **more)

    def candidates_request(
        self, k: int, context: FloatArray | None, named: NamedItems, pinned: IntArray | None = None
    ) -> Request:
        """Return a request for k of the named candidates, of which those that are pinned are [k] candidates."""
        scores = "scores" in self.reads
        return candidates_request(self._config, self._table, k, context, named, pinned, with_scores=scores)

    def logged_request(self, event: DecisionMade, items: IntArray) -> Request:
        """Return the request that a logged list of columns [k] answered."""
        k, context, pinned = len(items), None if event.context is None else event.context[None, :], None
        if event.pinned:
            pinned = np.full(k, EMPTY, dtype=np.int64)
            pinned[list(event.pinned)] = items[list(event.pinned)]
        named = NamedItems.of(event)
        if named.candidates is not None:
            return self.candidates_request(k, context, named, None if pinned is None else named.candidate_of(pinned))
        allowed = self._table.enabled
        if event.allowed is not None:
            allowed = np.unpackbits(event.allowed)[: self._table.capacity].astype(np.bool_)
        elif named.excluded is not None:
            allowed = allowed.copy()
            allowed[named.excluded] = False
        return self.restricted_request(k, context, allowed, named, pinned)

    def enabled_request(self, k: int, context: FloatArray | None) -> Request:
        """Return a request for k of the enabled items; without a context it is cached until items change."""
        if context is not None:
            return self.request(k, context, allowed=self._table.enabled)
        request = self._requests.get((k, True))
        if request is None:
            request = self._requests[k, True] = self.request(k, None, allowed=self._table.enabled)
        return request

    def _any_request(self, k: int) -> Request:
        """Return a request of one learner for k of all items, enabled or not."""
        request = self._requests.get((k, False))
        if request is None:
            request = self._requests[k, False] = self.request(k, None)
        return request

    # Learning

    def outcome(self, given: FloatArray) -> FloatArray:
        """Return what the policy learns from, [k]: 0 or 1 where it learns from clicks, the values otherwise."""
        return (given != 0.0).astype(np.float64) if self._binary else given

    def check(self, event: DecisionMade, outcome: FloatArray) -> None:
        """Refuse an outcome [k] that `learn` could not learn from, whatever was learned so far.

        It changes nothing, caches included: any thread may call it while another one learns.
        """
        if self._binary and not ((outcome == 0.0) | (outcome == 1.0)).all():
            raise Unsupported("this ranker's policy learns from clicks, not values; report clicked slots or items.")
        if not self._checks_rows:  # `FeedbackEvent.by_slot` has checked the outcome against the list
            return
        lists, x = event.items[None, :], None if event.x is None else self._current_layout(event.x)[None]
        request = self.request(len(event.items), None if event.context is None else event.context[None, :])
        partly = np.ones(1, dtype=np.bool_) if event.partly_seen else None
        decision = Decision(lists, self._rows_of(request, lists, x), request, partly_seen=partly)
        self.policy.check(decision, self._logged_clicks(outcome[None, :]))

    def learn(self, lessons: Sequence[Lesson]) -> None:
        """Learn from decisions of one learner in their order."""
        for (segment, _, amends), group in groupby(lessons, _alike):
            alike, view = list(group), self.view(self.row(segment))
            if len(alike) > 1 and not amends and self._learn_batch(view, alike):
                continue
            for event, outcome, _, before in alike:
                lists, clicks = self.decision([event]), self._logged_clicks(outcome[None, :])
                if before is None:
                    self.policy.update(view, lists, clicks)
                else:
                    self.policy.amend(view, lists, self._logged_clicks(before[None, :]), clicks)

    def _learn_batch(self, view: LearnerState, lessons: Sequence[Lesson]) -> bool:
        """Learn from lists of one length in one step, if the policy can."""
        if not self._batches:
            return False
        clicks = self.policy.feedback.keep(_stacked([one.outcome for one in lessons]))
        self._batches = self.policy.catch_up(view, self.decision([one.event for one in lessons]), clicks)
        return self._batches

    def amendable(self, event: DecisionMade, before: FloatArray, after: FloatArray) -> bool:
        """Return whether an outcome [k] that was learned can be replaced by another one."""
        return self.policy.amendable(event.items[None], *map(self._logged_clicks, (before[None], after[None])))

    def _logged_clicks(self, clicks: FloatArray) -> FloatArray:
        """Return the clicks [1, k] that a log of the policy's kind would have: all, if there is at most one."""
        return clicks if np.count_nonzero(clicks) <= 1 else self.policy.feedback.keep(clicks)

    def scored(self, event: DecisionMade, **former: Array | None) -> DecisionMade:
        """Return a decision of another policy with the rows of this one.

        Args:
            event: the decision.
            former: `features` and `coverage` of all items where they are not those that the items have now.
        """
        event = in_own_features(event, self._config, self._table, former.get("features"))
        context, lists = None if event.context is None else event.context[None, :], event.items
        if event.rows is None:
            request = self.request(len(lists), context, 1, **former)
        else:  # those of all its candidates
            named = NamedItems.of(event)
            request, lists = self.candidates_request(len(lists), context, named), named.candidate_of(lists)
        decision = self.policy.adopt(request, lists[None, :])
        return replace(event, x=None if decision.rows.x is None else np.array(decision.rows.x[0]))

    def decision(self, events: Sequence[DecisionMade]) -> Decision:
        """Return logged decisions as a batch, one list [k] for each, with their rows as they were scored."""
        lists = _stacked([one.items for one in events])
        k, T = lists.shape[1], len(events)
        contexts = [one.context for one in events if one.context is not None]
        rows_made = [self._current_layout(one.x) for one in events if one.x is not None]
        context, x = (_stacked(arrays) if arrays else None for arrays in (contexts, rows_made))
        # Items that were listed then may be disabled now.
        request = self._any_request(k) if context is None and T == 1 else self.request(k, context, learners=T)
        rows = self._rows_of(request, lists, x)
        if x is not None and self._one_model is None and rows.is_shared:
            self._one_model = rows
        partly = np.array([one.partly_seen for one in events]) if any(one.partly_seen for one in events) else None
        return Decision(lists, rows, request, partly_seen=partly)

    def _rows_of(self, request: Request, lists: IntArray, x: FloatArray | None) -> Rows:
        """Return the rows of lists [T, k] with the features x that they were scored with, if they had any."""
        if x is not None and self._one_model is not None:
            return Rows(self._one_model.model, x)
        rows = self.policy.rows_of_lists(request, lists)
        return rows if x is None else Rows(rows.model, x)

    def _current_layout(self, x: FloatArray) -> FloatArray:
        """Return rows [k, d] in today's layout; they may have been scored when there was room for fewer items."""
        layout = self.policy.layout(x.shape[-1])
        return x if layout is None else layout.moved(x)

    def predict(self, event: DecisionMade) -> FloatArray | None:
        """Return the probability of a click in each slot [k], or None where the policy has no estimates."""
        clicks = self.policy.predict(self.of(event.segment), self.decision([event]))
        return None if clicks is None else clicks[0]

    # Items and their priors

    def follow(self) -> None:
        """Make room for the items of the table; some policies also depend on how many there are."""
        grown = self._table.capacity != self.items
        present = len(self._table), len(self._table.ids)
        self._requests.clear()
        if grown or present != self._present:
            self.items, self._present = self._table.capacity, present
            self._build()
        if grown:
            self.state, self.fresh = self.policy.grow(self.state), self.policy.grow(self.fresh)

    def believe(self, column: int, prior: Prior) -> None:
        """Apply the prior of an item in every segment and in those to come, if the policy takes priors."""
        if self.policy.takes_priors:
            self._in_all_segments(self.policy.believe, column, prior)

    def disbelieve(self, column: int, prior: Prior) -> None:
        """Take back what `believe` did with the same arguments and the same features."""
        if self.policy.replaces_priors:
            self._in_all_segments(self.policy.disbelieve, column, prior)

    def _in_all_segments(self, change: ChangePrior, column: int, prior: Prior) -> None:
        """Change the learners of all segments, those with the same prior in one step."""
        request = self.request(self._config.slots, self.no_context())
        for one, state in self._all(prior):
            if self._is_outcome(one.score):
                change(state, request, column, one.score, one.strength)

    def _is_outcome(self, score: float) -> bool:
        """Return whether a score is a possible outcome: a policy that learns from clicks takes no amounts."""
        return not self._binary or 0.0 <= score <= 1.0

    def _all(self, prior: Prior) -> Iterator[tuple[SegmentPrior, LearnerState]]:
        """Yield all learners, in batches to which the same part of a prior applies."""
        yield prior.in_segment(None), self.fresh
        if self._pools:
            yield prior.in_segment(None), self.state
        elif not prior.segments:
            if self.segments:
                yield prior.in_segment(None), self.state.view(slice(0, len(self.segments)))
        else:
            for one, alike in groupby(self.segments, key=prior.in_segment):
                rows = [self.segments[segment] for segment in alike]
                yield one, self.state.view(slice(rows[0], rows[-1] + 1))

    def no_context(self) -> FloatArray | None:
        """Return a context of zeros, [1, dx], or None where requests have no context."""
        return None if self._table.context_width is None else np.zeros((1, self._table.context_width))

    # Snapshots

    def arrays(self) -> dict[str, Array]:
        """Return the state of the segments in use, and their names."""
        used = self._used().copy()
        fresh = {f"fresh.{name}": array for name, array in self.fresh.copy().arrays()}
        return dict(used.arrays()) | fresh | {"segments": np.array(list(self.segments), dtype=np.str_)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore what `arrays` returned; the item table is restored before."""
        self.follow()
        self.segments = {str(name): i for i, name in enumerate(arrays["segments"])}
        while self._rows < len(self.segments):
            self._rows *= 2
        self._build()
        self.state = self.policy.init(1 if self._pools else self._rows)
        states = {name: array for name, array in arrays.items() if name != "segments"}
        self._used().assign({name: array for name, array in states.items() if not name.startswith("fresh.")})
        self.fresh = self.policy.init(1)
        self.fresh.assign({n.removeprefix("fresh."): array for n, array in states.items() if n.startswith("fresh.")})

    def _used(self) -> LearnerState:
        """Return the learners in use, which share memory with the whole state."""
        return self.state.view(slice(0, max(1, 0 if self._pools else len(self.segments))))


def _alike(lesson: Lesson) -> tuple[str, int, bool]:
    return lesson.event.segment, len(lesson.event.items), lesson.before is not None


def _stacked(arrays: Sequence[NDArray[G]]) -> NDArray[G]:
    if len(arrays) == 1:
        return np.asarray(arrays[0][None])
    return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape)  # a fifth of the time of `np.stack`
