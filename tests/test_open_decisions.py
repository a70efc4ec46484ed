"""Open decisions take little memory, are bounded in number, and close by a clock that never jumps."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.errors import InvalidInput, Quarantined
from rankloop.eventlog import MemoryStore, SqliteStore, StoreUnavailable, open_decisions
from rankloop.eventlog.events import DecisionMade, WindowClosed, decode, decode_as
from rankloop.eventlog.open_decisions import recall_from
from rankloop.eventlog.store import LogEntry
from rankloop.schema import RankRequest
from rankloop.schema.service_settings import ServiceLimits
from rankloop.serving import Ranker, RankerConfig, snapshots
from rankloop.serving.replica import Replica
from rankloop.serving.windows.window_ages import SPARE_MARKS, ForwardClock, WindowAges, believable
from rankloop.types import FloatArray
from test_challenger import PAIRS
from test_ranker import Clock, config, contents, items, live
from test_replay import state

DAY = 86400.0


@pytest.fixture
def nothing_recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every decision is read back from the log."""
    monkeypatch.setattr(open_decisions, "RECENT_BYTES", 0)


class CountingStore(MemoryStore):
    """A store that counts its look-ups by key, and fails them for a while."""

    fails = False

    def __init__(self) -> None:
        super().__init__()
        self.lookups: list[int] = []  # number of keys of each

    def find(self, ranker: str, kind: str, key: str) -> LogEntry | None:
        """Look up one key."""
        return next(iter(self.find_all(ranker, kind, [key])), None)

    def find_all(self, ranker: str, kind: str, keys: Sequence[str]) -> list[LogEntry]:
        """Look up many keys."""
        self.lookups.append(len(keys))
        if self.fails:
            raise StoreUnavailable("the log cannot be read now.")
        return [entry for key in keys if (entry := MemoryStore.find(self, ranker, kind, key)) is not None]


# Memory

BYTES_PER_DECISION = """
import tracemalloc
from dataclasses import replace
from rankloop.eventlog import MemoryStore, open_decisions
from rankloop.eventlog.events import DecisionMade, decode_as
from rankloop.serving import Ranker, snapshots
from rankloop.serving.config import LoggedConfig
from rankloop.serving.replica import Replica

def settings(policy, dim):
    return LoggedConfig.of({"policy": policy, "slots": 10, "window": 3600.0} | ({"dim": dim} if dim else {}))

def measure(decider, dim, follower, recent):
    open_decisions.RECENT_BYTES = recent
    store = MemoryStore()
    ranker = Ranker(settings(decider, dim), store=store)
    features = {"features": [0.1] * dim} if dim else {}
    ranker.put_items([{"id": f"item-{i}", **features} for i in range(50)])
    ranker.rank()
    ranker.close()
    *setup, made = store.read("ranker")
    decision = decode_as(DecisionMade, made)
    replica = Replica(settings(follower, dim), recall=lambda ids: {})
    replica.follow(setup)

    def more(first, last):
        for n in range(first, last):
            again = replace(decision, id=f"{n:024}", number=n, time=decision.time + n)
            yield again.entry()._replace(position=made.position + n)

    replica.follow(more(0, 1000), page=200)
    before, saved = tracemalloc.get_traced_memory()[0], len(snapshots.packed(snapshots.take(replica)).body)
    replica.follow(more(1000, 3000), page=200)
    after, now = tracemalloc.get_traced_memory()[0], len(snapshots.packed(snapshots.take(replica)).body)
    assert len(replica.open_decisions) == 3000
    return (after - before) / 2000, (now - saved) / 2000

tracemalloc.start()
for decider, dim, follower in (
    ("cascade-ucb1", None, "cascade-ucb1"),
    ("cascade-lin-ts", 50, "cascade-lin-ts"),
    ("cascade-ucb1", 50, "cascade-lin-ts"),
):
    print(*measure(decider, dim, follower, 300_000))
print(measure("cascade-lin-ts", 50, "cascade-lin-ts", 10**12)[0], 0.0)
"""


