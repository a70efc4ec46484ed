"""A log in PostgreSQL stays correct when the server hangs, stops, crashes and comes back."""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from postgres_server import Server, database, server  # noqa: F401
from rankloop.errors import InvalidInput, MissingExtra
from rankloop.eventlog import LogEntry, StoreUnavailable, Writer
from rankloop.eventlog.address import open_store
from rankloop.eventlog.postgres import MIGRATIONS, PostgresStore
from rankloop.serving import Ranker
from test_ranker import Clock, config, contents, items, live

pytestmark = pytest.mark.slow


@pytest.fixture
def store(database: str) -> Iterator[PostgresStore]:  # noqa: F811
    store = PostgresStore(database, timeout_seconds=2.0)
    yield store
    store.close()


def entry(key: str = "", body: bytes = b"") -> LogEntry:
    return LogEntry("kind", key, "", 0.0, body)


def keys(store: Any) -> list[str]:
    return [one.key for one in store.read("r")]


# A server that hangs


def test_a_server_that_hangs_counts_as_unreachable(server: Server, database: str) -> None:  # noqa: F811
    """Writes and reads fail in bounded time, a failed write stores nothing, and the store recovers by itself."""
    store = PostgresStore(database, timeout_seconds=1.0)
    assert store.append([("r", entry("before"))]) == [1]
    with server.hangs():
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match="cannot be written now"):
            store.append([("r", entry("refused"))])
        with pytest.raises(StoreUnavailable, match="cannot be read now"):
            store.find("r", "kind", "before")
        assert time.monotonic() - start < 30, "without a timeout it could take hours"
    until = time.monotonic() + 30
    while True:
        try:
            assert store.append([("r", entry("after"))]) == [2]
            break
        except StoreUnavailable:  # the old connection's transaction is still being rolled back
            assert time.monotonic() < until
            time.sleep(0.05)
    assert keys(store) == ["before", "after"]
    store.close()


# Replay


@pytest.mark.parametrize("id", ["cascade-lin-ts", "toprank", "ucr"])
def test_replay_equals_live(id: str, database: str) -> None:  # noqa: F811
    clock = Clock()
    ranker = Ranker(config(id), store=open_store(database), clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, 25)
    whole = Ranker(config(id), store=open_store(database), clock=clock)
    assert contents(whole) == contents(ranker)
    whole.close()
    position = ranker.snapshot()
    live(ranker, clock, 15, seed=2)
    expected = contents(ranker)
    ranker.close()
    again = Ranker(config(id), store=open_store(database), clock=clock)
    assert again.position > position
    assert contents(again) == expected
    again.close()


# A server that stops


def test_commits_are_synchronous_whatever_the_servers_default(database: str) -> None:  # noqa: F811
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off".encode())
    store = PostgresStore(database)
    assert store._writer.get().execute("SHOW synchronous_commit").fetchone() == ("on",)
    store.close()


def test_a_stopped_server_is_reported_in_one_sentence_and_reconnected(server: Server, store: PostgresStore) -> None:  # noqa: F811
    store.append([("r", entry("a"))])
    server.stop()
    for use in (lambda: store.append([("r", entry("b"))]), lambda: keys(store), lambda: store.load_snapshot("r")):
        with pytest.raises(StoreUnavailable, match=r"^the log log_\d+ on .* cannot be (read|written) now \(.*\)\.$"):
            use()
    with pytest.raises(StoreUnavailable, match="cannot be opened now"):
        PostgresStore(store._info)
    server.start()
    assert store.append([("r", entry("a")), ("r", entry("c"))]) == [None, 2]
    assert keys(store) == ["a", "c"]


def test_a_connection_that_died_while_idle_causes_no_error(server: Server, store: PostgresStore) -> None:  # noqa: F811
    store.append([("r", entry("a"))])
    server.stop(crash=True)
    server.start()
    assert store.append([("r", entry("b"))]) == [2]
    assert keys(store) == ["a", "b"]


class Commits:
    """Loses the answer to some commits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import psycopg

        self.lose = 0
        self.reaches = True  # whether the commit reaches the server before the connection breaks
        self.then: Any = lambda: None
        execute: Any = psycopg.Connection.execute

        def losing(connection: Any, query: Any, *values: Any, **options: Any) -> Any:
            if query != "COMMIT" or not self.lose:
                return execute(connection, query, *values, **options)
            self.lose -= 1
            if self.reaches:
                execute(connection, query)
            connection.close()
            self.then()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(psycopg.Connection, "execute", losing)


@pytest.mark.parametrize("batch", [[entry("b"), entry()], [entry(body=b"x")]])
def test_a_commit_that_happened_but_was_not_answered_is_acknowledged(
    store: PostgresStore, batch: list[LogEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append([("r", entry("a"))])
    commits = Commits(monkeypatch)
    commits.lose = 1
    assert store.append([("r", one) for one in batch]) == list(range(2, 2 + len(batch)))
    assert keys(store) == ["a", *(one.key for one in batch)]


def test_a_commit_that_did_not_happen_fails(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append([("r", entry("a"))])
    commits = Commits(monkeypatch)
    commits.lose, commits.reaches = 1, False
    with pytest.raises(StoreUnavailable, match="closed the connection unexpectedly"):
        store.append([("r", entry("b")), ("r", entry())])
    assert keys(store) == ["a"]
    assert store.append([("r", entry("b"))]) == [2]


@pytest.mark.parametrize("reaches", [True, False])
@pytest.mark.parametrize("next_call", ["read", "append"])
def test_entries_of_a_failed_append_are_deleted_when_the_server_returns(
    reaches: bool,
    next_call: str,
    server: Server,  # noqa: F811
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server stops before it answers and stays away: the caller got an error, so that no entry may remain."""
    store._writer.timeout_seconds = 0.3
    store.append([("r", entry("a"))])
    commits = Commits(monkeypatch)
    commits.lose, commits.reaches, commits.then = 1, reaches, server.stop
    with pytest.raises(StoreUnavailable):
        store.append([("r", entry("b")), ("r", entry(body=b"only once"))])
    server.start()
    if next_call == "read":
        assert keys(store) == ["a"]
    assert store.append([("r", entry("b")), ("r", entry("c"))]) == [2, 3]
    assert keys(store) == ["a", "b", "c"]


