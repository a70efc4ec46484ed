"""Processes that share a log are killed, stopped and started: nothing acknowledged is lost, and the others go on.

Long version: make kills.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from postgres_server import Server, database, server  # noqa: F401
from served import Served, serve, until  # noqa: F401
from shared_processes import Visitors, leaders, put_items, start_processes
from shared_rankers import Member

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("RANKLOOP_REPLICA_KILLS", "6"))
STOPS = int(os.environ.get("RANKLOOP_DATABASE_STOPS", "2"))
Serve = Callable[..., Served]
log = logging.getLogger("rankloop.tests")


# Equal positions, equal bits


SETTINGS = {"policy": "cascade-lin-ts", "slots": 3, "dim": 4, "seed": 11}


def visit_many(address: str, folder: str, n: int, visits: int, start: Any, end: Any) -> None:
    """Rank and send feedback in one process; then write the state at the common end of the log to a file."""
    member = Member(address, SETTINGS)
    rng = np.random.default_rng(n)
    start.wait()
    until(lambda: len(member.ranker.items()) >= 20, "the items are there")
    for i in range(visits):
        ranking = member.ranker.rank(segment=f"s{i % 3}")
        member.ranker.feedback(ranking.id, clicked=[int(rng.integers(3))] if rng.random() < 0.5 else [])
        if i % 50 == 25:
            x = rng.normal(size=4).tolist()
            member.ranker.put_items([{"id": f"item-{n}-{i % 200}", "features": x}])
    member.ranker.flush()
    end.wait()
    position, state = member.state(member.store.last_position())
    (Path(folder) / f"{n}").write_text(repr((position, state)))
    member.close()


def test_processes_have_equal_bytes_at_equal_positions(database: str, tmp_path: Path) -> None:  # noqa: F811
    """Three processes, thousands of visits, items of all of them: three states, equal byte for byte."""
    first = Member(database, SETTINGS)
    rng = np.random.default_rng(0)
    first.ranker.put_items([{"id": f"item-{i}", "features": rng.normal(size=4).tolist()} for i in range(20)])
    first.close()
    context = multiprocessing.get_context("forkserver")
    start, end = context.Barrier(3), context.Barrier(3)
    processes = [
        context.Process(target=visit_many, args=(database, str(tmp_path), n, 1000, start, end)) for n in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
        assert process.exitcode == 0
    states = [(tmp_path / f"{n}").read_text() for n in range(3)]
    assert states[0] == states[1] == states[2]
    assert eval(states[0])[0] > 6000  # the position


# Faults


def test_killed_processes_lose_nothing_and_the_others_go_on(database: str, serve: Serve) -> None:  # noqa: F811
    """kill -9 of any of three processes under eight visitors, the one with the lease included."""
    processes = start_processes(serve, database, 3)
    put_items(processes[0].url)
    visitors = Visitors(lambda: [one.url for one in processes if one.url])
    time.sleep(0.5)
    visitors.start()
    rng, killed_leaders = random.Random(5), 0
    for n in range(KILLS):
        visitors.wait_for_more(30)
        until(lambda: sum(leaders(processes)) == 1, "one of them leads", seconds=10.0)
        lead = leaders(processes)
        victim = lead.index(True) if n % 3 == 0 and any(lead) else rng.randrange(3)
        killed_leaders += lead[victim]
        processes[victim].kill()
        visitors.wait_for_more(30)
        until(lambda: sum(leaders(processes)) == 1, "another process has the lease", seconds=10.0)
        assert processes[victim].try_start(), processes[victim].output
        until(partial(ready, processes[victim]), "it is ready", seconds=30.0)
    visitors.wait_for_more(30)
    visitors.stop()
    assert visitors.retries["rank"] == 0  # no rank request failed after one retry
    for one in processes:
        one.stop()
    visitors.check(database)
    log.info(
        "%d kills of one of three processes, %d with the lease: %d lists, %d events acknowledged, %d lists lost",
        KILLS, killed_leaders, len(visitors.lists), len(visitors.acknowledged), len(visitors.unknown),
    )  # fmt: skip
    assert killed_leaders > 0


def test_a_process_that_stood_still_goes_on_and_its_lease_does_not(database: str, serve: Serve) -> None:  # noqa: F811
    """SIGSTOP of the process with the lease: another one takes it; continued, the process follows again."""
    processes = start_processes(serve, database, 2)
    put_items(processes[0].url)
    stopped = leaders(processes).index(True)
    going_on = processes[1 - stopped]
    visitors = Visitors(lambda: [going_on.url])
    time.sleep(0.5)
    visitors.start()
    visitors.wait_for_more(30)
    os.kill(processes[stopped].pid, signal.SIGSTOP)
    try:
        visitors.wait_for_more(100)
        until(
            lambda: httpx.get(f"{going_on.url}/readyz", timeout=10.0).json()["leads"],
            "the lease is taken",
            seconds=20.0,
        )
        visitors.wait_for_more(30)
    finally:
        os.kill(processes[stopped].pid, signal.SIGCONT)
    until(lambda: processes[stopped].status("/readyz") == 200, "it is ready again", seconds=20.0)
    until(lambda: sum(leaders(processes)) == 1, "one of them leads", seconds=10.0)
    visitors._urls = lambda: [one.url for one in processes]
    visitors.wait_for_more(50)
    visitors.stop()
    for one in processes:
        one.stop()
    visitors.check(database)


def test_the_database_stops_and_every_process_goes_on_afterwards(
    server: Server,  # noqa: F811
    database: str,  # noqa: F811
    serve: Serve,  # noqa: F811
) -> None:
    processes = start_processes(serve, database, 2)
    put_items(processes[0].url)
    visitors = Visitors(lambda: [one.url for one in processes])
    time.sleep(0.5)
    visitors.start()
    for n in range(STOPS):
        visitors.wait_for_more(40)
        server.stop(crash=n % 2 == 1)
        time.sleep(1.0)
        server.start()
        visitors.wait_for_more(40)
        for one in processes:
            until(partial(ready, one), "it is ready again", seconds=30.0)
    visitors.stop()
    until(lambda: sum(leaders(processes)) == 1, "one of them leads", seconds=10.0)
    for one in processes:
        one.stop()
    visitors.check(database)


def test_workers_serve_behind_one_address(database: str, serve: Serve) -> None:  # noqa: F811
    """A worker that is killed is replaced; the command ends with all of its workers."""
    served = serve(log=database)
    served.arguments = ["--workers", "3"]
    served.start()
    until(lambda: ready(served), "the workers are ready")
    put_items(served.url)
    visitors = Visitors(lambda: [served.url])
    time.sleep(0.5)
    visitors.start()
    for _ in range(2):
        visitors.wait_for_more(50)
        workers = children(served.pid)
        assert len(workers) == 3
        os.kill(workers[0], signal.SIGKILL)
        until(partial(is_replaced, served, workers), "another worker starts")
        visitors.wait_for_more(50)
    visitors.stop()
    workers = children(served.pid)
    served.stop()
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    visitors.check(database)


def test_workers_end_with_a_parent_that_is_killed(database: str, serve: Serve) -> None:  # noqa: F811
    served = serve(log=database)
    served.arguments = ["--workers", "2"]
    served.start()
    until(lambda: ready(served), "the workers are ready")
    workers = children(served.pid)
    served.kill()
    until(lambda: not any(map(runs, workers)), "the workers end", seconds=20.0)


def ready(served: Served) -> bool:
    try:
        return served.status("/readyz") == 200
    except httpx.HTTPError:
        return False


def is_replaced(served: Served, workers: list[int]) -> bool:
    return len(set(children(served.pid)) - set(workers)) == 1


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
