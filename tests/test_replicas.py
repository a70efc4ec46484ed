"""Several processes on one PostgreSQL log: one order of entries, and equal states at equal positions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from postgres_server import database, server  # noqa: F401
from rankloop.errors import Busy, Conflict, InvalidInput, RankloopError
from rankloop.eventlog import LogEntry, MemoryStore, StoreUnavailable, export
from rankloop.eventlog.events import DecisionMade, decode
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.shared.postgres import SharedPostgresStore
from rankloop.eventlog.shared.store import MAX_FOLLOWED_ENTRIES, LogEnd, RankerEntry
from rankloop.eventlog.store import LogMoved
from rankloop.serving import RankerConfig
from rankloop.serving.replica import Replica
from rankloop.serving.verification import decide_again
from served import until
from shared_rankers import Member, members, state_of
from test_stores import entry

POLICIES: dict[str, dict[str, Any]] = {
    "gts": {},
    "cascade-ucb1": {"commit": "all"},
    "cascade-lin-ts": {"dim": 3},
    "log-ts-ltr": {"dim": 3, "traffic": 0.8},
    "pbm-ucb": {"bias": [1.0, 0.5]},
}


def settings(policy: str, **more: Any) -> dict[str, Any]:
    return {"policy": policy, "slots": 2, "seed": 3} | POLICIES[policy] | more


@contextmanager
def together(database: str, given: dict[str, Any], n: int = 3, items: str = "abcdef") -> Iterator[list[Member]]:  # noqa: F811
    """Several processes on one log, with items."""
    all = members(database, given, n)
    try:
        rng = np.random.default_rng(0)
        features = {id: {"features": rng.normal(size=3).tolist()} if "dim" in given else {} for id in items}
        all[0].ranker.put_items([{"id": id, **features[id]} for id in items])
        settle(all)
        yield all
    finally:
        for one in all:
            one.close()


def settle(all: list[Member]) -> int:
    """Write what is queued, and apply all of it everywhere; return the end of the log."""
    for one in all:
        one.ranker.flush()
    end = all[0].store.last_position()
    for one in all:
        one.writer.reached(end, 30.0).result()
    return end


def check_equal(all: list[Member]) -> None:
    """Every process has the state of a replay of the log, and every list is decided the same again."""
    end = settle(all)
    first = all[0]
    replayed = Replica(first.ranker.config)
    replayed.follow(first.store.read(first.ranker.name))
    expected = state_of(replayed)
    for one in all:
        position, state = one.state(end)
        assert position == end
        assert state == expected
    verified = decide_again(first.store, first.ranker.name)
    assert verified.equal == verified.decided, verified.differences


def visits(all: list[Member], threads: int, each: int, act: Callable[[np.random.Generator], None] | None = None) -> int:
    """Rank and send feedback through processes at random from several threads; return the number of visits."""
    errors: list[BaseException] = []
    prefix = f"{time.monotonic()}-"

    def run(n: int) -> None:
        rng = np.random.default_rng(n)
        try:
            for i in range(each):
                visit(all, rng, f"{prefix}{n}-{i}", f"s{n % 2}")
                if act is not None:
                    act(rng)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    assert errors == []
    return threads * each


def visit(all: list[Member], rng: np.random.Generator, event: str, segment: str) -> None:
    decider, receiver = rng.integers(len(all), size=2)
    ranking = all[decider].ranker.rank(segment=segment)
    if rng.random() < 0.1:
        return
    if decider != receiver:
        all[decider].ranker.flush()  # the receiver would not know it yet
    clicked = [int(rng.integers(2))] if rng.random() < 0.6 else []
    receipt = all[receiver].ranker.feedback(ranking.id, clicked=clicked, event=event)
    assert receipt.status in ("learned", "ignored")
    if rng.random() < 0.1:
        other = all[rng.integers(len(all))].ranker
        assert other.feedback(ranking.id, clicked=clicked, event=event).status == "duplicate"


# The store


@pytest.fixture
def stores(database: str) -> Iterator[list[SharedPostgresStore]]:  # noqa: F811
    opened = [SharedPostgresStore(database) for _ in range(2)]
    yield opened
    for store in opened:
        store.close()


def test_an_append_returns_what_others_have_written_since(stores: list[SharedPostgresStore]) -> None:
    one, two = stores
    assert one.append_after(LogEnd(), [("r", entry("a")), ("s", entry("b"))]).positions == [1, 2]
    appended = two.append_after(LogEnd(), [("r", entry("c"))])
    assert [(found.ranker, found.entry.key) for found in appended.found] == [("r", "a"), ("s", "b")]
    assert appended.positions == [3]
    known = LogEnd.of(*appended.found[-1])
    assert [found.entry.key for found in one.found_after(known)] == ["c"]
    assert one.end() == LogEnd(3, "r", "kind", "c", 0.0)
    assert list(one.found_after(one.end())) == []


def test_a_key_belongs_to_the_process_that_was_first(stores: list[SharedPostgresStore]) -> None:
    one, two = stores
    assert one.append_after(LogEnd(), [("r", entry("a", body=b"one"))]).positions == [1]
    appended = two.append_after(LogEnd(), [("r", entry("a", body=b"two")), ("r", entry("b")), ("r", entry("b"))])
    assert appended.positions == [None, 2, None]
    assert [one.entry.body for one in appended.found] == [b"one"]


def test_processes_that_ever_opened_a_log_have_different_numbers(database: str) -> None:  # noqa: F811
    numbers = []
    for _ in range(3):
        both = [SharedPostgresStore(database) for _ in range(2)]
        numbers += [store.process for store in both]
        for store in both:
            store.close()
    assert len(set(numbers)) == 6
    assert min(numbers) > 0


def test_a_check_sees_everything_before_its_entry_and_may_refuse_it(stores: list[SharedPostgresStore]) -> None:
    one, two = stores
    one.append_after(LogEnd(), [("r", entry("a"))])
    refusal = InvalidInput("key", "b", "another one")
    seen: list[str] = []

    def refuse(found: Sequence[RankerEntry]) -> RankloopError:
        seen.extend(one.entry.key for one in found)
        return refusal

    appended = two.append_after(LogEnd(), [("r", entry("b"))], refuse)
    assert (appended.refusal, appended.positions, seen) == (refusal, None, ["a"])
    assert one.last_position() == 1
    assert two.append_after(one.end(), [("r", entry("b"))], lambda found: None).positions == [2]


def test_a_process_that_is_far_behind_follows_before_it_appends(stores: list[SharedPostgresStore]) -> None:
    one, two = stores
    one.append_after(LogEnd(), [("r", entry(f"{n}")) for n in range(MAX_FOLLOWED_ENTRIES + 5)])
    appended = two.append_after(LogEnd(), [("r", entry("late"))])
    assert (len(appended.found), appended.positions) == (MAX_FOLLOWED_ENTRIES, None)
    appended = two.append_after(LogEnd.of(*appended.found[-1]), [("r", entry("late"))])
    assert (len(appended.found), appended.positions) == (5, [MAX_FOLLOWED_ENTRIES + 6])


def test_a_log_that_lost_entries_is_not_followed(stores: list[SharedPostgresStore]) -> None:
    """A database that was restored, or a standby that lacks the last commits, would give their positions again."""
    one, two = stores
    one.append_after(LogEnd(), [("r", entry("a")), ("r", entry("b"))])
    known = one.end()
    with one._writer.locked() as connection:
        connection.execute("DELETE FROM log WHERE position = 2")
    for lost in (None, entry("other")):
        if lost is not None:
            two.append_after(two.end(), [("r", lost)])
        with pytest.raises(LogMoved):
            one.found_after(known)
        with pytest.raises(LogMoved):
            one.append_after(known, [("r", entry("c"))])
    assert [one.key for one in two.read("r")] == ["a", "other"]


def test_a_log_is_served_by_one_process_or_shared(database: str) -> None:  # noqa: F811
    with_it = SharedPostgresStore(database)
    with pytest.raises(StoreUnavailable, match="being served by another process"):
        PostgresStore(database, exclusive=True)
    with_it.close()
    alone = PostgresStore(database, exclusive=True)
    with pytest.raises(StoreUnavailable, match="does not share it"):
        SharedPostgresStore(database)
    alone.close()
    SharedPostgresStore(database).close()


def test_an_append_whose_commit_is_not_answered_is_never_taken_back(
    stores: list[SharedPostgresStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have applied it already; the same keys are duplicates then."""
    one, two = stores
    monkeypatch.setattr(one, "_was_committed", lambda rows: False)
    connection = one._writer.get()
    execute = connection.execute

    def commits_without_answer(query: Any, *args: Any, **more: Any) -> Any:
        done = execute(query, *args, **more)
        if query == "COMMIT":
            raise one._pg.OperationalError("the answer was lost")
        return done

    monkeypatch.setattr(connection, "execute", commits_without_answer)
    with pytest.raises(StoreUnavailable):
        one.append_after(LogEnd(), [("r", entry("a"))])
    assert [found.entry.key for found in two.found_after(LogEnd())] == ["a"]
    appended = one.append_after(LogEnd(), [("r", entry("a"))])
    assert (appended.positions, len(appended.found)) == ([None], 1)
    assert two.last_position() == 1


