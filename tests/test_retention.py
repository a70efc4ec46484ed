"""Restoring a backup and archiving a log: all of it comes back, bit for bit, or nothing was changed."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from postgres_server import Server, server  # noqa: F401
from rankloop.cli.main import main
from rankloop.errors import InvalidInput
from rankloop.eventlog import LogEntry, SqliteStore
from rankloop.eventlog.address import open_store
from rankloop.eventlog.backup import back_up
from rankloop.eventlog.export import COLUMNS
from rankloop.eventlog.retention.archive import DECISIONS, archive
from rankloop.eventlog.retention.archive_parts import ENTRIES, archive_parts
from rankloop.eventlog.retention.import_archive import import_archive
from rankloop.eventlog.retention.restore import restore
from rankloop.eventlog.retention.whole_log import EntryDigest, LoggedEntry, all_entries
from rankloop.serving import Ranker
from test_ranker import Clock, config, items

DAY = 86400.0
Address = Callable[[str], str]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Address:
    """The address of a log by name."""
    if request.param == "sqlite":
        return lambda name: str(tmp_path / f"{name}.db")
    running: Server = request.getfixturevalue("server")
    known: dict[str, str] = {}
    return lambda name: known.setdefault(name, running.database())


def filled(address: str, days: int = 3, visits: int = 40, *, start: int = 0) -> None:
    """Write the log of a ranker with feedback, windows that close, withdrawals, and lists that stay open."""
    clock = Clock()
    clock.now = start * DAY + 60.0
    with closing(open_store(address, exclusive=True)) as store:
        settings = config("cascade-lin-ts", traffic=0.8, window=3600.0)
        ranker = Ranker(settings, store=store, clock=clock, name="shop")
        if not ranker.counts()["items"]:
            ranker.put_items(items(6))
        for n in range(days * visits):
            ranking = ranker.rank(visitor=f"v{n % 7}", decision=f"order {start} {n}" if n % 6 == 0 else None)
            if n % 9 == 0:
                ranker.withdraw(ranking.id)
            elif n % 4:
                ranker.feedback(ranking.id, clicked=[n % 3] if n % 2 else [], event=f"event {start} {n}")
            clock.now += DAY / visits
            ranker.tick()
        ranker.snapshot()
        ranker._writer.close()


def entries(address: str) -> list[LoggedEntry]:
    with closing(open_store(address)) as store:
        return list(all_entries(store))


def snapshots(address: str) -> bytes | None:
    with closing(open_store(address)) as store:
        snapshot = store.load_snapshot("shop")
    return None if snapshot is None else bytes(snapshot.body)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    filled(str(tmp_path / "source.db"))
    back_up(tmp_path / "source.db", tmp_path / "backup.db")
    return tmp_path / "backup.db"


# Restoring


def test_a_restored_log_equals_its_backup(address: Address, backup: Path) -> None:
    done = restore(backup, address("restored"))
    assert (done.entries, done.position, done.snapshots) == (done.position, len(entries(str(backup))), 1)
    assert entries(address("restored")) == entries(str(backup))
    assert snapshots(address("restored")) == snapshots(str(backup))
    filled(address("restored"), days=1, start=3)  # it is served from where it ended
    assert len(entries(address("restored"))) > done.entries


def test_a_log_with_entries_is_replaced_only_if_that_is_wanted(address: Address, backup: Path) -> None:
    filled(address("restored"), days=1, visits=5)
    before = entries(address("restored"))
    with pytest.raises(InvalidInput, match="entries long; accepted: a log without entries, or --force"):
        restore(backup, address("restored"))
    assert entries(address("restored")) == before
    restore(backup, address("restored"), force=True)
    assert entries(address("restored")) == entries(str(backup))


def test_a_log_that_is_served_is_not_restored_over(address: Address, backup: Path) -> None:
    with (
        closing(open_store(address("restored"), exclusive=True)),
        pytest.raises(Exception, match="is being served by another process"),
    ):
        restore(backup, address("restored"), force=True)


def test_a_backup_of_an_older_format_is_restored_with_current_kinds(address: Address) -> None:
    old = Path(__file__).parent / "fixtures" / "format-2.db"
    restore(old, address("restored"))
    assert "decision" in {entry.kind for _, entry in entries(address("restored"))}


@pytest.mark.parametrize("size", [0, 10, 4096, 5000, -1, -4096], ids=str)
def test_a_torn_backup_is_refused_before_anything_is_written(backup: Path, tmp_path: Path, size: int) -> None:
    torn, target = tmp_path / "torn.db", tmp_path / "restored.db"
    content = backup.read_bytes()
    torn.write_bytes(content[:size])
    with pytest.raises(Exception, match="torn"):
        restore(torn, str(target))
    assert not target.exists()


def test_a_backup_without_some_of_its_entries_is_refused(backup: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute("DELETE FROM log WHERE position IN (5, 6)")
        connection.commit()
    with pytest.raises(InvalidInput, match=r"complete: 2 of .* entries are missing"):
        restore(backup, str(tmp_path / "restored.db"))


def test_a_bare_copy_of_a_log_is_no_backup(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "log.db")) as store:
        store.append([("r", LogEntry("kind", "", "", 0.0, b""))])
        for suffix in ("", "-wal"):
            shutil.copy(tmp_path / f"log.db{suffix}", tmp_path / f"copy.db{suffix}")
    with pytest.raises(InvalidInput, match="a log that may be in use is no backup"):
        restore(tmp_path / "copy.db", str(tmp_path / "restored.db"))
    with pytest.raises(InvalidInput, match="a file that `rankloop log backup` wrote"):
        restore(tmp_path / "nothing.db", str(tmp_path / "restored.db"))


# Archiving


def all_rows(folder: Path) -> list[LoggedEntry]:
    return [one for part in archive_parts(folder) for one in part.read()]


def test_an_archive_has_every_entry_in_parts_by_day(address: Address, tmp_path: Path) -> None:
    filled(address("log"))
    with closing(open_store(address("log"))) as store:
        done = archive(store, tmp_path / "archive", 2 * DAY)
    logged = entries(address("log"))
    assert all_rows(tmp_path / "archive") == logged[: done.covered]
    assert logged[done.covered][1].time >= 2 * DAY > logged[done.covered - 1][1].time
    assert [part.about.day for part in done.parts] == ["1970-01-01", "1970-01-02"]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "archive").rglob("*.parquet")} == {0o600}


def test_an_archive_goes_on_where_it_ended(address: Address, tmp_path: Path) -> None:
    """Whenever it ran: the parts together have every entry once, and every decision that was settled once."""
    filled(address("log"))
    with closing(open_store(address("log"))) as store:
        assert archive(store, tmp_path / "a", 0.5 * DAY).parts
        assert not archive(store, tmp_path / "a", 0.5 * DAY).parts, "nothing is written twice"
        archive(store, tmp_path / "a", 1.2 * DAY)
        archive(store, tmp_path / "a", 9 * DAY)
        archive(store, tmp_path / "b", 9 * DAY)
    assert all_rows(tmp_path / "a") == all_rows(tmp_path / "b") == entries(address("log"))
    tables = [ds.dataset(tmp_path / one / DECISIONS, partitioning="hive").to_table() for one in "ab"]
    one, other = (table.sort_by([("slate_id", "ascending"), ("position", "ascending")]) for table in tables)
    assert one.equals(other)
    assert one.column_names == [*COLUMNS, "ranker"]
    assert set(one["status"].to_pylist()) == {"learned", "nothing", "withdrawn"}
    assert one["ranker"].unique().to_pylist() == ["shop"]


def test_an_imported_archive_is_the_same_log(address: Address, tmp_path: Path) -> None:
    filled(address("log"))
    with closing(open_store(address("log"))) as store:
        archive(store, tmp_path / "archive", 9 * DAY)
    with closing(open_store(address("again"), exclusive=True)) as store:
        assert import_archive(tmp_path / "archive", store) == len(entries(address("log")))
        with pytest.raises(InvalidInput, match="a log without entries"):
            import_archive(tmp_path / "archive", store)
    assert entries(address("again")) == entries(address("log"))


def test_the_archive_of_another_log_is_not_continued(tmp_path: Path) -> None:
    for name, start in (("one", 0), ("other", 5)):
        filled(str(tmp_path / f"{name}.db"), days=1, start=start)
    with closing(open_store(tmp_path / "one.db")) as store:
        archive(store, tmp_path / "archive", 9 * DAY)
    with closing(open_store(tmp_path / "other.db")) as store, pytest.raises(InvalidInput, match="for this log"):
        archive(store, tmp_path / "archive", 9 * DAY)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    filled(str(tmp_path / "log.db"))
    folder = tmp_path / "archive"
    with closing(open_store(tmp_path / "log.db")) as store:
        archive(store, folder, 9 * DAY)
    first, second, *_ = sorted((folder / ENTRIES).iterdir())
    content = first.read_bytes()
    first.write_bytes(content[: len(content) // 2])
    with closing(SqliteStore(tmp_path / "again.db")) as again:
        with pytest.raises(InvalidInput, match="complete and undamaged"):
            import_archive(folder, again)
        first.write_bytes(content)
        table = pq.read_table(second)
        pq.write_table(table.slice(1).replace_schema_metadata(pq.read_schema(second).metadata), second)
        with pytest.raises(InvalidInput, match="complete and undamaged"):
            import_archive(folder, again)
        second.unlink()
        with pytest.raises(InvalidInput, match="does not follow"):
            import_archive(folder, again)
        assert again.last_position() == 0


# Killed in the middle


def killed(tmp_path: Path, *command: str, after: float) -> bool:
    """Run a command of `rankloop` and kill it after some seconds; return whether it was still running."""
    run = [sys.executable, "-m", "rankloop", *command]
    process = subprocess.Popen(run, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True
    return False


@pytest.fixture
def moments() -> Iterator[float]:
    """Moments at which a command is killed, from its first steps to its end."""
    return iter([0.3 + 0.15 * n for n in range(10)])


@pytest.mark.slow
def test_a_killed_restoration_restored_all_or_nothing(address: Address, backup: Path, tmp_path: Path) -> None:
    complete = entries(str(backup))
    for n in range(8):
        name = f"restored{n}"
        target = address(name)
        killed(tmp_path, "log", "restore", str(backup), target, after=0.3 + 0.15 * n)
        time.sleep(0.2)  # the server ends the session of the process
        if target.startswith("postgres") or Path(target).exists():
            found = entries(target)
            assert found in ([], complete)
            restore(backup, target, force=bool(found))
        assert not Path(target).exists() or entries(target) == complete


@pytest.mark.slow
def test_a_killed_archive_is_completed_by_the_next_run(address: Address, tmp_path: Path) -> None:
    filled(address("log"), days=20, visits=60)
    folder, complete = tmp_path / "archive", entries(address("log"))
    for n in range(8):
        killed(tmp_path, "log", "archive", address("log"), str(folder), "--before", "1970-02-01", after=0.4 + 0.15 * n)
        if folder.is_dir():
            assert all_rows(folder) == complete[: len(all_rows(folder))]
    with closing(open_store(address("log"))) as store:
        archive(store, folder, 31 * DAY)
    assert all_rows(folder) == complete
    assert not [path for path in folder.rglob("*") if path.name.startswith(".")], "no temporary file is left"


# The commands


def test_the_commands_say_what_they_did(tmp_path: Path, backup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    restored, folder, again = str(tmp_path / "restored.db"), str(tmp_path / "archive"), str(tmp_path / "again.db")
    n = len(entries(str(backup)))
    assert main(["log", "restore", str(backup), restored]) == 0
    assert capsys.readouterr().out == f"{n} entries up to position {n} and 1 snapshot are in {restored}, verified.\n"
    assert main(["log", "archive", restored, folder]) == 0
    *parts, summary = capsys.readouterr().out.splitlines()
    assert [part.partition(":")[0] for part in parts] == ["1970-01-01", "1970-01-02", "1970-01-03"]
    assert summary == f"{folder}: {n} entries in 3 parts; the archive covers the log up to position {n}."
    assert main(["log", "archive", restored, folder]) == 0
    assert capsys.readouterr().out == f"{folder}: nothing new; the archive covers the log up to position {n}.\n"
    assert main(["log", "import", folder, again]) == 0
    assert capsys.readouterr().out == f"{n} entries are in {again}, verified.\n"
    assert EntryDigest().of(iter(entries(again))) == EntryDigest().of(iter(entries(restored)))
    assert main(["log", "archive", restored, folder, "--before", "tomorrow"]) == 2
    assert "--before is 'tomorrow'; accepted: a day as 2026-05-31" in capsys.readouterr().err
    assert main(["log", "import", str(tmp_path / "archive" / ENTRIES), str(tmp_path / "no.db")]) == 2
    assert "accepted: a folder that `rankloop log archive` wrote" in capsys.readouterr().err
    assert not (tmp_path / "no.db").exists()
