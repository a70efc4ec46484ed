"""What one process does with rankers happens in every process that shares the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from postgres_server import database, server  # noqa: F401
from rankloop.errors import Conflict, InvalidInput, NotFound
from rankloop.eventlog.address import open_store
from rankloop.eventlog.events import EventSkipped
from rankloop.eventlog.shared.watch import LEASE_LOCK, PostgresWatch
from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.scheduler import Scheduler
from rankloop.hosting.shared_registry import SharedRegistry, open_rankers
from rankloop.schema.service_settings import ServiceSettings, SnapshotSettings
from rankloop.serving.verification import decide_again
from served import until
from shared_rankers import state_of

GTS: dict[str, Any] = {"policy": "gts", "slots": 2}
UCB: dict[str, Any] = {"policy": "cascade-ucb1", "slots": 2}


def opened(database: str, **more: Any) -> SharedRegistry:  # noqa: F811
    rankers = open_rankers(ServiceSettings(log=database, shared=True, **more))
    assert isinstance(rankers, SharedRegistry)
    return rankers


@pytest.fixture
def both(database: str) -> Iterator[list[SharedRegistry]]:  # noqa: F811
    all = [opened(database), opened(database)]
    yield all
    for rankers in all:
        rankers.close()


def settle(all: list[SharedRegistry]) -> None:
    for one in all:
        one.writer.flush()
    end = all[0].store.last_position()
    for one in all:
        one.writer.reached(end, 10.0).result()


def has(rankers: RankerRegistry, name: str) -> bool:
    return name in rankers


def visits(all: list[SharedRegistry], name: str, n: int = 30) -> None:
    for i in range(n):
        ranking = all[i % len(all)].ranker(name).rank()
        all[i % len(all)].writer.flush()
        all[(i + 1) % len(all)].ranker(name).feedback(ranking.id, clicked=[i % 2])


def check_equal(all: list[SharedRegistry], name: str) -> None:
    settle(all)
    states = [state_of(one.ranker(name)._replica) for one in all]
    assert all_same(states)
    assert len({one.ranker(name).position for one in all}) == 1
    verified = decide_again(all[0].store, all[0].ranker(name).name)
    assert verified.equal == verified.decided, verified.differences


def all_same(states: list[Any]) -> bool:
    return all(state == states[0] for state in states)


def test_a_ranker_that_one_process_creates_changes_and_deletes_is_so_in_the_other(both: list[SharedRegistry]) -> None:
    one, two = both
    one.put("r", GTS)
    one.put_items("r", [{"id": id} for id in "abcd"])
    until(lambda: has(two, "r"), "the ranker is created", seconds=5.0)
    visits(both, "r")
    two.patch("r", {"traffic": 0.5})
    settle(both)
    assert one.ranker("r").config.traffic == 0.5
    visits(both, "r")
    check_equal(both, "r")
    two.delete("r")
    until(lambda: not has(one, "r"), "the ranker is deleted", seconds=5.0)
    with pytest.raises(NotFound):
        one.delete("r")


def test_a_ranker_is_found_as_soon_as_it_was_created(both: list[SharedRegistry]) -> None:
    one, two = both
    one.put("r", GTS)
    two.look_for("r")
    assert has(two, "r")
    with pytest.raises(Conflict, match="policy"):
        two.put("r", UCB)
    assert two.put("r", GTS) is False


def test_a_change_starts_from_what_the_other_process_has_done(both: list[SharedRegistry]) -> None:
    one, two = both
    for n in range(5):
        assert (one if n % 2 else two).put(f"r{n}", GTS)
        assert not (two if n % 2 else one).put(f"r{n}", GTS)
    errors: list[BaseException] = []

    def create(rankers: SharedRegistry) -> None:
        try:
            for n in range(8):
                rankers.put(f"both-{n}", GTS)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=create, args=(rankers,)) for rankers in both]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert errors == []
    assert {hosted.log for hosted in one.all()} == {hosted.log for hosted in two.all()}


def test_a_ranker_that_is_reset_in_one_process_has_learned_nothing_in_the_other(both: list[SharedRegistry]) -> None:
    one, two = both
    one.put("r", GTS)
    one.put_items("r", [{"id": id} for id in "abcd"])
    two.look_for("r")
    settle(both)
    visits(both, "r")
    log = one.find("r").log
    one.patch("r", {"reset": True, "policy": "cascade-ucb1"})
    until(lambda: two.find("r").log != log, "the ranker is reset", seconds=5.0)
    assert two.ranker("r").config.policy == "cascade-ucb1"
    visits(both, "r")
    check_equal(both, "r")
    assert two.ranker("r").version == 2


def test_a_challenger_is_rebuilt_and_promoted_in_every_process(both: list[SharedRegistry]) -> None:
    one, two = both
    one.put("r", GTS)
    one.put_items("r", [{"id": id} for id in "abcd"])
    two.look_for("r")
    settle(both)
    visits(both, "r")
    one.put_challenger("r", UCB)
    until(lambda: one.challenger_status("r").state == "ready", "the challenger is rebuilt")
    until(lambda: two.ranker("r").challenger is not None, "the other process has it", seconds=5.0)
    visits(both, "r")
    two.promote("r")
    settle(both)
    assert [rankers.ranker("r").config.policy for rankers in both] == ["cascade-ucb1"] * 2
    visits(both, "r")
    check_equal(both, "r")
    challengers = [rankers.ranker("r")._challenger for rankers in both]
    assert challengers[0] is not None
    assert challengers[1] is not None
    assert state_of(challengers[0]) == state_of(challengers[1])
    one.discard_challenger("r")
    until(lambda: two.ranker("r").challenger is None, "it is discarded", seconds=5.0)


def test_a_process_without_the_promoted_challenger_reads_it_from_the_log(
    both: list[SharedRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = both
    one.put("r", GTS)
    one.put_items("r", [{"id": id} for id in "abcd"])
    two.look_for("r")
    settle(both)
    visits(both, "r")
    monkeypatch.setattr(two, "_follow_challenger", lambda *given: None)  # it had no time for it
    one.put_challenger("r", UCB)
    until(lambda: one.challenger_status("r").state == "ready", "the challenger is rebuilt")
    before = two.find("r")
    one.promote("r")
    until(lambda: two.find("r") is not before, "the ranker is read again", seconds=5.0)
    assert two.ranker("r").config.policy == "cascade-ucb1"
    visits(both, "r")
    check_equal(both, "r")


def test_an_event_that_was_excluded_elsewhere_makes_a_process_read_the_log_again(both: list[SharedRegistry]) -> None:
    one, two = both
    one.put("r", GTS)
    one.put_items("r", [{"id": id} for id in "abcd"])
    two.look_for("r")
    visits([one], "r", 10)
    settle(both)
    position = one.ranker("r").position
    before = [rankers.find("r") for rankers in both]
    with closing(open_store(str(one.store.dsn))) as store:  # type: ignore[attr-defined]
        store.append([("r", EventSkipped(time.time(), position, "a test").entry())])
    until(lambda: all(r.find("r") is not b for r, b in zip(both, before, strict=True)), "both read it", seconds=5.0)
    visits(both, "r", 10)
    check_equal(both, "r")


def test_configured_rankers_are_created_once_by_processes_that_start_together(database: str) -> None:  # noqa: F811
    made: list[SharedRegistry] = []
    running = [
        threading.Thread(target=lambda: made.append(opened(database, rankers={"a": GTS, "b": UCB}))) for _ in range(3)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert len(made) == 3
    assert all_same([sorted(hosted.log for hosted in rankers.all()) for rankers in made])
    assert made[0].find("a").log == "a"
    for rankers in made:
        rankers.close()


def test_one_process_has_the_lease_and_another_one_takes_it_over(both: list[SharedRegistry]) -> None:
    one, two = both
    assert one.writer.leads
    assert not two.writer.leads
    watch: PostgresWatch = one._watch
    with two.store._writer.locked() as connection:  # type: ignore[attr-defined]
        (pid,) = connection.execute(
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = (%s)::bigint & 4294967295",
            (LEASE_LOCK,),
        ).fetchone() or (None,)
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
    until(lambda: one.writer.leads + two.writer.leads == 1 and watch.listens, "one of them leads", seconds=5.0)


def test_only_the_process_with_the_lease_stores_snapshots_and_closes_windows(both: list[SharedRegistry]) -> None:
    one, two = both
    one.put("r", GTS | {"window": 0.2})
    one.put_items("r", [{"id": id} for id in "abcd"])
    two.look_for("r")
    settle(both)
    closed: list[int] = []
    schedulers = [
        Scheduler(rankers, SnapshotSettings(entries=1), lambda name, n: closed.append(n), every=60.0)
        for rankers in both
    ]
    for scheduler in schedulers:
        scheduler.run_once()
    for rankers in both:
        rankers.ranker("r").rank()
    settle(both)
    schedulers[1].run_once()
    time.sleep(0.3)
    schedulers[1].run_once()
    assert closed == []
    assert two.store.load_snapshot("r") is None
    schedulers[0].run_once()
    schedulers[0].run_once()
    assert closed == [2]
    assert two.store.load_snapshot("r") is not None
    check_equal(both, "r")


def test_an_sqlite_file_is_for_one_process(tmp_path: Any) -> None:
    for more in ({"workers": 2}, {"shared": True}):
        with pytest.raises(InvalidInput, match="an SQLite file is for one process"):
            ServiceSettings.of({"log": str(tmp_path / "log.db"), **more})


def test_features_that_one_process_infers_are_those_of_the_other(both: list[SharedRegistry]) -> None:
    """The ranker that learned again under them is read from the log by the process that did not."""
    one, two = both
    one.put("r", {"policy": "hybrid", "slots": 2, "features": "auto"})
    two.look_for("r")
    for n, rankers in enumerate(both * 3):
        rankers.put_items(
            "r", [{"id": f"{n}-{i}", "fields": {"price": 1.0 + i, "kind": "ab"[i % 2]}} for i in range(5)]
        )
        settle(both)
        until(lambda: not any(hosted.quarantine for r in both for hosted in r.all()), "both serve", seconds=5.0)
        visits(both, "r", 6)
    until(lambda: two.ranker("r").version == one.ranker("r").version > 1, "both have the features", seconds=5.0)
    check_equal(both, "r")
