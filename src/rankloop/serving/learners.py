"""The learners of a ranker: a row of one batch for each segment, columns for each item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankloop.arrays import Array
from rankloop.errors import Unsupported
from rankloop.eventlog.events import DecisionMade
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema import Prior
from rankloop.serving.config import RankerConfig
from rankloop.serving.item_table import ItemTable
from rankloop.types import Decision, FloatArray, IntArray, Request, Rows

Believe = Callable[[LearnerState, Request, int, float, float], None]
G = TypeVar("G", bound=np.generic)


class Lesson(NamedTuple):
    """A list and what its slots were worth, [k]."""

    shown: DecisionMade
    outcome: FloatArray
    position: int  # in the log, of what settled it


class Learners:
    """State of all segments; rows and columns double when they are taken."""

    def __init__(self, config: RankerConfig, table: ItemTable) -> None:
        self._config, self._table = config, table
        self.segments: dict[str, int] = {}
        self.items, self._there = table.capacity, (len(table), len(table.ids))
        self._rows = 1
        self._built()
        self.fresh: LearnerState = self.policy.init(1)  # one who has seen nobody, but knows what other rankers said
        self.state: LearnerState = self.policy.init(1)

    def _built(self) -> None:
        self.policy: RankingPolicy[LearnerState] = self._config.build(self.items, self._table.prices, *self._there)
        self.greedy = self.policy.greedy()
        self.lists = self.policy.list_distribution()
        self._checks_rows, self._quick = self.policy.checks_rows, True
        self._views: dict[int, LearnerState] = {}
        self._usual: dict[tuple[int, bool], Request] = {}
        self._one_model: Rows | None = None  # of any list, where there is one model for all slots of all lists

    def outcome(self, told: FloatArray) -> FloatArray:
        """What the policy learns from, [k]: where only clicks teach, anything but 0 is a click, and one click only."""
        return (told != 0.0).astype(np.float64) if self.policy.binary else told

    def row(self, segment: str) -> int:
        """The row of a segment, a new one where it was not seen before."""
        at = self.segments.get(segment)
        if at is None:
            at = self.segments[segment] = len(self.segments)
            if at >= self._rows:
                larger = self.policy.init(2 * self._rows)
                larger.view(slice(0, self._rows)).assign(dict(self.state.arrays()))
                self.state = larger
                self._rows *= 2
                self._views.clear()
            self.view(at).assign(dict(self.fresh.arrays()))
            self._localise(self.view(at), segment)
        return at

    def _localise(self, state: LearnerState, segment: str) -> None:
        """Put what other rankers say of items in a segment in the place of what they say in general."""
        request = None
        for column, prior in self._table.priors.items():
            if segment in prior.segments and self.policy.takes_priors:
                request = self.request(self._config.slots, self._no_context()) if request is None else request
                one = prior.segments[segment]
                if prior.strength and self.policy.replaces_priors and self._is_outcome(prior.score):
                    self.policy.disbelieve(state, request, column, prior.score, prior.strength)
                if self._is_outcome(one.score):
                    self.policy.believe(state, request, column, one.score, one.strength)

    def view(self, row: int) -> LearnerState:
        """One learner, sharing memory with the rest."""
        kept = self._views.get(row)
        if kept is None:
            kept = self._views[row] = self.state.view(slice(row, row + 1))
        return kept

    def of(self, segment: str) -> LearnerState:
        """The learner of a segment; one who has seen nobody where there is none yet."""
        row = self.segments.get(segment)
        if row is not None:
            return self.view(row)
        if not any(segment in prior.segments for prior in self._table.priors.values()):
            return self.fresh
        new = self.fresh.copy()
        self._localise(new, segment)
        return new

    def request(self, k: int, context: FloatArray | None, learners: int = 1, **more: Array | None) -> Request:
        """A question about the items as they are now; context is [learners, dx]."""
        table = self._table
        known: dict[str, Array | None] = {
            "features": table.features,
            "coverage": table.coverage,
            "context": context,
            **more,
        }
        return Request.trusted(learners, table.capacity, k, **known)

    def usual(self, k: int, *, enabled: bool = True) -> Request:
        """A question without context about all items, or all enabled ones: the same until there are more."""
        kept = self._usual.get((k, enabled))
        if kept is None:
            allowed = self._table.enabled if enabled else None
            kept = self._usual[k, enabled] = self.request(k, None, allowed=allowed)
        return kept

    def check(self, shown: DecisionMade, outcome: FloatArray) -> None:
        """Refuse an outcome [k] of a list from which `learn` could not learn; what was learned so far has no say.

        It changes nothing, what is kept for the next time included: any thread may call it while another learns.
        """
        if self.policy.binary and not ((outcome == 0.0) | (outcome == 1.0)).all():
            raise Unsupported("this ranker's policy learns from clicks, not values; report clicked slots or items.")
        if not self._checks_rows:  # the caller's outcome is of this list, and of numbers that can be
            return
        lists, x = shown.items[None, :], None if shown.x is None else self._laid_out(shown.x)[None]
        request = self.request(len(shown.items), None if shown.context is None else shown.context[None, :])
        decision = Decision(lists, self._scored_rows(request, lists, x), request)
        self.policy.check(decision, self._kept(outcome[None, :]))

    def learn(self, lessons: Sequence[Lesson]) -> None:
        """Take in lists of one segment in their order, each [k] with what its slots were worth."""
        row = self.row(lessons[0].shown.segment)
        view = self.view(row)
        for _, group in groupby(lessons, key=lambda lesson: len(lesson.shown.items)):
            alike = list(group)
            if len(alike) > 1 and self._catch_up(view, alike):
                continue
            for shown, outcome, _ in alike:
                self.policy.update(view, self.decision([shown]), self._kept(outcome[None, :]))

    def _catch_up(self, view: LearnerState, lessons: Sequence[Lesson]) -> bool:
        """Lists of one length in one step, where the policy has a quick way."""
        if not self._quick:
            return False
        lists, outcomes, _ = zip(*lessons, strict=True)
        self._quick = self.policy.catch_up(view, self.decision(lists), self.policy.feedback.keep(_stacked(outcomes)))
        return self._quick

    def _kept(self, clicks: FloatArray) -> FloatArray:
        """What the policy's log keeps of one list: all of it, where there is no more than one click."""
        return clicks if np.count_nonzero(clicks) <= 1 else self.policy.feedback.keep(clicks)

    def scored(self, shown: DecisionMade) -> DecisionMade:
        """A list of another policy, its rows as this one would have scored them: with the items as they are now."""
        lists = shown.items[None, :]
        request = self.request(len(shown.items), None if shown.context is None else shown.context[None, :])
        made = self.policy.adopt(request, lists)
        return replace(shown, x=None if made.rows.x is None else np.array(made.rows.x[0]))

    def decision(self, shown: Sequence[DecisionMade]) -> Decision:
        """Lists as they were decided: their rows as they were scored. A list for each, as if for T learners."""
        lists = _stacked([one.items for one in shown])
        context = (
            None if shown[0].context is None else _stacked([one.context for one in shown if one.context is not None])
        )
        k, T = lists.shape[1], len(shown)
        x = None if shown[0].x is None else _stacked([self._laid_out(one.x) for one in shown if one.x is not None])
        # Whatever is enabled now: what was listed then may not be.
        request = self.usual(k, enabled=False) if context is None and T == 1 else self.request(k, context, learners=T)
        rows = self._scored_rows(request, lists, x)
        self._one_model = rows if rows.is_shared else None
        return Decision(lists, rows, request)

    def _scored_rows(self, request: Request, lists: IntArray, x: FloatArray | None) -> Rows:
        """Rows of lists [T, k] with the features that they were scored with, if they had any."""
        if x is not None and self._one_model is not None:
            return Rows(self._one_model.model, x)
        rows = self.policy.rows_of_lists(request, lists)
        return rows if x is None else Rows(rows.model, x)

    def _laid_out(self, x: FloatArray) -> FloatArray:
        """Rows [k, d] of a list, which may have been decided when there was room for fewer items."""
        layout = self.policy.layout(x.shape[-1])
        return x if layout is None else layout.moved(x)

    def predict(self, shown: DecisionMade) -> FloatArray | None:
        """Probability of a click in each slot of a list [k] by what its segment knows now; None without estimates."""
        found = self.policy.predict(self.of(shown.segment), self.decision([shown]))
        return None if found is None else found[0]

    def follow(self) -> None:
        """Make room for items that the table has got room for; some policies also care how many there are."""
        grown = self._table.capacity != self.items
        there = len(self._table), len(self._table.ids)
        if grown or there != self._there:
            self.items, self._there = self._table.capacity, there
            self._built()
        if grown:
            self.state, self.fresh = self.policy.grow(self.state), self.policy.grow(self.fresh)

    def believe(self, column: int, prior: Prior) -> None:
        """Learn what another ranker says of an item, in every segment and those to come.

        Not where the policy takes no priors, or learns from clicks and the score is an amount.
        """
        if self.policy.takes_priors:
            self._in_all(self.policy.believe, column, prior)

    def disbelieve(self, column: int, prior: Prior) -> None:
        """Take back what `believe` did with the same arguments and the same features."""
        if self.policy.replaces_priors:
            self._in_all(self.policy.disbelieve, column, prior)

    def _in_all(self, how: Believe, column: int, prior: Prior) -> None:
        request = self.request(self._config.slots, self._no_context())
        for segment, state in self._all():
            one = prior.in_segment(segment)
            if self._is_outcome(one.score):
                how(state, request, column, one.score, one.strength)

    def _is_outcome(self, score: float) -> bool:
        return not self.policy.binary or 0.0 <= score <= 1.0

    def _all(self) -> Iterator[tuple[str | None, LearnerState]]:
        """Every learner with its segment, and the one that those to come start from."""
        yield None, self.fresh
        yield from ((segment, self.view(row)) for segment, row in self.segments.items())

    def _no_context(self) -> FloatArray | None:
        return None if self._config.context is None else np.zeros((1, self._config.context))

    def arrays(self) -> dict[str, Array]:
        """State of the segments in use, and their names."""
        used = self.state.view(slice(0, max(1, len(self.segments)))).copy()
        fresh = {f"fresh.{name}": array for name, array in self.fresh.copy().arrays()}
        return dict(used.arrays()) | fresh | {"segments": np.array(list(self.segments), dtype=np.str_)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Become what `arrays` gave; the table is restored before."""
        self.follow()
        names: Sequence[str] = [str(name) for name in arrays["segments"]]
        self.segments = {name: i for i, name in enumerate(names)}
        while self._rows < len(names):
            self._rows *= 2
        self.state = self.policy.init(self._rows)
        self._views.clear()
        used = self.state.view(slice(0, max(1, len(names))))
        own = {name: array for name, array in arrays.items() if name != "segments"}
        used.assign({name: array for name, array in own.items() if not name.startswith("fresh.")})
        self.fresh = self.policy.init(1)
        self.fresh.assign({n.removeprefix("fresh."): array for n, array in own.items() if n.startswith("fresh.")})


def _stacked(arrays: Sequence[NDArray[G]]) -> NDArray[G]:
    if len(arrays) == 1:
        return np.asarray(arrays[0][None])
    return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape)  # a fifth of the time of `np.stack`
