"""A log in PostgreSQL: what a server that goes away and comes back must not break."""

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
from test_engine import Clock, config, contents, items, live

pytestmark = pytest.mark.slow


@pytest.fixture
def store(database: str) -> Iterator[PostgresStore]:  # noqa: F811
    made = PostgresStore(database, patience=2.0)
    yield made
    made.close()


def entry(key: str = "", body: bytes = b"") -> LogEntry:
    return LogEntry("kind", key, "", 0.0, body)


def keys(store: Any) -> list[str]:
    return [one.key for one in store.read("r")]


# A server that hangs


def test_a_server_that_hangs_is_a_server_that_is_away(server: Server, database: str) -> None:  # noqa: F811
    """Whoever writes or reads is told in bounded time; what was refused is not there; it goes on by itself."""
    store = PostgresStore(database, patience=1.0)
    assert store.append([("r", entry("before"))]) == [1]
    with server.hangs():
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match="cannot be written now"):
            store.append([("r", entry("refused"))])
        with pytest.raises(StoreUnavailable, match="cannot be read now"):
            store.find("r", "kind", "before")
        assert time.monotonic() - start < 30, "of hours that it could take"
    until = time.monotonic() + 30
    while True:
        try:
            assert store.append([("r", entry("after"))]) == [2]
            break
        except StoreUnavailable:  # the old connection's transaction is still being undone
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


# A server that goes away


def test_a_commit_is_on_the_disk_whatever_the_servers_default(database: str) -> None:  # noqa: F811
    import psycopg

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET synchronous_commit = off".encode())
    store = PostgresStore(database)
    assert store._connected().execute("SHOW synchronous_commit").fetchone() == ("on",)
    store.close()


def test_a_server_that_is_gone_is_told_in_one_sentence_and_found_again(server: Server, store: PostgresStore) -> None:  # noqa: F811
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


def test_a_connection_that_died_while_idle_costs_nobody_an_error(server: Server, store: PostgresStore) -> None:  # noqa: F811
    store.append([("r", entry("a"))])
    server.stop(crash=True)
    server.start()
    assert store.append([("r", entry("b"))]) == [2]
    assert keys(store) == ["a", "b"]


class Commits:
    """Lets the answer to some commits get lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import psycopg

        self.lose = 0
        self.reaches = True  # the server, before the connection breaks
        self.then: Any = lambda: None
        execute: Any = psycopg.Connection.execute

        def unlucky(connection: Any, query: Any, *values: Any, **options: Any) -> Any:
            if query != "COMMIT" or not self.lose:
                return execute(connection, query, *values, **options)
            self.lose -= 1
            if self.reaches:
                execute(connection, query)
            connection.close()
            self.then()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(psycopg.Connection, "execute", unlucky)


@pytest.mark.parametrize("batch", [[entry("b"), entry()], [entry(body=b"x")]])
def test_a_commit_that_happened_but_was_not_answered_is_acknowledged(
    store: PostgresStore, batch: list[LogEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    store.append([("r", entry("a"))])
    commits = Commits(monkeypatch)
    commits.lose = 1
    assert store.append([("r", one) for one in batch]) == list(range(2, 2 + len(batch)))
    assert keys(store) == ["a", *(one.key for one in batch)]


def test_a_commit_that_did_not_happen_is_told(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append([("r", entry("a"))])
    commits = Commits(monkeypatch)
    commits.lose, commits.reaches = 1, False
    with pytest.raises(StoreUnavailable, match="closed the connection unexpectedly"):
        store.append([("r", entry("b")), ("r", entry())])
    assert keys(store) == ["a"]
    assert store.append([("r", entry("b"))]) == [2]


@pytest.mark.parametrize("reaches", [True, False])
@pytest.mark.parametrize("look", ["read", "append"])
def test_what_was_told_as_failed_is_taken_back_when_the_server_returns(
    reaches: bool,
    look: str,
    server: Server,  # noqa: F811
    store: PostgresStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server goes away with the answer and stays away: nobody learned from these entries, so they must go."""
    store._patience = 0.3
    store.append([("r", entry("a"))])
    commits = Commits(monkeypatch)
    commits.lose, commits.reaches, commits.then = 1, reaches, server.stop
    with pytest.raises(StoreUnavailable):
        store.append([("r", entry("b")), ("r", entry(body=b"only once"))])
    server.start()
    if look == "read":
        assert keys(store) == ["a"]
    assert store.append([("r", entry("b")), ("r", entry("c"))]) == [2, 3]
    assert keys(store) == ["a", "b", "c"]


