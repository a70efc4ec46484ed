"""A process writes only to a log that it has applied to the end; otherwise it stops and says so."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from postgres_server import database, server  # noqa: F401
from rankloop.errors import RankloopError
from rankloop.eventlog import MemoryStore, SqliteStore, StoreUnavailable, Writer
from rankloop.eventlog.address import open_store
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.process_lock import ProcessLock
from rankloop.eventlog.store import ClaimLost, LogMoved, Store
from rankloop.eventlog.writer import positions
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.verification import decide_again
from served import Served, serve, until  # noqa: F401
from test_ranker import contents
from test_stores import Opened, entry, opened, read  # noqa: F401

GTS: dict[str, Any] = {"policy": "gts", "slots": 2}


def ranker_of(store: Store, **settings: Any) -> Ranker:
    ranker = Ranker(RankerConfig.of(GTS | settings), store=store)
    ranker.put_items([{"id": id} for id in "abc"])
    return ranker


# The store


def test_an_append_is_stored_only_where_the_log_ends(opened: Opened) -> None:  # noqa: F811
    one, two = opened(), opened()
    assert one.append([("r", entry("a")), ("s", entry("b"))], 0) == [1, 2]
    for wrong in (0, 1):
        with pytest.raises(LogMoved, match=f"ends at position 2.* up to {wrong}"):
            two.append([("r", entry("c"))], wrong)
        with pytest.raises(LogMoved):
            two.append([("r", entry("a"))], wrong)  # also if nothing would be stored
    for wrong in (0, 1, 3):
        with pytest.raises(LogMoved):
            two.append([], wrong)
    assert two.append([], 2) == []
    assert two.append([("r", entry("a"))], 2) == [None]
    assert two.append([("r", entry("a")), ("r", entry("c"))], 2) == [None, 3]
    assert one.append([("r", entry("d"))]) == [4]
    assert read(two) == [(1, "a"), (3, "c"), (4, "d")]
    assert one.last_position() == two.last_position() == 4


def test_of_two_processes_that_append_at_once_one_stores_and_the_other_is_refused(opened: Opened) -> None:  # noqa: F811
    """The check and the append are one transaction: the log has the entries of one process for each position."""
    stores, start = [opened(), opened()], threading.Barrier(2)
    stored: list[list[str]] = [[], []]

    def run(n: int) -> None:
        for i in range(30):
            start.wait()
            try:
                stores[n].append([("r", entry(f"{n}-{i}"))], i)
            except LogMoved:
                continue
            stored[n].append(f"{n}-{i}")

    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key for _, key in read(stores[0])) == sorted(stored[0] + stored[1])
    assert len(read(stores[0])) == 30


# The writer


class ClaimedElsewhere(MemoryStore):
    """A log that another process serves while `elsewhere` is set."""

    elsewhere = False

    def append(self, batch: Any, after: int | None = None) -> list[int | None]:
        if self.elsewhere:
            raise ClaimLost("the log is being served by another process.")
        return super().append(batch, after)


def test_a_writer_whose_log_has_moved_stores_and_accepts_nothing_more() -> None:
    store = MemoryStore()
    writer = Writer(store)
    assert writer.submit("r", entry("a"), None, positions).result() == 1
    store.append([("r", entry("of another process"))])
    writer.post("r", entry("answered"), None, positions)
    with pytest.raises(LogMoved):
        writer.flush()
    with pytest.raises(LogMoved):
        writer.post("r", entry("b"), None, positions)
    with pytest.raises(LogMoved):
        writer.submit("r", entry("c"), None, positions)
    writer.close()
    assert [key for _, key in read(store)] == ["a", "of another process"]


def test_a_refusal_collects_no_traceback_entries() -> None:
    """A process that refuses for days must not keep the frames of every request."""
    store = MemoryStore()
    writer = Writer(store)
    store.append([("r", entry("of another process"))])
    for _ in range(50):
        with pytest.raises(LogMoved):
            writer.flush()
    refusal, entries = writer.refusal, 0
    assert refusal is not None
    traceback = refusal.__traceback__
    while traceback is not None:
        traceback, entries = traceback.tb_next, entries + 1
    assert entries < 10
    writer.close()


def test_a_writer_refuses_while_another_process_has_the_claim_and_goes_on_when_the_log_has_not_moved() -> None:
    store = ClaimedElsewhere()
    writer = Writer(store)
    store.elsewhere = True
    writer.post("r", entry("answered"), None, positions)
    with pytest.raises(ClaimLost):
        writer.flush()
    with pytest.raises(ClaimLost):
        writer.post("r", entry("refused"), None, positions)
    store.elsewhere = False
    until(lambda: writer.refusal is None, "the writer has the claim again")
    assert writer.submit("r", entry("b"), None, positions).result() == 2
    writer.close()
    assert [key for _, key in read(store)] == ["answered", "b"]


def test_a_writer_that_gets_the_claim_back_after_another_process_wrote_stops() -> None:
    store = ClaimedElsewhere()
    writer = Writer(store)
    store.elsewhere = True
    with pytest.raises(ClaimLost):
        writer.flush()
    MemoryStore.append(store, [("r", entry("of another process"))])
    store.elsewhere = False
    until(lambda: not writer.alive, "the writer stops")
    with pytest.raises(LogMoved):
        writer.flush()
    writer.close()


# Rankers


@pytest.mark.parametrize("commit", ["all", "feedback"])
def test_a_stale_ranker_changes_nothing(opened: Opened, commit: str) -> None:  # noqa: F811
    """The log and the snapshot are those of the ranker that went on, and a replay has its state."""
    stale = ranker_of(opened(), commit=commit)
    shown = stale.rank()
    stale.flush()
    going_on = Ranker(RankerConfig.of(GTS | {"commit": commit}), store=opened())
    for _ in range(30):
        going_on.feedback(going_on.rank().id, clicked=[0])
    position, log = going_on.snapshot(), read(opened(), "ranker")
    with pytest.raises(LogMoved):
        stale.feedback(shown.id, clicked=[0])
    with pytest.raises(LogMoved):
        stale.rank()
    with pytest.raises(LogMoved):
        stale.put_items([{"id": "d"}])
    with pytest.raises(LogMoved):
        stale.snapshot()
    store = opened()
    snapshot = store.load_snapshot("ranker")
    assert snapshot is not None
    assert snapshot.position == position
    assert read(store, "ranker") == log
    replayed = Ranker(RankerConfig.of(GTS | {"commit": commit}), store=store)
    assert contents(replayed) == contents(going_on)


def test_a_log_file_is_open_in_one_ranker_at_a_time(tmp_path: Path) -> None:
    path, config, before = tmp_path / "log.db", RankerConfig.of(GTS), set(threading.enumerate())
    (tmp_path / "link.db").symlink_to(path)
    with closing(Ranker.open(path, config)):
        for name in ("log.db", "link.db"):
            with pytest.raises(RankloopError, match="is being served by another process"):
                Ranker.open(tmp_path / name, config)
    with pytest.raises(RankloopError):
        Ranker.open(path, RankerConfig.of(GTS | {"slots": 3}))  # another shape than the log's
    Ranker.open(path, config).close()  # a failure released the log
    assert not [one for one in set(threading.enumerate()) - before if one.name == "rankloop-writer"]


# The lock of a file


def test_a_deleted_lock_file_is_noticed_and_locked_again(tmp_path: Path) -> None:
    lock_file = tmp_path / "log.db.lock"
    with closing(SqliteStore(tmp_path / "log.db", exclusive=True)) as store:
        lock_file.unlink()
        store.append([], 0)
        assert lock_file.exists()
        with pytest.raises(RankloopError, match="another process"):
            SqliteStore(tmp_path / "log.db", exclusive=True)


def test_a_lock_file_that_another_process_replaced_costs_the_claim(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "log.db", exclusive=True)) as first:
        (tmp_path / "log.db.lock").unlink()
        second = SqliteStore(tmp_path / "log.db", exclusive=True)
        with pytest.raises(ClaimLost, match="another process"):
            first.append([], 0)
        second.close()
        first.append([], 0)  # the other process ended without writing


def test_a_lock_file_that_is_deleted_before_it_is_locked_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking, another process may delete the file; the lock must be on the file of the path."""
    import fcntl

    deletes = [True, False]
    flock = fcntl.flock

    def racing(file: Any, how: int) -> None:
        if deletes.pop(0):
            (tmp_path / "log.db.lock").unlink()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", racing)
    with ProcessLock(tmp_path / "log.db"):
        monkeypatch.undo()
        with pytest.raises(RankloopError, match="another process"):
            ProcessLock(tmp_path / "log.db")
    assert not deletes