def test_under_load_nothing_acknowledged_is_lost_or_duplicated(server: Server, store: PostgresStore) -> None:  # noqa: F811
    """The applied entries are those of the log, in order, although the server stopped and crashed in between."""
    store._writer.timeout_seconds = 0.3
    writer = Writer(store)
    applied: list[tuple[int, str, bytes]] = []
    acknowledged: list[str] = []
    refused: list[str] = []
    stop = threading.Event()

    def apply(committed: Sequence[tuple[int, LogEntry]]) -> list[None]:
        applied.extend((position, one.key, one.body) for position, one in committed)
        return [None] * len(committed)

    def visitor(n: int) -> None:
        i = 0
        while not stop.is_set():
            key = f"{n}-{i}" if i % 4 else ""
            one = entry(key, body=f"{n}-{i}".encode())
            try:
                writer.submit("r", one, one, apply).result()
            except StoreUnavailable:
                refused.append(key)
                time.sleep(0.01)
                continue  # retry, as a caller would
            acknowledged.append(f"{n}-{i}")
            i += 1

    threads = [threading.Thread(target=visitor, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    counts = []
    for crash in (False, True, True, False):
        time.sleep(0.4)
        server.stop(crash=crash)
        time.sleep(0.2)
        server.start()
        before = len(acknowledged)
        until = time.monotonic() + 20
        while len(acknowledged) < before + 20 and time.monotonic() < until:  # it recovers by itself
            time.sleep(0.02)
        counts.append(len(acknowledged) - before)
    stop.set()
    for thread in threads:
        thread.join()
    writer.close()
    assert min(counts) >= 20
    assert refused
    stored = [(one.position, one.key, one.body) for one in store.read("r")]
    assert stored == applied
    assert sorted(body.decode() for _, _, body in stored) == sorted(acknowledged)
    assert len(set(acknowledged)) == len(acknowledged)


# Opening


def test_migrations_are_recorded_and_a_newer_layout_is_refused(database: str) -> None:  # noqa: F811
    store = PostgresStore(database)
    store._writer.get().execute("INSERT INTO layout (version) VALUES (99)")
    store.close()
    with pytest.raises(StoreUnavailable, match="newer rankloop"):
        PostgresStore(database)


def test_a_failed_migration_changes_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    broken = (*MIGRATIONS, "CREATE TABLE half (a INTEGER); CREATE TABLE half (a INTEGER);")
    monkeypatch.setattr("rankloop.eventlog.postgres.MIGRATIONS", broken)
    with pytest.raises(StoreUnavailable, match="cannot be opened now"):
        PostgresStore(database)
    monkeypatch.undo()
    store = PostgresStore(database)
    tables = store._writer.get().execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    assert [name for (name,) in tables] == ["claim", "layout", "log", "snapshot"]
    assert store._writer.get().execute("SELECT version FROM layout").fetchall() == [
        (n + 1,) for n in range(len(MIGRATIONS))
    ]
    store.close()


def test_a_log_is_served_by_one_process(database: str) -> None:  # noqa: F811
    """Other processes may read; when the serving process ends, another one may serve."""
    first = PostgresStore(database, exclusive=True)
    with pytest.raises(StoreUnavailable, match="served by another process"):
        PostgresStore(database, exclusive=True)
    PostgresStore(database).close()
    first.close()
    for _ in range(20):  # the lock is free as soon as `close` returns
        PostgresStore(database, exclusive=True).close()


def test_a_closed_log_refuses(database: str) -> None:  # noqa: F811
    store = PostgresStore(database)
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.append([("r", entry("a"))])
    with pytest.raises(StoreUnavailable, match="closed"):
        keys(store)


def test_error_messages_contain_no_password() -> None:
    pytest.importorskip("psycopg_pool")
    with pytest.raises(StoreUnavailable) as unavailable:
        PostgresStore("postgresql://someone:secret@127.0.0.1:1/base", timeout_seconds=0.1)
    assert "secret" not in str(unavailable.value)
    with pytest.raises(InvalidInput) as wrong:
        PostgresStore("postgresql://someone:secret@[/base")
    assert "secret" not in str(wrong.value)


def test_without_psycopg_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("psycopg"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match="serve"):
        PostgresStore("postgresql://nowhere/base")
