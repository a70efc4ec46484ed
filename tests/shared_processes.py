"""Several processes of the service on one PostgreSQL log, and visitors that go to any of them."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import httpx

from rankloop.eventlog.address import open_store
from rankloop.eventlog.events import DecisionMade, FeedbackReceived, decode
from rankloop.serving import RankerConfig
from rankloop.serving.verification import compare_snapshot, decide_again
from served import RANKERS, Served, item, until

VISITORS = 8


def put_items(url: str, n: int = 8) -> None:
    """Put the items of every ranker."""
    for name in RANKERS:
        given = [item(name, f"item-{i}", [0.1 * i, 1.0, -0.1 * i]) for i in range(n)]
        httpx.put(f"{url}/v1/rankers/{name}/items", json={"items": given}, timeout=30.0).raise_for_status()


class Visitors:
    """Threads that request lists from any process, send feedback to any, and record what was acknowledged.

    A request that gets no answer, or 503, is sent again to another process.
    """

    def __init__(self, urls: Callable[[], Sequence[str]]) -> None:
        self._urls, self._end = urls, threading.Event()
        self.lists: dict[str, str] = {}  # ranker by decision
        self.acknowledged: dict[str, tuple[str, str]] = {}  # ranker and decision by event
        self.unknown: list[tuple[str, str]] = []  # ranker and decision that were answered with 404
        self.retries = Counter[str]()  # of rank requests that failed after one retry
        self.errors: list[str] = []
        self.attempts = 0
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(VISITORS)]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait until every thread ends."""
        self._end.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, n: int) -> None:
        """Wait until n more events are acknowledged."""
        enough = len(self.acknowledged) + n
        until(lambda: len(self.acknowledged) >= enough or self.errors, f"{n} more events are acknowledged")

    def _run(self, n: int) -> None:
        rng = random.Random(n)
        try:
            with httpx.Client(timeout=30.0) as client:
                for i in range(10**9):
                    if self._end.is_set():
                        return
                    self._visit(client, rng, n, i)
        except Exception as error:
            self.errors.append(repr(error))

    def _visit(self, client: httpx.Client, rng: random.Random, n: int, i: int) -> None:
        ranker = tuple(RANKERS)[(n + i) % len(RANKERS)]
        answer = self._send(client, rng, f"/v1/rankers/{ranker}/rank", {"segment": f"s{n % 3}"}, "rank")
        decision = answer.json()["decision"]
        self.lists[decision] = ranker
        if i % 5 == 4:
            return
        event = f"{n}-{i}"
        body = {"decision": decision, "clicked": [i % 3] if i % 2 else [], "event": event}
        answer = self._send(client, rng, f"/v1/rankers/{ranker}/feedback", body, "feedback")
        if answer.status_code == 404:
            self.unknown.append((ranker, decision))
            return
        if answer.json()["status"] not in ("learned", "late", "duplicate"):
            self.errors.append(answer.text)
        self.acknowledged[event] = ranker, decision

    def _send(self, client: httpx.Client, rng: random.Random, path: str, body: Any, kind: str) -> httpx.Response:
        deadline, url, tries = time.monotonic() + 60.0, "", 0
        while True:
            assert time.monotonic() < deadline, f"{path} failed for a minute"
            urls = list(self._urls())
            url = rng.choice([one for one in urls if one != url] or urls)
            try:
                answer = client.post(url + path, json=body)
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code in (200, 404):
                return answer
            if answer is not None and answer.status_code != 503:
                raise AssertionError(f"{path} was answered with {answer.status_code}: {answer.text}")
            tries += 1
            if tries == 2:
                self.retries[kind] += 1
            time.sleep(0.02 * tries)

    # Checks

    def check(self, log: str) -> None:
        """Check the log: what was acknowledged is there once, and every list is decided the same again."""
        assert self.errors == []
        with closing(open_store(log)) as store:
            for ranker, settings in RANKERS.items():
                events = [decode(entry) for entry in store.read(ranker)]
                decisions = Counter(one.id for one in events if isinstance(one, DecisionMade))
                stored = Counter(one.event for one in events if isinstance(one, FeedbackReceived))
                about = {one.event: one.decision for one in events if isinstance(one, FeedbackReceived)}
                assert set(decisions.values()) <= {1}
                assert set(stored.values()) <= {1}
                mine = {event: id for event, (name, id) in self.acknowledged.items() if name == ranker}
                assert {event: about.get(event) for event in mine} == mine
                # 404 only for lists that are not in the log: a process was killed before it wrote them.
                assert [id for name, id in self.unknown if name == ranker and id in decisions] == []
                verified = decide_again(store, ranker)
                assert verified.decided > 0
                assert verified.equal == verified.decided, verified.differences
                finding = compare_snapshot(store, ranker, RankerConfig.of(settings))
                assert finding.differences == []


def start_processes(make: Callable[..., Served], log: str, n: int) -> list[Served]:
    """Start processes of the service on one log, each on a port of its own."""
    processes = [make(f"process-{i}", log=log) for i in range(n)]
    for process in processes:
        process.arguments = ["--shared"]
        process.launch()
    for process in processes:
        until(process.listens, "the service listens")
    return processes


def leaders(processes: Sequence[Served]) -> list[bool]:
    """Return which of the running processes have the lease."""
    return [httpx.get(f"{one.url}/readyz", timeout=10.0).json().get("leads", False) for one in processes if one.running]