# Two services


def rank(url: str, ranker: str = "linear") -> httpx.Response:
    return httpx.post(f"{url}/v1/rankers/{ranker}/rank", json={}, timeout=60.0)


def put_items(service: Served) -> None:
    body = {"items": [{"id": id, "features": [1.0, float(i), 0.5]} for i, id in enumerate("abcd")]}
    httpx.put(f"{service.url}/v1/rankers/linear/items", json=body, timeout=60.0).raise_for_status()


@pytest.mark.slow
def test_of_two_services_on_one_file_one_goes_on_and_the_other_says_that_it_stopped(
    tmp_path: Path,
    serve: Callable[..., Served],  # noqa: F811
) -> None:
    log = str(tmp_path / "log.db")
    first, second = serve("first", log=log), serve("second", log=log)
    first.start()
    put_items(first)
    (tmp_path / "log.db.lock").unlink()
    second.start()
    assert [rank(second.url).status_code for _ in range(3)] == [200] * 3
    until(lambda: first.status("/readyz") == 503, "the first service is not ready")
    assert rank(first.url).status_code == 503
    assert second.status("/readyz") == 200
    answers = [rank(second.url).json()["decision"] for _ in range(27)]
    assert first.status("/healthz") == 200
    first.stop()
    second.stop()
    _check_log(log, answers, 30)


