"""The writer: group commits in one order, results only after the commit, back-pressure, and one wake-up per batch."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rankloop.eventlog import LogEntry, MemoryStore, StoreUnavailable, Writer
from rankloop.eventlog.writer import Commit, positions
from rankloop.serving import Ranker, RankerConfig


def entry(key: str) -> LogEntry:
    return LogEntry("k", key, "", 0.0, b"")


class HeldStore(MemoryStore):
    """A store whose appends wait for `go`, and may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.go, self.started, self.fails = threading.Event(), threading.Event(), False

    def append(self, batch: Any, after: int | None = None) -> list[int | None]:
        self.started.set()
        self.go.wait()
        if self.fails:
            raise StoreUnavailable("the disk is full.")
        self.sizes.append(len(batch))
        return super().append(batch, after)


def test_entries_that_wait_for_one_commit_share_the_next_one() -> None:
    store = HeldStore()
    writer = Writer(store)
    first = writer.submit("r", entry("first"), None, positions)
    store.started.wait()
    commits = [writer.submit("r", entry(str(i)), None, positions) for i in range(50)]
    assert writer.queued == 50
    store.go.set()
    assert [one.result() for one in (first, *commits)] == list(range(1, 52))
    assert store.sizes == [1, 50]
    writer.close()


def test_a_decision_without_a_waiter_is_committed_when_the_batch_window_ends() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "cascade-ucb1", "slots": 2}))
    ranker.put_items([{"id": name} for name in "abc"])
    id, deadline = ranker.rank().id, time.monotonic() + 10
    while ranker.store.find("ranker", "decision", id) is None:
        assert time.monotonic() < deadline, "the batch window has ended, and the decision is not in the log"
        time.sleep(0.001)
    ranker.close()


def test_an_entry_without_a_waiter_shares_the_commit_of_the_next_one_that_has_a_waiter() -> None:
    store = HeldStore()
    store.go.set()
    writer = Writer(store)
    writer.post("r", entry("posted"), None, positions)
    assert writer.submit("r", entry("submitted"), None, positions).result() == 2
    assert sum(store.sizes) == 2
    writer.close()


def test_a_batch_is_applied_in_log_order_by_runs_of_one_ranker() -> None:
    """A duplicate is answered as such and does not split a run; an error of one run stays with that run."""
    store, runs = HeldStore(), []

    def apply(committed: Sequence[tuple[int, Any]]) -> list[str]:
        runs.append([event for _, event in committed])
        return [f"{event} at {position}" for position, event in committed]

    def fails(committed: Sequence[tuple[int, Any]]) -> list[str]:
        raise ValueError("it cannot be applied")

    writer = Writer(store)
    first = writer.submit("r", entry("0"), "first", apply)
    store.started.wait()
    rest = [writer.submit("r", entry(key), key, apply, lambda: "duplicate") for key in "1213"]
    bad = writer.submit("s", entry("1"), None, fails)
    last = writer.submit("r", entry("4"), "4", apply)
    store.go.set()
    results = [one.result() for one in (first, *rest, last)]
    assert results == ["first at 1", "1 at 2", "2 at 3", "duplicate", "3 at 4", "4 at 6"]
    with pytest.raises(ValueError, match="cannot be applied"):
        bad.result()
    assert runs == [["first"], ["1", "2", "3"], ["4"]]
    writer.close()


def test_results_come_only_after_the_commit() -> None:
    store = HeldStore()
    writer = Writer(store)
    commit = writer.submit("r", entry("a"), None, positions)
    store.started.wait()
    assert not commit.done()
    store.go.set()
    assert commit.result() == 1
    assert store.find("r", "k", "a") is not None
    writer.close()


def test_a_full_queue_pushes_back_and_loses_nothing() -> None:
    store = HeldStore()
    writer = Writer(store, queue_limit=3)
    first = writer.submit("r", entry("first"), None, positions)
    store.started.wait()
    queued = [writer.submit("r", entry(str(i)), None, positions) for i in range(3)]
    for refused in (
        lambda: writer.submit("r", entry("x"), None, positions),
        lambda: writer.post("r", entry("y"), 0, positions),
    ):
        with pytest.raises(StoreUnavailable, match="3 entries wait for their commit, which is the limit"):
            refused()
    store.go.set()
    assert [one.result() for one in (first, *queued)] == [1, 2, 3, 4]
    assert [one.key for one in store.read("r")] == ["first", "0", "1", "2"]
    writer.close()


