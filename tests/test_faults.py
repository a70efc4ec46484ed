"""A running service whose database, disk or process fails: what was acknowledged stays, once, and it goes on.

The long versions: make kills, make faults. What is promised: docs/explanation/reliability.md.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from callers import Callers, Kept, check_live, check_next_lists, copied, put_items, read, replayed
from postgres_server import Server, database, server  # noqa: F401
from rankloop.client import Client
from rankloop.eventlog.sqlite import MAX_WAL_BYTES
from served import Served, limit_files, serve, small_disk, until  # noqa: F401

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("RANKLOOP_HTTP_KILLS", "8"))
FAULTS = int(os.environ.get("RANKLOOP_FAULTS", "3"))
"""How often the database stops, the disk is full, and the log is torn."""
KILLS_OF_A_LOG = 10
"""Then a new one: the whole log is replayed after each."""
LONG_OUTAGES = 6
"""Every so many, the database stays away until the service says that it is not ready."""
WAL_HEADER, FRAME = 32, 24 + 4096
GROWN = 1_000_000
"""Bytes of a write-ahead log of which nothing was moved into the file yet."""
log = logging.getLogger("rankloop.tests")

Serve = Callable[..., Served]


def begin(served: Served) -> Callers:
    """Start a service with items and let callers ask."""
    served.start()
    with Client(served.url) as client:
        put_items(client)
    callers = Callers()
    callers.start(served.url)
    return callers


def finish(served: Served, callers: Callers) -> None:
    """The fault is over and nobody restarted anything: the log is right, and so is all that the service knows."""
    callers.stop()
    assert served.runs
    assert callers.unreached == []  # 503 or success, and always an answer
    assert callers.unknown == []
    with Client(served.url) as client:
        check_next_lists(client, served.log)
    served.stop()
    kept = read(served.log)
    callers.check(kept)
    assert callers.lost(kept) == []
    check_live(served.log)
    log.info(
        "%s lists, %s events acknowledged, %s requests refused",
        *(f"{len(one):,}" for one in (callers.lists, callers.acknowledged, callers.refusals)),
    )


# A database that goes away


def test_a_database_that_stops_under_load_is_waited_for(server: Server, database: str, serve: Serve) -> None:  # noqa: F811
    rng = np.random.default_rng(FAULTS)
    served = serve(log=database)
    callers = begin(served)
    for fault in range(FAULTS):
        callers.more(20)
        server.stop(crash=fault % 3 != 2)
        if fault % LONG_OUTAGES == 0:
            callers.refused(1)
            assert served.status("/readyz") == 503
        else:
            time.sleep(rng.uniform(0.0, 0.5))
        assert served.status("/healthz") == 200
        server.start()
        callers.more(20)
        until(lambda: served.status("/readyz") == 200, "the service is ready again")
    log.info("the database stopped %d times", FAULTS)
    finish(served, callers)


# A full disk


def sizes(n: int) -> list[int]:
    """Of a disk that is full n times; from the third on, after the write-ahead log was moved into the file.

    Each is larger by more than the snapshots of both rankers need: they may come before an event.
    """
    return [600_000, 1_000_000, *(MAX_WAL_BYTES + MAX_WAL_BYTES // 8 + 400_000 * i for i in range(n - 2))]


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    place, (size, *larger) = tmp_path / "disk", sizes(FAULTS)
    with small_disk(place, size) as room:
        served = serve(log=str(place / "log.db"))
        callers = begin(served)
        for size in larger:
            callers.refused(10)
            assert served.status("/healthz") == 200
            before = len(callers.acknowledged)  # little room is used up sooner than we could count
            room(size)
            callers.more(1, since=before)
        callers.refused(10)
        served.kill()
        callers.stop()
        if served.tries():  # what was written can be read; SQLite may also find room in its own files
            served.kill()
        else:
            assert "log.db cannot be opened as a log (" in served.says
        assert "Traceback" not in served.says
        room(size + 3_000_000)
        kept = read(copied(served.log, tmp_path / "copy"))
        callers.check(kept)
        lost = callers.lost(kept)
        callers.check_lost(lost)
        served.start()
        with Client(served.url) as client:
            callers.settle(client, kept, lost)
        callers.unreached.clear()
        log.info("the disk was full %d times", FAULTS)
        finish(served, callers)


def test_a_file_that_may_not_grow_refuses_and_goes_on_when_it_may(serve: Serve) -> None:  # noqa: F811
    """The same without mounting: the process may write no file beyond so many bytes."""
    served = serve()
    callers = begin(served)
    for fault in range(FAULTS):
        limit_files(served.pid, 200_000 * (fault + 1))
        callers.refused(10)
        assert served.status("/healthz") == 200
        before = len(callers.acknowledged)
        limit_files(served.pid, 200_000 * (fault + 1) + 100_000)
        callers.more(1, since=before)
    limit_files(served.pid, -1)
    callers.more(20)
    finish(served, callers)


# A torn log


def damage(wal: Path, rng: np.random.Generator, *, flip: bool) -> int:
    """Cut the file somewhere, or change a few bytes of its last page; the first byte that is not what it was."""
    size = wal.stat().st_size
    if not flip:
        end = int(rng.integers(0, size))
        os.truncate(wal, end)
        return end
    content = bytearray(wal.read_bytes())
    places = sorted(int(at) for at in rng.integers(size - FRAME, size, 3))
    for at in places:
        content[at] ^= int(rng.integers(1, 256))
    wal.write_bytes(content)
    return places[0]


def test_a_torn_log_is_what_it_was_a_moment_before(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    """Bytes of the write-ahead log are cut off, or changed in its last page, and the service starts.

    What it finds is a beginning of the log, without a gap, that has every event which was acknowledged before the
    first damaged byte was written. Its state is what a replay of this beginning gives, and it goes on from there.
    """
    served = serve()
    wal = Path(f"{served.log}-wal")
    callers = Callers()
    callers.note = lambda: wal.stat().st_size
    served.start()
    with Client(served.url) as client:
        put_items(client)
    callers.start(served.url)
    until(lambda: wal.stat().st_size > GROWN, "the log grows")
    served.kill()
    callers.stop()
    assert wal.stat().st_size < MAX_WAL_BYTES // 4  # all of the log is in this file, and no part of it in the other one
    whole = read(copied(served.log, tmp_path / "whole"))
    callers.check(whole)
    rng = np.random.default_rng(FAULTS)
    left = []
    for fault in range(2 * FAULTS):
        place = tmp_path / f"torn-{fault}"
        torn = serve(log=str(copied(served.log, place)))
        first = damage(place / "log.db-wal", rng, flip=fault % 2 == 1)
        found = read(copied(torn.log, place / "copy"))
        for ranker, kept in found.items():
            assert kept.entries == whole[ranker].entries[: len(kept.entries)]
            before = [one for one in callers.acknowledged.values() if callers.noted[one.event] <= first]
            assert [o for o in before if o.ranker == ranker and (o.event, o.decision) not in kept.events] == []
        left.append(sum(len(kept.entries) for kept in found.values()))
        if fault % 3:
            replayed(place / "copy" / "log.db")
            continue
        torn.start()
        with Client(torn.url) as client:
            put_items(client)
            check_next_lists(client, torn.log)
        torn.stop()
        check_live(torn.log)
    assert len(set(left)) > 2
    log.info(
        "the log was torn %d times; entries left: %s of %d",
        len(left),
        left,
        sum(len(k.entries) for k in whole.values()),
    )


# Kill -9


class Lives:
    """One service over one log, killed again and again, and its callers."""

    def __init__(self, served: Served, copies: Path) -> None:
        self.served, self.callers, self._copies = served, Callers(), copies
        self._kept, self._lost = dict[str, Kept](), list[str]()
        self.deaths = self.doubts = self.lost = 0
        self.took = 0.0  # to start

    def wake(self) -> None:
        """Start, and ask what was in doubt."""
        begun = time.monotonic()
        self.served.start()
        self.took = time.monotonic() - begun
        with Client(self.served.url) as client:
            if self.deaths == 0:
                put_items(client)
            else:
                self.callers.settle(client, self._kept, self._lost)
                check_next_lists(client, self.served.log)

    def live(self, seconds: float) -> None:
        """Let callers ask."""
        self.callers.start(self.served.url, self.deaths)
        self.callers.more(1)
        time.sleep(seconds)

    def die(self) -> None:
        """Kill it, and look at what it left."""
        self.served.kill()
        self.callers.stop()
        self.deaths += 1
        copy = copied(self.served.log, self._copies / f"death-{self.deaths}")
        self._kept = read(copy)
        self.callers.check(self._kept)
        self._lost = self.callers.lost(self._kept)
        self.callers.check_lost(self._lost)
        replayed(copy)
        self.doubts += len(self.callers.doubtful)
        self.lost += len(self._lost)

    def end(self) -> None:
        """Its last life ends by itself."""
        self.wake()
        self.served.stop()
        self.callers.check(read(self.served.log))
        assert self.callers.unknown == []  # a list can only get lost together with the service
        check_live(self.served.log)


def test_killed_at_random_moments_nothing_acknowledged_is_lost(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    """Lists may be answered before they are in the log: the last ones before a kill may be unknown after it.

    Then feedback for them is refused with 404. Nothing else is lost, and nothing is there twice.
    """
    rng = np.random.default_rng(KILLS)
    all_of_them = [Lives(serve(f"log-{n}"), tmp_path / f"log-{n}") for n in range(-(-KILLS // KILLS_OF_A_LOG))]
    for kill in range(KILLS):
        lives = all_of_them[kill // KILLS_OF_A_LOG]
        if kill % 4 == 3:  # while it starts: it opens and replays
            lives.served.launch()
            time.sleep(lives.took * rng.uniform(0.7, 1.0))
        else:
            lives.wake()
            # Some live long enough for snapshots.
            lives.live(rng.uniform(2.0, 3.0) if kill % 8 == 2 else rng.uniform(0.0, 0.4))
        lives.die()
    for lives in all_of_them:
        lives.end()
    log.info(
        "%d kills: %s lists, %s events acknowledged, %d in doubt, %d lists lost",
        KILLS,
        f"{sum(len(lives.callers.lists) for lives in all_of_them):,}",
        f"{sum(len(lives.callers.acknowledged) for lives in all_of_them):,}",
        sum(lives.doubts for lives in all_of_them),
        sum(lives.lost for lives in all_of_them),
    )
