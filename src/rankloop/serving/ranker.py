"""`Ranker`: rank, take feedback, learn, and lose nothing."""

from __future__ import annotations

import threading
import time as clocks
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self, cast

from rankloop.errors import Busy, InvalidInput, RankloopError
from rankloop.eventlog import MemoryStore, SqliteStore, Store, Writer
from rankloop.eventlog.events import (
    CannotReplay,
    DecisionMade,
    FeedbackReceived,
    Impression,
    LogEvent,
)
from rankloop.eventlog.writer import Commit
from rankloop.schema import FeedbackEvent, RankRequest, Receipt
from rankloop.schema.reward import IMPRESSION
from rankloop.schema.service_settings import ServiceLimits
from rankloop.serving import idempotency, rank_request, snapshots
from rankloop.serving.calls import FOR_EVER, CallableRanker
from rankloop.serving.config import RankerConfig
from rankloop.serving.decide import DecisionRng, Stamp, decide
from rankloop.serving.feature_changes import with_features_of_log
from rankloop.serving.log_shape import check_shape
from rankloop.serving.memory.budget import Room
from rankloop.serving.ranking import Ranking, new_id
from rankloop.serving.windows.window_ages import Clock

MAX_WAIT_SECONDS = 2.0
"""How long a request in this process waits until its `after` is applied."""


