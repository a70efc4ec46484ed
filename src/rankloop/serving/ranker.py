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

from rankloop.errors import InvalidInput, RankloopError
from rankloop.eventlog import MemoryStore, SqliteStore, Store, Writer
from rankloop.eventlog.events import (
    CannotReplay,
    DecisionMade,
    FeedbackReceived,
    GuardrailReset,
    GuardrailTripped,
    ItemsPut,
    ItemsRemoved,
    LogEvent,
    WindowClosed,
    Withdrawn,
)
from rankloop.math import numerics
from rankloop.propensity import estimate
from rankloop.schema import FeedbackEvent, Item, ItemFields, Quarantine, RankRequest, Receipt
from rankloop.serving import feedback_event, idempotency, rank_request, rollout, snapshots
from rankloop.serving.config import RankerConfig
from rankloop.serving.configuration import CommitFollower, ConfigurableRanker
from rankloop.serving.decision_rng import PROPENSITY_STREAM, DecisionRng, rng_of_decision
from rankloop.serving.guardrail import trips
from rankloop.serving.item_table import check_prior, fit
from rankloop.serving.rank_request import PolicyRequest
from rankloop.serving.ranking import Ranking, exploration
from rankloop.serving.replica import Replica
from rankloop.types import EMPTY, Decision, FloatArray
from rankloop.version import __version__

Clock = Callable[[], float]


