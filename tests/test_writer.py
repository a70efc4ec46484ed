"""The writer: what comes together is kept together, in one order, and told when it is on the disk."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import pytest

from rankloop.eventlog import LogEntry, MemoryStore, Writer
from rankloop.eventlog.writer import ALONE, FEW, GATHER, positions
from rankloop.serving import Ranker, RankerConfig


class Slow(MemoryStore):
    """A store that waits to be let go."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.go = threading.Event()

    def append(self, batch: Any) -> list[int | None]:
        self.go.wait()
        self.sizes.append(len(batch))
        return super().append(batch)


def test_entries_that_come_together_are_committed_together() -> None:
    """While one commit runs, others wait; all that waited are one commit."""
    store = Slow()
    writer = Writer(store)
    done = [writer.submit("r", LogEntry("k", str(i), "", 0.0, b""), positions) for i in range(50)]
    store.go.set()
    assert [f.result() for f in done] == list(range(1, 51))
    assert len(store.sizes) <= 2
    assert sum(store.sizes) == 50
    writer.close()


class Noting(MemoryStore):
    """A store that notes when it was asked to keep how many."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[float, int]] = []

    def append(self, batch: Any) -> list[int | None]:
        self.asked.append((time.monotonic(), len(batch)))
        return super().append(batch)


def test_commits_keep_a_pace_where_a_loop_serves_many_and_nobody_alone_waits_for_it() -> None:
    store = Noting()
    writer = Writer(store)
    writer.apply_in(lambda act: act())
    many = []
    for i in range(40):
        many += [writer.submit("r", LogEntry("k", f"{i} {j}", "", 0.0, b""), positions) for j in range(10)]
        time.sleep(0.001)
    assert sorted(f.result() for f in many) == list(range(1, 401))
    paced = [b - a for (a, size), (b, _) in itertools.pairwise(store.asked) if size > ALONE]
    assert median(paced) > 0.8 * GATHER  # not each: a thread may be held up before it is noted
    store.asked.clear()
    for i in range(100):
        writer.submit("r", LogEntry("k", f"alone {i}", "", 0.0, b""), positions).result()
    assert min(b - a for (a, _), (b, _) in itertools.pairwise(store.asked[1:])) < GATHER / 2
    writer.close()


def test_whoever_has_nothing_to_write_sleeps_and_wakes_for_a_list_that_nobody_waits_for() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "cascade-ucb1", "slots": 2}))
    ranker.put_items([{"id": name} for name in "abc"])
    writer = ranker._writer
    until = time.monotonic() + 10
    while not writer._idle:
        assert time.monotonic() < until
        time.sleep(0.001)
    id = ranker.rank().id
    while ranker.store.find("ranker", "decision", id) is None:
        assert time.monotonic() < until, "nobody asked for it, and it is in the log all the same"
        time.sleep(0.001)
    ranker.close()


def test_entries_that_were_committed_together_are_applied_together_in_their_order() -> None:
    """Those of one ranker that follow each other; what was there before is told so, and parts nobody."""
    store, groups = Slow(), []

    def apply(kept: Sequence[tuple[int, Any]]) -> list[str]:
        groups.append([record for _, record in kept])
        return [f"{record} at {position}" for position, record in kept]

    def fails(kept: Sequence[tuple[int, Any]]) -> list[str]:
        raise ValueError("it cannot be applied")

    writer = Writer(store)
    first = writer.submit("r", LogEntry("k", "0", "", 0.0, b""), apply, "first")  # its commit holds up the others
    told = [writer.submit("r", LogEntry("k", key, "", 0.0, b""), apply, key, lambda: "again") for key in "1213"]
    bad = writer.submit("s", LogEntry("k", "1", "", 0.0, b""), fails)
    last = writer.submit("r", LogEntry("k", "4", "", 0.0, b""), apply, "4")
    store.go.set()
    assert [one.result() for one in (first, *told, last)] == [
        "first at 1",
        "1 at 2",
        "2 at 3",
        "again",
        "3 at 4",
        "4 at 6",
    ]
    with pytest.raises(ValueError, match="cannot be applied"):
        bad.result()
    assert groups[-2:] == [["1", "2", "3"], ["4"]] or groups == [["first", "1", "2", "3"], ["4"]]
    writer.close()


class Other:
    """Another thread that does what it is asked to when it gets to it, or has ended."""

    def __init__(self) -> None:
        self.asked: list[Callable[[], None]] = []
        self.ended = False

    def __call__(self, work: Callable[[], None]) -> None:
        if self.ended:
            raise RuntimeError("nobody is there")
        self.asked.append(work)


def until_asked(other: Other, times: int) -> None:
    """Wait for the writer to have kept and handed over."""
    end = time.monotonic() + 10
    while len(other.asked) < times:
        assert time.monotonic() < end, "nobody was asked to apply"
        time.sleep(0.001)


def applying() -> tuple[Writer, Other, list[str], Callable[..., Any]]:
    """A writer whose entries another thread applies: the writer, that thread, what was applied, and how to submit."""
    writer, other = Writer(MemoryStore()), Other()
    applied: list[str] = []

    def apply(kept: Sequence[tuple[int, Any]]) -> list[str]:
        applied.extend(record for _, record in kept)
        return [record for _, record in kept]

    writer.apply_in(other)

    def submit(record: str, **options: Any) -> Any:
        entry = LogEntry("k", record, "", 0.0, b"")
        return writer.submit("r", entry, apply, record, lambda: "again", **{"light": True, **options})

    return writer, other, applied, submit


def test_another_thread_applies_what_was_kept_and_nobody_is_told_before() -> None:
    writer, other, applied, submit = applying()
    first = submit("a")
    until_asked(other, 1)
    assert not first.done()
    assert applied == []
    assert writer.store.find("r", "k", "a") is not None
    assert submit("a").result() == "again"  # nothing to apply, so nobody else is needed
    other.asked[0]()
    assert first.result() == "a"
    writer.close()


def test_whoever_writes_himself_applies_what_others_left_before_his_own() -> None:
    writer, other, applied, submit = applying()
    first = submit("a")
    until_asked(other, 1)
    with writer._turn:
        pass  # nobody writes any more
    assert submit("b", waits=True).result() == "b"
    assert first.result() == "a"
    assert applied == ["a", "b"]
    for late in other.asked:
        late()
    assert applied == ["a", "b"]
    writer.close()


@pytest.mark.parametrize("how", ["taken back", "ended", "closed", "too many", "heavy"])
def test_nobody_waits_for_a_thread_that_does_not_come(how: str) -> None:
    writer, other, applied, submit = applying()
    told = [submit("a")]
    until_asked(other, 1)
    if how == "taken back":
        writer.apply_in(None)
    elif how == "ended":
        other.ended = True
        told.append(submit("b"))
    elif how == "heavy":
        told.append(submit("b", light=False))
    elif how == "too many":
        with writer._turn:
            told += [submit(f"b{i}") for i in range(FEW + 1)]
    else:
        writer.close()
    assert [one.result(10) for one in told] == applied
    assert applied[0] == "a"
    writer.close()