class Ranker(CallableRanker):
    """One ranker: its items, learners, open decisions and log. Any thread may call it.

    Every change is committed to the log first and applied afterwards, in one order: the state is a function of the
    log, and a replay of the log gives the same state.

    Args:
        config: the settings.
        name: the name of its log.
        store: the log; one in memory unless this or a writer is given.
        writer: a writer that several rankers share.
        clock: the wall clock that stamps the log.
        monotonic: the clock that feedback windows follow, in seconds. It must not jump. By default it is the machine's
            monotonic clock beside the machine's wall clock; any other wall clock is taken for a simulated one that
            tells both times, and then its backward steps count as no time.
        limits: the limits of the service; without them, only the number of open decisions is limited.
        by: the name of the API key that configures the ranker, if there is one.
        after: the version of the configuration is greater than this.
        room: the part of a memory budget that the state may take; without it, all memory of the machine.

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
        monotonic: Clock | None = None,
        limits: ServiceLimits | None = None,
        by: str | None = None,
        after: int = 0,
        room: Room | None = None,
    ) -> None:
        self.name, self._clock, self._limits = name, clock, limits
        self.store: Store = store if store is not None else writer.store if writer is not None else MemoryStore()
        self._owns_writer = writer is None
        self._lock = threading.RLock()
        self._rng = DecisionRng()
        self._uncommitted, self._new_segments = {}, {}
        self._idempotent = idempotency.IdempotentDecisions()
        # Created before the state is read: an event of another process in between is noticed at the first append.
        self._writer = Writer(self.store) if writer is None else writer
        self._challenger = None
        self.quarantine = None
        self._drawing = 0  # lists that exploration changed and whose propensity is being estimated
        self._configuring = threading.Lock()
        with ExitStack() as on_error:
            if self._owns_writer:
                on_error.callback(self._writer.close)
            logged = check_shape(self.store, name, config.plain())
            config = with_features_of_log(config, logged.get("features"))
            self._replica = snapshots.start(config, self.store, name, room=room)
            self._replica.learners.room.replaying = False
            self._follow_features()
            self._start_windows(clock, monotonic, limits)
            self._number = self._replica.decided  # of the last decision, which may be uncommitted
            on_error.callback(self._writer.unfollow, name)
            self._writer.follow(name, self._apply, self._follow, self._catch_up)
            if self._writer.process and self._replica.version:
                self._accept_settings(config)
            else:
                self._configure(config, by, after)
            on_error.pop_all()

    @classmethod
    def open(
        cls,
        path: str | Path,
        config: RankerConfig,
        *,
        name: str = "ranker",
        clock: Clock = clocks.time,
        monotonic: Clock | None = None,
    ) -> Self:
        """Open a ranker whose log is an SQLite file, in the state of the log's last event.

        The file is locked until `close`: a log that another ranker or the service has open is refused.
        """
        with ExitStack() as on_error:
            store = SqliteStore(path, exclusive=True)
            on_error.callback(store.close)
            ranker = cls(config, name=name, store=store, clock=clock, monotonic=monotonic)
            on_error.pop_all()
        return ranker

    # Decisions

    def submit_rank(
        self, request: RankRequest, patience: float = FOR_EVER
    ) -> tuple[Ranking, Commit[Receipt | None] | None]:
        """Decide a list; return it with the commit to wait for before it may be shown, if there is one.

        Without a commit, the decision is in the log within milliseconds, and in any case before its feedback. If the
        process crashes in between, feedback for it is refused.

        Args:
            request: what to rank.
            patience: seconds to wait while other work holds the ranker; then `Busy` is raised and nothing is logged.
        """
        if request.after is not None:
            self._writer.reached(request.after, MAX_WAIT_SECONDS).result()
        if request.open:
            self.open_items(request)
        id = request.decision
        if id is None:
            return self._rank(request, None, None, patience)
        fingerprint, same_id = idempotency.fingerprint(request), self._idempotent.lock(id)
        _acquire(same_id, patience)
        try:
            event, commit = self._idempotent.awaited(id) or (self._logged_decision(id), None)
            if event is None:
                return self._rank(request, id, fingerprint, patience)
        finally:
            same_id.release()
        return idempotency.repeat(event, fingerprint, self._replica.items.ids), commit

    def list_cost(self, request: RankRequest) -> int:
        """Return about how many numbers are computed for one list; this takes no lock."""
        replica = self._replica
        named = request.items if request.candidates is None else request.candidates
        row = replica.learners.row_numbers
        return ((replica.learners.items if named is None else len(named)) + row) * row

    def _rank(
        self, request: RankRequest, id: str | None, fingerprint: str | None, patience: float
    ) -> tuple[Ranking, Commit[Receipt | None] | None]:
        now = self._clock()
        # Reading entropy from the operating system can block, so it is done before the lock is taken.
        id = new_id(now) if id is None else id
        _acquire(self._lock, patience)
        try:
            self._require_serving()
            replica = self._replica
            config = replica.config
            if self._limits is not None:
                rank_request.check_limits(request, self._limits)
            wanted = rank_request.read(config, replica.items, replica.learners, request, fingerprint)
            is_new = request.segment not in replica.learners.segments
            if is_new:
                self._check_new_segment(request.segment)
            number, process = max(self._number, replica.decided) + 1, self._writer.process
            withheld = config.explore_daily is not None and self._explored_today(now) >= config.explore_daily
            stamp, rng = Stamp(id, number, now, process), self._rng(config.seed, number, process)
            event, ranking, draws = decide(replica, self.name, wanted, stamp, rng, withheld=withheld)
            self._number = number
            if draws is None:
                return ranking, self._submit_decision(event, is_new=is_new)
            self._drawing += event.explored
            if is_new:
                self._new_segments[event.id] = event.segment
        finally:
            self._lock.release()
        try:
            event.propensity = draws.estimate()  # this takes long, so nobody waits for it
        except BaseException:
            with self._lock:
                self._end_drawing(event)
            raise
        with self._lock:
            self._end_drawing(event)
            return ranking, self._submit_decision(event, is_new=is_new)

    def _end_drawing(self, event: DecisionMade) -> None:
        self._drawing -= event.explored
        self._new_segments.pop(event.id, None)

    def _submit_decision(self, event: DecisionMade, *, is_new: bool) -> Commit[Receipt | None] | None:
        """Commit a decision, or answer it before its commit if the ranker is configured so.

        Args:
            event: the decision.
            is_new: whether its segment has no learner yet.
        """
        self._require_serving()
        self._decided_at.pop(event.id, None)  # an earlier attempt failed, and the order is that of the log
        self._decided_at[event.id] = self._monotonic()
        try:
            # Another process may decide the same request at the same moment: the first one in the log counts.
            shared = event.asked is not None and self._writer.process > 0
            if shared or self._replica.config.commit == "all":
                commit = self._submit(event, _decided_elsewhere if shared else None)
                if is_new:
                    self._new_segments[event.id] = event.segment
                    commit.add_done_callback(lambda _: self._new_segments.pop(event.id, None))
                if event.asked is not None:
                    self._idempotent.track(event, commit)
                return commit
            self._uncommitted[event.id] = event
            self._writer.post(self.name, event.entry(), event, self._apply)
        except BaseException:
            self._uncommitted.pop(event.id, None)
            self._decided_at.pop(event.id, None)
            raise
        return None

    def _explored_today(self, now: float) -> int:
        """Return the number of today's lists that exploration changed, uncommitted ones included."""
        uncommitted = sum(one.explored for one in self._uncommitted.values())
        return self._replica.counters.explored_on(now) + uncommitted + self._drawing

    # Feedback

    def submit_feedback(
        self, given: FeedbackEvent, decision: DecisionMade, patience: float = FOR_EVER
    ) -> Commit[Receipt]:
        """Submit feedback; the commit has its receipt once it is in the log and applied.

        Args:
            given: the feedback event.
            decision: its decision, from `recent_decision` or `find_decision`.
            patience: seconds to wait while other work holds the ranker, if need be; then `Busy` is raised.
        """
        replica, rule = self._replica, self._replica.rule
        given.check_kind(() if rule is None else rule.kinds, replica.config.activation)
        if given.kind == IMPRESSION:
            shown = Impression(self._clock(), decision.id, decision)
            return cast("Commit[Receipt]", self._submit(shown, lambda: Receipt(decision.id, "duplicate")))
        event = FeedbackReceived.of(given, decision, replica.items.ids, self._clock())
        if rule is not None:
            rule.check(given.kind, event.outcome)
        self._check(event, decision, patience)
        commit = self._submit(event, lambda: self._duplicate_of(event.event, decision.id))
        return cast("Commit[Receipt]", commit)  # applying feedback always gives a receipt

    def _check(self, event: FeedbackReceived, decision: DecisionMade, patience: float) -> None:
        """Refuse, before anything is committed, an outcome that the policy which decided could not learn from.

        Other policies convert outcomes. If the policy that decided is gone, nothing is refused.
        """
        decider, challenger = self._replica, self._challenger
        if decider.is_foreign(decision):
            if challenger is None or challenger.is_foreign(decision):
                return
            decider = challenger
        visible, outcome = event.visible(), event.taught(decider.rule)
        if outcome is None:
            return
        seen = decision if visible is None else decision.as_seen(visible)
        try:
            decider.learners.check(seen, outcome)
        except RankloopError:
            _acquire(self._lock, patience)  # items may have been added meanwhile; a second refusal is final
            try:
                decider.learners.check(seen, outcome)
            finally:
                self._lock.release()

    def _duplicate_of(self, event: str, decision: str) -> Receipt:
        """Return the receipt of an event that was committed before."""
        first = self.store.find(self.name, FeedbackReceived.kind, event)
        if first is not None and first.subject != decision:
            raise InvalidInput("event", event, "an id that no feedback for another decision had")
        return Receipt(decision, "duplicate")

    def recent_decision(self, id: str) -> DecisionMade | None:
        """Return a decision that is open and recent, or uncommitted; None if only the log may have it.

        This takes no lock: a decision is open before it stops being uncommitted.
        """
        uncommitted = self._uncommitted.get(id)
        if uncommitted is not None:
            return uncommitted
        decision = self._replica.open_decisions.get(id)
        return None if decision is None else decision.event

    # Log and state

    def _require_serving(self) -> None:
        """Refuse if the ranker is quarantined."""
        if self.quarantine is not None:
            raise self.quarantine.error()

    def _submit(
        self,
        event: LogEvent,
        duplicate: Callable[[], Receipt | None] | None = None,
        check: Callable[[], None] | None = None,
    ) -> Commit[Receipt | None]:
        self._require_serving()
        return self._writer.submit(self.name, event.entry(), event, self._apply, duplicate, check)

    def _apply(self, events: Sequence[tuple[int, LogEvent]]) -> list[Receipt | None]:
        """Apply committed events to the state and to the challenger; quarantine the ranker if that fails."""
        with self._lock:
            self._require_serving()
            version = self._replica.version
            try:
                receipts = self._replica.apply_all(events)
                if self._challenger is not None:
                    self._challenger = self._followed(self._challenger, lambda one: one.apply_all(events))
                if self._replica.version != version:
                    self._promote_if_configured()
            except CannotReplay as error:
                raise self._quarantined(error) from error
            except Exception as error:
                raise self._quarantined(CannotReplay(self._replica.position, events[-1][1].kind, error)) from error
            if self._decided_at or self._uncommitted:
                for position, event in events:
                    if event.opens is not None:
                        self._note_opened(event.opens, position)
            if self._replica.config.activation == "impression":
                self._note_activated()
            return receipts

    def flush(self) -> None:
        """Wait until all decisions are in the log."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is queued and release the log."""
        if self._owns_writer:
            self._writer.close()
            self.store.close()


def _acquire(lock: threading.Lock | threading.RLock, patience: float) -> None:
    if not lock.acquire(timeout=patience):
        raise Busy("the ranker is busy with other work; try again later.")


def _decided_elsewhere() -> None:
    raise Busy("another process has decided the list of this id at the same moment; send the request again.")
