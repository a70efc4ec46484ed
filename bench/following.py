"""Measure what it costs a process to follow what others write: `python -m bench.following [postgresql://…]`.

The table compares, policy by policy, a visit that this process serves (a list and its feedback, in process) with one
that it only follows. With the address of a PostgreSQL server, one process and two are compared over HTTP as well, each
on a database that is created for it: CPU is that of the serving processes, callers and PostgreSQL not counted.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import numpy as np

from bench.load import Connection, Times, cpu, serving
from bench.service import visit
from rankloop import catalogue
from rankloop.eventlog import LogEntry, MemoryStore
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import LoggedConfig
from rankloop.serving.replica import Replica

ITEMS, DIM, CONTEXT, TOPICS, SLOTS = 100, 10, 2, 5, 5
VISITS, GROUP = 600, 20
"""A process that follows applies the entries of about so many visits together."""
ROUND_SECONDS, ROUNDS = 4.0, 3
CALLERS = 12


def config(policy: str) -> RankerConfig:
    """Return a ranker of this policy, with all that it may need."""
    needs = catalogue.find(policy).needs
    given: dict[str, object] = {"policy": policy, "slots": SLOTS, "dim": DIM, "rounds": 10_000, "seed": 7}
    given |= {"context": CONTEXT} if "context" in needs else {}
    given |= {"bias": np.linspace(1.0, 0.4, SLOTS).tolist()} if "bias" in needs else {}
    given |= {"prior": [1.0, 3.0]} if "prior" in needs else {}
    given |= {"coverage": TOPICS} if "coverage" in needs else {}
    return LoggedConfig.of(given)


def costs(policy: str) -> tuple[float, float]:
    """Return the microseconds of CPU of a visit that a process serves, and of one that it follows."""
    store, rng, chosen = MemoryStore(), np.random.default_rng(0), config(policy)
    ranker = Ranker(chosen, store=store)
    single = ranker._replica.learners.policy.feedback.single
    ranker.put_items(
        [
            {"id": f"{i}", "features": rng.normal(size=DIM).tolist(), "price": 1.0}
            | ({"coverage": rng.uniform(size=TOPICS).tolist()} if chosen.coverage else {})
            for i in range(ITEMS)
        ]
    )
    ask = {"context": rng.normal(size=CONTEXT).tolist()} if chosen.context else {}
    start = time.process_time()
    for n in range(2 * VISITS):
        if n == VISITS:  # what a policy is at its start says little
            start = time.process_time()
        ranking = ranker.rank(context=ask.get("context"))
        clicked = [slot for slot in range(len(ranking.ids)) if rng.random() < 0.3]
        ranker.feedback(ranking.id, clicked=clicked[:1] if single else clicked)
    served = time.process_time() - start
    ranker.close()
    entries = list(store.read("ranker"))
    replica = Replica(chosen)
    half = len(entries) - 2 * VISITS
    replica.follow(entries[:half])
    start = time.process_time()
    for group in groups(entries[half:], 2 * GROUP):
        replica.follow(group)
    return 1e6 * served / VISITS, 1e6 * (time.process_time() - start) / VISITS


def groups(entries: Sequence[LogEntry], size: int) -> Iterator[Sequence[LogEntry]]:
    """Yield the entries in groups."""
    for start in range(0, len(entries), size):
        yield entries[start : start + size]


@contextmanager
def databases(server: str, n: int) -> Iterator[list[str]]:
    """Create databases on a server, and drop them at the end."""
    import psycopg

    names = [f"rankloop_bench_{i}" for i in range(n)]
    with psycopg.connect(server, autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE IF EXISTS {name} (FORCE)".encode())
            connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield [psycopg.conninfo.make_conninfo(server, dbname=name) for name in names]
        finally:
            for name in names:
                connection.execute(f"DROP DATABASE IF EXISTS {name} (FORCE)".encode())


def address(conninfo: str) -> str:
    """Return a connection string as an address."""
    from urllib.parse import urlencode

    import psycopg

    options = dict(psycopg.conninfo.conninfo_to_dict(conninfo))
    name = options.pop("dbname", "")
    return f"postgresql:///{name}?{urlencode(options)}"


async def load(ports: Sequence[int], seconds: float) -> Times:
    """Send visits to the processes in turn, as fast as they answer."""
    times, end = Times(), time.perf_counter() + seconds

    async def one(port: int) -> None:
        async with Connection(port) as connection:
            while time.perf_counter() < end:
                try:
                    await visit(connection, times)
                except RuntimeError:  # refused with 503: the machine is busy with other work
                    await asyncio.sleep(0.1)

    await asyncio.gather(*(one(ports[n % len(ports)]) for n in range(CALLERS)))
    return times


def over_http(server: str) -> None:
    """Print the CPU of a visit with one process on a log for itself, with one that shares it, and with two."""
    setups: dict[str, tuple[int, list[str]]] = {
        "one, alone": (1, []),
        "one, shared": (1, ["shared"]),
        "two, shared": (2, ["shared"]),
    }
    with databases(server, len(setups)) as logs, ExitStack() as running:
        started = {
            name: [running.enter_context(serving("bench.served", address(log), options=options)) for _ in range(n)]
            for (name, (n, options)), log in zip(setups.items(), logs, strict=True)
        }
        spent: dict[str, list[float]] = {name: [] for name in setups}
        for turn in range(ROUNDS + 1):
            for name, served in started.items():
                before = [cpu(pid) for _, pid in served]
                times = asyncio.run(load([port for port, _ in served], ROUND_SECONDS))
                used = sum(cpu(pid) for _, pid in served) - sum(before)
                if turn:  # the first turn warms up
                    spent[name].append(2e6 * used / times.requests)
        middle = {name: float(np.median(values)) for name, values in spent.items()}
        for name, value in middle.items():
            print(f"{name}: {value:.0f} µs of CPU for rank and feedback ({value / middle['one, alone']:.2f} of alone)")
        capacity = 2.0 * middle["one, alone"] / middle["two, shared"]
        print(f"two processes with a core each bear {capacity:.2f} times the load of one (target: at least 1.7)")


def main() -> None:
    """Print the table, and the comparison over HTTP if there is a server."""
    print("| policy | a visit served, µs | a visit followed, µs | ratio |\n|---|---|---|---|")
    for policy in (entry.id for entry in catalogue.entries()):
        served, followed = costs(policy)
        print(f"| `{policy}` | {served:,.0f} | {followed:,.0f} | {followed / served:.2f} |")
    if len(sys.argv) > 1:
        over_http(sys.argv[1])


if __name__ == "__main__":
    main()
