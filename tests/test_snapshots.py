"""Snapshots: any damage costs a replay and nothing else, and a new version uses the snapshots of the one before.

`python -m tests.test_snapshots` writes the kept states anew, for a change that is meant to alter them.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.analytics.counters import Counters
from rankloop.cli.main import main
from rankloop.eventlog import LogEntry, MemoryStore, SqliteStore, StoreUnavailable
from rankloop.eventlog.store import Snapshot
from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.scheduler import Scheduler
from rankloop.math import numerics
from rankloop.schema.service_settings import ServiceSettings, SnapshotSettings
from rankloop.serving import Ranker, snapshot_frame, snapshots
from rankloop.serving.replay_progress import EVERY_SECONDS, PAGE_ENTRIES, ReplayProgress
from rankloop.serving.replica import Replica
from rankloop.serving.snapshot_frame import HEAD, STATE_FORMAT, UnusableSnapshot, framed, payload_of
from rankloop.serving.snapshots import StateCopy
from rankloop.serving.verification import compare_snapshot, decide_again
from test_ranker import IDS, Clock, config, contents, items, live
from test_replay import lived, state

FIXTURE = Path(__file__).parent / "fixtures" / "states.json"
POLICY = "cascade-lin-ts"
TOLERANCE = 1e-7


def served(store: Any, rounds: int = 15) -> Ranker:
    """A ranker that served visitors, stored a snapshot and served some more."""
    clock = Clock()
    ranker = Ranker(config(POLICY), store=store, clock=clock)
    ranker.put_items(items(6))
    live(ranker, clock, rounds)
    ranker.snapshot()
    live(ranker, clock, 5, seed=2)
    ranker.flush()
    return ranker


@pytest.fixture(scope="module")
def log() -> MemoryStore:
    """A log with a snapshot; tests leave both as they are."""
    store = MemoryStore()
    served(store)
    return store


@pytest.fixture(scope="module")
def good(log: MemoryStore) -> Snapshot:
    """The intact snapshot of the log."""
    snapshot = log.load_snapshot("ranker")
    assert snapshot is not None
    return snapshot


@pytest.fixture(scope="module")
def replayed(log: MemoryStore) -> dict[str, bytes]:
    """The state after a replay of the whole log."""
    replica = Replica(config(POLICY))
    replica.follow(log.read("ranker"))
    return state(replica)


def with_snapshot(log: MemoryStore, snapshot: Snapshot) -> MemoryStore:
    """The same log with another snapshot."""
    store = MemoryStore()
    store._entries, store._keys = log._entries, log._keys
    store.save_snapshot("ranker", snapshot)
    return store


def changed_header(snapshot: Snapshot, change: Callable[[dict[str, Any]], object]) -> Snapshot:
    """A snapshot with another header and a correct checksum."""
    header, arrays = snapshots.unpacked(snapshot)
    change(header)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, header=np.array(json.dumps(header)), **arrays)
    return framed(snapshot.position, stream.getvalue())


def refused(snapshot: Snapshot) -> bool:
    """Whether the frame refuses a snapshot as damaged, without any other error."""
    try:
        payload_of(snapshot)
    except UnusableSnapshot as error:
        return error.damaged
    return False


# Damage


def test_a_frame_gives_its_payload_back() -> None:
    for payload in (b"", b"payload", bytes(range(256))):
        assert payload_of(framed(17, payload)) == payload


def test_every_truncation_and_every_other_byte_is_found() -> None:
    good = framed(17, bytes(range(64)))
    for length in range(len(good.body)):
        assert refused(Snapshot(17, good.body[:length])), length
    for at in range(len(good.body)):
        for mask in range(1, 256):
            body = bytearray(good.body)
            body[at] ^= mask
            assert refused(Snapshot(17, bytes(body))), (at, mask)
    for position in (0, 16, 18, -17, 17 + 2**32):
        assert refused(Snapshot(position, good.body)), position


def test_every_truncation_and_flipped_byte_of_a_real_snapshot_is_found(good: Snapshot) -> None:
    for length in range(0, len(good.body), 7):
        assert refused(Snapshot(good.position, good.body[:length])), length
    body = bytearray(good.body)
    for at in range(0, len(body), 5):
        body[at] ^= 1
        assert refused(Snapshot(good.position, bytes(body))), at
        body[at] ^= 1


@given(st.data())
def test_zeroed_and_overwritten_ranges_are_found(good: Snapshot, data: st.DataObject) -> None:
    size = len(good.body)
    start = data.draw(st.one_of(st.integers(0, 2 * HEAD.size), st.integers(0, size - 1)))
    length = data.draw(st.integers(1, size - start))
    content = data.draw(st.one_of(st.just(bytes(length)), st.binary(max_size=64)))
    body = good.body[:start] + content + good.body[start + length :]
    assert body == good.body or refused(Snapshot(good.position, body))


DAMAGES: dict[str, Callable[[bytes], Any]] = {
    "empty": lambda body: b"",
    "empty text": lambda body: "",
    "one byte": lambda body: body[:1],
    "head only": lambda body: body[: HEAD.size],
    "half": lambda body: body[: len(body) // 2],
    "zeroed head": lambda body: bytes(HEAD.size) + body[HEAD.size :],
    "zeroed header of the archive": lambda body: body[: HEAD.size] + bytes(100) + body[HEAD.size + 100 :],
    "all zero": lambda body: bytes(len(body)),
    "longer": lambda body: body + b"\0",
    "flipped": lambda body: body[:-50] + bytes([body[-50] ^ 4]) + body[-49:],
    "of an earlier version": lambda body: body[HEAD.size :],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_start_falls_back_to_the_log_says_why_once_and_the_next_snapshot_is_used(
    log: MemoryStore,
    good: Snapshot,
    replayed: dict[str, bytes],
    damage: Callable[[bytes], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = with_snapshot(log, Snapshot(good.position, damage(good.body)))
    replica = snapshots.start(config(POLICY), store, "ranker")
    assert state(replica) == replayed
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "its snapshot is not used: " in record.message
    assert f"replayed: {store.count('ranker')} entries" in record.message
    caplog.clear()
    store.save_snapshot("ranker", snapshots.packed(snapshots.take(replica)))
    again = snapshots.start(config(POLICY), store, "ranker")
    assert state(again) == replayed
    assert caplog.records == []


def test_a_replica_restored_halfway_is_never_used(
    log: MemoryStore, good: Snapshot, replayed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counters come after the items and the learners, which are restored by then."""
    calls = []

    def fail(self: Counters, arrays: object) -> None:
        calls.append(self)
        raise KeyError("total")

    monkeypatch.setattr(Counters, "restore", fail)
    with pytest.raises(UnusableSnapshot, match="cannot be restored"):
        snapshots.restored(config(POLICY), (), good)
    replica = snapshots.start(config(POLICY), with_snapshot(log, good), "ranker")
    assert len(calls) == 2
    assert replica.counters not in calls
    assert state(replica) == replayed


