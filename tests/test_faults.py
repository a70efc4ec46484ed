"""When database, disk or process fail, acknowledged events are kept exactly once and the service recovers.

Long versions: make kills, make faults. The guarantees: docs/explanation/reliability.md.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from callers import Callers, LogContents, check_live, check_next_lists, check_replay, copy_log, put_items, read
from postgres_server import Server, database, server  # noqa: F401
from rankloop.client import Client
from rankloop.eventlog.wal_space import MAX_WAL_BYTES
from served import Served, limit_files, serve, small_disk, until  # noqa: F401

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("RANKLOOP_HTTP_KILLS", "8"))
FAULTS = int(os.environ.get("RANKLOOP_FAULTS", "3"))
"""Number of times that the database stops, the disk is full, and the log is damaged."""
KILLS_PER_LOG = 10
"""Then a new log begins, since the whole log is replayed after each kill."""
LONG_OUTAGE_PERIOD = 6
"""Every sixth outage lasts until the service reports that it is not ready."""
FRAME_BYTES = 24 + 4096
UNCHECKPOINTED_BYTES = 1_000_000
"""Size of a write-ahead log that was not checkpointed yet."""
log = logging.getLogger("rankloop.tests")

Serve = Callable[..., Served]


def begin(served: Served) -> Callers:
    """Start a service with items, and callers."""
    served.start()
    with Client(served.url) as client:
        put_items(client)
    callers = Callers()
    callers.start(served.url)
    return callers


def finish(served: Served, callers: Callers) -> None:
    """Check the log and the state of a service that recovered without a restart."""
    callers.stop()
    assert served.running
    assert callers.unanswered == []  # every request got an answer, 503 or success
    assert callers.unknown == []
    with Client(served.url) as client:
        check_next_lists(client, served.log)
    served.stop()
    logs = read(served.log)
    callers.check(logs)
    assert callers.lost(logs) == []
    check_live(served.log)
    log.info(
        "%s lists, %s events acknowledged, %s requests refused",
        *(f"{len(one):,}" for one in (callers.lists, callers.acknowledged, callers.refusals)),
    )


# A database that stops


def test_service_recovers_after_the_database_stops_under_load(server: Server, database: str, serve: Serve) -> None:  # noqa: F811
    rng = np.random.default_rng(FAULTS)
    served = serve(log=database)
    callers = begin(served)
    for fault in range(FAULTS):
        callers.wait_for_acknowledged(20)
        server.stop(crash=fault % 3 != 2)
        if fault % LONG_OUTAGE_PERIOD == 0:
            callers.wait_for_refused(1)
            assert served.status("/readyz") == 503
        else:
            time.sleep(rng.uniform(0.0, 0.5))
        assert served.status("/healthz") == 200
        server.start()
        callers.wait_for_acknowledged(20)
        until(lambda: served.status("/readyz") == 200, "the service is ready again")
    log.info("the database stopped %d times", FAULTS)
    finish(served, callers)


# A full disk


def sizes(n: int) -> list[int]:
    """Return the sizes of a disk that fills up n times.

    Each exceeds the previous one by more than the snapshots of both rankers, which may be written before an event.
    """
    return [800_000 + 400_000 * i for i in range(n)]


def test_service_refuses_on_a_full_disk_and_recovers_with_space(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    disk, (size, *larger) = tmp_path / "disk", sizes(FAULTS)
    with small_disk(disk, size) as resize:
        served = serve(log=str(disk / "log.db"))
        callers = begin(served)
        for size in larger:
            callers.wait_for_refused(10)
            assert served.status("/healthz") == 200
            until(lambda: served.status("/readyz") == 503, "the service says that its disk is full")
            before = len(callers.acknowledged)  # counted first, since little space is used up at once
            resize(size)
            callers.wait_for_acknowledged(1, since=before)
        callers.wait_for_refused(10)
        served.kill()
        callers.stop()
        if served.try_start():  # SQLite may find space within its own files
            served.kill()
        else:
            assert "log.db cannot be opened as a log (" in served.output
        assert "Traceback" not in served.output
        resize(size + 3_000_000)
        logs = read(copy_log(served.log, tmp_path / "copy"))
        callers.check(logs)
        lost = callers.lost(logs)
        callers.check_lost(lost)
        served.start()
        assert served.status("/readyz") == 200
        with Client(served.url) as client:
            callers.settle(client, logs, lost)
        callers.unanswered.clear()
        log.info("the disk was full %d times", FAULTS)
        finish(served, callers)


def test_service_refuses_at_a_file_size_limit_and_recovers_without_it(serve: Serve) -> None:  # noqa: F811
    """As above without mounting a disk: the process has a limit on the size of its files."""
    served = serve()
    callers = begin(served)
    for fault in range(FAULTS):
        limit_files(served.pid, 200_000 * (fault + 1))
        callers.wait_for_refused(10)
        assert served.status("/healthz") == 200
        before = len(callers.acknowledged)
        limit_files(served.pid, 200_000 * (fault + 1) + 100_000)
        callers.wait_for_acknowledged(1, since=before)
    limit_files(served.pid, -1)
    callers.wait_for_acknowledged(20)
    finish(served, callers)


# A damaged log


def damage(wal: Path, rng: np.random.Generator, *, flip: bool) -> int:
    """Truncate the file, or change a few bytes of its last page; return the position of the first damaged byte."""
    size = wal.stat().st_size
    if not flip:
        end = int(rng.integers(0, size))
        os.truncate(wal, end)
        return end
    content = bytearray(wal.read_bytes())
    positions = sorted(int(at) for at in rng.integers(size - FRAME_BYTES, size, 3))
    for at in positions:
        content[at] ^= int(rng.integers(1, 256))
    wal.write_bytes(content)
    return positions[0]


def test_a_damaged_log_opens_as_a_prefix(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    """The write-ahead log is truncated, or damaged in its last page, and the service starts.

    It reads a prefix of the log without gaps that has every event acknowledged before the first damaged byte was
    written. Its state equals a replay of this prefix, and it continues from there.
    """
    served = serve()
    wal = Path(f"{served.log}-wal")
    callers = Callers()
    callers.observe = lambda: wal.stat().st_size
    served.start()
    with Client(served.url) as client:
        put_items(client)
    callers.start(served.url)
    until(lambda: wal.stat().st_size > UNCHECKPOINTED_BYTES, "the log grows")
    served.kill()
    callers.stop()
    assert wal.stat().st_size < MAX_WAL_BYTES // 4  # never checkpointed: the whole log is in this file
    whole = read(copy_log(served.log, tmp_path / "whole"))
    callers.check(whole)
    rng = np.random.default_rng(FAULTS)
    left = []
    for fault in range(2 * FAULTS):
        folder = tmp_path / f"damaged-{fault}"
        damaged = serve(log=str(copy_log(served.log, folder)))
        first = damage(folder / "log.db-wal", rng, flip=fault % 2 == 1)
        logs = read(copy_log(damaged.log, folder / "copy"))
        for ranker, prefix in logs.items():
            assert prefix.entries == whole[ranker].entries[: len(prefix.entries)]
            before = [one for one in callers.acknowledged.values() if callers.observed[one.event] <= first]
            assert [o for o in before if o.ranker == ranker and (o.event, o.decision) not in prefix.feedback] == []
        left.append(sum(len(prefix.entries) for prefix in logs.values()))
        if fault % 3:
            check_replay(folder / "copy" / "log.db")
            continue
        damaged.start()
        with Client(damaged.url) as client:
            put_items(client)
            check_next_lists(client, damaged.log)
        damaged.stop()
        check_live(damaged.log)
    assert len(set(left)) > 2
    log.info(
        "the log was damaged %d times; entries left: %s of %d",
        len(left),
        left,
        sum(len(log.entries) for log in whole.values()),
    )


# Kill -9


class KilledService:
    """One service over one log that is killed repeatedly, and its callers."""

    def __init__(self, served: Served, copies: Path) -> None:
        self.served, self.callers, self._copies = served, Callers(), copies
        self._logs, self._lost = dict[str, LogContents](), list[str]()
        self.kills = self.in_doubt = self.lost = 0
        self.start_seconds = 0.0  # duration of the last start

    def start(self) -> None:
        """Start the service, and settle the events in doubt."""
        started = time.monotonic()
        self.served.start()
        self.start_seconds = time.monotonic() - started
        with Client(self.served.url) as client:
            if self.kills == 0:
                put_items(client)
            else:
                self.callers.settle(client, self._logs, self._lost)
                check_next_lists(client, self.served.log)

    def run(self, seconds: float) -> None:
        """Run the callers for a while."""
        self.callers.start(self.served.url, self.kills)
        self.callers.wait_for_acknowledged(1)
        time.sleep(seconds)

    def kill(self) -> None:
        """Kill the service, and check its log."""
        self.served.kill()
        self.callers.stop()
        self.kills += 1
        copy = copy_log(self.served.log, self._copies / f"kill-{self.kills}")
        self._logs = read(copy)
        self.callers.check(self._logs)
        self._lost = self.callers.lost(self._logs)
        self.callers.check_lost(self._lost)
        check_replay(copy)
        self.in_doubt += len(self.callers.in_doubt)
        self.lost += len(self._lost)

    def stop(self) -> None:
        """Start once more, stop gracefully, and check the log."""
        self.start()
        self.served.stop()
        self.callers.check(read(self.served.log))
        assert self.callers.unknown == []  # a list can only be lost in a kill
        check_live(self.served.log)


def test_killed_at_random_moments_nothing_acknowledged_is_lost(serve: Serve, tmp_path: Path) -> None:  # noqa: F811
    """Lists may be answered before they are committed: the last ones before a kill may be unknown after it.

    Feedback for them is refused with 404. Nothing else is lost, and nothing is duplicated.
    """
    rng = np.random.default_rng(KILLS)
    services = [KilledService(serve(f"log-{n}"), tmp_path / f"log-{n}") for n in range(-(-KILLS // KILLS_PER_LOG))]
    for kill in range(KILLS):
        service = services[kill // KILLS_PER_LOG]
        if kill % 4 == 3:  # during the start: it opens and replays
            service.served.launch()
            time.sleep(service.start_seconds * rng.uniform(0.7, 1.0))
        else:
            service.start()
            # Some run long enough for snapshots.
            service.run(rng.uniform(2.0, 3.0) if kill % 8 == 2 else rng.uniform(0.0, 0.4))
        service.kill()
    for service in services:
        service.stop()
    log.info(
        "%d kills: %s lists, %s events acknowledged, %d in doubt, %d lists lost",
        KILLS,
        f"{sum(len(service.callers.lists) for service in services):,}",
        f"{sum(len(service.callers.acknowledged) for service in services):,}",
        sum(service.in_doubt for service in services),
        sum(service.lost for service in services),
    )