# Rankers


@pytest.mark.parametrize("policy", POLICIES)
def test_equal_positions_mean_equal_states(policy: str, database: str) -> None:  # noqa: F811
    """Hundreds of visits through three processes: each state is, byte for byte, that of a replay."""
    with together(database, settings(policy)) as all:
        visits(all, threads=6, each=60)
        check_equal(all)
        made = {one.event.process for one in all[0].ranker._replica.open_decisions.values() if one.event is not None}
        assert len(made) == 3  # every process has decided
        assert all[0].ranker.counts()["decisions"] == 360


def test_items_and_settings_change_in_one_order(database: str) -> None:  # noqa: F811
    """Columns follow from the order of the log, whichever process put an item."""
    with together(database, settings("cascade-lin-ts")) as all:

        def act(rng: np.random.Generator) -> None:
            ranker = all[rng.integers(3)].ranker
            what = rng.random()
            if what < 0.1:
                ranker.put_items([{"id": f"new-{rng.integers(40)}", "features": rng.normal(size=3).tolist()}])
            elif what < 0.15:
                removed = f"new-{rng.integers(40)}"
                try:
                    ranker.remove_items([removed])
                except InvalidInput:
                    assert removed.startswith("new")
            elif what < 0.2:
                ranker.adjust(RankerConfig.of(settings("cascade-lin-ts", traffic=float(rng.integers(5, 10)) / 10)))

        visits(all, threads=4, each=60, act=act)
        check_equal(all)
        versions = [one.ranker.version for one in all]
        assert versions[0] > 2
        assert len(set(versions)) == 1


