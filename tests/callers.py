"""Concurrent callers of a service that record its answers, and checks of the log against this record."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy
from typing import Any, TypeVar

import numpy as np

from rankloop.client import Client, NotFound, RankAnswer, Unavailable
from rankloop.eventlog import LogEntry, MemoryStore
from rankloop.eventlog.address import open_store
from rankloop.eventlog.events import DecisionMade, FeedbackReceived, ItemsPut, LogEvent, WindowClosed, decode
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.verification import VerificationFinding, compare_snapshot, decide_again
from served import RANKERS, item, until

T = TypeVar("T")
CALLERS = 6
SEGMENTS = ("s0", "s1", "")
PROBE = "probe-"
"""Prefix of the event ids of `check_next_lists`."""
logging.getLogger("httpx").setLevel(logging.WARNING)  # logging each request costs more than the request


def put_items(client: Client, n: int = 8) -> None:
    """Put the initial items of every ranker."""
    x = np.random.default_rng(0).standard_normal((n, 3))
    for ranker in RANKERS:
        client.put_items(ranker, [item(ranker, f"item-{i}", x[i].tolist()) for i in range(n)])


@dataclass(frozen=True)
class SentFeedback:
    """A feedback event that a caller sends to the service."""

    run: int
    ranker: str
    decision: str
    event: str
    clicked: tuple[int, ...]
    sent: float = field(default_factory=time.monotonic)

    def send(self, client: Client) -> str:
        """Send the event and return its status."""
        return client.feedback(self.ranker, self.decision, clicked=self.clicked, event=self.event).status


@dataclass(frozen=True)
class AnsweredList:
    """A list that a caller received."""

    run: int
    ranker: str
    time: float


class ServiceGone(Exception):
    """The service does not answer any more."""


class Callers:
    """Threads that request lists and send feedback for as long as the service answers.

    A caller retries after a 503. An event without an answer is in doubt.
    """

    def __init__(self) -> None:
        self.lists: dict[str, AnsweredList] = {}
        self.acknowledged: dict[str, SentFeedback] = {}
        self.observed: dict[str, Any] = {}  # by event, the result of `observe` when the event was acknowledged
        self.observe: Callable[[], Any] = lambda: None
        self.in_doubt: list[SentFeedback] = []
        self.unknown: list[SentFeedback] = []  # 404: the service does not have the decision
        self.new_items: list[tuple[str, str]] = []
        self.refusals: list[str] = []
        self.unanswered: list[str] = []
        self.errors: list[str] = []
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self._client: Client | None = None

    def start(self, url: str, run: int = 0) -> None:
        """Start the threads."""
        self._end.clear()
        self._client = client = Client(url, timeout=60.0)
        self._threads = [threading.Thread(target=self._run, args=(client, run, n)) for n in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Wait until every thread ends, including those without an answer."""
        self._end.set()
        for thread in self._threads:
            thread.join()
        if self._client is not None:
            self._client.close()

    def wait_for_acknowledged(self, n: int, since: int | None = None) -> None:
        """Wait until n more events are acknowledged, counted from now or from an earlier count."""
        enough = n + (len(self.acknowledged) if since is None else since)
        until(lambda: len(self.acknowledged) >= enough or self.errors, f"{n} more events are acknowledged")

    def wait_for_refused(self, n: int) -> None:
        """Wait until n more requests are refused."""
        enough = len(self.refusals) + n
        until(lambda: len(self.refusals) >= enough or self.errors, f"{n} more requests are refused")

    def _run(self, client: Client, run: int, n: int) -> None:
        try:
            for i in itertools.count():
                if self._end.is_set():
                    return
                self._visit(client, run, n, i)
        except ServiceGone:
            return
        except Exception as error:
            self.errors.append(repr(error))

    def _visit(self, client: Client, run: int, n: int, i: int) -> None:
        ranker = tuple(RANKERS)[(n + i) % len(RANKERS)]
        ranking = self._retry(lambda: client.rank(ranker, segment=SEGMENTS[n % len(SEGMENTS)]))
        self.lists[ranking.id] = AnsweredList(run, ranker, time.monotonic())
        if n == 0 and i % 20 == 10:
            id = f"new-{run}-{i}"
            self._retry(lambda: client.put_items(ranker, [item(ranker, id, [0.1 * i, 1.0, -1.0])]))
            self.new_items.append((ranker, id))
        if i % 5 == 4:
            return  # without feedback; its window may close
        feedback = SentFeedback(run, ranker, ranking.id, f"{run}-{n}-{i}", (i % 3,) if i % 2 else ())
        self._send(client, feedback, "learned", "late")
        if i % 7 == 6:
            self._send(client, feedback, "duplicate")

    def _send(self, client: Client, feedback: SentFeedback, *expected: str) -> None:
        try:
            status = self._retry(lambda: feedback.send(client))
        except ServiceGone:
            self.in_doubt.append(feedback)
            raise
        except NotFound:
            self.unknown.append(feedback)
            return
        if status not in expected:
            self.errors.append(f"{feedback} was answered with {status}")
        if feedback.event not in self.acknowledged:
            self.observed[feedback.event] = self.observe()
            self.acknowledged[feedback.event] = feedback

    def _retry(self, request: Callable[[], T]) -> T:
        while True:
            try:
                return request()
            except Unavailable as error:
                if error.status != 503:
                    self.unanswered.append(str(error))
                    raise ServiceGone from None
                self.refusals.append(str(error))
                time.sleep(0.02)

    # Checks

    def check(self, logs: Mapping[str, LogContents]) -> None:
        """Check that the log has every acknowledged event once and nothing else, and that every answer was correct."""
        assert self.errors == []
        for ranker, log in logs.items():
            acknowledged = {event: one for event, one in self.acknowledged.items() if one.ranker == ranker}
            assert set(log.feedback.values()) <= {1}
            assert [one for one in acknowledged.values() if (one.event, one.decision) not in log.feedback] == []
            accepted = set(acknowledged) | {one.event for one in self.in_doubt}
            logged = [event for event, _ in log.feedback if not event.startswith(PROBE)]
            assert [event for event in logged if event not in accepted] == []  # refused events are not in the log
            assert [decision for _, decision in log.feedback if decision not in log.decisions] == []
            assert {item for name, item in self.new_items if name == ranker} <= log.items
            # A 404 is correct only for a decision that never came into the log.
            assert [one for one in self.unknown if one.decision in log.decisions] == []

    def lost(self, logs: Mapping[str, LogContents]) -> list[str]:
        """Return the lists that were answered and are not in the log."""
        return [id for id, one in self.lists.items() if one.ranker in logs and id not in logs[one.ranker].decisions]

    def check_lost(self, lost: Sequence[str]) -> None:
        """Check that only the last lists before a kill are lost: no event sent after one of them was acknowledged."""
        assert [id for id in lost if RANKERS[self.lists[id].ranker].get("commit") == "all"] == []
        last = dict[int, float]()
        for feedback in self.acknowledged.values():
            last[feedback.run] = max(feedback.sent, last.get(feedback.run, 0.0))
        early = [id for id in lost if self.lists[id].time < last.get(self.lists[id].run, 0.0)]
        assert early == []

    def settle(self, client: Client, logs: Mapping[str, LogContents], lost: Sequence[str]) -> None:
        """Send events in doubt again, and feedback for lost lists: the log determines each answer."""
        for feedback in self.in_doubt:
            log = logs[feedback.ranker]
            if feedback.decision not in log.decisions:
                self._check_unknown(client, feedback)
            else:
                logged = (feedback.event, feedback.decision) in log.feedback
                assert feedback.send(client) in (("duplicate",) if logged else ("learned", "late"))
                self.acknowledged[feedback.event] = feedback
        self.in_doubt.clear()
        for id in lost:
            one = self.lists.pop(id)
            self._check_unknown(client, SentFeedback(one.run, one.ranker, id, f"lost-{id}", (0,)))

    def _check_unknown(self, client: Client, feedback: SentFeedback) -> None:
        try:
            status = feedback.send(client)
        except NotFound:
            return
        raise AssertionError(f"feedback for a decision that is not in the log was answered with {status}")


