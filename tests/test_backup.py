"""A backup is a prefix of the log in one file, whatever happens to the log meanwhile, or it does not exist."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rankloop.cli.main import main
from rankloop.errors import InvalidInput
from rankloop.eventlog import LogEntry, MemoryStore, SqliteStore, StoreUnavailable, backup
from rankloop.eventlog.backup import Backup, back_up
from rankloop.eventlog.store import Snapshot
from rankloop.serving import Ranker
from test_ranker import Clock, config, contents, items, live

Row = tuple[int, str, str, str, str, float, bytes]
ROWS = "SELECT position, ranker, kind, key, subject, time, body FROM log WHERE position <= ? ORDER BY position"


def entry(key: str = "", body: bytes = b"") -> LogEntry:
    return LogEntry("kind", key, "", 0.5, body)


def rows(path: Path, until: int = 1 << 62) -> list[Row]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(ROWS, (until,)).fetchall()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def small(path: Path) -> Path:
    """A log with two rankers and a snapshot, closed."""
    with closing(SqliteStore(path)) as store:
        store.append([("r", entry(str(i), bytes([i]) * 3000)) for i in range(40)])
        store.append([("", entry("config")), ("r", entry())])
        store.save_snapshot("r", Snapshot(30, b"state"))
    return path


@contextmanager
def concurrent_writes(write: Callable[[int], Any]) -> Iterator[None]:
    """Write in another thread, without a pause, during the block."""
    end, failed, started = threading.Event(), list[BaseException](), threading.Event()

    def run() -> None:
        n = 0
        try:
            while not end.is_set():
                write(n)
                n += 1
                started.set()
        except BaseException as error:
            failed.append(error)
            started.set()

    thread = threading.Thread(target=run)
    thread.start()
    started.wait()
    try:
        yield
    finally:
        end.set()
        thread.join()
    assert failed == []


# Concurrent writes


def test_backup_during_writes_is_a_prefix_without_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "STEP_PAGES", 20)  # many steps, with writes in between
    monkeypatch.setattr("rankloop.eventlog.wal_space.MAX_WAL_BYTES", 300_000)  # and checkpoints of the write-ahead log
    monkeypatch.setattr("rankloop.eventlog.sqlite.INLINE_BYTES", 0)
    store = SqliteStore(tmp_path / "log.db")
    store.append([("r", entry(f"first-{i}", bytes(2000))) for i in range(500)])
    during: list[int] = []
    handle_interrupts = backup._handle_interrupts

    def append_meanwhile(status: int, remaining: int, total: int) -> None:
        handle_interrupts(status, remaining, total)
        before = store.append([("r", entry())])
        during.extend(position for position in before if position is not None)

    monkeypatch.setattr(backup, "_handle_interrupts", append_meanwhile)
    backups: list[Backup] = []
    with concurrent_writes(lambda n: store.append([(f"r{n % 3}", entry(f"{n}-{i}", bytes(700))) for i in range(3)])):
        for n in range(6):
            backups.append(back_up(tmp_path / "log.db", tmp_path / f"{n}.db"))
    assert backups[0].position < during[0], "entries appended after the copy began are not in it"
    assert [one.position for one in backups] == sorted({one.position for one in backups})
    source = rows(tmp_path / "log.db")
    for n, one in enumerate(backups):
        path = tmp_path / f"{n}.db"
        assert one == Backup(one.position, one.position, path.stat().st_size)
        copied = rows(path)
        assert [row[0] for row in copied] == list(range(1, one.position + 1))
        assert copied == source[: one.position]
        with closing(SqliteStore(path)) as opened:
            assert opened.rankers() == sorted({row[1] for row in copied})
            assert opened.append([("r", entry())]) == [one.position + 1]
    store.close()
    assert names(tmp_path) == sorted([*(f"{n}.db" for n in range(6)), "log.db"])


def test_ranker_of_a_backup_equals_a_replay_of_the_same_prefix(tmp_path: Path) -> None:
    clock = Clock()
    ranker = Ranker.open(tmp_path / "log.db", config("cascade-lin-ts"), clock=clock)
    ranker.put_items(items(6))

    def visit(n: int) -> None:
        live(ranker, clock, 4, seed=n + 1)
        if n % 3 == 1:
            ranker.snapshot()

    backups: list[Backup] = []
    with concurrent_writes(visit):
        for n in range(5):
            backups.append(back_up(tmp_path / "log.db", tmp_path / f"{n}.db"))
            time.sleep(0.05)
    end = clock.now
    ranker.close()
    for n, one in enumerate(backups):
        prefix = MemoryStore()
        for position, name, kind, key, subject, at, body in rows(tmp_path / "log.db", one.position):
            assert prefix.append([(name, LogEntry(kind, key, subject, at, body))]) == [position]
        with closing(Ranker(config("cascade-lin-ts"), store=prefix, clock=lambda: end)) as replayed:
            expected = contents(replayed)
        with closing(Ranker.open(tmp_path / f"{n}.db", config("cascade-lin-ts"), clock=lambda: end)) as restored:
            assert contents(restored) == expected
            assert restored.position == one.position
    assert backups[-1].position > backups[0].position


def test_backup_contains_entries_that_are_only_in_the_write_ahead_log(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    store.append([("r", entry("a"))])
    assert (tmp_path / "log.db").stat().st_size == 4096, "a copy of the file alone has no entry"
    assert back_up(tmp_path / "log.db", tmp_path / "out.db").entries == 1
    assert [row[3] for row in rows(tmp_path / "out.db")] == ["a"]
    store.close()


# One complete file


def test_backup_is_one_file_with_snapshots_and_does_not_change_the_log(tmp_path: Path) -> None:
    log = small(tmp_path / "a log ?#%.db")
    log.chmod(0o640)
    before = log.read_bytes()
    folder = tmp_path / "to"
    folder.mkdir()
    result = back_up(log, folder / "out.db")
    assert (result.entries, result.position) == (42, 42)
    assert names(folder) == ["out.db"]
    assert names(tmp_path) == ["a log ?#%.db", "to"]
    assert log.read_bytes() == before
    assert (folder / "out.db").stat().st_mode & 0o777 == 0o640
    assert (folder / "out.db").read_bytes()[18:20] == b"\1\1", "no write-ahead log"
    with closing(SqliteStore(folder / "out.db")) as store:
        assert store.load_snapshot("r") == Snapshot(30, b"state")
        assert store.rankers() == ["", "r"]


def test_an_empty_log_and_a_backup_can_be_backed_up(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "log.db").close()
    assert back_up(tmp_path / "log.db", tmp_path / "one.db").entries == 0
    result = back_up(tmp_path / "one.db", tmp_path / "two.db")
    assert (result.entries, result.position) == (0, 0)
    assert names(tmp_path) == ["log.db", "one.db", "two.db"]


# Failures leave nothing behind


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt: a process that was started in the background ignores the signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def fail_next_backup(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Make the next backup fail."""

    def interrupt(status: int, remaining: int, total: int) -> None:
        signal.raise_signal(signal.SIGINT)

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    def damage(source: sqlite3.Connection, part: Path) -> None:
        copy_pages(source, part)
        with part.open("rb+") as file:
            file.seek(3 * 4096)
            file.write(b"\xff" * (5 * 4096))

    copy_pages = backup._copy_pages
    if how == "interrupted":
        monkeypatch.setattr(backup, "STEP_PAGES", 3)
        monkeypatch.setattr(backup, "_handle_interrupts", interrupt)
    elif how == "full":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(backup, "_copy_pages", damage)


