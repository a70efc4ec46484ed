"""The learners of a ranker: a row of one batch for each segment, columns for each item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.belief.weighting import believe, forget
from rankloop.engine.config import RankerConfig
from rankloop.engine.inside import belief_of, greedy, learns_from_others, unwrap
from rankloop.engine.items import ItemTable
from rankloop.engine.laws import law_of
from rankloop.engine.records import Shown
from rankloop.policy import Policy, Ranks, in_sequence, learn_in_sequence
from rankloop.state import State
from rankloop.types import Decision, FloatArray, Request, Rows


class Lesson(NamedTuple):
    """A list and what its slots were worth, [k]."""

    shown: Shown
    outcome: FloatArray


class Learners:
    """State of all segments; rows and columns double when they are taken."""

    def __init__(self, config: RankerConfig, table: ItemTable) -> None:
        self._config, self._table = config, table
        self.segments: dict[str, int] = {}
        self.items, self._present = table.capacity, len(table)
        self._rows = 1
        self._built()
        self.fresh: Any = self.policy.init(1)  # one who has seen nobody, but knows what other rankers said
        self.state: State = self.policy.init(1)

    def _built(self) -> None:
        self.policy: Ranks = self._config.build(self.items, self._table.prices, self._present)
        self.inner, _ = unwrap(self.policy, self.policy.init(1))
        self.greedy = greedy(self.policy)
        self.from_others = learns_from_others(self.policy)
        self.law = law_of(self.policy)
        self._views: dict[int, Any] = {}
        self._usual: dict[tuple[int, bool], Request] = {}
        self._model: int | None = None  # of every slot of every list, where there is only one

    @property
    def binary(self) -> bool:
        """Whether only clicks teach, not values."""
        return self.inner is not None and self.inner.belief.binary

    def row(self, segment: str) -> int:
        """The row of a segment, a new one where it was not seen before."""
        at = self.segments.get(segment)
        if at is None:
            at = self.segments[segment] = len(self.segments)
            if at >= self._rows:
                self.state = _larger(self.state, self.policy.init(2 * self._rows))
                self._rows *= 2
                self._views.clear()
            self.view(at).assign(dict(self.fresh.arrays()))
        return at

    def view(self, row: int) -> Any:
        """One learner, sharing memory with the rest."""
        kept = self._views.get(row)
        if kept is None:
            kept = self._views[row] = self.state.view(slice(row, row + 1))
        return kept

    def of(self, segment: str) -> Any:
        """The learner of a segment; one who has seen nobody where there is none yet."""
        row = self.segments.get(segment)
        return self.fresh if row is None else self.view(row)

    def request(self, k: int, context: FloatArray | None, learners: int = 1, **more: Any) -> Request:
        """A question about the items as they are now; context is [learners, dx]."""
        table = self._table
        known = {"features": table.features, "coverage": table.coverage, "context": context, **more}
        return Request.trusted(learners, table.capacity, k, **known)

    def usual(self, k: int, *, enabled: bool = True) -> Request:
        """A question without context about all items, or all enabled ones: the same until there are more."""
        kept = self._usual.get((k, enabled))
        if kept is None:
            allowed = self._table.enabled if enabled else None
            kept = self._usual[k, enabled] = self.request(k, None, allowed=allowed)
        return kept

    def learn(self, lessons: Sequence[Lesson]) -> None:
        """Take in lists of one segment in their order, each [k] with what its slots were worth."""
        row = self.row(lessons[0].shown.segment)
        view = self.view(row)
        if len(lessons) == 1 or self._config.forget_every or not in_sequence(self.policy):
            for shown, outcome in lessons:
                if self._config.forget_every:
                    self.forget(row)
                self._take_in(view, self.decision([shown]), self._kept(outcome[None, :]))
            return
        for _, alike in groupby(lessons, key=lambda lesson: len(lesson.shown.items)):
            lists, outcomes = zip(*alike, strict=True)
            decision = self.decision(lists)
            learn_in_sequence(self.policy, view, decision, self.policy.feedback.keep(_stacked(outcomes)))

    def _kept(self, clicks: FloatArray) -> FloatArray:
        """What the policy's log keeps of one list: all of it, where there is no more than one click."""
        return clicks if np.count_nonzero(clicks) <= 1 else self.policy.feedback.keep(clicks)

    def _take_in(self, view: Any, decision: Decision, clicks: FloatArray) -> None:
        """Learn; outcomes were checked when they were told."""
        if isinstance(self.policy, Policy):
            self.policy.take_in(view, decision, clicks)
        else:
            self.policy.learn(view, decision, clicks)

    def scored(self, shown: Shown) -> Shown:
        """A list of another policy, its rows as this one would have scored them: with the items as they are now."""
        lists = shown.items[None, :]
        request = self.request(len(shown.items), None if shown.context is None else shown.context[None, :])
        made = self.policy.adopt(request, lists)
        return replace(shown, x=None if made.rows.x is None else np.array(made.rows.x[0]))

    def decision(self, shown: Sequence[Shown]) -> Decision:
        """Lists as they were decided: their rows as they were scored. A list for each, as if for T learners."""
        lists = _stacked([one.items for one in shown])
        context = None if shown[0].context is None else _stacked([one.context for one in shown])
        k, T = lists.shape[1], len(shown)
        x = None if shown[0].x is None else _stacked([one.x for one in shown])
        # Whatever is enabled now: what was listed then may not be.
        request = self.usual(k, enabled=False) if context is None and T == 1 else self.request(k, context, learners=T)
        if x is not None and self._model is not None:
            return Decision(lists, Rows(self._model, x), request)
        if self.inner is None:
            rows = self.policy.adopt(request, lists).rows
        else:
            rows = self.inner.design.pick(request, lists)
            self._model = rows.model if isinstance(rows.model, int) else None
        return Decision(lists, rows if x is None else Rows(rows.model, x), request)

    def follow(self) -> None:
        """Make room for items that the table has got room for; some policies also care how many there are."""
        grown = self._table.capacity != self.items
        if grown or len(self._table) != self._present:
            self.items, self._present = self._table.capacity, len(self._table)
            self._built()
        if grown:
            self.state = _larger(self.state, self.policy.init(self._rows))
            self.fresh = _larger(self.fresh, self.policy.init(1))

    def believe(self, column: int, score: float, strength: float) -> None:
        """Learn what another ranker says of an item, in every segment and those to come."""
        decision = self.policy.adopt(self.request(1, self._no_context()), [[column]])
        for state in (self.fresh, *(self.view(row) for row in self.segments.values())):
            inner, belief = belief_of(self.policy, state)
            if inner is not None:
                believe(inner.belief, belief, decision.rows, score, strength)

    def forget(self, row: int) -> None:
        """Discount the past of a learner, where it is time."""
        every = self._config.forget_every
        view = self.view(row)
        if int(view.t[0]) % every == 0:
            (_, belief), (_, before) = belief_of(self.policy, view), belief_of(self.policy, self.fresh)
            forget(belief, before, self._config.discount**every)

    def _no_context(self) -> FloatArray | None:
        return None if self._config.context is None else np.zeros((1, self._config.context))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """State of the segments in use, and their names."""
        used = self.state.view(slice(0, max(1, len(self.segments)))).copy()
        fresh = {f"fresh.{name}": array for name, array in self.fresh.copy().arrays()}
        return dict(used.arrays()) | fresh | {"segments": np.array(list(self.segments), dtype=np.str_)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
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


def _stacked(arrays: Sequence[Any]) -> NDArray[Any]:
    if len(arrays) == 1:
        return np.asarray(arrays[0][None])
    return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape)  # a fifth of the time of `np.stack`


def _larger(old: State, new: State) -> State:
    """What was learned stands in the first rows and columns of a larger state."""
    for (_, before), (_, after) in zip(old.arrays(), new.arrays(), strict=True):
        after[tuple(slice(0, n) for n in before.shape)] = before
    return new
