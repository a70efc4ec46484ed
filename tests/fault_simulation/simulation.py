"""Plays a schedule and checks the promises: acknowledged is stored once, refused is not stored, state = replay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fault_simulation.engine import NAME, OPEN_LIMIT, Clocks, Engine
from fault_simulation.model_log import Crashed, ModelLog
from fault_simulation.schedule import WINDOW_SECONDS, Schedule, Step
from rankloop.errors import UnknownDecision
from rankloop.eventlog import StoreUnavailable
from rankloop.eventlog.events import DecisionMade, FeedbackReceived
from rankloop.eventlog.writer import Commit
from rankloop.schema import FeedbackEvent, RankRequest, Receipt
from rankloop.serving.replica import Replica
from rankloop.serving.snapshots import packed, take
from rankloop.serving.verification import decide_again

JUMP_SECONDS = 86_400.0
FAULTS = ("refused", "in doubt", "in doubt", "crash before", "crash after")


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class Attempts:
    """What the caller of a request knows, over all times that it sent it."""

    acknowledged: bool = False
    in_doubt: bool = False  # the process ended, or gave up, before it answered


@dataclass
class Listed:
    """A list that was answered."""

    engine: Engine
    ids: tuple[str, ...]
    opened: float  # in monotonic time
    acknowledged: bool = False  # it was answered after its commit


@dataclass
class Waiting:
    """A submitted request without an answer yet."""

    engine: Engine
    commit: Commit[Receipt] | Commit[Receipt | None]
    attempts: Attempts | None = None  # of a feedback event
    listed: Listed | None = None  # of a list


@dataclass
class Simulation:
    """One run of a schedule."""

    schedule: Schedule
    trace: list[str] = field(default_factory=list)  # what happened
    clocks: Clocks = field(default_factory=Clocks)
    lists: dict[str, Listed] = field(default_factory=dict)
    events: dict[tuple[str, str], Attempts] = field(default_factory=dict)  # by decision and event id
    items: set[str] = field(default_factory=set)  # acknowledged
    waiting: list[Waiting] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.config = self.schedule.config
        self.log = ModelLog(claims_work=self.schedule.claims_work)
        self.engines: list[Engine | None] = [None] * self.schedule.engines

    # Playing

    def run(self) -> None:
        """Play all steps, then check the log."""
        self._start(0)
        self._engine(0).ranker.put_items([{"id": f"item-{i}"} for i in range(3)])
        for step in self.schedule.steps:
            self._play(step)
        for at, engine in enumerate(self.engines):
            if engine is not None:
                engine.store.heal()
                self._safely(at, lambda at=at: self._write_all(at))
                self._look_at_answers()
                self._doubt(engine)  # of an append that failed and could not be taken back
                self._check_state(at)
        self._check_log()

    def _play(self, step: Step) -> None:
        slots = range(len(self.engines))
        running = [at for at in slots if self.engines[at] is not None]
        if step.what == "start":
            empty = [at for at in slots if self.engines[at] is None]
            if empty:
                self._start(empty[int(step.which * len(empty))])
        elif step.what == "tear snapshot":
            self.log.damage(NAME, step.how)
        elif step.what == "jump wall clock":
            self.clocks.wall += JUMP_SECONDS * (1.0 if step.how < 0.5 else -1.0)
        elif step.what == "pass time":
            self.clocks.advance(1.5 * WINDOW_SECONDS * step.how)
        elif running:
            at = running[int(step.which * len(running))]
            self.trace.append(f"{step.what} at engine {at}")
            self._safely(at, lambda: getattr(self, f"_{step.what.replace(' ', '_')}")(at, step))
            self._look_at_answers()

    def _safely(self, at: int, action: object) -> None:
        """Do something that may be refused, or end the process."""
        assert callable(action)
        try:
            action()
        except StoreUnavailable as error:
            self.trace.append(f"  refused: {error}")
        except Crashed:
            self._crash(at)

    def _engine(self, at: int) -> Engine:
        engine = self.engines[at]
        assert engine is not None
        return engine

    def _start(self, at: int) -> None:
        self.trace.append(f"start engine {at}")
        try:
            self.engines[at] = Engine(self.log, self.config, self.clocks)
        except StoreUnavailable as error:
            self.trace.append(f"  refused: {error}")
            return
        self._check_state(at)

    def _crash(self, at: int, step: Step | None = None) -> None:
        engine = self._engine(at)
        self.trace.append(f"engine {at} crashed")
        self._doubt(engine)
        engine.store.disconnect()
        self.engines[at] = None

    def _doubt(self, engine: Engine) -> None:
        """Note what the callers of a process that ends do not learn."""
        for one in self.waiting:
            if one.engine is engine and one.attempts is not None:
                one.attempts.in_doubt = True
        self.waiting = [one for one in self.waiting if one.engine is not engine]
        for entry in engine.store.unconfirmed:
            if entry.kind == FeedbackReceived.kind:
                self.events[entry.subject, entry.key].in_doubt = True

    def _close(self, at: int, step: Step) -> None:
        engine = self._engine(at)
        engine.store.heal()
        self._write_all(at)
        self._look_at_answers()
        if not engine.refuses:
            engine.ranker.snapshot()
        self._check_state(at)
        engine.writer.close()
        self._doubt(engine)
        engine.store.close()
        self.engines[at] = None

    def _rank(self, at: int, step: Step) -> None:
        engine = self._engine(at)
        ranking, commit = engine.ranker.submit_rank(RankRequest(visitor=f"v{int(20 * step.how)}"))
        listed = Listed(engine, ranking.ids, self.clocks.monotonic)
        if commit is None:
            self.lists[ranking.id] = listed
        else:
            self.waiting.append(Waiting(engine, commit, listed=listed))
            self.lists[ranking.id] = listed

    def _feedback(self, at: int, step: Step) -> None:
        if self.lists:
            ids = list(self.lists)
            decision = ids[-1 - int(step.how**2 * len(ids))]  # mostly a late one
            self._submit(at, decision, f"event-{len(self.events)}", int(1000 * step.how) % 3 == 0)

    def _repeat_feedback(self, at: int, step: Step) -> None:
        if self.events:
            decision, event = list(self.events)[int(step.how * len(self.events))]
            self._submit(at, decision, event, final=True)

    def _submit(self, at: int, decision: str, event: str, final: bool) -> None:
        engine = self._engine(at)
        given = FeedbackEvent(decision, clicked=[0], event=event, final=final)
        try:
            found = engine.ranker.find_decision(decision)
        except UnknownDecision:
            entry = self.log.find(NAME, DecisionMade.kind, decision)
            if entry is not None and not engine.refuses and engine.ranker.position >= entry.position:
                raise Violation(f"decision {decision} is in the log and was refused as unknown") from None
            return
        attempts = self.events.setdefault((decision, event), Attempts())
        self.waiting.append(Waiting(engine, engine.ranker.submit_feedback(given, found), attempts=attempts))

    def _write(self, at: int, step: Step) -> None:
        self._engine(at).writer.step()

    def _write_all(self, at: int) -> None:
        self._engine(at).writer.flush()

    def _tick(self, at: int, step: Step) -> None:
        self._write_all(at)
        engine = self._engine(at)
        before = set(engine.ranker._replica.open_decisions)
        engine.ranker.tick()
        self._check_windows(engine, before)

    def _put_items(self, at: int, step: Step) -> None:
        id = f"item-{int(6 * step.how)}"
        self._engine(at).ranker.put_items([{"id": id}])
        self.items.add(id)

    def _snapshot(self, at: int, step: Step) -> None:
        self._engine(at).ranker.snapshot()

    def _fail_next_append(self, at: int, step: Step) -> None:
        self._engine(at).store.fault = FAULTS[int(step.how * len(FAULTS))]

    def _disconnect(self, at: int, step: Step) -> None:
        self._engine(at).store.disconnect()

    def _look_at_answers(self) -> None:
        """Note the answers that callers have received."""
        left = []
        for one in self.waiting:
            if not one.commit.done():
                left.append(one)
            elif one.commit.exception() is None:
                if one.attempts is not None:
                    one.attempts.acknowledged = True
                if one.listed is not None:
                    one.listed.acknowledged = True
        self.waiting = left

    # Checking

    def _check_state(self, at: int) -> None:
        """The state of a process is that of a replay of the log up to its position."""
        engine = self._engine(at)
        ranker = engine.ranker
        if ranker.quarantine is not None:
            raise Violation(f"engine {at} is quarantined: {ranker.quarantine.reason}")
        if engine.refuses and self.log.was_cut:
            return  # it may have read entries that were deleted afterwards, which is why it refuses
        replayed = Replica(self.config)
        entries = [entry for entry in self.log.read(NAME) if entry.position <= ranker.position]
        replayed.follow(entries)
        if packed(take(replayed)).body != packed(take(ranker._replica)).body:
            raise Violation(f"the state of engine {at} at position {ranker.position} is not that of a replay")

    def _check_windows(self, engine: Engine, before: set[str]) -> None:
        """A tick closes a window if its time has passed, or if too many are open, and no other window.

        The time is that of the monotonic clock. Of windows that were open when the process started, it is only known
        that their time has passed when the process has run for so long.
        """
        now, after = self.clocks.monotonic, set(engine.ranker._replica.open_decisions)
        if len(after) > OPEN_LIMIT:
            raise Violation(f"{len(after)} decisions are open, and the limit is {OPEN_LIMIT}")
        for id in before:
            listed = self.lists[id]
            is_own = listed.engine is engine
            since = listed.opened if is_own else engine.started
            if id in after and now - since >= WINDOW_SECONDS:
                raise Violation(f"the window of {id} is open after {now - since} seconds")
            if id not in after and is_own and now - since < WINDOW_SECONDS and len(before) <= OPEN_LIMIT:
                raise Violation(f"the window of {id} was closed after {now - since} seconds")

    def _check_log(self) -> None:
        """The log has what was acknowledged, once, and nothing that was refused; every list follows from its state."""
        entries = list(self.log.read(NAME))
        stored = Counter((entry.subject, entry.key) for entry in entries if entry.kind == FeedbackReceived.kind)
        for event, attempts in self.events.items():
            if stored[event] > 1:
                raise Violation(f"feedback {event} is in the log {stored[event]} times")
            if attempts.acknowledged and not stored[event]:
                raise Violation(f"feedback {event} was acknowledged and is not in the log")
            if stored[event] and not attempts.acknowledged and not attempts.in_doubt:
                raise Violation(f"feedback {event} was refused and is in the log")
        decisions = Counter(entry.key for entry in entries if entry.kind == DecisionMade.kind)
        going_on = [engine for engine in self.engines if engine is not None and not engine.refuses]
        for id, listed in self.lists.items():
            if decisions[id] > 1:
                raise Violation(f"decision {id} is in the log {decisions[id]} times")
            if listed.acknowledged and not decisions[id]:
                raise Violation(f"decision {id} was acknowledged and is not in the log")
            if listed.engine in going_on and self.config.commit == "feedback" and not decisions[id]:
                raise Violation(f"decision {id} was answered by a process that goes on, and is not in the log")
        replayed = Replica(self.config)
        replayed.follow(entries)
        if missing := self.items - {item.id for item in replayed.items.all()}:
            raise Violation(f"the items {missing} were acknowledged and are not in the log")
        verified = decide_again(self.log, NAME)
        if verified.different:
            raise Violation("; ".join(verified.differences))


def play(schedule: Schedule) -> None:
    """Play a schedule; a broken promise is raised with the schedule and what happened."""
    simulation = Simulation(schedule)
    try:
        simulation.run()
    except Exception as error:
        happened = "\n".join(simulation.trace)
        raise Violation(f"{error!r}\n\n{schedule}\n\nwhat happened:\n{happened}") from error
