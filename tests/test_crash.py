"""Acknowledged events are kept exactly once after kill -9 under load, a torn write-ahead log and a full disk.

Long version: make kills. The guarantees: docs/explanation/reliability.md.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from rankloop.eventlog import LogEntry, MemoryStore, SqliteStore, StoreUnavailable, Writer
from rankloop.eventlog.writer import MAX_BATCH_ENTRIES, positions
from rankloop.schema import FeedbackEvent
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.snapshots import packed, take
from served import small_disk
from test_ranker import Failing, config, contents, items

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("RANKLOOP_KILLS", "20"))
KILLS_PER_LOG = 10
"""Then a new log begins, since each restart is compared with a replay of the whole log."""
THREADS = 8
POLICIES = ("cascade-ucb1", "cascade-lin-ts")
NAME = "ranker"
log = logging.getLogger("rankloop.tests")


def settings(policy: str) -> RankerConfig:
    return config(policy, window=0.05)  # windows close under load too


# The process that is killed


def visit(path: str, acknowledged: str, policy: str, run: int) -> None:
    """Rank and send feedback in eight threads without end; append each acknowledged event id to a file."""
    ranker = Ranker.open(path, settings(policy))
    if not ranker.items():
        ranker.put_items(items(8))
    file = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def visitor(n: int) -> None:
        for i in range(10**9):
            ranking = ranker.rank(segment=f"s{n % 3}")
            event = f"{run}-{n}-{i}"
            ranker.feedback(ranking.id, clicked=[i % 3] if i % 2 else [], event=event)
            os.write(file, f"{event}\n".encode())
            if i % 5 == 4:
                ranker.rank(segment=f"s{n % 3}")  # without feedback; its window closes

    threads = [threading.Thread(target=visitor, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for i in range(10**9):
        time.sleep(0.013)
        ranker.tick()
        if i % 3 == 2:
            ranker.snapshot()
        if i % 7 == 6:
            ranker.put_items([{"id": f"new-{run}-{i}", "features": [0.1 * i, 1.0, -1.0]}])


def start_process(function: Callable[..., None], *arguments: Any) -> Any:
    """Run a function in a process forked from a server that has imported everything and has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rankloop.serving", "pytest"])
    child = context.Process(target=function, args=arguments)
    child.start()
    return child


def kill(folder: Path, policy: str, run: int, after: float, *, at_once: bool = False) -> None:
    """Start visitors, and kill them `after` seconds from the first acknowledged event, or from their start."""
    acknowledged = folder / "acknowledged"
    before = acknowledged.stat().st_size if acknowledged.exists() else 0
    child = start_process(visit, str(folder / "log.db"), str(acknowledged), policy, run)
    until = time.monotonic() + 30
    while child.is_alive() and not at_once and time.monotonic() < until:
        if acknowledged.exists() and acknowledged.stat().st_size > before:
            break
        time.sleep(0.002)
    time.sleep(after)
    assert child.is_alive(), "the visitors ended by themselves"
    child.kill()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    child.close()


# Checks


def events(store: Any) -> list[str]:
    return [entry.key for entry in store.read(NAME) if entry.kind == "feedback"]


def copy_to_memory(store: Any, *, snapshot: bool) -> MemoryStore:
    """Copy a log into memory, with or without its snapshot."""
    memory = MemoryStore()
    entries = list(store.read(NAME))
    assert [entry.position for entry in entries] == list(range(1, len(entries) + 1))
    memory.append([(NAME, entry) for entry in entries])
    newest = store.load_snapshot(NAME)
    if snapshot and newest is not None:
        memory.save_snapshot(NAME, newest)
    return memory