@dataclass(frozen=True)
class LogContents:
    """The log of one ranker."""

    entries: tuple[LogEntry, ...]
    events: tuple[LogEvent, ...]
    decisions: frozenset[str]
    feedback: Counter[tuple[str, str]]  # event id and decision
    items: frozenset[str]

    @classmethod
    def of(cls, entries: Sequence[LogEntry]) -> LogContents:
        """Decode the entries of a log."""
        events = tuple(decode(entry) for entry in entries)
        return cls(
            tuple(entries),
            events,
            frozenset(one.id for one in events if isinstance(one, DecisionMade)),
            Counter((one.event, one.decision) for one in events if isinstance(one, FeedbackReceived)),
            frozenset(item.id for one in events if isinstance(one, ItemsPut) for item in one.items),
        )


def read(log: str | Path, rankers: Iterable[str] = RANKERS) -> dict[str, LogContents]:
    """Read the log of each ranker."""
    with closing(open_store(log)) as store:
        return {ranker: LogContents.of(list(store.read(ranker))) for ranker in rankers}


def copy_log(log: str | Path, folder: Path) -> Path:
    """Copy the files of a log as they are now, since opening a log repairs it."""
    folder.mkdir()
    for file in (Path(log), Path(f"{log}-wal")):
        if file.exists():
            copy(file, folder / file.name)
    return folder / Path(log).name