class Ranker(ConfigurableRanker):
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
        by: str | None = None,
        after: int = 0,
    ) -> None:
        self.name, self._clock = name, clock
        self.store: Store = store if store is not None else writer.store if writer is not None else MemoryStore()
        self._own_writer = writer is None
        self._lock = threading.RLock()
        self._numbered = DecisionRng()
        self._unkept = {}
        self._committed = CommitFollower(self._unkept, self._promote)
        self._repeats = idempotency.IdempotentDecisions()
        self._replica = snapshots.start(config, self.store, name)
        self._challenger = None
        self.quarantine: Quarantine | None = None  # why it answers no more, if it does not
        self._drawn = self._replica.decided  # number of the last decision made, which may not have been kept
        self._configuring = threading.Lock()
        self._writer = Writer(self.store) if writer is None else writer
        self._configure(config, by, after)

    @classmethod
    def open(cls, path: str | Path, config: RankerConfig, *, name: str = "ranker", clock: Clock = clocks.time) -> Self:
        """A ranker whose log is an SQLite file, as it was when the file was last written."""
        return cls(config, name=name, store=SqliteStore(path), clock=clock)

    # Items

    def put_items(self, items: Sequence[Item | ItemFields]) -> None:
        """Add items, or change those that are there: all of them, or none."""
        made = tuple(Item.of(item, f"items[{i}]") for i, item in enumerate(items))
        for i, item in enumerate(made):
            fit(item, f"items[{i}]", self.config)
        with self._lock:
            table = self._replica.items
            table.check(made)
            for i, item in enumerate(made):
                check_prior(f"items[{i}].prior", item, table.prior(item.id), self._replica.learners.policy)
        self._keep(ItemsPut(self._clock(), made)).result()

    def remove_items(self, ids: Sequence[str]) -> None:
        """List these no more; feedback that is still on its way settles, and an id that comes back starts anew."""
        with self._lock:
            self._replica.items.columns("ids", ids)
        self._keep(ItemsRemoved(self._clock(), tuple(ids))).result()

    # Lists

    def rank(
        self,
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
    ) -> Ranking:
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
        ranking, kept = self.submit_rank(asked)
        if kept is not None:
            kept.result()
        return ranking

    def submit_rank(self, asked: RankRequest) -> tuple[Ranking, Future[Receipt | None] | None]:
        """Decide a list; and what to wait for before it is shown, where lists are answered only when kept.

        Otherwise the list is in the log within milliseconds, and in any case before its feedback: after a crash in
        between, feedback for it is refused.
        """
        id = asked.decision
        if id is None:
            return self._rank(None, None, asked)
        request = idempotency.fingerprint(asked)
        with self._repeats.turn(id):
            shown, kept = self._repeats.awaited(id) or (self._made(id), None)
            if shown is None:
                return self._rank(id, request, asked)
        return idempotency.answer(shown, request, self._replica.items.ids), kept

    def _rank(
        self, id: str | None, request: str | None, asked: RankRequest
    ) -> tuple[Ranking, Future[Receipt | None] | None]:
        now = self._clock()
        # Reading entropy of the operating system can block, so it is done before the lock is taken.
        id = _new_id(now) if id is None else id
        with self._lock:
            self._serves()
            replica, config = self._replica, self.config
            question = rank_request.read(config, replica.items, replica.learners, asked)
            number = max(self._drawn, replica.decided) + 1
            shown, ranking = self._decide(replica, question, number, id, now)
            self._drawn = number
            shown.asked = idempotency.noted(request, question.ignored)
            if config.commit == "all":
                return ranking, self._repeats.wait_for(shown, self._keep(shown))
            self._unkept[shown.id] = shown
            try:
                self._writer.post(self.name, shown.entry(), self._apply, shown)
            except BaseException:
                del self._unkept[shown.id]
                raise
            return ranking, None

    def _decide(
        self, replica: Replica, asked: PolicyRequest, number: int, id: str, now: float
    ) -> tuple[DecisionMade, Ranking]:
        config, learners = self.config, replica.learners
        state, request = learners.of(asked.segment), asked.request
        who = id if asked.visitor is None else asked.visitor
        control = rollout.is_control(config, self.name, who, replica.guardrail_tripped is not None)
        own = rollout.own_order(asked, replica.items) if control else None
        seed = (config.seed, number)
        proposed, explored, withheld, likely = None, False, False, None
        if own is None or config.mode == "shadow":
            withheld = config.explore_daily is not None and self._explored(now) >= config.explore_daily
            decision, explored, likely = rollout.decide(replica, config, asked, self._numbered(*seed), withheld)
        if own is not None:
            proposed = decision.items[0] if config.mode == "shadow" else None
            rows = learners.policy.adopt(request, own[None, :]).rows
            decision = Decision(own[None, :], rows, request)
        reasons = None if control else learners.policy.explain(state, learners.fresh, decision)
        scores = None if decision.scores is None else decision.scores[0]
        shares = [None] * request.k if control else exploration(decision.items[0], scores, reasons, asked.pinned)
        if control:
            likely = None
        elif likely is None and asked.draws:
            likely = estimate(learners.policy, state, decision, rng_of_decision(*seed, PROPENSITY_STREAM), asked.draws)
        judged = [share for share in shares if share is not None]
        x = decision.rows.x
        shown = DecisionMade(
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
            group="control" if control else "treatment",
            visitor=asked.visitor,
            why=reasons,
            proposed=proposed,
            allowed=np.packbits(request.allowed) if asked.chosen and request.allowed is not None else None,
            exploring=sum(judged),
            judged=len(judged),
            explored=explored and not control,  # a proposal that is not shown explores nothing
            position=replica.position,
            config=replica.version,
            numerics=numerics.version(),
            withheld=withheld,
        )
        return shown, Ranking(shown, replica.items.ids, shares, asked.ignored)

    def _explored(self, now: float) -> int:
        """Lists of today that exploring changed, those on their way to the log too."""
        return self._replica.counters.explored_on(now) + sum(shown.explored for shown in self._unkept.values())

    # Feedback

    def feedback(
        self,
        decision: str,
        *,
        clicked: Sequence[int] | None = None,
        items: Sequence[str] | None = None,
        values: Sequence[float] | None = None,
        item_values: Mapping[str, float] | None = None,
        event: str | None = None,
        final: bool = False,
        regret: float | None = None,
    ) -> Receipt:
        """Tell what happened to a list; `schema.FeedbackEvent` says what each of the options is."""
        told = FeedbackEvent(decision, clicked, items, values, item_values, event, final, regret)
        return self.submit_feedback(told, waits=True).result()

    def submit_feedback(self, told: FeedbackEvent, *, waits: bool = False) -> Future[Receipt]:
        """Tell what happened to a list; the future has a receipt once that is in the log.

        Args:
            told: what happened.
            waits: the caller will wait for the future at once, and may write the log meanwhile.
        """
        shown = self._find(told.decision)
        replica = self._replica
        known = replica.items.ids
        outcome = feedback_event.read([None if at == EMPTY else known[at] for at in shown.items.tolist()], told)
        self._check(replica, shown, outcome)
        event = told.event or ""
        happened = FeedbackReceived(self._clock(), event, shown.id, outcome, told.final, told.regret)
        kept: Future[Any] = self._keep(happened, lambda: self._again(event, shown.id), waits=waits)
        return kept

    def _check(self, replica: Replica, shown: DecisionMade, outcome: FloatArray) -> None:
        """Refuse, before anything is committed, what the policy that decided could not learn from.

        Other policies convert the outcomes of its lists. Where that policy is gone, nothing is refused.
        """
        deciders = (one for one in (replica, self._challenger) if one is not None and not one.is_foreign(shown))
        decider = next(deciders, None)
        if decider is None:
            return
        try:
            decider.learners.check(shown, outcome)
        except RankloopError:
            with self._lock:  # items may have come just now; what is refused again is refused
                decider.learners.check(shown, outcome)

    def _again(self, event: str, decision: str) -> Receipt:
        """The answer to an event that was told before."""
        kept = self.store.find(self.name, FeedbackReceived.kind, event)
        if kept is not None and kept.subject != decision:
            raise InvalidInput("event", event, "an id that no feedback for another decision had")
        return Receipt(decision, "duplicate")

    def withdraw(self, decision: str) -> Receipt:
        """The list was never shown: nothing is learned from it. Too late where it was learned from already."""
        shown = self._find(decision)
        kept: Future[Any] = self._keep(Withdrawn(self._clock(), shown.id), lambda: Receipt(shown.id, "duplicate"))
        receipt: Receipt = kept.result()
        return receipt

    def tick(self) -> int:
        """Close the windows that have run out, look at the guard; how many windows there were."""
        if self.quarantine is not None:
            return 0
        now = self._clock()
        with self._lock:
            # What is on its way to the log is there before the entry that closes it.
            due = self._replica.open_decisions.due(now, self._unkept.values())
            trips = self._trips()
        if due:
            self._keep(WindowClosed(now, due)).result()
        if trips is not None:
            self._keep(GuardrailTripped(now, trips)).result()
        return len(due)

    def _trips(self) -> str | None:
        """Why the guard must fall back now, if it must."""
        guard, (policy, control) = self.config.guardrail, self._replica.guardrail_counts
        if guard is None or self._replica.guardrail_tripped is not None or not trips(guard, policy, control):
            return None
        p, q = policy[1] / policy[0], control[1] / control[0]
        return (
            f"click-through {p:.4f} of {policy[0]:.0f} lists is credibly more than {guard.drop:.0%} below "
            f"control's {q:.4f} of {control[0]:.0f}"
        )

    def reset_guardrail(self, why: str = "by hand") -> None:
        """Let the policy decide again after the guard fell back."""
        self._keep(GuardrailReset(self._clock(), why)).result()

    # Log and state

    def _serves(self) -> None:
        """Refuse where it is quarantined."""
        if self.quarantine is not None:
            raise self.quarantine.error()

    def _keep(
        self, record: LogEvent, known: Callable[[], Receipt] | None = None, *, waits: bool = False
    ) -> Future[Receipt | None]:
        self._serves()
        apply, light = self._apply, record.light
        return self._writer.submit(self.name, record.entry(), apply, record, known, waits=waits, light=light)

    def _apply(self, kept: Sequence[tuple[int, LogEvent]]) -> list[Receipt | None]:
        """Become what is in the log now."""
        with self._lock:
            self._serves()
            try:
                told = self._replica.apply_all(kept)
                self._challenger = self._followed(kept)
                for _, record in kept:
                    record.dispatch(self._committed)
            except CannotReplay as error:
                raise self._quarantined(error) from error
            except Exception as error:
                raise self._quarantined(CannotReplay(self._replica.position, "last", error)) from error
            return told

    def _quarantined(self, cause: CannotReplay) -> RankloopError:
        """Answer no more; the error that says so."""
        self.quarantine = Quarantine(cause.position, cause.reason)
        return self.quarantine.error()

    def flush(self) -> None:
        """Wait until all lists that were answered are in the log."""
        self._writer.flush()

    def snapshot(self) -> int:
        """Keep the state, so that a start need not replay the whole log; the position that it is of."""
        with self._lock:
            self._serves()
            taken = snapshots.take(self._replica)
            challenger = None if self._challenger is None else snapshots.take(self._challenger)
        self.store.save_snapshot(self.name, snapshots.packed(taken))
        if challenger is not None:
            self.store.save_snapshot(snapshots.place(self.name, challenger=True), snapshots.packed(challenger))
        return taken.position

    def close(self) -> None:
        """Write what is waiting and let go of the log."""
        if self._own_writer:
            self._writer.close()
            self.store.close()


def _new_id(now: float) -> str:
    """Nobody can guess it; it begins with the time, so that neighbours in time are neighbours in an index."""
    return f"{int(1000 * now):011x}{secrets.token_urlsafe(9)}"