def check_restart(path: Path, policy: str, acknowledged: list[str]) -> int:
    """Check that the log has each acknowledged event once and that a restart equals a replay; return its position."""
    store = SqliteStore(path)
    logged = Counter(events(store))
    assert set(acknowledged) <= set(logged), sorted(set(acknowledged) - set(logged))[:5]
    assert set(logged.values()) <= {1}
    assert len(set(acknowledged)) == len(acknowledged)
    restarted = Ranker(settings(policy), store=copy_to_memory(store, snapshot=True))
    replayed = Ranker(settings(policy), store=copy_to_memory(store, snapshot=False))
    store.close()
    actual, expected = contents(restarted), contents(replayed)
    assert [name for name in expected if actual.get(name) != expected[name]] == []
    assert actual.keys() == expected.keys()
    position = replayed.position
    if replayed.items():
        for segment in ("s0", "s1", "new"):
            assert restarted.rank(segment=segment).items == replayed.rank(segment=segment).items
    restarted.close()
    replayed.close()
    return position


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("policy", POLICIES)
def test_killed_at_random_moments_nothing_acknowledged_is_lost(policy: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(KILLS)
    folder, kills = tmp_path, KILLS // len(POLICIES)
    for run in range(kills):
        if run % KILLS_PER_LOG == 0:
            folder = tmp_path / str(run)
            folder.mkdir()
        # Every fourth kill hits the start: opening, replaying, the first requests.
        kill(folder, policy, run, after=float(rng.uniform(0.0, 0.25)), at_once=run % 4 == 3)
        check_restart(folder / "log.db", policy, lines(folder / "acknowledged"))
    acknowledged = sum(len(lines(file)) for file in tmp_path.glob("*/acknowledged"))
    log.info("%d kills of %s: %s events acknowledged", kills, policy, f"{acknowledged:,}")


class BlockedStore(MemoryStore):
    """A store whose commits wait for an event."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()

    def append(self, batch: Any, after: int | None = None) -> list[int | None]:
        self.go.wait()
        return super().append(batch, after)


def test_a_snapshot_contains_no_uncommitted_list() -> None:
    """After a list is decided but not committed, a snapshot and a crash, a restart does not have the list."""
    store = BlockedStore()
    ranker = Ranker(settings("cascade-ucb1"), store=store)
    ranker.put_items(items(8))
    ranker.rank()
    ranker.flush()
    store.go.clear()
    ranker.rank()
    store.save_snapshot(NAME, packed(take(ranker._replica)))  # `snapshot` would wait for the commit
    restarted = Ranker(settings("cascade-ucb1"), store=copy_to_memory(store, snapshot=True))
    replayed = Ranker(settings("cascade-ucb1"), store=copy_to_memory(store, snapshot=False))
    assert contents(restarted) == contents(replayed)
    assert restarted.rank().items == replayed.rank().items
    store.go.set()
    ranker.flush()


def test_a_list_that_was_refused_leaves_no_trace() -> None:
    """With `commit: all`, lists wait for their commit."""
    store = Failing()
    config = replace(settings("cascade-ucb1"), commit="all")
    ranker = Ranker(config, store=store)
    ranker.put_items(items(8))
    store.full = True
    with pytest.raises(StoreUnavailable):
        ranker.rank()
    store.full = False
    assert contents(Ranker(config, store=copy_to_memory(store, snapshot=False))) == contents(ranker)


# A torn log


def log_files(folder: Path) -> tuple[Path, Path]:
    return folder / "log.db", folder / "log.db-wal"


def without_closing(function: Callable[[Path], None], folder: Path) -> None:
    """Run a function on a log in a process that ends without closing it."""
    child = start_process(function, folder)
    child.join()
    assert child.exitcode == 0
    child.close()


def write_short_log(folder: Path) -> None:
    """Write a short log that is entirely in the write-ahead log."""
    ranker = Ranker.open(folder / "log.db", settings("cascade-ucb1"))
    ranker.put_items(items(5))
    for i in range(6):
        ranker.feedback(ranker.rank().id, clicked=[i % 3], event=f"e{i}")
    ranker.snapshot()
    ranker.feedback(ranker.rank().id, clicked=[], event="after")
    os._exit(0)


def write_one_batch(folder: Path) -> None:
    SqliteStore(folder / "log.db").append([(NAME, LogEntry("closed", "", "", 0.0, b'{"decisions":[],"":[]}\n'))] * 40)
    os._exit(0)


def test_a_torn_commit_is_dropped_and_everything_before_it_is_kept(tmp_path: Path) -> None:
    """Power fails during a commit: wherever its bytes end, the log is as before the commit, and can be written."""
    whole = tmp_path / "whole"
    whole.mkdir()
    without_closing(write_short_log, whole)
    acknowledged = [f"e{i}" for i in range(6)] + ["after"]
    _, wal = log_files(whole)
    before = wal.stat().st_size
    without_closing(write_one_batch, whole)
    after = wal.stat().st_size
    assert after > before + 4096
    rng = np.random.default_rng(0)
    for n, end in enumerate([before + 1, before + 24, after - 1, *rng.integers(before, after, 6).tolist()]):
        folder = tmp_path / str(n)
        folder.mkdir()
        for name in ("log.db", "log.db-wal"):
            shutil.copy(whole / name, folder / name)
        os.truncate(folder / "log.db-wal", end)
        position = check_restart(folder / "log.db", "cascade-ucb1", acknowledged)
        assert position == 2 + 2 * 7
        ranker = Ranker.open(folder / "log.db", settings("cascade-ucb1"))
        decision = next(entry.subject for entry in ranker.store.read(NAME) if entry.key == "e0")
        assert ranker.feedback(decision, clicked=[], event="e0").status == "duplicate"
        assert ranker.feedback(ranker.rank().id, clicked=[], event="on").status == "learned"
        ranker.close()


def test_a_truncated_log_opens_as_a_prefix(tmp_path: Path) -> None:
    """A disk loses its last bytes: the newest commits may be lost as a whole, and the rest is consistent."""
    whole = tmp_path / "whole"
    whole.mkdir()
    kill(whole, "cascade-ucb1", 0, after=0.15)
    size = log_files(whole)[1].stat().st_size
    everything = [(e.position, e.kind, e.key, e.body) for e in _read_truncated_copy(whole, tmp_path / "all", size)]
    for lost in (1, 100, 5000, 50_000):
        folder = tmp_path / str(lost)
        entries = _read_truncated_copy(whole, folder, max(size - lost, 0))
        assert [(e.position, e.kind, e.key, e.body) for e in entries] == everything[: len(entries)]
        check_restart(folder / "log.db", "cascade-ucb1", [])


def _read_truncated_copy(source: Path, folder: Path, end: int) -> list[LogEntry]:
    """Return the entries of a copy whose write-ahead log is truncated."""
    folder.mkdir()
    for name in ("log.db", "log.db-wal"):
        shutil.copy(source / name, folder / name)
    os.truncate(folder / "log.db-wal", end)
    store = SqliteStore(folder / "log.db")
    entries = list(store.read(NAME))
    store.close()
    return entries


# A full disk


def fill(ranker: Ranker) -> list[str]:
    """Rank and send feedback until the disk is full; return the acknowledged events."""
    acknowledged: list[str] = []

    def visit_without_end() -> None:
        for i in range(10**9):
            ranker.feedback(ranker.rank().id, clicked=[i % 3], event=f"e{i}")
            acknowledged.append(f"e{i}")

    with pytest.raises(StoreUnavailable, match=r"log\.db cannot be written now"):
        visit_without_end()
    return acknowledged


def check_recovery(ranker: Ranker, path: Path, acknowledged: list[str]) -> None:
    """Check that the same ranker works again, and that a restart has everything."""
    assert ranker.feedback(ranker.rank().id, clicked=[0], event="again").status == "learned"
    live = contents(ranker)
    ranker.close()
    check_restart(path, "cascade-ucb1", [*acknowledged, "again"])
    again = Ranker.open(path, settings("cascade-ucb1"))
    assert contents(again) == live
    again.close()


def test_ranker_refuses_on_a_full_disk_and_recovers_with_space(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk):
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(150_000))
        ranker = Ranker.open(disk / "log.db", settings("cascade-ucb1"))
        ranker.put_items(items(8))
        acknowledged = fill(ranker)
        assert acknowledged
        with pytest.raises(StoreUnavailable):
            ranker.put_items([{"id": f"large-{i}", "features": [1.0, 2.0, 3.0]} for i in range(200)])
        assert "large-0" not in {item.id for item in ranker.items()}
        replayed = Ranker(settings("cascade-ucb1"), store=copy_to_memory(ranker.store, snapshot=False))
        assert contents(ranker, flush=False) == contents(replayed)
        ballast.unlink()
        check_recovery(ranker, disk / "log.db", acknowledged)


def test_ranker_refuses_at_a_file_size_limit_and_recovers_without_it(tmp_path: Path) -> None:
    """As above without mounting a disk: the process has a limit on the size of its files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes fail with EFBIG instead of ending the process
    ranker = Ranker.open(tmp_path / "log.db", settings("cascade-ucb1"))
    ranker.put_items(items(8))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        acknowledged = fill(ranker)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)
    assert acknowledged
    check_recovery(ranker, tmp_path / "log.db", acknowledged)


def test_group_commits_on_a_full_disk_are_all_or_nothing(tmp_path: Path) -> None:
    """Entries whose commit succeeded are in the log, and the others are not."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk):
        store = SqliteStore(disk / "log.db")
        writer = Writer(store)
        commits = {
            f"{i}": writer.submit(NAME, LogEntry("feedback", f"{i}", "", 0.0, bytes(500)), None, positions)
            for i in range(3000)
        }
        committed = {key: future.result() for key, future in commits.items() if future.exception() is None}
        assert 0 < len(committed) < 3000
        assert {entry.key: entry.position for entry in store.read(NAME)} == committed
        writer.close()
        store.close()


def test_a_waiting_caller_gets_an_error_however_long_the_queue_is() -> None:
    store = Failing()
    ranker = Ranker(settings("cascade-ucb1"), store=store)
    ranker.put_items(items(8))
    store.full = True
    for _ in range(MAX_BATCH_ENTRIES + 1):
        last = ranker.rank()
    waiting = ranker.submit_feedback(FeedbackEvent(last.id, [0]), ranker.find_decision(last.id))
    try:
        with pytest.raises(StoreUnavailable):
            waiting.result(timeout=5.0)
    finally:
        store.full = False
        ranker.flush()