def check_replay(log: str | Path) -> dict[str, VerificationFinding]:
    """Check that snapshot and rest equal a replay of the whole log, and that every list is decided the same again."""
    with closing(open_store(log)) as store:
        findings = {ranker: compare_snapshot(store, ranker, RankerConfig.of(one)) for ranker, one in RANKERS.items()}
        lists = [decide_again(store, ranker) for ranker in RANKERS]
    for finding in findings.values():
        assert not finding.differences, finding
        assert finding.usable or finding.snapshot is None
    for one in lists:
        assert one.equal == one.decided, one
    return findings


def check_live(log: str | Path) -> None:
    """Check that the last state of a service that stopped gracefully equals a replay of the log."""
    for finding in check_replay(log).values():
        assert finding.snapshot == finding.position, finding


def check_next_lists(client: Client, log: str | Path) -> None:
    """Check that the service decides as a replica that is rebuilt from the log alone."""
    for ranker in RANKERS:
        _next_list(client, ranker, "")  # skips the numbers of lists that were refused
        rankings = [_next_list(client, ranker, segment) for segment in (SEGMENTS[0], "new")]
        contents = read(log, [ranker])[ranker]
        index = {one.id: n for n, one in enumerate(contents.events) if isinstance(one, DecisionMade)}
        for ranking in rankings:
            n = index[ranking.id]
            replica = _replica(ranker, contents.entries[:n])
            again = _slots(replica.rank(segment=ranking.segment))
            if isinstance(contents.events[n - 1], WindowClosed) and again != _slots(ranking):
                # The list was decided, then a window closed, then the list was committed.
                replica = _replica(ranker, contents.entries[: n - 1])
                again = _slots(replica.rank(segment=ranking.segment))
            assert again == _slots(ranking)


def _next_list(client: Client, ranker: str, segment: str) -> RankAnswer:
    """Request a list and send its feedback, so that both are in the log."""
    ranking = client.rank(ranker, segment=segment)
    event = f"{PROBE}{ranking.id}"
    assert client.feedback(ranker, ranking.id, clicked=[0], event=event).status in ("learned", "late")
    return ranking


def _replica(ranker: str, entries: Sequence[LogEntry]) -> Ranker:
    memory = MemoryStore()
    memory.append([(ranker, entry) for entry in entries])
    return Ranker(RankerConfig.of(RANKERS[ranker]), name=ranker, store=memory)


def _slots(ranking: Any) -> list[tuple[Any, ...]]:
    return [(one.item, one.rule, one.score, one.estimate, one.uncertainty) for one in ranking.items]
