"""A backup of a log in PostgreSQL is a SQLite file with the same log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from postgres_server import Server, database, server  # noqa: F401
from rankloop.cli.main import main
from rankloop.errors import InvalidInput
from rankloop.eventlog import LogEntry, SqliteStore, Store, StoreUnavailable, postgres_backup
from rankloop.eventlog.address import open_store
from rankloop.eventlog.backup import Backup, back_up
from rankloop.eventlog.format_history import RENAMED_KINDS
from rankloop.serving import Ranker
from test_backup import concurrent_writes, entry, names, rows
from test_ranker import Clock, config, contents, items, live

pytestmark = pytest.mark.slow


def ranked(address: str, rounds: int) -> Store:
    """Fill the log of a database: a ranker that ranked and learned, a snapshot, and entries of two other names."""
    clock, store = Clock(), open_store(address)
    store.append([("", entry("config", bytes(range(256))))])
    ranker = Ranker(config("cascade-lin-ts"), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, rounds)
    ranker.snapshot()
    live(ranker, clock, rounds, seed=2)
    ranker.flush()
    store.append([("Ärger 😀", LogEntry("k", "ключ", "∑", 1234567.1234567891, b"\0"))])
    return store


def test_backup_of_a_database_equals_its_log(
    database: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(postgres_backup, "PAGE_ENTRIES", 7)
    with closing(ranked(database, 20)) as store, closing(restored(tmp_path, database)) as copy:
        assert copy.rankers() == store.rankers() == ["", "ranker", "Ärger 😀"]
        for name in store.rankers():
            assert list(copy.read(name)) == list(store.read(name))
            assert copy.load_snapshot(name) == store.load_snapshot(name)
        assert copy.load_snapshot("ranker") is not None
        positions = [row[0] for row in rows(tmp_path / "out.db")]
        assert positions == list(range(1, len(positions) + 1))
        with closing(Ranker(config("cascade-lin-ts"), store=store, clock=Clock())) as ranker:
            expected = contents(ranker)
    with closing(Ranker.open(tmp_path / "out.db", config("cascade-lin-ts"), clock=Clock())) as ranker:
        assert contents(ranker) == expected
    capsys.readouterr()
    assert main(["log", "verify", str(tmp_path / "out.db")]) == 0
    out = capsys.readouterr().out
    assert "lists decided again, bit for bit" in out
    assert "equal a replay of the whole log" in out


def downgraded(address: str) -> None:
    """Give a database the kinds and the layout of format 2."""
    with psycopg.connect(address, autocommit=True) as connection:
        for old, new in RENAMED_KINDS.items():
            connection.execute("UPDATE log SET kind = %s WHERE kind = %s AND ranker <> ''", (old, new))
        connection.execute("DELETE FROM layout WHERE version > 2")
        connection.execute("DROP TABLE IF EXISTS claim")


def test_backup_of_a_database_of_format_2_has_the_current_kinds(database: str, tmp_path: Path) -> None:  # noqa: F811
    with closing(ranked(database, 10)) as store:
        expected = list(store.read("ranker"))
    downgraded(database)
    with closing(restored(tmp_path, database)) as copy:
        assert list(copy.read("ranker")) == expected


def test_a_database_of_format_2_is_migrated_unless_it_is_being_served(database: str) -> None:  # noqa: F811
    with closing(ranked(database, 10)) as store:
        expected = list(store.read("ranker"))
    with closing(open_store(database, exclusive=True)):
        downgraded(database)
        with pytest.raises(StoreUnavailable, match="is being served by an older version"):
            open_store(database)
    for exclusive in (True, False):
        downgraded(database)
        with closing(open_store(database, exclusive=exclusive)) as store:
            assert list(store.read("ranker")) == expected


def restored(folder: Path, address: str) -> SqliteStore:
    """Back up a database and open the backup."""
    assert main(["log", "backup", address, str(folder / "out.db")]) == 0
    assert names(folder) == ["out.db"]
    assert (folder / "out.db").read_bytes()[18:20] == b"\1\1"
    return SqliteStore(folder / "out.db")


def test_backup_of_a_database_during_writes_has_no_gaps(
    database: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_backup, "PAGE_ENTRIES", 50)
    with closing(open_store(database)) as store:
        store.append([("r", entry(f"first-{i}")) for i in range(400)])
        backups: list[Backup] = []
        with concurrent_writes(lambda n: store.append([("r", entry(f"{n}-{i}", bytes(300))) for i in range(3)])):
            for n in range(4):
                backups.append(back_up(database, tmp_path / f"{n}.db"))
        source = list(store.read("r"))
    assert backups[-1].position > backups[0].position
    for n, one in enumerate(backups):
        assert one.entries == one.position
        with closing(SqliteStore(tmp_path / f"{n}.db")) as copy:
            assert list(copy.read("r")) == source[: one.position]


def test_a_database_without_a_log_is_refused_and_a_failure_leaves_nothing(
    database: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import psycopg

    with pytest.raises(InvalidInput, match=r"^log is 'log_\d+ on .*; accepted: a database with a log"):
        back_up(database, tmp_path / "out.db")
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    with pytest.raises(InvalidInput, match="an address that libpq understands"):
        back_up("postgresql://[", tmp_path / "out.db")
    with pytest.raises(StoreUnavailable, match=r"^the log nothing on .* cannot be read now \(.*\)\.$"):
        back_up(database.replace(database.split("/")[3].split("?")[0], "nothing"), tmp_path / "out.db")
    with closing(open_store(database)) as store:
        store.append([("r", entry(str(i))) for i in range(100)])
        for error, expected in ((KeyboardInterrupt, KeyboardInterrupt), (psycopg.OperationalError, StoreUnavailable)):
            with monkeypatch.context() as patch:
                entries = postgres_backup._entries

                def broken(*arguments: Any, error: Any = error, entries: Any = entries) -> Iterator[Any]:
                    yield next(entries(*arguments))
                    raise error("the server is gone")

                patch.setattr(postgres_backup, "_entries", broken)
                with pytest.raises(expected):
                    back_up(database, tmp_path / "out.db")
            assert names(tmp_path) == []
        (tmp_path / "out.db").write_text("kept")
        with pytest.raises(InvalidInput, match="a path without a file"):
            back_up(database, tmp_path / "out.db")
        assert back_up(database, tmp_path / "out.db", force=True) == Backup(
            100, 100, (tmp_path / "out.db").stat().st_size
        )


def test_a_server_that_hangs_is_disconnected(
    server: Server,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = server.database()
    with closing(open_store(address)) as store:
        store.append([("r", entry(str(i))) for i in range(100)])
    entries = postgres_backup._entries

    def hanging(*arguments: Any) -> Iterator[Any]:
        with server.hangs():
            yield from entries(*arguments)

    monkeypatch.setattr(postgres_backup, "PAGE_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(postgres_backup, "_entries", hanging)
    with pytest.raises(StoreUnavailable, match="cannot be read now"):
        back_up(address, tmp_path / "out.db")
    assert names(tmp_path) == []