@pytest.mark.parametrize(
    ("how", "error"), [("interrupted", KeyboardInterrupt), ("full", StoreUnavailable), ("damaged", StoreUnavailable)]
)
@pytest.mark.parametrize("replace", [False, True])
def test_a_failed_backup_leaves_nothing(
    how: str, error: type[BaseException], replace: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = small(tmp_path / "log.db")
    before = log.read_bytes()
    if replace:
        (tmp_path / "out.db").write_text("an older backup")
    with monkeypatch.context() as patch:
        fail_next_backup(patch, how)
        with pytest.raises(error):
            back_up(log, tmp_path / "out.db", force=replace)
    assert names(tmp_path) == ["log.db", "out.db"][: 1 + replace]
    if replace:
        assert (tmp_path / "out.db").read_text() == "an older backup"
    assert log.read_bytes() == before
    assert back_up(log, tmp_path / "out.db", force=replace).entries == 42


def test_a_file_created_meanwhile_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = small(tmp_path / "log.db")
    monkeypatch.setattr(backup, "_handle_interrupts", lambda *_: (tmp_path / "out.db").write_text("mine"))
    with pytest.raises(InvalidInput, match="a path without a file"):
        back_up(log, tmp_path / "out.db")
    assert names(tmp_path) == ["log.db", "out.db"]
    assert (tmp_path / "out.db").read_text() == "mine"


def test_a_damaged_log_is_reported(tmp_path: Path) -> None:
    log = small(tmp_path / "log.db")
    with log.open("rb+") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * (6 * 4096))
    with pytest.raises(StoreUnavailable, match=r"^the (copy is damaged|backup .* cannot be written now|log .*) \("):
        back_up(log, tmp_path / "out.db")
    assert names(tmp_path) == ["log.db"]