def test_an_open_decision_takes_a_few_hundred_bytes() -> None:
    """Lists of ten, of a policy per item, of a linear one with 50 features, and of a challenger that scores itself.

    The last number is that of decisions which stay in memory: the law would not hold for them. A process of its own
    measures, because tracemalloc also counts what other threads of this one allocate.
    """
    command = [sys.executable, "-c", BYTES_PER_DECISION]
    run = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    *bounded, (resident, _) = [tuple(map(float, line.split())) for line in run.stdout.splitlines()]
    for in_memory, in_snapshot in bounded:
        assert in_memory < 500
        assert in_snapshot < 120
    assert resident > 5000


def test_recent_decisions_stay_in_memory_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CountingStore()
    ranker = Ranker(config("cascade-lin-ts"), store=store)
    ranker.put_items(items(6))
    size = open_decisions._size(ranker.find_decision(ranker.rank().id))
    monkeypatch.setattr(open_decisions, "RECENT_BYTES", 5 * size)
    ids = [ranker.rank().id for _ in range(20)]
    ranker.flush()
    recent = [id for id, one in ranker._replica.open_decisions.items() if one.event is not None]
    assert recent == ids[-5:]
    store.lookups.clear()
    assert [ranker.recent_decision(id) is not None for id in ids] == [False] * 15 + [True] * 5
    assert ranker.find_decision(ids[0]).number == 2
    assert store.lookups == [1]
    ranker.close()


# Reading back: the state is the same, bit for bit


def resident(ranker: Ranker, settings: RankerConfig) -> Replica:
    """A replay that reads nothing back: all open decisions stay in memory."""
    replica = Replica(settings)
    replica.follow(ranker.store.read(ranker.name))
    return replica


@pytest.mark.usefixtures("nothing_recent")
@pytest.mark.parametrize("page", [1, 7, 2000])
@pytest.mark.parametrize("id", ["cascade-ucb1", "cascade-lin-ts", "gts", "lin-ts-ltr", "epoch-ucb"])
def test_decisions_that_are_read_back_teach_the_same(id: str, page: int, tmp_path: Path) -> None:
    """Live, in replays by pages and one by one, and from a snapshot with the rest of the log."""
    clock = Clock()
    ranker = Ranker.open(tmp_path / "log.db", config(id, window=100.0, aggregate="sum"), clock=clock)
    ranker.put_items(items(6, topics=ranker.config.coverage))
    live(ranker, clock, 40)
    ranker.snapshot()
    live(ranker, clock, 40, seed=2)
    ranker.flush()
    expected, settings = state(resident(ranker, ranker.config)), ranker.config
    assert state(ranker._replica) == expected
    recall = recall_from(ranker.store, ranker.name)
    paged, careful = Replica(settings, recall=recall), Replica(settings, recall=recall)
    paged.follow(ranker.store.read(ranker.name), page=page)
    careful.apply_carefully(ranker.store.read(ranker.name))
    assert state(paged) == state(careful) == state(snapshots.start(settings, ranker.store, ranker.name)) == expected
    ranker.close()


@pytest.mark.usefixtures("nothing_recent")
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_challenger_learns_the_same_from_decisions_that_are_read_back(one: str, other: str) -> None:
    store, clock = MemoryStore(), Clock()
    ranker = Ranker(config(one, window=200.0), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 30)
    ranker.add_challenger(Replica(config(other, window=200.0)))
    for seed in (2, 3, 4):
        live(ranker, clock, 30, seed=seed)
        ranker.flush()
        ranker.snapshot()
        assert ranker._challenger is not None
        for replica, challenger in ((ranker._replica, False), (ranker._challenger, True)):
            assert state(replica) == state(resident(ranker, replica.config))
            assert state(snapshots.start(replica.config, store, "ranker", challenger=challenger)) == state(replica)
        ranker.promote()
    ranker.close()


