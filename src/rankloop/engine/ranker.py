"""`Ranker`: rank, feedback, learn, lose nothing."""

from __future__ import annotations

import math
import secrets
import threading
import time as clocks
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from rankloop import validate
from rankloop.belief.weighting import can_believe
from rankloop.engine import outcomes
from rankloop.engine.config import RankerConfig
from rankloop.engine.explain import explain
from rankloop.engine.inside import belief_of
from rankloop.engine.items import Item, ItemTable, name
from rankloop.engine.learners import Learners
from rankloop.engine.pending import Pending, Waiting
from rankloop.engine.propensity import Propensity, estimate, numbered
from rankloop.engine.ranking import Listed, Ranking, Receipt
from rankloop.engine.records import (
    Closed,
    Happened,
    ItemsPut,
    ItemsRemoved,
    Record,
    Shown,
    Withdrawn,
    decode,
    encode,
)
from rankloop.errors import InvalidInput, RankloopError
from rankloop.store import Entry, MemoryStore, SqliteStore, Store, Writer
from rankloop.types import EMPTY, Decision, IntArray, Request, Rows

Clock = Callable[[], float]
EVERYBODY = ""
"""The segment of those who name none."""
REASONS = ("estimate", "uncertainty", "prior_share")
"""Numbers of a place, in the order of `Listed`."""


class UnknownDecision(RankloopError):
    """Feedback for a decision that this ranker never made."""