def test_of_two_processes_that_remove_an_item_one_is_refused(database: str) -> None:  # noqa: F811
    """What depends on the state is checked at its place in the log, while nobody else can append."""
    with together(database, settings("gts"), n=2, items="abcdefghij") as all:
        results: list[str] = []
        start = threading.Barrier(2)

        def remove(ranker: Any) -> None:
            for id in "cdefghij":
                start.wait()
                try:
                    ranker.remove_items([id])
                    results.append("removed")
                except InvalidInput:
                    results.append("refused")

        running = [threading.Thread(target=remove, args=(one.ranker,)) for one in all]
        for one in running:
            one.start()
        for one in running:
            one.join()
        assert sorted(results) == ["refused"] * 8 + ["removed"] * 8
        check_equal(all)


def test_two_processes_that_create_a_ranker_share_it(database: str) -> None:  # noqa: F811
    made: list[Member] = []
    start = threading.Barrier(4)

    def create() -> None:
        start.wait()
        made.append(Member(database, settings("gts")))

    running = [threading.Thread(target=create) for _ in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(made) == 4
    settle(made)
    assert {one.ranker.version for one in made} == {1}
    with pytest.raises(Conflict, match="other settings of learning"):
        Member(database, settings("cascade-ucb1"))
    for one in made:
        one.close()


def test_a_process_that_starts_under_load_misses_nothing(database: str) -> None:  # noqa: F811
    with together(database, settings("cascade-lin-ts"), n=2) as all:
        late: list[Member] = []

        def start() -> None:
            for _ in range(4):
                time.sleep(0.15)
                late.append(Member(database, settings("cascade-lin-ts")))

        starting = threading.Thread(target=start)
        starting.start()
        while starting.is_alive():
            visits(all, threads=3, each=10)
        starting.join()
        check_equal([*all, *late])
        for one in late:
            one.close()


def test_a_decision_id_is_decided_once(database: str) -> None:  # noqa: F811
    with together(database, settings("gts"), n=3) as all:
        start, answers = threading.Barrier(3), dict[tuple[int, int], tuple[str, ...]]()

        def ask(n: int) -> None:
            for i in range(20):
                start.wait()
                while True:
                    try:
                        answers[n, i] = all[n].ranker.rank(decision=f"asked-{i}").ids
                        break
                    except Busy:
                        continue

        running = [threading.Thread(target=ask, args=(n,)) for n in range(3)]
        for one in running:
            one.start()
        for one in running:
            one.join()
        assert all_equal(answers)
        check_equal(all)
        assert all[0].ranker.counts()["decisions"] == 20


def all_equal(answers: dict[tuple[int, int], tuple[str, ...]]) -> bool:
    return len(answers) == 60 and all(answers[n, i] == answers[0, i] for n, i in answers)


def test_a_process_that_is_promised_a_position_has_applied_it(database: str) -> None:  # noqa: F811
    with together(database, settings("gts"), n=2) as (one, two):
        for _ in range(50):
            ranking = one.ranker.rank()
            given = one.ranker.submit_feedback(feedback_event(ranking.id), one.ranker.find_decision(ranking.id))
            given.result()
            assert given.position is not None
            two.writer.reached(given.position, 5.0).result()
            assert two.ranker.position == given.position
        with pytest.raises(StoreUnavailable, match="not to 1000000 yet"):
            two.writer.reached(1_000_000, 0.1).result()


def feedback_event(decision: str) -> Any:
    from rankloop.schema import FeedbackEvent

    return FeedbackEvent(decision, clicked=[0])


def test_a_process_follows_without_notifications(database: str) -> None:  # noqa: F811
    with together(database, settings("gts"), n=2) as (one, two):
        one.ranker.feedback(one.ranker.rank().id, clicked=[0])
        end = one.ranker.position
        until(lambda: two.ranker.position == end, "the entries are applied", seconds=5.0)
        until(lambda: (two.writer.lag or 0.0) < 0.1, "the lag is small", seconds=5.0)


def test_windows_are_closed_by_the_process_that_leads_and_go_on_elsewhere(database: str) -> None:  # noqa: F811
    given = settings("gts", window=0.3)
    leads = [True, False]

    class Lease:
        listens = False

        def __init__(self, n: int) -> None:
            self.n = n

        @property
        def leads(self) -> bool:
            return leads[self.n]

        def start(self, ring: Callable[[], None]) -> None: ...

        def close(self) -> None: ...

    all = [Member(database, given, Lease(n)) for n in range(2)]
    all[0].ranker.put_items([{"id": id} for id in "abc"])
    settle(all)
    for one in all:
        one.ranker.rank()
        one.ranker.flush()
    settle(all)
    assert all[1].ranker.tick() == 0
    time.sleep(0.4)
    assert all[1].ranker.tick() == 0  # it does not lead
    assert len(all[1].ranker._replica.open_decisions) == 2
    leads[:] = [False, True]
    assert all[1].ranker.tick() == 2
    settle(all)
    assert len(all[0].ranker._replica.open_decisions) == 0
    check_equal(all)
    for one in all:
        one.close()


def test_an_old_log_and_one_of_a_single_process_have_no_process_numbers() -> None:
    """Logs of one process have the bytes that they always had."""
    from rankloop.serving import Ranker

    store = MemoryStore()
    ranker = Ranker(RankerConfig.of(settings("gts")), store=store)
    ranker.put_items([{"id": id} for id in "abc"])
    ranker.rank()
    ranker.close()
    entries: list[LogEntry] = [one for one in store.read("ranker") if one.kind == "decision"]
    assert b"process" not in entries[0].body


def test_an_export_tells_the_decisions_of_different_processes_apart(database: str, tmp_path: Path) -> None:  # noqa: F811
    """Two processes give the same numbers, and an import gives each decision its process and number again."""
    with together(database, settings("gts"), n=2) as all:
        visits(all, threads=2, each=15)
        settle(all)
        export.export(all[0].store, "ranker", RankerConfig.of(settings("gts")), tmp_path / "log.parquet")
        logged = decisions(all[0].store.read("ranker"))
    imported = MemoryStore()
    export.import_(tmp_path / "log.parquet", imported, "ranker")
    assert decisions(imported.read("ranker")) == logged
    assert len({number for _, number, _ in logged}) < len({(process, number) for process, number, _ in logged}) == 30


def decisions(entries: Iterable[LogEntry]) -> list[tuple[int, int, str]]:
    made = [decode(one) for one in entries if one.kind == "decision"]
    return [(one.process, one.number, one.id) for one in made if isinstance(one, DecisionMade)]


def test_impressions_of_one_process_activate_lists_of_another(database: str) -> None:  # noqa: F811
    with together(database, settings("gts", activation="impression", window=60.0), n=2) as all:
        one, two = (member.ranker for member in all)
        for n in range(20):
            ranking = one.rank()
            one.flush()
            if n % 2:
                two.feedback(ranking.id, kind="impression")
                assert two.feedback(ranking.id, clicked=[0]).status == "learned"
        check_equal(all)