def test_under_load_nothing_acknowledged_is_lost_and_nothing_doubled(server: Server, store: PostgresStore) -> None:  # noqa: F811
    """What was applied is what the log says, in its order, although the server stopped and crashed in between."""
    store._patience = 0.3
    writer = Writer(store)
    applied: list[tuple[int, str, bytes]] = []
    acknowledged: list[str] = []
    refused: list[str] = []
    stop = threading.Event()

    def note(kept: Sequence[tuple[int, LogEntry]]) -> list[None]:
        applied.extend((position, one.key, one.body) for position, one in kept)
        return [None] * len(kept)

    def visitor(n: int) -> None:
        i = 0
        while not stop.is_set():
            key = f"{n}-{i}" if i % 4 else ""
            one = entry(key, body=f"{n}-{i}".encode())
            try:
                writer.submit("r", one, one, note).result()
            except StoreUnavailable:
                refused.append(key)
                time.sleep(0.01)
                continue  # the same again, as a caller would
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
    kept = [(one.position, one.key, one.body) for one in store.read("r")]
    assert kept == applied
    assert sorted(body.decode() for _, _, body in kept) == sorted(acknowledged)
    assert len(set(acknowledged)) == len(acknowledged)


# Opening


def test_migrations_are_recorded_and_a_newer_layout_is_refused(database: str) -> None:  # noqa: F811
    store = PostgresStore(database)
    store._connected().execute("INSERT INTO layout (version) VALUES (99)")
    store.close()
    with pytest.raises(StoreUnavailable, match="newer rankloop"):
        PostgresStore(database)


def test_a_migration_that_fails_leaves_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    broken = (*MIGRATIONS, "CREATE TABLE half (a INTEGER); CREATE TABLE half (a INTEGER);")
    monkeypatch.setattr("rankloop.eventlog.postgres.MIGRATIONS", broken)
    with pytest.raises(StoreUnavailable, match="cannot be opened now"):
        PostgresStore(database)
    monkeypatch.undo()
    store = PostgresStore(database)
    tables = store._connected().execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
    assert [name for (name,) in tables] == ["layout", "log", "snapshot"]
    assert store._connected().execute("SELECT version FROM layout").fetchall() == [
        (n + 1,) for n in range(len(MIGRATIONS))
    ]
    store.close()


def test_a_log_is_served_by_one_process(database: str) -> None:  # noqa: F811
    """Whoever only reads may; when the one who serves goes, another may come."""
    first = PostgresStore(database, exclusive=True)
    with pytest.raises(StoreUnavailable, match="served by another process"):
        PostgresStore(database, exclusive=True)
    PostgresStore(database).close()
    first.close()
    for _ in range(20):  # a claim is free as soon as `close` returns, not some time later
        PostgresStore(database, exclusive=True).close()


def test_a_closed_log_refuses(database: str) -> None:  # noqa: F811
    store = PostgresStore(database)
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.append([("r", entry("a"))])
    with pytest.raises(StoreUnavailable, match="closed"):
        keys(store)


def test_no_password_is_told() -> None:
    pytest.importorskip("psycopg_pool")
    with pytest.raises(StoreUnavailable) as told:
        PostgresStore("postgresql://someone:secret@127.0.0.1:1/base", patience=0.1)
    assert "secret" not in str(told.value)
    with pytest.raises(InvalidInput) as wrong:
        PostgresStore("postgresql://someone:secret@[/base")
    assert "secret" not in str(wrong.value)


def test_without_psycopg_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("psycopg"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match="serve"):
        PostgresStore("postgresql://nowhere/base")