class Ranker:
    """One ranker: its items, learners, open decisions and log. Any thread may call it.

    Everything that changes it is kept in the log first and applied after, in one order: the state is what the log
    says, and a replay of the log gives the same state.

    >>> ranker = Ranker(RankerConfig.of({"policy": "cascade-ucb1", "slots": 2}))
    >>> ranker.put_items([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    >>> ranking = ranker.rank(k=2)
    >>> ranker.feedback(ranking.id, clicked=[0]).status
    'learned'
    """

    def __init__(
        self,
        config: RankerConfig,
        *,
        name: str = "ranker",
        store: Store | None = None,
        writer: Writer | None = None,
        clock: Clock = clocks.time,
    ) -> None:
        self.config, self.name, self._clock = config, name, clock
        self.store: Store = store if store is not None else writer.store if writer is not None else MemoryStore()
        self._own_writer = writer is None
        self._lock = threading.RLock()
        self._table = ItemTable(config.dim)
        self._learners = Learners(config, self._table)
        inner, _ = belief_of(self._learners.policy, self._learners.fresh)
        self._binary = inner is not None and inner.belief.binary
        self._pending = Pending(config.window)
        self._decided = 0  # number of the last decision in the log
        self._drawn = 0  # and of the last one made, which may not have been kept
        self.position = 0  # of the last entry applied
        self._replay()
        self._writer = Writer(self.store) if writer is None else writer

    @classmethod
    def open(cls, path: str | Path, config: RankerConfig, **options: Any) -> Self:
        """A ranker whose log is an SQLite file, as it was when the file was last written."""
        return cls(config, store=SqliteStore(path), **options)

    # Items

    def put_items(self, items: Sequence[Item | Mapping[str, Any]]) -> None:
        """Add items, or change those that are there: all of them, or none."""
        made = tuple(Item.of(item, self.config.dim, f"items[{i}]") for i, item in enumerate(items))
        with self._lock:
            self._table.check(made)
            inner, _ = belief_of(self._learners.policy, self._learners.fresh)
        for i, item in enumerate(made):
            if item.prior is not None and (inner is None or not can_believe(inner.belief)):
                accepted = f"no prior, since {self.config.policy} takes no scores of another ranker"
                raise InvalidInput(f"items[{i}].prior", item.prior, accepted)
        self._keep(ItemsPut(self._clock(), made)).result()

    def remove_items(self, ids: Sequence[str]) -> None:
        """Never list these again; feedback that is still on its way settles."""
        with self._lock:
            self._table.columns("ids", ids)
        self._keep(ItemsRemoved(self._clock(), tuple(ids))).result()

    def items(self) -> list[Item]:
        """Every item that was not removed."""
        with self._lock:
            return self._table.all()

    # Lists

    def rank(self, **asked: Any) -> Ranking:
        """Decide a list; see `rank_soon` for what can be asked."""
        ranking: Ranking = self.rank_soon(**asked).result()
        return ranking

    def rank_soon(
        self,
        *,
        k: int | None = None,
        context: Sequence[float] | None = None,
        candidates: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        pin: Mapping[int, str] | None = None,
        segment: str = EVERYBODY,
        propensity: int = 0,
    ) -> Future[Ranking]:
        """Decide a list now; the future has it as soon as it is in the log.

        Args:
            k: how many items (default: the ranker's slots).
            context: of the visitor, where the ranker has contexts.
            candidates: only these items (default: all that are enabled).
            exclude: not these.
            pin: slot, from 0, to the item that stands there.
            segment: whose learner decides; a new one starts from nothing.
            propensity: so many draws estimate how likely the list was (0: it is not asked for).
        """
        draws = validate.integer("propensity", propensity, low=0, high=10_000)
        size = self.config.slots if k is None else validate.integer("k", k, low=0, high=self.config.slots)
        visitor = self._context(context)
        if segment != EVERYBODY:
            name("segment", segment)
        with self._lock:
            request = self._request(size, visitor, candidates, exclude, pin)
            self._drawn = max(self._drawn, self._decided) + 1
            number = self._drawn
            # A segment gets its row when its first list is applied; until then it is nobody's.
            row = self._learners.segments.get(segment)
            state = self._learners.fresh if row is None else self._learners.view(row)
            seed = (self.config.seed, number)
            decision = self._learners.policy.decide(state, request, numbered(*seed))
            likely = estimate(self._learners.policy, state, decision, seed, draws) if draws else None
            reasons = explain(self._learners.policy, state, self._learners.fresh, decision)
            shown = self._shown(decision, number, segment, pin or {}, likely)
            ranking = self._ranking(shown, reasons)
        return self._keep(shown, lambda: ranking)

    def _context(self, context: Any) -> Any:
        wanted = self.config.context
        if wanted is None:
            if context is not None:
                raise InvalidInput("context", context, "no context, since the ranker has none (ranker.context)")
            return None
        return validate.vector("context", context, length=wanted)[None, :]

    def _request(self, k: int, context: Any, candidates: Any, exclude: Any, pin: Any) -> Request:
        table = self._table
        allowed = table.enabled.copy()
        if candidates is not None:
            chosen = np.zeros_like(allowed)
            chosen[table.columns("candidates", candidates)] = True
            allowed &= chosen
        allowed[table.columns("exclude", exclude)] = False
        pinned = self._pins(k, pin or {}, allowed)
        known = {"features": table.features, "context": context, "allowed": allowed, "pinned": pinned}
        return Request.trusted(1, table.capacity, k, **known)

    def _pins(self, k: int, pin: Any, allowed: Any) -> IntArray | None:
        if not isinstance(pin, Mapping):
            raise InvalidInput("pin", pin, "a mapping from slots to ids of items")
        if not pin:
            return None
        if k == 0:
            raise InvalidInput("pin", dict(pin), "nothing, since k is 0")
        pinned = np.full(k, EMPTY, dtype=np.int64)
        for slot, id in pin.items():
            at = validate.integer("pin", slot, low=0, high=k - 1)
            pinned[at] = self._table.known(f"pin.{at}", id)
            if not allowed[pinned[at]]:
                raise InvalidInput(f"pin.{at}", id, "an enabled item that is not excluded")
        if len(set(pin.values())) < len(pin):
            raise InvalidInput("pin", dict(pin), "every item in one slot only")
        return pinned

    def _shown(
        self, decision: Decision, number: int, segment: str, pin: Mapping[int, str], likely: Propensity | None
    ) -> Shown:
        context = decision.request.context
        return Shown(
            time=self._clock(),
            id=secrets.token_urlsafe(12),
            number=number,
            segment=segment,
            items=decision.items[0],
            x=None if decision.rows.x is None else np.broadcast_to(decision.rows.x, (1, *decision.rows.x.shape[1:]))[0],
            context=None if context is None else context[0],
            scores=None if decision.scores is None else decision.scores[0],
            pinned=tuple(sorted(pin)),
            propensity=likely,
        )

    def _ranking(self, shown: Shown, reasons: Mapping[str, Any]) -> Ranking:
        nothing = [None] * len(shown.items)
        scores = nothing if shown.scores is None else shown.scores.tolist()
        numbers = [reasons[name].tolist() if name in reasons else nothing for name in REASONS]
        listed = []
        for slot, (column, score, *why) in enumerate(zip(shown.items.tolist(), scores, *numbers, strict=True)):
            if column != EMPTY:
                rule = "pinned" if slot in shown.pinned else "random" if score is None else "ranked"
                finite = score if score is not None and math.isfinite(score) else None
                listed.append(Listed(self._table.ids[column], rule, finite, *why))
        return Ranking(shown.id, shown.segment, self.config.policy, tuple(listed), shown.propensity)

    # Feedback

    def feedback(self, decision: str, **told: Any) -> Receipt:
        """Tell what happened; see `feedback_soon`."""
        receipt: Receipt = self.feedback_soon(decision, **told).result()
        return receipt

    def feedback_soon(
        self,
        decision: str,
        *,
        clicked: Sequence[int] | None = None,
        items: Sequence[str] | None = None,
        values: Mapping[int, float] | Sequence[float] | None = None,
        event: str | None = None,
        final: bool = False,
    ) -> Future[Receipt]:
        """Tell what happened to a list; the future has a receipt once that is in the log.

        Args:
            decision: the id of the list.
            clicked: slots, from 0, that were clicked; empty: it was seen, and nothing happened.
            items: ids that were clicked, instead.
            values: amount of each slot (a purchase, seconds watched), as a list or by slot, instead.
            event: an id of the caller's; the same event twice counts once.
            final: nothing more will come for this list, do not wait for the window.
        """
        shown = self._find(decision)
        ids = [EMPTY if column == EMPTY else self._table.ids[column] for column in shown.items.tolist()]
        outcome = outcomes.read(ids, clicked, items, values)
        outcomes.check(self._binary, shown.items, outcome)
        event = secrets.token_urlsafe(12) if event is None else name("event", event)
        happened = Happened(self._clock(), event, shown.id, outcome, bool(final))
        return self._keep(happened, duplicate=Receipt(shown.id, "duplicate"))

    def withdraw(self, decision: str) -> Receipt:
        """The list was never shown: nothing is learned from it."""
        shown = self._find(decision)
        kept: Receipt = self._keep(
            Withdrawn(self._clock(), shown.id), duplicate=Receipt(shown.id, "duplicate")
        ).result()
        return kept

    def tick(self) -> int:
        """Close the windows that have run out; how many there were."""
        now = self._clock()
        with self._lock:
            due = self._pending.due(now)
        if due:
            self._keep(Closed(now, due)).result()
        return len(due)

    def _find(self, decision: Any) -> Shown:
        """A decision that was made, open or not."""
        if not isinstance(decision, str) or not decision.isprintable():  # half a pair cannot be looked up in a store
            raise UnknownDecision(f"decision {decision!r} is not one that this ranker made.")
        with self._lock:
            waiting = self._pending.get(decision)
        if waiting is not None:
            return waiting.shown
        entry = self.store.find(self.name, "shown", decision)
        if entry is None:
            raise UnknownDecision(f"decision {decision!r} is not one that this ranker made.")
        record = decode(entry)
        if not isinstance(record, Shown):
            raise TypeError("the log holds something else under this key")
        return record

    # Log and state

    def _keep(self, record: Record, answer: Callable[[], Any] | None = None, duplicate: Any = None) -> Future[Any]:
        def apply(entry: Entry) -> Any:
            with self._lock:
                told = self.apply(record)
                self.position = entry.position
            return told if answer is None else answer()

        return self._writer.submit(self.name, encode(record), apply, lambda: duplicate)

    def apply(self, record: Record) -> Receipt | None:
        """Become what the record says. The only place where a ranker changes."""
        match record:
            case ItemsPut(_, items):
                self._put(items)
            case ItemsRemoved(_, ids):
                self._table.remove(ids)
            case Shown():
                self._decided = max(self._decided, record.number)
                self._learners.row(record.segment)
                self._pending.add(record)
            case Happened():
                return self._happened(record)
            case Closed(_, decisions):
                for id in decisions:
                    self._close(self._pending.pop(id))
            case Withdrawn(_, id):
                self._pending.pop(id)
                return Receipt(id, "withdrawn")
        return None

    def _happened(self, record: Happened) -> Receipt:
        waiting = self._pending.get(record.decision)
        if waiting is None:
            return Receipt(record.decision, "late")
        waiting.add(record.outcome, self.config.aggregate)
        if record.final or self.config.aggregate == "earliest":
            self._learn(self._pending.pop(record.decision))
            return Receipt(record.decision, "learned")
        return Receipt(record.decision, "kept")

    def _close(self, waiting: Waiting | None) -> None:
        if waiting is not None and (waiting.outcome is not None or self.config.on_close == "nothing"):
            self._learn(waiting)

    def _learn(self, waiting: Waiting | None) -> None:
        if waiting is None:
            return
        shown, k = waiting.shown, len(waiting.shown.items)
        policy, lists = self._learners.policy, shown.items[None, :]
        known = {"features": self._table.features, "context": None if shown.context is None else shown.context[None, :]}
        request = Request.trusted(1, self._table.capacity, k, **known)
        inner, _ = belief_of(policy, self._learners.fresh)
        decision = (
            policy.adopt(request, lists)
            if inner is None
            else Decision(lists, inner.design.pick(request, lists), request)
        )
        if shown.x is not None:
            decision = replace(decision, rows=Rows(decision.rows.model, shown.x[None]))
        outcome = np.zeros(k) if waiting.outcome is None else waiting.outcome
        row = self._learners.row(shown.segment)
        self._learners.forget(row)
        policy.learn(self._learners.view(row), decision, policy.feedback.keep(outcome[None, :]))

    def _put(self, items: Sequence[Item]) -> None:
        new = [item for item in items if item.id not in self._table.column]
        self._table.put(items)
        self._learners.follow()
        for item in new:
            if item.prior is not None:
                self._learners.believe(self._table.column[item.id], *item.prior)

    def _replay(self) -> None:
        """Start from the newest snapshot and apply the rest of the log."""
        from rankloop.engine import snapshots

        kept = self.store.load_snapshot(self.name)
        if kept is not None:
            snapshots.restore(self, kept)
        for entry in self.store.read(self.name, self.position):
            self.apply(decode(entry))
            self.position = entry.position

    def snapshot(self) -> int:
        """Keep the state, so that a start need not replay the whole log; the position that it is of."""
        from rankloop.engine import snapshots

        with self._lock:
            made = snapshots.take(self)
        self.store.save_snapshot(self.name, made)
        return made.position

    def close(self) -> None:
        """Write what is waiting and let go of the log."""
        if self._own_writer:
            self._writer.close()
            self.store.close()