@pytest.mark.slow
def test_a_service_that_lost_its_connection_to_the_database_does_not_write_over_its_successor(
    serve: Callable[..., Served],  # noqa: F811
    database: str,  # noqa: F811
) -> None:
    first, second = serve("first", log=database), serve("second", log=database)
    first.start()
    put_items(first)
    rank(first.url)
    until(lambda: _stored(database) == 1, "the first list is in the log")
    _terminate_claim(database)
    second.start()  # before the first one writes again
    answers = [rank(second.url).json()["decision"] for _ in range(30)]
    until(lambda: first.status("/readyz") == 503, "the first service is not ready")
    assert rank(first.url).status_code == 503
    second.stop()
    until(lambda: "another process has written to the log" in first.output, "the first service gives up")
    assert rank(first.url).status_code == 503
    assert first.status("/readyz") == 503
    first.stop()
    _check_log(database, answers, 31)


def _stored(address: str) -> int:
    with closing(open_store(address)) as store:
        return sum(one.kind == "decision" for one in store.read("linear"))


def _terminate_claim(address: str) -> None:
    """End every other connection to the database, as a failover or an operator would."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def _check_log(address: str, answers: list[str], decisions: int) -> None:
    """The log has all lists of the service that went on, and each follows from the state before it."""
    with closing(open_store(address)) as store:
        listed = [one.key for one in store.read("linear") if one.kind == "decision"]
        assert set(answers) <= set(listed)
        result = decide_again(store, "linear")
    assert (result.decided, result.different) == (len(listed), 0), result.differences
    assert len(listed) == decisions


# PostgreSQL


@pytest.mark.slow
def test_entries_of_a_failed_append_stay_if_another_process_has_applied_them(
    database: str,  # noqa: F811
) -> None:
    """An append that was reported as failed may have been stored; its entries are deleted only at the log's end."""
    first, second = PostgresStore(database), PostgresStore(database)
    first._unconfirmed = [(1, "r", "kind", "a", "", 0.0, b"")]
    second.append([("r", entry("a")), ("r", entry("b"))])
    with pytest.raises(LogMoved):
        first.append([("r", entry("c"))], 0)
    with pytest.raises(StoreUnavailable):
        first.find("r", "kind", "a")
    assert read(second) == [(1, "a"), (2, "b")]
    first.close()
    second.close()


@pytest.mark.slow
def test_a_position_that_is_used_again_is_not_mistaken_for_the_entry_that_was_applied(database: str) -> None:  # noqa: F811
    """The entry of a failed append was read by another process, then deleted, and its position used again."""
    first, second = PostgresStore(database), PostgresStore(database)
    first.append([("r", entry("in doubt"))])
    assert second.last_position() == 1
    first._unconfirmed, first._end = [(1, "r", "kind", "in doubt", "", 0.0, b"")], (0, "", "", 0.0)  # not answered
    assert first.append([("r", entry("another"))], 0) == [1]
    with pytest.raises(LogMoved):
        second.append([("r", entry("stale"))], 1)
    assert read(first) == [(1, "another")]
    first.close()
    second.close()


@pytest.mark.slow
def test_entries_of_a_failed_append_stay_if_another_process_has_served_the_log_since(database: str) -> None:  # noqa: F811
    """It has read them, may have answered a retry as a duplicate, and its snapshot contains what they taught."""
    first = PostgresStore(database, exclusive=True)
    first.append([("r", entry("in doubt"))])
    first._unconfirmed, first._end = [(1, "r", "kind", "in doubt", "", 0.0, b"")], (0, "", "", 0.0)  # not answered
    _terminate_claim(database)
    with closing(PostgresStore(database, exclusive=True)) as second:
        assert second.append([("r", entry("in doubt"))], 1) == [None]
    with pytest.raises(StoreUnavailable, match="terminating connection"):
        first.append([("r", entry("another"))], 0)
    with pytest.raises(LogMoved):
        first.append([("r", entry("another"))], 0)
    with closing(open_store(database)) as reader:
        assert read(reader) == [(1, "in doubt")]
    first.close()


@pytest.mark.slow
def test_entries_of_a_failed_append_are_deleted_if_nobody_else_has_served_the_log(database: str) -> None:  # noqa: F811
    first = PostgresStore(database, exclusive=True)
    first.append([("r", entry("in doubt"))])
    first._unconfirmed, first._end = [(1, "r", "kind", "in doubt", "", 0.0, b"")], (0, "", "", 0.0)  # not answered
    _terminate_claim(database)
    with pytest.raises(StoreUnavailable, match="terminating connection"):
        first.append([("r", entry("another"))], 0)
    assert first.append([("r", entry("another"))], 0) == [1]
    assert read(first) == [(1, "another")]
    first.close()
