"""A full disk: the log makes room before it refuses, refuses without losing anything, and recovers by itself.

With real small disks where they can be mounted, and on a simulated disk everywhere.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from rankloop.errors import RankloopError
from rankloop.eventlog import LogEntry, SqliteStore, StoreUnavailable, disk_reserve, wal_checkpoints, wal_space
from rankloop.eventlog.disk_reserve import DiskReserve
from rankloop.eventlog.store import Snapshot
from rankloop.eventlog.wal_space import MAX_WAL_BYTES, MIN_WAL_BYTES, ROOM_SHARE, WalSpace, is_full
from served import small_disk, until
from test_service import Start, start  # noqa: F401

BODY_BYTES = 300
COMMIT_BYTES = 60_000
"""More than one of the commits below adds to the write-ahead log."""
FIXED_BYTES = 150_000
"""Empty tables and indexes, and the shared memory beside a write-ahead log."""


def entry(key: str, size: int = BODY_BYTES) -> LogEntry:
    return LogEntry("kind", key, "", 0.0, os.urandom(size))


def sizes(path: Path) -> dict[str, int]:
    """Sizes in bytes of the files of a log, by their suffix."""
    return {suffix: disk_reserve.size_of(Path(f"{path}{suffix}")) for suffix in ("", "-wal", "-shm", ".reserve")}


def keys(store: SqliteStore) -> list[str]:
    return [one.key for one in store.read("r")]


class Appender:
    """Appends entries, and remembers which were acknowledged and which refused."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.acknowledged, self.refused = store, list[str](), list[str]()

    def append(self) -> bool:
        """Append one entry; return whether it was acknowledged."""
        key = f"key-{len(self.acknowledged) + len(self.refused)}"
        try:
            self.store.append([("r", entry(key))])
        except StoreUnavailable:
            self.refused.append(key)
            return False
        self.acknowledged.append(key)
        return True

    def until(self, acknowledged: bool, at_most: int = 20_000) -> None:
        """Append until an entry is acknowledged, or refused."""
        for _ in range(at_most):
            if self.append() == acknowledged:
                return
        pytest.fail("it did not happen")

    def check(self) -> None:
        """Everything acknowledged is in the log once, and nothing that was refused."""
        assert keys(self.store) == self.acknowledged


# A simulated disk: SQLite writes real files, and its connection reports the lack of room of a disk with a capacity


def no_room() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


class SimulatedDisk:
    """A disk of some bytes that has a log and other files."""

    def __init__(self, path: Path, capacity: int) -> None:
        self.path, self.capacity, self.others = path, capacity, 0

    @property
    def free(self) -> int:
        return max(0, self.capacity - self.others - sum(sizes(self.path).values()))

    def require(self, size: int) -> None:
        if size > self.free:
            raise no_room()


