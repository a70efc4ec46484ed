"""Kill -9 under load, a torn write-ahead log, a full disk: what was acknowledged stays, once, and nothing else breaks.

The long version: make kills. What is promised: docs/explanation/reliability.md.
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
from served import small_disk
from test_engine import Failing, config, contents, items

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("RANKLOOP_KILLS", "20"))
KILLS_OF_A_LOG = 10
"""Then a new one: each restart is compared with a replay of the whole log, and that takes longer and longer."""
THREADS = 8
POLICIES = ("cascade-ucb1", "cascade-lin-ts")
NAME = "ranker"
log = logging.getLogger("rankloop.tests")


def settings(policy: str) -> RankerConfig:
    return config(policy, window=0.05)  # windows close under load too


# What is killed


def visit(path: str, acknowledged: str, policy: str, run: int) -> None:
    """Rank and tell with eight threads for ever; an event's id is written down once it is acknowledged."""
    ranker = Ranker.open(path, settings(policy))
    if not ranker.items():
        ranker.put_items(items(8))
    told = os.open(acknowledged, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def visitor(n: int) -> None:
        for i in range(10**9):
            ranking = ranker.rank(segment=f"s{n % 3}")
            event = f"{run}-{n}-{i}"
            ranker.feedback(ranking.id, clicked=[i % 3] if i % 2 else [], event=event)
            os.write(told, f"{event}\n".encode())
            if i % 5 == 4:
                ranker.rank(segment=f"s{n % 3}")  # nobody tells; its window will close

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


def started(function: Callable[..., None], *arguments: Any) -> Any:
    """A process that runs a function; it is forked by a server that has imported everything and has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rankloop.serving", "pytest"])
    child = context.Process(target=function, args=arguments)
    child.start()
    return child


def kill(place: Path, policy: str, run: int, after: float, *, at_once: bool = False) -> None:
    """Start visitors, and kill them so many seconds after the first event was acknowledged, or after their start."""
    acknowledged = place / "acknowledged"
    before = acknowledged.stat().st_size if acknowledged.exists() else 0
    child = started(visit, str(place / "log.db"), str(acknowledged), policy, run)
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


# What must hold


def events(store: Any) -> list[str]:
    return [entry.key for entry in store.read(NAME) if entry.kind == "feedback"]


def copied(store: Any, *, snapshot: bool) -> MemoryStore:
    """The log in memory, with its snapshot or without."""
    memory = MemoryStore()
    entries = list(store.read(NAME))
    assert [entry.position for entry in entries] == list(range(1, len(entries) + 1))
    memory.append([(NAME, entry) for entry in entries])
    kept = store.load_snapshot(NAME)
    if snapshot and kept is not None:
        memory.save_snapshot(NAME, kept)
    return memory


def check_restart(path: Path, policy: str, acknowledged: list[str]) -> int:
    """All acknowledged is there once; snapshot and rest are the whole log, and decide alike. Entries of the log."""
    store = SqliteStore(path)
    kept = Counter(events(store))
    assert set(acknowledged) <= set(kept), sorted(set(acknowledged) - set(kept))[:5]
    assert set(kept.values()) <= {1}
    assert len(set(acknowledged)) == len(acknowledged)
    restarted = Ranker(settings(policy), store=copied(store, snapshot=True))
    replayed = Ranker(settings(policy), store=copied(store, snapshot=False))
    store.close()
    found, expected = contents(restarted), contents(replayed)
    assert [name for name in expected if found.get(name) != expected[name]] == []
    assert found.keys() == expected.keys()
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
    place, kills = tmp_path, KILLS // len(POLICIES)
    for run in range(kills):
        if run % KILLS_OF_A_LOG == 0:
            place = tmp_path / str(run)
            place.mkdir()
        # Every fourth one while it starts: it opens, replays and takes its first steps.
        kill(place, policy, run, after=float(rng.uniform(0.0, 0.25)), at_once=run % 4 == 3)
        check_restart(place / "log.db", policy, lines(place / "acknowledged"))
    acknowledged = sum(len(lines(file)) for file in tmp_path.glob("*/acknowledged"))
    log.info("%d kills of %s: %s events acknowledged", kills, policy, f"{acknowledged:,}")


class Held(MemoryStore):
    """A store whose commits wait."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.go.set()

    def append(self, batch: Any) -> list[int | None]:
        self.go.wait()
        return super().append(batch)


def test_a_snapshot_knows_nothing_of_a_list_that_was_not_kept() -> None:
    """Decided, not committed, then a snapshot, then the end: the list was never there."""
    store = Held()
    ranker = Ranker(settings("cascade-ucb1"), store=store)
    ranker.put_items(items(8))
    ranker.rank()
    ranker.flush()
    store.go.clear()
    ranker.rank()
    ranker.snapshot()
    restarted = Ranker(settings("cascade-ucb1"), store=copied(store, snapshot=True))
    replayed = Ranker(settings("cascade-ucb1"), store=copied(store, snapshot=False))
    assert contents(restarted) == contents(replayed)
    assert restarted.rank().items == replayed.rank().items
    store.go.set()
    ranker.flush()


def test_a_list_that_was_refused_leaves_no_trace() -> None:
    """Where lists wait for their commit."""
    store = Failing()
    config = replace(settings("cascade-ucb1"), commit="all")
    ranker = Ranker(config, store=store)
    ranker.put_items(items(8))
    store.full = True
    with pytest.raises(StoreUnavailable):
        ranker.rank()
    store.full = False
    assert contents(Ranker(config, store=copied(store, snapshot=False))) == contents(ranker)


# A torn log


def log_files(place: Path) -> tuple[Path, Path]:
    return place / "log.db", place / "log.db-wal"


def without_closing(function: Callable[[Path], None], place: Path) -> None:
    """Do something to a log in a process that ends without closing it."""
    child = started(function, place)
    child.join()
    assert child.exitcode == 0
    child.close()


def few(place: Path) -> None:
    """A short log whose frames are all in the write-ahead log."""
    ranker = Ranker.open(place / "log.db", settings("cascade-ucb1"))
    ranker.put_items(items(5))
    for i in range(6):
        ranker.feedback(ranker.rank().id, clicked=[i % 3], event=f"e{i}")
    ranker.snapshot()
    ranker.feedback(ranker.rank().id, clicked=[], event="after")
    os._exit(0)


def one_more(place: Path) -> None:
    SqliteStore(place / "log.db").append([(NAME, LogEntry("closed", "", "", 0.0, b'{"decisions":[],"":[]}\n'))] * 40)
    os._exit(0)


def test_a_commit_that_was_torn_off_is_not_there_and_all_before_it_is(tmp_path: Path) -> None:
    """Power fails while a commit is written: wherever its bytes end, the log is as before it, and goes on."""
    whole = tmp_path / "whole"
    whole.mkdir()
    without_closing(few, whole)
    acknowledged = [f"e{i}" for i in range(6)] + ["after"]
    _, wal = log_files(whole)
    before = wal.stat().st_size
    without_closing(one_more, whole)
    after = wal.stat().st_size
    assert after > before + 4096
    rng = np.random.default_rng(0)
    for n, end in enumerate([before + 1, before + 24, after - 1, *rng.integers(before, after, 6).tolist()]):
        place = tmp_path / str(n)
        place.mkdir()
        for name in ("log.db", "log.db-wal"):
            shutil.copy(whole / name, place / name)
        os.truncate(place / "log.db-wal", end)
        position = check_restart(place / "log.db", "cascade-ucb1", acknowledged)
        assert position == 2 + 2 * 7
        ranker = Ranker.open(place / "log.db", settings("cascade-ucb1"))
        told = next(entry.subject for entry in ranker.store.read(NAME) if entry.key == "e0")
        assert ranker.feedback(told, clicked=[], event="e0").status == "duplicate"
        assert ranker.feedback(ranker.rank().id, clicked=[], event="on").status == "learned"
        ranker.close()


def test_a_log_that_lost_its_end_is_what_it_was_a_moment_before(tmp_path: Path) -> None:
    """A disk that lied about its last bytes: the newest commits may go, whole, and what is left is one state."""
    whole = tmp_path / "whole"
    whole.mkdir()
    kill(whole, "cascade-ucb1", 0, after=0.15)
    size = log_files(whole)[1].stat().st_size
    everything = [(e.position, e.kind, e.key, e.body) for e in _opened_copy(whole, tmp_path / "all", size)]
    for lost in (1, 100, 5000, 50_000):
        place = tmp_path / str(lost)
        entries = _opened_copy(whole, place, max(size - lost, 0))
        assert [(e.position, e.kind, e.key, e.body) for e in entries] == everything[: len(entries)]
        check_restart(place / "log.db", "cascade-ucb1", [])


def _opened_copy(source: Path, place: Path, end: int) -> list[LogEntry]:
    """The entries of a copy whose write-ahead log ends early."""
    place.mkdir()
    for name in ("log.db", "log.db-wal"):
        shutil.copy(source / name, place / name)
    os.truncate(place / "log.db-wal", end)
    store = SqliteStore(place / "log.db")
    entries = list(store.read(NAME))
    store.close()
    return entries


# A full disk


def fill(ranker: Ranker) -> list[str]:
    """Rank and tell until the disk is full; the events that were acknowledged."""
    acknowledged: list[str] = []

    def visit_for_ever() -> None:
        for i in range(10**9):
            ranker.feedback(ranker.rank().id, clicked=[i % 3], event=f"e{i}")
            acknowledged.append(f"e{i}")

    with pytest.raises(StoreUnavailable, match=r"log\.db cannot be written now"):
        visit_for_ever()
    return acknowledged


def go_on(ranker: Ranker, path: Path, acknowledged: list[str]) -> None:
    """There is space again: the same ranker goes on, and a restart finds all."""
    assert ranker.feedback(ranker.rank().id, clicked=[0], event="again").status == "learned"
    live = contents(ranker)
    ranker.close()
    check_restart(path, "cascade-ucb1", [*acknowledged, "again"])
    again = Ranker.open(path, settings("cascade-ucb1"))
    assert contents(again) == live
    again.close()


def test_a_full_disk_refuses_and_goes_on_when_there_is_space(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place):
        ballast = place / "ballast"
        ballast.write_bytes(bytes(150_000))
        ranker = Ranker.open(place / "log.db", settings("cascade-ucb1"))
        ranker.put_items(items(8))
        acknowledged = fill(ranker)
        assert acknowledged
        with pytest.raises(StoreUnavailable):
            ranker.put_items([{"id": f"large-{i}", "features": [1.0, 2.0, 3.0]} for i in range(200)])
        assert "large-0" not in {item.id for item in ranker.items()}
        replayed = Ranker(settings("cascade-ucb1"), store=copied(ranker.store, snapshot=False))
        assert contents(ranker, flush=False) == contents(replayed)
        ballast.unlink()
        go_on(ranker, place / "log.db", acknowledged)


def test_a_file_that_may_not_grow_refuses_and_goes_on_when_it_may(tmp_path: Path) -> None:
    """The same without mounting: the process may write no file beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # EFBIG, not the end of the process
    ranker = Ranker.open(tmp_path / "log.db", settings("cascade-ucb1"))
    ranker.put_items(items(8))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
        acknowledged = fill(ranker)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)
    assert acknowledged
    go_on(ranker, tmp_path / "log.db", acknowledged)


def test_many_writers_on_a_full_disk_are_told_the_truth(tmp_path: Path) -> None:
    """Group commits fail whole: what was told as kept is there, what was refused is not."""
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place):
        store = SqliteStore(place / "log.db")
        writer = Writer(store)
        done = {
            f"{i}": writer.submit(NAME, LogEntry("feedback", f"{i}", "", 0.0, bytes(500)), None, positions)
            for i in range(3000)
        }
        kept = {key: future.result() for key, future in done.items() if future.exception() is None}
        assert 0 < len(kept) < 3000
        assert {entry.key: entry.position for entry in store.read(NAME)} == kept
        writer.close()
        store.close()


def test_who_waits_is_told_however_many_lists_wait_before_it() -> None:
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