@pytest.mark.parametrize("recent", [0, open_decisions.RECENT_BYTES])
def test_a_challenger_learns_with_the_features_of_the_time_of_the_list(
    recent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether features change before or after the feedback makes no difference, also across a restart."""
    monkeypatch.setattr(open_decisions, "RECENT_BYTES", recent)

    def learned(change_first: bool, restart: bool) -> dict[str, bytes]:
        store = MemoryStore()
        ranker = Ranker(config("cascade-ucb1"), store=store)
        ranker.add_challenger(Replica(config("cascade-lin-ts")))
        ranker.put_items(items(6))
        ids = [ranker.rank(decision=f"d{n}").id for n in range(4)]
        for change, due in ((1, ids[:2]), (2, ids[2:])):
            if change_first:
                ranker.put_items(items(6, seed=change))
                ids.append(ranker.rank(decision=f"later-{change}").id)
            if change_first and restart:
                ranker.snapshot()
                challenger = snapshots.start(config("cascade-lin-ts"), store, "ranker", challenger=True)
                ranker = Ranker(config("cascade-ucb1"), store=store)
                ranker.add_challenger(challenger)
            for id in due:
                ranker.feedback(id, clicked=[change])
        assert ranker._challenger is not None
        return {name: array.tobytes() for name, array in ranker._challenger.learners.arrays().items()}

    expected = learned(change_first=False, restart=False)
    assert learned(change_first=True, restart=False) == expected
    assert learned(change_first=True, restart=True) == expected


@pytest.mark.usefixtures("nothing_recent")
def test_former_features_are_kept_no_longer_than_needed() -> None:
    ranker = Ranker(config("cascade-ucb1", window=10.0), clock=(clock := Clock()))
    ranker.add_challenger(Replica(config("cascade-lin-ts", window=10.0)))
    ranker.put_items(items(6))
    for seed in range(1, 20):
        ranker.rank()
        ranker.flush()
        ranker.put_items(items(6, seed=seed))
        assert len(ranker._replica.feature_history) == 0, "its own decisions have their features in the log"
        assert ranker._challenger is not None
        assert len(ranker._challenger.feature_history) <= 6 * 5
        clock.now += 3.0
        ranker.tick()


@pytest.mark.usefixtures("nothing_recent")
@pytest.mark.parametrize("aggregate", ["earliest", "sum"])
def test_many_decisions_are_read_back_in_one_query(aggregate: str) -> None:
    store, clock = CountingStore(), Clock()
    ranker = Ranker(config("cascade-lin-ts", window=10.0, aggregate=aggregate), store=store, clock=clock)
    ranker.put_items(items(6))
    ids = [ranker.rank().id for _ in range(200)]
    ranker.flush()
    for id in ids[:50]:
        ranker.feedback(id, clicked=[0], final=aggregate == "sum")
    for id in ids[50:60] if aggregate == "sum" else ():
        ranker.feedback(id, clicked=[1])
    clock.now += 10.0
    store.lookups.clear()
    assert ranker.tick() == 150
    assert store.lookups == [150], "before the commit, and not again when the event is applied"
    replica = Replica(ranker.config, recall=recall_from(store, "ranker"))
    entries = list(store.read("ranker"))
    split = next(n for n, entry in enumerate(entries) if entry.kind == "feedback")
    replica.follow(entries[:split])
    store.lookups.clear()
    replica.follow(entries[split:])
    assert store.lookups == [50, 150]
    assert state(replica) == state(ranker._replica)


@pytest.mark.usefixtures("nothing_recent")
def test_if_the_log_cannot_be_read_nothing_is_committed_and_nothing_is_lost() -> None:
    store, clock = CountingStore(), Clock()
    ranker = Ranker(config("cascade-lin-ts", window=10.0), store=store, clock=clock)
    ranker.put_items(items(6))
    ids = [ranker.rank().id for _ in range(5)]
    ranker.flush()
    before, end = contents(ranker), ranker.position
    clock.now += 10.0
    store.fails = True
    with pytest.raises(StoreUnavailable):
        ranker.feedback(ids[0], clicked=[0])
    with pytest.raises(StoreUnavailable):
        ranker.tick()
    assert contents(ranker) == before
    assert ranker.position == end
    assert ranker.quarantine is None
    store.fails = False
    assert ranker.feedback(ids[0], clicked=[0]).status == "learned"
    assert ranker.tick() == 4
    assert state(ranker._replica) == state(resident(ranker, ranker.config))


class DamagedStore(MemoryStore):
    """A store that gives one decision back without its bytes."""

    damaged = ""

    def find_all(self, ranker: str, kind: str, keys: Sequence[str]) -> list[LogEntry]:
        """Look up many keys."""
        found = super().find_all(ranker, kind, keys)
        return [entry._replace(body=b"\0") if entry.key == self.damaged else entry for entry in found]


@pytest.mark.usefixtures("nothing_recent")
def test_a_window_of_a_decision_that_cannot_be_read_quarantines_the_ranker_where_it_is() -> None:
    store, clock = DamagedStore(), Clock()
    ranker = Ranker(config("cascade-lin-ts", window=10.0), store=store, clock=clock)
    ranker.put_items(items(6))
    ids = [ranker.rank().id for _ in range(5)]
    ranker.flush()
    (at,) = [entry.position for entry in store.read("ranker") if entry.key == ids[2]]
    clock.now += 10.0
    store.damaged = ids[2]
    with pytest.raises(Quarantined, match=f"quarantined at log position {at}: the decision event cannot be applied"):
        ranker.tick()
    assert ranker.quarantine is not None
    assert ranker.quarantine.position == at
    assert not [entry for entry in store.read("ranker") if entry.kind == WindowClosed.kind]
    assert ranker.tick() == 0


def test_a_list_is_returned_although_the_oldest_window_cannot_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is in the log by then; the next call closes the windows."""
    store = MemoryStore()
    ranker = Ranker(config("cascade-ucb1", commit="all"), store=store)
    ranker.put_items(items(6))
    ranker.open_limit = 3
    for _ in range(3):
        ranker.rank()
    append = store.append

    def refuse_windows(batch: Sequence[tuple[str, LogEntry]], after: int | None = None) -> list[int | None]:
        if any(entry.kind == WindowClosed.kind for _, entry in batch):
            raise StoreUnavailable("full.")
        return append(batch, after)

    with monkeypatch.context() as broken:
        broken.setattr(store, "append", refuse_windows)
        fourth = ranker.rank().id
    assert fourth in ranker._replica.open_decisions
    assert len(ranker._replica.open_decisions) == 4
    ranker.rank()
    assert len(ranker._replica.open_decisions) == 3


def test_a_list_that_was_refused_and_asked_for_again_is_committed_once_and_kept_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A is refused, B is taken by the writer, then A is asked for again and committed after B."""
    clocks, store = Clocks(), MemoryStore()
    ranker = clocks.ranker(store)
    with monkeypatch.context() as full:
        full.setattr(ranker._writer, "_limit", 0)
        with pytest.raises(StoreUnavailable):
            ranker.submit_rank(RankRequest(decision="A"))
    assert ranker._decided_at == {}
    append, taken, asked = store.append, threading.Event(), threading.Event()

    def slow(batch: Sequence[tuple[str, LogEntry]], after: int | None = None) -> list[int | None]:
        taken.set()
        assert asked.wait(60.0)
        return append(batch, after)

    monkeypatch.setattr(store, "append", slow)
    ranker.submit_rank(RankRequest(decision="B"))
    assert taken.wait(60.0)
    ranker.submit_rank(RankRequest(decision="A"))
    assert list(ranker._uncommitted) == list(ranker._decided_at) == ["B", "A"]
    asked.set()
    ranker.flush()
    assert list(ranker._replica.open_decisions) == ["B", "A"]
    assert (len(ranker._uncommitted), len(ranker._decided_at)) == (0, 0)
    ranker.close()


@pytest.mark.usefixtures("nothing_recent")
def test_applying_an_event_that_was_committed_reads_nothing() -> None:
    """The connection may be lost right after a commit: what was committed is applied all the same."""
    store, clock = CountingStore(), Clock()
    ranker = Ranker(config("cascade-lin-ts", window=10.0), store=store, clock=clock)
    ranker.put_items(items(6))
    ids = [ranker.rank().id for _ in range(5)]
    ranker.flush()
    append = store.append

    def lost(batch: Any, after: int | None = None) -> list[int | None]:
        store.fails = True
        return append(batch, after)

    store.append = lost  # type: ignore[method-assign]
    assert ranker.feedback(ids[0], clicked=[0]).status == "learned"
    store.fails = False
    clock.now += 10.0
    assert ranker.tick() == 4
    assert ranker.quarantine is None


def test_a_window_event_of_any_size_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older logs have one event for all windows that closed together."""
    monkeypatch.setattr("rankloop.serving.outcomes.settlement.MAX_RECALLED", 7)
    monkeypatch.setattr(open_decisions, "RECENT_BYTES", 0)
    store = MemoryStore()
    ranker = Ranker(config("cascade-lin-ts"), store=store)
    ranker.put_items(items(6))
    ids = [ranker.rank(segment="de" if n % 2 else "").id for n in range(40)]
    ranker.flush()
    ranker._submit(WindowClosed(ranker._clock(), tuple(ids))).result()
    assert len(ranker._replica.open_decisions) == 0
    assert state(ranker._replica) == state(resident(ranker, ranker.config))


# The bound


@pytest.mark.parametrize("recent", [0, open_decisions.RECENT_BYTES])
def test_beyond_the_limit_the_oldest_windows_are_closed(recent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an event of the log, as if they had ended: a replay gives the same state."""
    monkeypatch.setattr(open_decisions, "RECENT_BYTES", recent)
    store, limits = MemoryStore(), ServiceLimits(open_decisions=5)
    ranker = Ranker(config("cascade-lin-ts", aggregate="sum"), store=store, limits=limits)
    ranker.put_items(items(6))
    ids = []
    for n in range(12):
        ids.append(ranker.rank().id)
        ranker.feedback(ids[-1], clicked=[n % 2])
        assert len(ranker._replica.open_decisions) <= 5
    assert list(ranker._replica.open_decisions) == ids[-5:]
    assert ranker.closed_early == ranker.overview().closed == 7
    closed = [decode(entry) for entry in store.read("ranker") if entry.kind == WindowClosed.kind]
    assert [id for event in closed if isinstance(event, WindowClosed) for id in event.decisions] == ids[:7]
    assert ranker.feedback(ids[0], clicked=[0]).status == "late"
    assert state(ranker._replica) == state(resident(ranker, ranker.config))


def test_a_service_closes_the_oldest_at_its_next_tick() -> None:
    """Requests on an event loop must not wait for the log."""
    ranker = Ranker(config("cascade-ucb1"), limits=ServiceLimits(open_decisions=5))
    ranker.put_items(items(6))
    for _ in range(20):
        ranker.submit_rank(RankRequest())
    assert ranker.counts()["open_decisions"] == 20
    ranker.flush()
    assert ranker.tick() == 15
    assert ranker.counts()["open_decisions"] == 5
    assert ranker.tick() == 0


def test_far_above_the_limit_many_windows_are_closed_in_events_of_limited_size() -> None:
    store = MemoryStore()
    ranker = Ranker(config("cascade-ucb1"), store=store)
    ranker.put_items(items(6))
    for _ in range(2500):
        ranker.submit_rank(RankRequest())
    ranker.flush()
    ranker.close()
    again = Ranker(config("cascade-ucb1"), store=store, limits=ServiceLimits(open_decisions=100))
    assert again.tick() == 2400
    events = [decode_as(WindowClosed, entry) for entry in store.read("ranker") if entry.kind == WindowClosed.kind]
    assert [len(event.decisions) for event in events] == [1000, 1000, 400]


def test_the_limit_is_a_positive_number() -> None:
    with pytest.raises(InvalidInput, match="open_decisions"):
        ServiceLimits.of({"open_decisions": 0})
    assert Ranker(config("cascade-ucb1")).open_limit == ServiceLimits().open_decisions == 1_000_000


# Clocks


class Clocks:
    """A wall clock that jumps, beside a monotonic one."""

    def __init__(self) -> None:
        self.wall, self.monotonic = Clock(), Clock()
        self.wall.now = 1.7e9

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.wall.now += seconds
        self.monotonic.now += seconds

    def ranker(self, store: MemoryStore, **more: Any) -> Ranker:
        """A ranker with windows of ten seconds, by these clocks."""
        given = RankerConfig.of({"policy": "cascade-ucb1", "slots": 2, "window": 10.0, **more})
        ranker = Ranker(given, store=store, clock=self.wall, monotonic=self.monotonic)
        if not ranker.items():
            ranker.put_items([{"id": id} for id in "abc"])
        return ranker


@pytest.mark.parametrize("jump", [DAY, -DAY])
@pytest.mark.parametrize("back", [True, False])
def test_one_stamp_of_a_wrong_clock_delays_and_hastens_nothing(jump: float, back: bool) -> None:
    clocks = Clocks()
    ranker = clocks.ranker(MemoryStore())
    ranker.rank()
    clocks.wall.now += jump
    ranker.rank()
    clocks.wall.now -= jump if back else 0.0
    for _ in range(6):
        ranker.rank()
    clocks.advance(9.0)
    assert ranker.tick() == 0
    clocks.advance(1.0)
    assert ranker.tick() == 8


def test_a_simulated_clock_alone_that_was_ahead_once_blocks_no_window() -> None:
    clock = Clock()
    ranker = Ranker(config("cascade-ucb1", window=10.0), clock=clock)
    ranker.put_items(items(6))
    clock.now += DAY
    ranker.rank()
    clock.now -= DAY
    for _ in range(6):
        ranker.rank()
    assert ranker.tick() == 0
    clock.now += 3600.0
    assert ranker.tick() == 7


def test_a_machine_has_two_clocks_and_a_simulation_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    forward = ForwardClock(clock)
    seen = []
    for step in (5.0, -100.0, 5.0, DAY, -DAY, 1.0):
        clock.now += step
        seen.append(forward() - 1000.0)
    assert seen == [5.0, 5.0, 10.0, 10.0 + DAY, 10.0 + DAY, 11.0 + DAY]
    monkeypatch.setattr("time.monotonic", lambda: 5.0)
    assert Ranker(config("cascade-ucb1"))._monotonic() == 5.0


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rank"), st.just(0)),
        st.tuples(st.just("tick"), st.just(0)),
        st.tuples(st.just("settle"), st.integers(0, 20)),
        st.tuples(st.just("pass"), st.integers(1, 12)),
        st.tuples(st.just("jump"), st.integers(-100_000, 100_000)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS.filter(lambda steps: all(kind != "restart" for kind, _ in steps)), st.booleans())
@settings(deadline=None, max_examples=80)
def test_a_window_closes_at_the_first_tick_after_its_duration(steps: list[tuple[str, int]], flush: bool) -> None:
    """However the wall clock jumps: never earlier, and never later."""
    clocks = Clocks()
    ranker = clocks.ranker(MemoryStore())
    opened: dict[str, float] = {}  # real time of the open decisions
    for kind, amount in [*steps, ("pass", 10), ("tick", 0)]:
        if kind == "rank":
            opened[ranker.rank().id] = clocks.monotonic.now
            if flush:
                ranker.flush()
        elif kind == "settle" and opened:
            id = list(opened)[amount % len(opened)]
            del opened[id]
            ranker.feedback(id, clicked=[0], final=True)
        elif kind == "pass":
            clocks.advance(amount)
        elif kind == "jump":
            clocks.wall.now += amount
        elif kind == "tick":
            due = {id for id, since in opened.items() if since + 10.0 <= clocks.monotonic.now}
            assert ranker.tick() == len(due)
            opened = {id: since for id, since in opened.items() if id not in due}
            ranker.flush()
            assert set(ranker._replica.open_decisions) == set(opened)
    assert not opened
    ranker.close()


@given(STEPS.filter(lambda steps: all(kind != "jump" for kind, _ in steps)))
@settings(deadline=None, max_examples=40)
def test_a_restart_delays_and_hastens_nothing_if_the_clock_does_not_jump(steps: list[tuple[str, int]]) -> None:
    """The time between two processes counts, by the wall clock; their monotonic clocks have nothing in common."""
    clocks, store = Clocks(), MemoryStore()
    ranker = clocks.ranker(store)
    opened: dict[str, float] = {}  # real time of the open decisions
    for kind, amount in [*steps, ("pass", 10), ("tick", 0)]:
        if kind == "rank":
            opened[ranker.rank().id] = clocks.wall.now
        elif kind == "pass":
            clocks.advance(amount)
        elif kind == "restart":
            ranker.flush()
            clocks.monotonic.now = 7.0
            ranker = clocks.ranker(store)
        elif kind == "tick":
            due = {id for id, since in opened.items() if since + 10.0 <= clocks.wall.now}
            assert ranker.tick() == len(due)
            opened = {id: since for id, since in opened.items() if id not in due}
    assert not opened


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_log_that_is_stamped_ahead_closes_within_one_window_of_the_start(snapshot: bool) -> None:
    clocks, store = Clocks(), MemoryStore()
    ranker = clocks.ranker(store)
    right = [ranker.rank().id for _ in range(3)]
    clocks.wall.now += DAY
    ahead = [ranker.rank().id for _ in range(4)]
    clocks.wall.now -= DAY
    ranker.flush()
    if snapshot:
        ranker.snapshot()
    ranker.close()
    clocks.advance(6.0)
    again = clocks.ranker(store)
    clocks.advance(4.0)
    assert again.tick() == len(right), "as if nothing had been stamped ahead"
    clocks.advance(5.0)
    assert again.tick() == 0
    clocks.advance(1.0)
    assert again.tick() == len(ahead), "one window after the start, since nothing says how old they are"


TIMES = st.lists(st.integers(0, 12), max_size=9)


@given(TIMES, st.integers(0, 12))
def test_the_largest_set_of_stamps_in_order_is_believed(times: list[int], now: int) -> None:
    """Against all subsets; the others count as made together with the next one that is believed."""
    given_times: FloatArray = np.array(times, dtype=np.float64)
    made = believable(given_times, float(now))
    assert (np.diff(made) >= 0).all()
    assert (made <= now).all()
    largest = max(
        size
        for size in range(len(times) + 1)
        for which in combinations(times, size)
        if list(which) == sorted(which) and all(time <= now for time in which)
    )
    assert (made == given_times).sum() >= largest
    assert set(made.tolist()) <= {float(now), *map(float, times)}


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.data())
def test_one_wrong_stamp_moves_no_other_beyond_its_neighbours(gaps: list[int], data: st.DataObject) -> None:
    true = np.cumsum(gaps).astype(np.float64)
    wrong = data.draw(st.integers(0, len(true) - 1))
    now = float(true[-1]) + data.draw(st.integers(0, 50))
    stamps = true.copy()
    stamps[wrong] += data.draw(st.integers(-200, 200))
    made = believable(stamps, now)
    right = np.delete(np.arange(len(true)), wrong)
    bounds = [-np.inf, *true[right].tolist(), now]
    for n, i in enumerate(right.tolist(), start=1):
        assert bounds[n - 1] <= made[i] <= bounds[n + 1]


def test_ages_need_memory_for_open_decisions_only() -> None:
    ages = WindowAges()
    opened: list[int] = []
    for position in range(1, 30_000):
        ages.add(position, float(position))
        if position % 100 == 0:
            opened.append(position)
        ages.forget_settled(opened, len(opened))
        assert len(ages) <= 2 * len(opened) + SPARE_MARKS
    for position in opened:
        assert ages.due(position + 9.0, 10.0) < position <= ages.due(position + 10.0, 10.0)


def test_decisions_of_another_process_get_an_age_at_the_next_tick() -> None:
    clocks, store = Clocks(), MemoryStore()
    ranker = clocks.ranker(store)
    ranker.rank()
    ranker.flush()
    made = next(entry for entry in store.read("ranker") if entry.kind == DecisionMade.kind)
    other = replace(decode_as(DecisionMade, made), id="other", number=2, time=made.time + DAY)
    ranker._submit(other).result()
    assert ranker.tick() == 0
    clocks.advance(9.0)
    assert ranker.tick() == 0
    clocks.advance(1.0)
    assert ranker.tick() == 2


def test_a_list_that_could_not_be_committed_leaves_no_age(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks, store = Clocks(), MemoryStore()
    ranker = clocks.ranker(store, commit="all")
    with monkeypatch.context() as broken:
        broken.setattr(store, "append", lambda batch, after: (_ for _ in ()).throw(StoreUnavailable("full.")))
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                ranker.rank()
    clocks.advance(5.0)
    ranker.rank()
    assert ranker._decided_at == {}
    clocks.advance(9.0)
    assert ranker.tick() == 0
    clocks.advance(1.0)
    assert ranker.tick() == 1


def test_a_clock_that_was_ahead_once_does_not_spend_the_exploration_of_a_day_again() -> None:
    clocks = Clocks()
    ranker = clocks.ranker(MemoryStore(), policy="ts-beta", prior=[1, 1], explore_daily=3, commit="all")
    for _ in range(100):
        ranker.rank()
    clocks.wall.now += DAY
    for _ in range(100):
        ranker.rank()
    clocks.wall.now -= DAY
    for _ in range(100):
        ranker.rank()
    assert ranker.overview().groups["treatment"].explored == 6
    ranker.snapshot()
    snapshot = ranker.store.load_snapshot("ranker")
    assert snapshot is not None
    restored = snapshots.restored(ranker.config, (), snapshot)
    assert restored.counters.explored_on(clocks.wall.now) == restored.counters.explored_on(clocks.wall.now + DAY) == 3


# SQLite: decisions are found by the index of keys


def test_sqlite_reads_decisions_back_by_an_index(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    ranker = Ranker(config("cascade-ucb1"), store=store)
    ranker.put_items(items(6))
    ids = [ranker.rank().id for _ in range(1200)]
    ranker.flush()
    found = recall_from(store, "ranker")(ids)
    assert [found[id].number for id in ids] == list(range(1, 1201))
    query = "SELECT position FROM log WHERE ranker = ? AND kind = ? AND key <> '' AND key IN (?, ?)"
    plan = [str(row[-1]) for row in store._reader.execute(f"EXPLAIN QUERY PLAN {query}", ("r", "k", "a", "b"))]
    assert plan == ["SEARCH log USING INDEX log_key (ranker=? AND kind=? AND key=?)"] or "COVERING" in plan[0]
    ranker.close()
    store.close()