def test_a_failed_commit_fails_every_waiter_and_keeps_the_entries_without_one() -> None:
    store = HeldStore()
    writer = Writer(store)
    store.fails = True
    writer.post("r", entry("kept"), None, positions)
    waiting = [writer.submit("r", entry(str(i)), None, positions) for i in range(3)]
    store.go.set()
    for commit in waiting:
        with pytest.raises(StoreUnavailable, match="full"):
            commit.result()
    store.fails = False
    writer.flush()
    assert [one.key for one in store.read("r")] == ["kept"]
    writer.close()


def test_a_closed_writer_writes_what_is_queued_and_refuses_more() -> None:
    store = HeldStore()
    writer = Writer(store)
    commit = writer.submit("r", entry("a"), None, positions)
    closing = threading.Thread(target=writer.close)
    closing.start()
    store.go.set()
    closing.join()
    assert commit.result() == 1
    assert not writer.alive
    with pytest.raises(StoreUnavailable, match="closed"):
        writer.submit("r", entry("b"), None, positions)


# Event loops


def test_an_event_loop_is_woken_once_for_all_commits_of_a_batch() -> None:
    store = HeldStore()
    writer = Writer(store)
    woken: list[int] = []

    async def wait_for_all() -> list[int]:
        loop = asyncio.get_running_loop()
        wake: Callable[..., Any] = loop.call_soon_threadsafe

        def counted(callback: Any, *args: Any) -> Any:
            woken.append(1)
            return wake(callback, *args)

        loop.call_soon_threadsafe = counted  # type: ignore[assignment, method-assign]
        first = writer.submit("r", entry("first"), None, positions)
        store.started.wait()

        async def one(commit: Commit[int]) -> int:
            return await commit

        tasks = [asyncio.ensure_future(one(commit)) for commit in (first, *submitted())]
        await asyncio.sleep(0)
        store.go.set()
        return await asyncio.gather(*tasks)

    def submitted() -> list[Commit[int]]:
        return [writer.submit("r", entry(str(i)), None, positions) for i in range(20)]

    assert asyncio.run(wait_for_all()) == list(range(1, 22))
    assert len(woken) == len(store.sizes) == 2
    writer.close()


def test_a_commit_that_is_done_can_still_be_awaited() -> None:
    writer = Writer(MemoryStore())
    commit = writer.submit("r", entry("a"), None, positions)
    commit.result()

    async def wait() -> int:
        return await commit

    assert asyncio.run(wait()) == 1
    writer.close()


def test_a_waiter_that_gives_up_does_not_cancel_the_write() -> None:
    store = HeldStore()
    writer = Writer(store)

    async def give_up() -> None:
        async def one() -> int:
            return await writer.submit("r", entry("a"), None, positions)

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(one(), 0.01)
        store.go.set()
        assert await writer.submit("r", entry("b"), None, positions) == 2

    asyncio.run(give_up())
    assert [one.key for one in store.read("r")] == ["a", "b"]
    writer.close()


def test_an_error_reaches_an_awaiting_coroutine() -> None:
    store = HeldStore()
    store.fails = True
    store.go.set()
    writer = Writer(store)

    async def wait() -> None:
        with pytest.raises(StoreUnavailable, match="full"):
            await writer.submit("r", entry("a"), None, positions)

    asyncio.run(wait())
    writer.close()


def test_the_writer_survives_an_event_loop_that_ended() -> None:
    store = HeldStore()
    writer = Writer(store)

    async def leave() -> None:
        async def one() -> int:
            return await writer.submit("r", entry("a"), None, positions)

        task = asyncio.ensure_future(one())
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(leave())
    store.go.set()
    assert writer.submit("r", entry("b"), None, positions).result() == 2
    writer.close()