# Refusals


@pytest.mark.parametrize(
    ("out", "force", "accepted"),
    [
        ("log.db", False, "a file other than the log"),
        ("log.db", True, "a file other than the log"),
        ("sub/../log.db", True, "a file other than the log"),
        ("hard.db", True, "a file other than the log"),
        ("soft.db", True, "a file other than the log"),
        ("log.db-wal", True, "a file other than the log"),
        ("log.db.lock", False, "a file other than the log"),
        ("log.db.reserve", True, "a file other than the log"),
        ("no/out.db", True, "a path in an existing folder"),
        ("log.db/out.db", True, "a path in an existing folder"),
        ("sub", True, "the path of a file, not of a folder"),
        ("old.db", False, "a path without a file, or --force"),
        ("open.db", True, "a path without open.db-wal next to it"),
        ("stale.db", False, "a path without stale.db-wal next to it"),
    ],
)
def test_harmful_paths_are_refused(out: str, force: bool, accepted: str, tmp_path: Path) -> None:
    log = small(tmp_path / "log.db")
    (tmp_path / "sub").mkdir()
    (tmp_path / "hard.db").hardlink_to(log)
    (tmp_path / "soft.db").symlink_to(log)
    for name in ("old.db", "open.db", "open.db-wal", "stale.db-wal"):
        (tmp_path / name).write_text("kept")
    before, content = names(tmp_path), log.read_bytes()
    with pytest.raises(InvalidInput, match=f"^out is .*; accepted: {accepted}"):
        back_up(log, tmp_path / out, force=force)
    assert names(tmp_path) == before
    assert names(tmp_path / "sub") == []
    assert log.read_bytes() == content
    assert (tmp_path / "old.db").read_text() == "kept"


def foreign(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_a_file_that_is_no_log_is_refused_and_nothing_is_created(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, " * 1000)
    (tmp_path / "empty.db").touch()
    foreign(tmp_path / "other.db", "PRAGMA journal_mode = WAL", "CREATE TABLE log (x)", "PRAGMA user_version = 1")
    (tmp_path / "folder.db").mkdir()
    before = names(tmp_path)
    for name in ("text.db", "empty.db", "other.db"):
        with pytest.raises(InvalidInput, match=r"^log is .*; accepted: a log that rankloop wrote"):
            back_up(tmp_path / name, tmp_path / "out.db")
        assert names(tmp_path) == before
    for name in ("no.db", "folder.db"):
        with pytest.raises(InvalidInput, match=r"^log is .*; accepted: an existing log"):
            back_up(tmp_path / name, tmp_path / "out.db")
    foreign(small(tmp_path / "newer.db"), "PRAGMA user_version = 99")
    with pytest.raises(StoreUnavailable, match=r"by a newer rankloop \(layout 99\); update to read it\.$"):
        back_up(tmp_path / "newer.db", tmp_path / "out.db")
    assert names(tmp_path) == sorted([*before, "newer.db"])


# The command


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, out = small(tmp_path / "log.db"), tmp_path / "out.db"
    assert main(["log", "backup", str(log), str(out)]) == 0
    size = f"{out.stat().st_size:,}"
    assert capsys.readouterr().out == f"42 entries up to position 42 are in {out} ({size} bytes).\n"
    assert main(["log", "backup", str(log), str(out)]) == 2
    assert "accepted: a path without a file, or --force" in capsys.readouterr().err
    assert main(["log", "backup", str(log), str(out), "--force"]) == 0
    assert main(["log", "backup", str(tmp_path / "no.db"), str(tmp_path / "new.db")]) == 2
    assert capsys.readouterr().err.endswith("accepted: an existing log.\n")
    assert names(tmp_path) == ["log.db", "out.db"]


def test_an_interrupted_command_says_that_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = small(tmp_path / "log.db")
    fail_next_backup(monkeypatch, "interrupted")
    assert main(["log", "backup", str(log), str(tmp_path / "out.db")]) == 130
    assert capsys.readouterr().err == "rankloop: interrupted, nothing was written.\n"
    assert names(tmp_path) == ["log.db"]
