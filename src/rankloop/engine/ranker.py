"""`Ranker`: rank, feedback, learn, lose nothing."""

from __future__ import annotations

import secrets
import threading
import time as clocks
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import numpy as np

from rankloop import validate
from rankloop.belief.weighting import can_believe
from rankloop.engine import asking, outcomes, rollout, snapshots
from rankloop.engine.asking import Asked
from rankloop.engine.config import RankerConfig
from rankloop.engine.explain import explain, exploration
from rankloop.engine.items import Item, name
from rankloop.engine.propensity import Numbered, estimate
from rankloop.engine.questions import Questions
from rankloop.engine.ranking import Ranking, Receipt
from rankloop.engine.records import (
    Closed,
    Guarded,
    Happened,
    ItemsPut,
    ItemsRemoved,
    Record,
    Shown,
    Withdrawn,
    encode,
)
from rankloop.engine.replica import Replica
from rankloop.errors import InvalidInput, Unsupported
from rankloop.store import MemoryStore, SqliteStore, Store, Writer
from rankloop.types import EMPTY, Decision
from rankloop.version import __version__

Clock = Callable[[], float]


class Ranker(Questions):
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
        self._numbered = Numbered()
        self._unkept = {}
        self._replica = snapshots.start(config, self.store, name)
        self._other: Replica | None = None  # another policy that follows the same log
        self._drawn = self._replica.decided  # number of the last decision made, which may not have been kept
        self._writer = Writer(self.store) if writer is None else writer

    @classmethod
    def open(cls, path: str | Path, config: RankerConfig, **options: Any) -> Self:
        """A ranker whose log is an SQLite file, as it was when the file was last written."""
        return cls(config, store=SqliteStore(path), **options)

    # Items

    def put_items(self, items: Sequence[Item | Mapping[str, Any]]) -> None:
        """Add items, or change those that are there: all of them, or none."""
        dim, topics = self.config.dim, self.config.coverage
        made = tuple(Item.of(item, dim, f"items[{i}]", topics) for i, item in enumerate(items))
        with self._lock:
            self._replica.table.check(made)
            inner = self._replica.learners.inner
        for i, item in enumerate(made):
            if item.prior is not None and (inner is None or not can_believe(inner.belief)):
                accepted = f"no prior, since {self.config.policy} takes no scores of another ranker"
                raise InvalidInput(f"items[{i}].prior", item.prior, accepted)
        self._keep(ItemsPut(self._clock(), made)).result()

    def remove_items(self, ids: Sequence[str]) -> None:
        """Never list these again; feedback that is still on its way settles."""
        with self._lock:
            self._replica.table.columns("ids", ids)
        self._keep(ItemsRemoved(self._clock(), tuple(ids))).result()

    # Lists

    def rank(self, **asked: Any) -> Ranking:
        """Decide a list.

        Args:
            k: how many items (default: the ranker's slots).
            budget: at most so many, for policies that choose the length of a list; others fill as many as they can.
            context: of the visitor, where the ranker has contexts.
            candidates: only these items (default: all that are enabled).
            exclude: not these.
            pin: slot, from 0, to the item that stands there.
            segment: whose learner decides; a new one starts from nothing.
            propensity: so many draws estimate how likely the list was, where that has no closed form (0: not asked).
            order: the caller's own order, which is shown in shadow mode and to visitors of the control group.
            visitor: who is asking; the same one is always in the same group.
        """
        ranking, kept = self.rank_soon(**asked)
        if kept is not None:
            kept.result()
        return ranking

    def rank_soon(self, **asked: Any) -> tuple[Ranking, Future[Any] | None]:
        """Decide a list; and what to wait for before it is shown, where lists are answered only when kept.

        Otherwise the list is in the log within milliseconds, and in any case before its feedback: after a crash in
        between, feedback for it is refused.
        """
        now = self._clock()
        id = _new_id(now)  # whoever asks the system for chance waits in line, and had better not hold the lock then
        with self._lock:
            replica, config = self._replica, self.config
            question = asking.read(config, replica.table, replica.learners, **asked)
            number = max(self._drawn, replica.decided) + 1
            shown, ranking = self._decide(replica, question, number, id, now)
            self._drawn = number
            if config.commit == "all":
                return ranking, self._keep(shown)
            self._unkept[shown.id] = shown
            try:
                self._writer.post(self.name, encode(shown), self._apply, shown)
            except BaseException:
                del self._unkept[shown.id]
                raise
            return ranking, None

    def _decide(self, replica: Replica, asked: Asked, number: int, id: str, now: float) -> tuple[Shown, Ranking]:
        config, learners = self.config, replica.learners
        state, request = learners.of(asked.segment), asked.request
        who = id if asked.visitor is None else asked.visitor
        control = rollout.is_control(config, self.name, who, replica.guarded is not None)
        own = rollout.own_order(asked) if control else None
        seed = (config.seed, number)
        proposed, explored, likely = None, False, None
        if own is None or config.mode == "shadow":
            spent = 0 if config.explore_daily is None else self._explored(now)
            decision, explored, likely = rollout.decide(replica, config, asked, self._numbered(*seed), spent)
        if own is not None:
            proposed = decision.items[0] if config.mode == "shadow" else None
            rows = learners.policy.adopt(request, own[None, :]).rows
            decision = Decision(own[None, :], rows, request)
        reasons = None if control else explain(learners.policy, state, learners.fresh, decision)
        scores = None if decision.scores is None else decision.scores[0]
        shares = [None] * request.k if control else exploration(decision.items[0], scores, reasons, asked.pinned)
        if control:
            likely = None
        elif likely is None and asked.draws:
            likely = estimate(learners.policy, state, decision, seed, asked.draws)
        judged = [share for share in shares if share is not None]
        x = decision.rows.x
        shown = Shown(
            time=now,
            id=id,
            number=number,
            segment=asked.segment,
            items=decision.items[0],
            x=None if x is None else x[0] if x.shape[0] == 1 else np.broadcast_to(x, (1, *x.shape[1:]))[0],
            context=None if request.context is None else request.context[0],
            scores=scores,
            pinned=asked.pinned,
            propensity=likely,
            policy=config.policy,
            version=__version__,
            seed=config.seed,
            arm="control" if control else "policy",
            visitor=asked.visitor,
            why=reasons,
            proposed=proposed,
            allowed=np.packbits(request.allowed) if asked.chosen and request.allowed is not None else None,
            exploring=sum(judged),
            judged=len(judged),
            explored=explored,
        )
        return shown, Ranking(shown, replica.table.ids, shares)

    def _explored(self, now: float) -> int:
        """Lists of today that exploring changed, those on their way to the log too."""
        return self._replica.tally.explored_on(now) + sum(shown.explored for shown in self._unkept.values())

    # Feedback

    def feedback(self, decision: str, **told: Any) -> Receipt:
        """Tell what happened; see `feedback_soon`."""
        receipt: Receipt = self.feedback_soon(decision, waits=True, **told).result()
        return receipt

    def feedback_soon(
        self,
        decision: str,
        *,
        clicked: Sequence[int] | None = None,
        items: Sequence[str] | None = None,
        values: Mapping[int | str, float] | Sequence[float] | None = None,
        event: str | None = None,
        final: bool = False,
        regret: float | None = None,
        waits: bool = False,
    ) -> Future[Receipt]:
        """Tell what happened to a list; the future has a receipt once that is in the log.

        Args:
            decision: the id of the list.
            clicked: slots, from 0, that were clicked; empty: it was seen, and nothing happened.
            items: ids that were clicked, instead.
            values: amounts (of a purchase, seconds watched) as a list, or by slot or item, instead.
            event: an id of the caller's; the same event twice counts once.
            final: nothing more will come for this list, do not wait for the window.
            regret: what the list lost against the best one, where the teller knows (simulated visitors do).
            waits: the caller will wait for the future at once, and may write the log meanwhile.
        """
        shown = self._find(decision)
        replica = self._replica
        known, binary = replica.table.ids, replica.learners.binary
        ids = [EMPTY if column == EMPTY else known[column] for column in shown.items.tolist()]
        outcome = outcomes.read(ids, clicked, items, values)
        if values is not None:
            outcomes.check(binary, outcome)
        event = "" if event is None else name("event", event)
        lost = None if regret is None else validate.number("regret", regret)
        happened = Happened(self._clock(), event, shown.id, outcome, bool(final), lost)
        return self._keep(happened, lambda: self._again(event, shown.id), waits=waits)

    def _again(self, event: str, decision: str) -> Receipt:
        """The answer to an event that was told before."""
        kept = self.store.find(self.name, "happened", event)
        if kept is not None and kept.subject != decision:
            raise InvalidInput("event", event, "an id that no feedback for another decision had")
        return Receipt(decision, "duplicate")

    def withdraw(self, decision: str) -> Receipt:
        """The list was never shown: nothing is learned from it. Too late where it was learned from already."""
        shown = self._find(decision)
        kept: Receipt = self._keep(Withdrawn(self._clock(), shown.id), lambda: Receipt(shown.id, "duplicate")).result()
        return kept

    def tick(self) -> int:
        """Close the windows that have run out, look at the guard; how many windows there were."""
        now = self._clock()
        with self._lock:
            # What is on its way to the log is there before the entry that closes it.
            due = self._replica.pending.due(now, self._unkept.values())
            trips = self._trips()
        if due:
            self._keep(Closed(now, due)).result()
        if trips is not None:
            self._keep(Guarded(now, True, trips)).result()
        return len(due)

    def _trips(self) -> str | None:
        """Why the guard must fall back now, if it must."""
        guard, (policy, control) = self.config.guard, self._replica.watched
        if guard is None or self._replica.guarded is not None or not guard.trips(policy, control):
            return None
        p, q = policy[1] / policy[0], control[1] / control[0]
        return (
            f"click-through {p:.4f} of {policy[0]:.0f} lists is credibly more than {guard.drop:.0%} below "
            f"control's {q:.4f} of {control[0]:.0f}"
        )

    def stand_down(self, why: str = "by hand") -> None:
        """Let the policy decide again after the guard fell back."""
        self._keep(Guarded(self._clock(), False, why)).result()

    # Log and state

    def _keep(self, record: Record, known: Callable[[], Any] | None = None, *, waits: bool = False) -> Future[Any]:
        light = isinstance(record, Shown | Happened)
        return self._writer.submit(self.name, encode(record), self._apply, record, known, waits=waits, light=light)

    def _apply(self, kept: Sequence[tuple[int, Record]]) -> list[Receipt | None]:
        """Become what is in the log now."""
        with self._lock:
            told = self._replica.take_in(kept)
            if self._other is not None:
                self._other.take_in(kept)
            for _, record in kept:
                if isinstance(record, Shown):
                    self._unkept.pop(record.id, None)
            return told

    def flush(self) -> None:
        """Wait until all lists that were answered are in the log."""
        self._writer.flush()

    def snapshot(self) -> int:
        """Keep the state, so that a start need not replay the whole log; the position that it is of."""
        with self._lock:
            taken = snapshots.take(self._replica)
            other = None if self._other is None else snapshots.take(self._other)
        self.store.save_snapshot(self.name, snapshots.packed(taken))
        if other is not None:
            self.store.save_snapshot(snapshots.place(self.name, other=True), snapshots.packed(other))
        return taken.position

    def adjust(self, config: RankerConfig) -> None:
        """Other settings of the rollout from now on; what is learned stays."""
        if config.learning() != self.config.learning():
            raise Unsupported("only settings of the rollout can change while a ranker runs; replace it for others.")
        with self._lock:
            self.config = self._replica.config = config

    # Another policy

    def stand_by(self, other: Replica) -> None:
        """Let a replica of this log under other settings catch up, and follow from now on."""
        if not fits(other.config, self.config):
            raise Unsupported("another policy must have the same dim, context, coverage and slots.")
        other.follow(self.store.read(self.name, other.position))  # most of it, while others go on
        self.flush()  # it may have read what is committed and not applied here yet
        with self._lock:
            other.follow(self.store.read(self.name, other.position), until=self._replica.position)
            self._other = other

    def switch(self) -> RankerConfig:
        """Let the policy that stands by decide from now on, and this one stand by; the new settings."""
        with self._lock:
            if self._other is None:
                raise Unsupported("no other policy stands by.")
            # Who sees the lists is the ranker's affair, whichever policy makes them.
            self._other.config = self._other.config.rolled_out_as(self.config)
            self._replica, self._other = self._other, self._replica
            self.config = self._replica.config
            return self.config

    def dismiss(self) -> None:
        """The other policy follows no more."""
        with self._lock:
            self._other = None

    @property
    def other(self) -> RankerConfig | None:
        """Settings of the policy that stands by."""
        other = self._other
        return None if other is None else other.config

    def close(self) -> None:
        """Write what is waiting and let go of the log."""
        if self._own_writer:
            self._writer.close()
            self.store.close()


def _new_id(now: float) -> str:
    """Nobody can guess it; it begins with the time, so that neighbours in time are neighbours in an index."""
    return f"{int(1000 * now):011x}{secrets.token_urlsafe(9)}"


def fits(other: RankerConfig, config: RankerConfig) -> bool:
    """Whether a policy can learn from the log of another: items and visitors are told in the same way."""
    same = ("dim", "context", "coverage", "slots")
    return all(getattr(other, name) == getattr(config, name) for name in same)