def test_log_verify_reports_a_damaged_snapshot_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SqliteStore(tmp_path / "log.db")
    served(store)
    for name in ("ranker", "ranker~challenger"):
        store.save_snapshot(name, Snapshot(5, b""))
    store.close()
    assert main(["log", "verify", str(tmp_path / "log.db")]) == 0
    out = capsys.readouterr().out
    assert "the snapshot at 5 is not used: it is damaged: 0 bytes are too few.\n" in out
    assert "the snapshot of the challenger at 5 is not used: it is damaged: 0 bytes are too few.\n" in out
    assert "lists decided again, bit for bit" in out


# Versions


def position_of(log: MemoryStore, snapshot: Snapshot) -> int:
    """The position from which a start follows the log."""
    positions: list[int] = []

    class Watched(MemoryStore):
        def read(self, ranker: str, after: int = 0) -> Iterator[LogEntry]:
            positions.append(after)
            return super().read(ranker, after)

    store = Watched()
    store._entries, store._keys = log._entries, log._keys
    store.save_snapshot("ranker", snapshot)
    positions.clear()
    snapshots.start(config(POLICY), store, "ranker")
    return positions[-1]


def test_a_new_version_of_the_package_uses_the_snapshot(
    log: MemoryStore, good: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankloop.version.__version__", "99.0")
    monkeypatch.setattr(snapshots, "__version__", "99.0", raising=False)
    assert position_of(log, good) == good.position


def test_a_new_setting_with_a_default_leaves_the_snapshot_usable(log: MemoryStore, good: Snapshot) -> None:
    header: Any = snapshots.unpacked(good)[0]
    assert "objective" in header["learning"]
    older = changed_header(good, lambda header: header["learning"].pop("objective"))  # before this setting existed
    assert position_of(log, older) == good.position
    other = changed_header(good, lambda header: header["learning"].update(objective="clicks"))
    assert position_of(log, other) == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda header: header["learning"].update(slots=2), "other settings"),
        (lambda header: header["learning"].update(slots="none"), "other settings"),
        (lambda header: header["parameters"].update(ridge="0.123"), "other parameters"),
        (lambda header: header.update(code="0123"), "the code of its policy has changed"),
        (lambda header: header.update(skipped=[3]), "events before it were excluded"),
        (lambda header: header["layout"]["learners"].popitem(), "the arrays of its state differ"),
        (lambda header: header["layout"]["counters"].append("new"), "the arrays of its state differ"),
        (lambda header: header.pop("layout"), "cannot be restored"),
        (lambda header: header.pop("own_versions"), "cannot be restored"),
    ],
)
def test_a_snapshot_for_something_else_says_why_it_is_not_used(
    log: MemoryStore, good: Snapshot, change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    other = changed_header(good, change)
    with pytest.raises(UnusableSnapshot, match=reason):
        snapshots.restored(config(POLICY), (), other)
    assert position_of(log, other) == 0


def test_another_state_format_costs_a_replay(
    log: MemoryStore, good: Snapshot, replayed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_frame, "STATE_FORMAT", STATE_FORMAT + 1)
    with pytest.raises(UnusableSnapshot, match=f"state format {STATE_FORMAT}, and this version uses"):
        snapshots.restored(config(POLICY), (), good)
    assert position_of(log, good) == 0


def test_a_snapshot_of_other_numerics_is_used_and_marks_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists from then on do not claim to be reproducible bit for bit; verification compares them by the tolerance."""
    store = MemoryStore()
    ranker = served(store)
    decided, taken = ranker.rank().id, contents(ranker)
    before = numerics.version()
    monkeypatch.setattr(
        numerics, "version", lambda *, mixed=False: "2 other libraries" + (" and others" if mixed else "")
    )
    later = Ranker(config(POLICY), store=store, clock=Clock())
    assert contents(later) == taken
    assert later.find_decision(decided).numerics == before
    assert later.find_decision(later.rank().id).numerics == "2 other libraries and others"
    later.snapshot()
    again = Ranker(config(POLICY), store=store, clock=Clock())
    assert again.find_decision(again.rank().id).numerics == "2 other libraries and others"
    finding = compare_snapshot(store, "ranker", config(POLICY))
    assert finding.usable
    assert finding.mixed_numerics
    assert finding.differences == []
    assert decide_again(store, "ranker").different == 0
    fresh = with_snapshot(store, Snapshot(1, b""))
    replica = snapshots.start(config(POLICY), fresh, "ranker")
    assert not replica.mixed_numerics


def test_a_state_of_other_numerics_may_differ_by_rounding_only(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    ranker = served(store)
    for factor, differs in ((1.0 + 1e-13, False), (1.0 + 1e-6, True)):
        rounded = Ranker(config(POLICY), store=store, clock=Clock())
        arrays: dict[str, Any] = dict(rounded._replica.learners.state.arrays())
        for array in arrays.values():
            if array.dtype == np.float64:
                array *= factor
        rounded.snapshot()
        assert compare_snapshot(store, "ranker", config(POLICY)).differences != []
        with monkeypatch.context() as patch:
            patch.setattr(numerics, "version", lambda *, mixed=False: "other")
            assert bool(compare_snapshot(store, "ranker", config(POLICY)).differences) == differs
    assert ranker.position


# States


def described(id: str) -> dict[str, Any]:
    """Type, axes and sum of every array of a policy's state after a small log."""
    ranker, _ = lived(MemoryStore(), id)
    arrays = snapshots.take(ranker._replica).arrays
    parts = ("",) if id == IDS[0] else ("learners.",)  # the other arrays do not depend on the policy
    return {name: _described(array) for name, array in sorted(arrays.items()) if name.startswith(parts)}


def _described(array: Any) -> list[Any]:
    if array.dtype.kind == "U":
        return ["U", array.ndim, len("".join(array.ravel().tolist()))]
    numbers = np.nan_to_num(array.astype(np.float64), posinf=0.0, neginf=0.0)
    return [array.dtype.str, array.ndim, float(numbers.sum())]


@pytest.mark.parametrize("id", IDS)
def test_a_state_keeps_its_meaning_unless_the_state_format_is_raised(id: str) -> None:
    """Where the arrays are those of before, so are the numbers in them, or old snapshots would be misunderstood.

    If this fails and the change is meant: raise STATE_FORMAT where the numbers of a state have another meaning (not for
    other arrays or another rounding), and write the fixture anew with `python -m tests.test_snapshots`.
    """
    kept = json.loads(FIXTURE.read_text(encoding="utf-8"))
    assert kept["state format"] == STATE_FORMAT, "write the fixture anew"
    now, before = described(id), kept["states"][id]
    assert {name: one[:2] for name, one in now.items()} == {name: one[:2] for name, one in before.items()}
    if kept["numerics"] == numerics.version():  # otherwise a last bit may have decided another list
        for name, (_, _, total) in now.items():
            assert total == pytest.approx(before[name][2], rel=TOLERANCE, abs=TOLERANCE), name


# Progress of a replay


def test_a_snapshot_that_was_refused_is_tried_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every attempt copies the state while requests wait."""
    clock, store, copies = Clock(), MemoryStore(), list[int]()
    rankers = RankerRegistry(ServiceSettings(rankers={"a": {"policy": "cascade-ucb1", "slots": 2}}), store)
    scheduler = Scheduler(rankers, SnapshotSettings(entries=1, minutes=0.5), lambda *closed: None, clock=clock)
    scheduler.run_once()
    rankers.put_items("a", [{"id": id} for id in "abc"])
    take = snapshots.take

    def counted(replica: Replica) -> StateCopy:
        copies.append(replica.position)
        return take(replica)

    monkeypatch.setattr(snapshots, "take", counted)
    with monkeypatch.context() as full:
        full.setattr(store, "save_snapshot", _no_room)
        for _ in range(60):  # one a second
            scheduler.run_once()
            clock.now += 1.0
        assert len(copies) == 1
        scheduler.run_once()
        assert len(copies) == 2
    clock.now += 60.0
    scheduler.run_once()
    assert len(copies) == 3
    assert store.load_snapshot("a") is not None
    rankers.put_items("a", [{"id": "d"}])
    scheduler.run_once()  # the pause ended with the success
    assert len(copies) == 4
    rankers.close()


def _no_room(*given: object) -> None:
    raise StoreUnavailable("no room.")


def test_a_state_is_not_copied_while_the_log_refuses_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = Ranker(config("cascade-ucb1"))
    with monkeypatch.context() as fenced:
        fenced.setattr(ranker._writer, "flush", _no_room)
        fenced.setattr(snapshots, "take", lambda replica: pytest.fail("copied"))
        with pytest.raises(StoreUnavailable):
            ranker.snapshot()
    ranker.snapshot()
    ranker.close()


def test_a_long_replay_says_how_long_it_will_take(caplog: pytest.LogCaptureFixture) -> None:
    """One page takes 60 s, since functions are compiled, and every other one 4 s: 2,000 entries in 4 s."""
    now, counted = 0.0, []
    pages = 10
    total = pages * PAGE_ENTRIES

    def count() -> int:
        counted.append(now)
        return total

    progress = ReplayProgress("r", count, lambda: now)
    entry = LogEntry("kind", "", "", 0.0, b"")
    seen = 0
    for one in progress.watched(entry for _ in range(total)):
        assert one is entry
        seen += 1
        if seen % PAGE_ENTRIES == 0:
            now += 60.0 if seen == PAGE_ENTRIES else 4.0
    assert seen == total
    assert len(counted) == 1
    lines = [record.message for record in caplog.records]
    assert lines[0] == "ranker r: 4,000 of 20,000 log entries replayed, about 32 seconds left"
    between = -(-EVERY_SECONDS // 4)
    expected = [int(2 + between * i) for i in range(10) if 2 + between * i < pages]
    assert [line.split(" of ")[0] for line in lines] == [f"ranker r: {page * PAGE_ENTRIES:,}" for page in expected]
    assert all(f"about {4 * (pages - page)} seconds left" in line for page, line in zip(expected, lines, strict=True))


def test_a_short_replay_says_and_counts_nothing(caplog: pytest.LogCaptureFixture) -> None:
    entry = LogEntry("kind", "", "", 0.0, b"")
    progress = ReplayProgress("r", lambda: pytest.fail("counted"), lambda: 0.0)
    assert len(list(progress.watched([entry] * (3 * PAGE_ENTRIES)))) == 3 * PAGE_ENTRIES
    assert caplog.records == []


def test_a_replay_of_hours_is_told_in_minutes(caplog: pytest.LogCaptureFixture) -> None:
    now = iter(float(second) for second in range(0, 100_000, 100))
    entries = [LogEntry("kind", "", "", 0.0, b"")] * (3 * PAGE_ENTRIES)
    list(ReplayProgress("r", lambda: 200 * PAGE_ENTRIES, lambda: next(now)).watched(entries))
    assert caplog.records[0].message.endswith("about 330 minutes left")


if __name__ == "__main__":
    states = ",\n".join(f"{json.dumps(id)}: {json.dumps(described(id))}" for id in IDS)
    head = f'"state format": {STATE_FORMAT},\n"numerics": {json.dumps(numerics.version())}'
    FIXTURE.write_text(f'{{{head},\n"states": {{\n{states}\n}}}}\n', encoding="utf-8")