class Connection:
    """A connection whose writes fail where the simulated disk has no room for them."""

    def __init__(self, connection: sqlite3.Connection, disk: SimulatedDisk) -> None:
        self._connection, self._disk = connection, disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        wal = sizes(self._disk.path)["-wal"]
        if "wal_checkpoint" in statement:
            self._disk.require(wal // 4)  # the pages that are new in the database
        elif statement.startswith("INSERT") or "user_version =" in statement:
            self._disk.require(COMMIT_BYTES if wal < MIN_WAL_BYTES else COMMIT_BYTES // 2)
        return self._connection.execute(statement, values)


def put_on(disk: SimulatedDisk, store: SqliteStore) -> None:
    """Let an open log use a simulated disk."""
    store._writer.execute("PRAGMA synchronous = OFF")  # no process is killed here
    connection: Any = Connection(store._writer, disk)
    store._writer = connection


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulatedDisk:
    """A simulated disk for a log; recovery is tried often."""
    disk = SimulatedDisk(tmp_path / "log.db", 50_000_000)

    def allocate(descriptor: int, offset: int, length: int) -> None:
        if length > disk.free:
            raise OSError(errno.ENOSPC, "no space left on device")
        os.ftruncate(descriptor, offset + length)

    monkeypatch.setattr(disk_reserve, "_allocate", allocate)
    monkeypatch.setattr(WalSpace, "_free", lambda self: disk.free)
    monkeypatch.setattr(wal_checkpoints, "RECOVERY_SECONDS", 0.01)
    return disk


@pytest.fixture
def store(disk: SimulatedDisk) -> Iterator[SqliteStore]:
    """A log on the simulated disk."""
    with closing(SqliteStore(disk.path)) as store:
        put_on(disk, store)
        yield store


def test_the_log_makes_room_before_it_refuses(store: SqliteStore, disk: SimulatedDisk) -> None:
    """A disk that others filled up: the reserve and a checkpoint give room for more entries."""
    disk.capacity = 50_000_000
    appender = Appender(store)
    while sizes(disk.path)["-wal"] < 600_000:
        assert appender.append()
    reserve = sizes(disk.path)[".reserve"]
    assert reserve >= 600_000 - MIN_WAL_BYTES
    disk.others += disk.free  # full
    before = len(appender.acknowledged)
    assert appender.append()
    assert sizes(disk.path)[".reserve"] == 0
    assert sizes(disk.path)["-wal"] < COMMIT_BYTES
    appender.until(acknowledged=False)
    assert len(appender.acknowledged) - before > 10
    assert "is full" in str(store.problem)
    appender.check()


def test_a_refused_log_recovers_by_itself_when_there_is_room(store: SqliteStore, disk: SimulatedDisk) -> None:
    """Nobody appends meanwhile: a service that reports that it is not ready gets no requests."""
    disk.capacity = 2_000_000
    appender = Appender(store)
    for _ in range(3):
        disk.others += disk.free
        appender.until(acknowledged=False)
        assert store.problem is not None
        assert not appender.append()
        disk.others -= 600_000
        until(lambda: store.problem is None, "the log recovers")
        assert sizes(disk.path)[".reserve"] >= MIN_WAL_BYTES
        assert appender.append()
        appender.check()
        disk.capacity += 1_000_000
    store.save_snapshot("r", Snapshot(1, b"state"))


@pytest.mark.parametrize("seed", range(8))
def test_whatever_fills_the_disk_acknowledged_is_kept_once_and_refused_is_not(
    seed: int, store: SqliteStore, disk: SimulatedDisk
) -> None:
    rng = np.random.default_rng(seed)
    disk.capacity = 3_000_000
    appender = Appender(store)
    for _ in range(30):
        action = rng.integers(4)
        if action == 0:
            disk.others += int(disk.free * rng.choice([0.5, 0.9, 1.0]))
        elif action == 1:
            disk.others = int(disk.others * rng.choice([0.0, 0.5]))
        for _ in range(int(rng.integers(1, 30))):
            appender.append()
    appender.check()
    disk.others, disk.capacity = 0, disk.capacity + 3_000_000
    until(lambda: store.problem is None, "the log recovers")
    assert appender.append()
    appender.check()
    store.close()
    assert sizes(disk.path)[".reserve"] == 0
    with closing(SqliteStore(disk.path)) as again:
        assert keys(again) == appender.acknowledged


def test_an_error_that_is_not_about_room_is_not_retried(tmp_path: Path) -> None:
    space = WalSpace(tmp_path / "log.db")
    error = sqlite3.OperationalError("locked")
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    connection: Any = None
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        space.retried(error, connection, lambda: pytest.fail("retried"))
    assert space.full is None
    for code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_FSYNC):
        error.sqlite_errorcode = code
        assert is_full(error)


def test_a_checkpoint_that_fails_after_a_commit_refuses_nothing(
    store: SqliteStore, disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries are committed by then; their caller must not be told that they are not."""
    disk.capacity = 10_000_000
    appender = Appender(store)
    monkeypatch.setattr(wal_space, "MAX_WAL_BYTES", MIN_WAL_BYTES)
    require, refused = disk.require, []

    def refuse_checkpoints(size: int) -> None:
        if size < COMMIT_BYTES // 2:  # those of small write-ahead logs
            refused.append(size)
            raise no_room()
        require(size)

    monkeypatch.setattr(disk, "require", refuse_checkpoints)
    for _ in range(60):
        assert appender.append()
    assert refused
    appender.check()


def test_a_checkpoint_that_cannot_be_requested_after_a_commit_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread can be started: the entries are stored, the writer goes on, and later looks try again."""
    monkeypatch.setattr("rankloop.eventlog.sqlite.INLINE_BYTES", 0)
    monkeypatch.setattr(wal_space, "MAX_WAL_BYTES", MIN_WAL_BYTES)
    start_thread, refused = threading.Thread.start, list[str]()

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "rankloop-checkpoints" and len(refused) < 2:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start_thread(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with closing(SqliteStore(tmp_path / "log.db", exclusive=True)) as store:
        for n in range(6):
            assert store.append([("r", entry(f"{n}", MIN_WAL_BYTES))], n) == [n + 1]
        assert (len(refused), store._checkpoints.running) == (2, True)
        assert keys(store) == [f"{n}" for n in range(6)]


@pytest.mark.parametrize("after", [2, None])
def test_an_append_with_duplicates_that_fails_stores_nothing(after: int | None, tmp_path: Path) -> None:
    """The positions are found before the commit, so that an error means that nothing was stored."""
    with closing(SqliteStore(tmp_path / "log.db")) as store:
        store.append([("r", entry("a")), ("r", entry("b"))])
        batch = [("r", entry("c")), ("r", entry("a")), ("r", entry("d"))]
        connection: Any = FailingReads(store._writer)
        store._writer, working = connection, store._writer
        with pytest.raises(StoreUnavailable, match="disk I/O error"):
            store.append(batch, after)
        store._writer = working
        assert keys(store) == ["a", "b"]
        assert store.append(batch, after) == [3, None, 4]
        assert keys(store) == ["a", "b", "c", "d"]


class FailingReads:
    """A connection that cannot read the newest entries."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, values: Any = ()) -> sqlite3.Cursor:
        if statement.startswith("SELECT position"):
            raise sqlite3.OperationalError("disk I/O error")
        return self._connection.execute(statement, values)


def test_duplicates_on_a_full_disk_are_written_again_after_room_was_made(
    store: SqliteStore, disk: SimulatedDisk
) -> None:
    appender = Appender(store)
    while sizes(disk.path)["-wal"] < 600_000:
        assert appender.append()
    last = len(appender.acknowledged)
    disk.others += disk.free  # full, but for the reserve
    assert store.append([("r", entry("key-0")), ("r", entry("new"))], last) == [None, last + 1]
    assert keys(store) == [*appender.acknowledged, "new"]


def test_a_snapshot_that_would_fill_the_disk_is_not_stored(store: SqliteStore, disk: SimulatedDisk) -> None:
    disk.capacity = 2_000_000
    store.save_snapshot("r", Snapshot(1, b"small"))
    with pytest.raises(StoreUnavailable, match=r"a snapshot of 1,000,000 bytes is not stored, since the disk of log"):
        store.save_snapshot("r", Snapshot(2, bytes(1_000_000)))
    assert store.load_snapshot("r") == Snapshot(1, b"small")
    assert store.problem is None
    assert Appender(store).append()
    disk.capacity = 5_000_000
    store.save_snapshot("r", Snapshot(2, bytes(1_000_000)))


# The bound of the write-ahead log, and the reserve


@pytest.mark.parametrize("free", [0, 10_000, 600_000, 3_500_000, 100_000_000, 10**12])
@pytest.mark.parametrize("used", [0, 1, 127_999, 128_000, 10**6, 64 * 10**6])
def test_the_limit_is_a_share_of_the_room_and_the_reserve_covers_what_may_come(
    free: int, used: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocated = dict[str, int]()
    space = WalSpace(tmp_path / "log.db")
    monkeypatch.setattr(WalSpace, "_free", lambda self: free)
    monkeypatch.setattr(space.reserve, "keep", lambda size: allocated.update(size=size))
    look_again = space.look(used)
    assert space.limit == min(MAX_WAL_BYTES, max(MIN_WAL_BYTES, free // ROOM_SHARE))
    assert (look_again == 0) == (used >= space.limit)
    assert look_again == 0 or used < look_again <= space.limit
    assert allocated.get("size", 0) <= max(0, free // 2)
    if free >= 2 * MIN_WAL_BYTES * ROOM_SHARE:
        assert allocated["size"] >= look_again


def test_the_reserve_has_real_blocks_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path / "log.db")
    assert reserve.keep(300_000)
    found = reserve.path.stat()
    assert (found.st_size, stat.S_IMODE(found.st_mode)) == (300_000, 0o600)
    assert found.st_blocks * 512 >= 300_000
    assert reserve.keep(200_000)  # it has more already
    assert reserve.keep(500_000)
    assert reserve.path.stat().st_blocks * 512 >= 500_000
    reserve.shrink(100_000)
    assert reserve.size == 100_000
    assert reserve.release() == 100_000
    assert not reserve.path.exists()
    assert reserve.release() == 0


def test_a_reserve_that_cannot_be_allocated_keeps_nothing(tmp_path: Path) -> None:
    assert not DiskReserve(tmp_path / "no folder" / "log.db").keep(1000)
    (tmp_path / "target").write_bytes(b"")
    reserve = DiskReserve(tmp_path / "log.db")
    reserve.path.symlink_to(tmp_path / "target")
    assert not reserve.keep(1000)
    assert (tmp_path / "target").read_bytes() == b""


def test_without_posix_fallocate_zeros_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    monkeypatch.setattr(disk_reserve, "CHUNK_BYTES", 1000)
    reserve = DiskReserve(tmp_path / "log.db")
    assert reserve.keep(2500)
    assert reserve.keep(4100)
    assert reserve.path.read_bytes() == bytes(4100)


def test_a_reserve_left_by_a_killed_process_gives_a_full_disk_room_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [10**9]
    monkeypatch.setattr(WalSpace, "_free", lambda self: free[0])
    reserve = DiskReserve(tmp_path / "log.db")
    assert reserve.keep(MIN_WAL_BYTES)
    WalSpace(tmp_path / "log.db").prepare_open()
    assert reserve.size == MIN_WAL_BYTES
    free[0] = 1000
    WalSpace(tmp_path / "log.db").prepare_open()
    assert reserve.size == 0


def test_the_reserve_of_the_process_that_serves_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [10**9]
    monkeypatch.setattr(WalSpace, "_free", lambda self: free[0])
    path = tmp_path / "log.db"
    with closing(SqliteStore(path, exclusive=True)) as store:
        store.append([("r", entry("a", 300_000))], 0)
        kept = sizes(path)[".reserve"]
        assert kept >= MIN_WAL_BYTES
        free[0] = 1000
        SqliteStore(path).close()  # a reader
        with pytest.raises(RankloopError, match="another process"):
            SqliteStore(path, exclusive=True)
        assert sizes(path)[".reserve"] == kept
        Path(f"{path}.lock").unlink()
        free[0] = 10**9
        with closing(SqliteStore(path, exclusive=True)):  # the log is served by this one now
            store.close()
            assert sizes(path)[".reserve"] == kept


def test_the_disk_of_a_link_is_that_of_the_log(tmp_path: Path) -> None:
    for folder in ("real", "link"):
        (tmp_path / folder).mkdir()
    (tmp_path / "link" / "log.db").symlink_to(tmp_path / "real" / "log.db")
    with closing(SqliteStore(tmp_path / "link" / "log.db", exclusive=True)) as store:
        store.append([("r", entry("a", 300_000))], 0)
        assert store._space.wal_bytes == sizes(tmp_path / "real" / "log.db")["-wal"] > 0
        assert sizes(tmp_path / "real" / "log.db")[".reserve"] > 0
        assert [path.name for path in (tmp_path / "link").iterdir()] == ["log.db"]


# A real small disk


def filled(path: Path) -> None:
    """Fill a disk with one more file."""
    with (path / "others").open("ab", buffering=0) as file:
        for chunk in (100_000, 4096):
            with suppress(OSError):
                while True:
                    file.write(bytes(chunk))


@pytest.mark.parametrize("size", [1_500_000, 3_500_000])
def test_on_a_small_disk_the_write_ahead_log_stays_small(size: int, tmp_path: Path) -> None:
    """373 KB of data in one commit each: the files take little more than the data, its indexes and both bounds."""
    with small_disk(tmp_path / "disk", size), closing(SqliteStore(tmp_path / "disk" / "log.db")) as store:
        appender, data, largest = Appender(store), 0, {"-wal": 0, ".reserve": 0}
        while data < 373_000:
            assert appender.append()
            data += BODY_BYTES
            now = sizes(store.path)
            bound = max(MIN_WAL_BYTES, size // ROOM_SHARE)
            assert now["-wal"] <= bound + COMMIT_BYTES
            assert now[".reserve"] <= bound
            assert sum(now.values()) <= 2 * data + 2 * bound + COMMIT_BYTES + FIXED_BYTES
            largest = {suffix: max(one, now[suffix]) for suffix, one in largest.items()}
        assert min(largest.values()) >= MIN_WAL_BYTES // 2
        appender.check()


def test_on_a_small_disk_everything_acknowledged_is_kept_and_room_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal_checkpoints, "RECOVERY_SECONDS", 0.01)
    disk = tmp_path / "disk"
    with small_disk(disk, 3_500_000):
        with closing(SqliteStore(disk / "log.db")) as store:
            appender = Appender(store)
            for _ in range(200):
                assert appender.append()
            for _ in range(2):
                filled(disk)
                appender.until(acknowledged=False)
                filled(disk)
                assert not appender.append()
                assert store.problem is not None
                appender.check()
                (disk / "others").unlink()
                until(lambda: store.problem is None, "the log recovers")
                for _ in range(100):
                    assert appender.append()
                appender.check()
            appender.until(acknowledged=False)  # the log itself fills the disk
            appender.check()
        with closing(SqliteStore(disk / "log.db")) as again:
            assert keys(again) == appender.acknowledged


# The service


def test_a_service_on_a_full_disk_refuses_says_so_and_recovers_without_requests(
    start: Start,  # noqa: F811
    disk: SimulatedDisk,
) -> None:
    http = start(rankers={"r": {"policy": "cascade-ucb1", "slots": 2}})
    store: Any = http.service.rankers.store
    put_on(disk, store)

    def put(id: str) -> httpx.Response:
        return http("PUT", "/v1/rankers/r/items", {"items": [{"id": id}]})

    def metric() -> str:
        return next(line for line in http("GET", "/metrics").text.splitlines() if line.startswith("rankloop_log_writ"))

    assert put("first").is_success
    assert http("GET", "/readyz").status_code == 200
    assert metric() == "rankloop_log_writable 1.0"
    disk.others += disk.free + sizes(disk.path)[".reserve"] + sizes(disk.path)["-wal"]
    assert put("second").status_code == 503
    ready = http("GET", "/readyz")
    assert ready.status_code == 503
    assert "the log cannot be written: the disk of log.db is full" in ready.json()["detail"]
    assert "Retry-After" in ready.headers
    assert http("GET", "/healthz").status_code == 200
    assert metric() == "rankloop_log_writable 0.0"
    disk.others = 0
    until(lambda: http("GET", "/readyz").status_code == 200, "the service is ready again")
    assert metric() == "rankloop_log_writable 1.0"
    assert put("third").is_success
    assert [one.id for one in http.service.rankers.ranker("r").items()] == ["first", "third"]
