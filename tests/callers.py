"""Callers of a service who write down what they were told, and what the log must say then."""

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
"""Events of `check_next_lists` begin like this."""
logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each request is more work than the request


def put_items(client: Client, n: int = 8) -> None:
    """The items that every ranker starts with."""
    x = np.random.default_rng(0).standard_normal((n, 3))
    for ranker in RANKERS:
        client.put_items(ranker, [item(ranker, f"item-{i}", x[i].tolist()) for i in range(n)])


@dataclass(frozen=True)
class Told:
    """An event that a caller tells the service."""

    run: int
    ranker: str
    decision: str
    event: str
    clicked: tuple[int, ...]
    sent: float = field(default_factory=time.monotonic)

    def by(self, client: Client) -> str:
        """Tell it; what became of it."""
        return client.feedback(self.ranker, self.decision, clicked=self.clicked, event=self.event).status


@dataclass(frozen=True)
class Answered:
    """A list that a caller was given."""

    run: int
    ranker: str
    time: float


class Gone(Exception):
    """Nobody answers any more."""


class Callers:
    """Threads that ask for lists and tell what happened, as long as the service answers.

    Whoever is told 503 tries the same again. What nobody answered is in doubt.
    """

    def __init__(self) -> None:
        self.lists: dict[str, Answered] = {}
        self.acknowledged: dict[str, Told] = {}
        self.noted: dict[str, Any] = {}  # by event, what `note` gave when it was acknowledged
        self.note: Callable[[], Any] = lambda: None
        self.doubtful: list[Told] = []
        self.unknown: list[Told] = []  # 404: the service does not know the list
        self.new_items: list[tuple[str, str]] = []
        self.refusals: list[str] = []
        self.unreached: list[str] = []
        self.wrong: list[str] = []
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self._client: Client | None = None

    def start(self, url: str, run: int = 0) -> None:
        """Begin to ask."""
        self._end.clear()
        self._client = client = Client(url, timeout=60.0)
        self._threads = [threading.Thread(target=self._live, args=(client, run, n)) for n in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let everybody finish, those too whom nobody answers."""
        self._end.set()
        for thread in self._threads:
            thread.join()
        if self._client is not None:
            self._client.close()

    def more(self, n: int, since: int | None = None) -> None:
        """Wait until so many more events were acknowledged than now, or than there were before."""
        enough = n + (len(self.acknowledged) if since is None else since)
        until(lambda: len(self.acknowledged) >= enough or self.wrong, f"{n} more events are acknowledged")

    def refused(self, n: int) -> None:
        """Wait until so many more requests were refused."""
        enough = len(self.refusals) + n
        until(lambda: len(self.refusals) >= enough or self.wrong, f"{n} more requests are refused")

    def _live(self, client: Client, run: int, n: int) -> None:
        try:
            for i in itertools.count():
                if self._end.is_set():
                    return
                self._visit(client, run, n, i)
        except Gone:
            return
        except Exception as error:
            self.wrong.append(repr(error))

    def _visit(self, client: Client, run: int, n: int, i: int) -> None:
        ranker = tuple(RANKERS)[(n + i) % len(RANKERS)]
        ranking = self._ask(lambda: client.rank(ranker, segment=SEGMENTS[n % len(SEGMENTS)]))
        self.lists[ranking.id] = Answered(run, ranker, time.monotonic())
        if n == 0 and i % 20 == 10:
            id = f"new-{run}-{i}"
            self._ask(lambda: client.put_items(ranker, [item(ranker, id, [0.1 * i, 1.0, -1.0])]))
            self.new_items.append((ranker, id))
        if i % 5 == 4:
            return  # nobody tells; its window may close
        told = Told(run, ranker, ranking.id, f"{run}-{n}-{i}", (i % 3,) if i % 2 else ())
        self._tell(client, told, "learned", "late")
        if i % 7 == 6:
            self._tell(client, told, "duplicate")

    def _tell(self, client: Client, told: Told, *expected: str) -> None:
        try:
            status = self._ask(lambda: told.by(client))
        except Gone:
            self.doubtful.append(told)
            raise
        except NotFound:
            self.unknown.append(told)
            return
        if status not in expected:
            self.wrong.append(f"{told} was answered with {status}")
        if told.event not in self.acknowledged:
            self.noted[told.event] = self.note()
            self.acknowledged[told.event] = told

    def _ask(self, ask: Callable[[], T]) -> T:
        while True:
            try:
                return ask()
            except Unavailable as error:
                if error.status != 503:
                    self.unreached.append(str(error))
                    raise Gone from None
                self.refusals.append(str(error))
                time.sleep(0.02)

    # What must hold

    def check(self, kept: Mapping[str, Kept]) -> None:
        """All that was acknowledged is there once, nothing else is, and nobody was told anything but the truth."""
        assert self.wrong == []
        for ranker, log in kept.items():
            own = {event: told for event, told in self.acknowledged.items() if told.ranker == ranker}
            assert set(log.events.values()) <= {1}
            assert [told for told in own.values() if (told.event, told.decision) not in log.events] == []
            asked = set(own) | {told.event for told in self.doubtful}
            told = [event for event, _ in log.events if not event.startswith(PROBE)]
            assert [event for event in told if event not in asked] == []  # what was refused is not there
            assert [decision for _, decision in log.events if decision not in log.shown] == []
            assert {item for name, item in self.new_items if name == ranker} <= log.items
            # A refusal with 404 is right for a list that never came into the log, and for nothing else.
            assert [told for told in self.unknown if told.decision in log.shown] == []

    def lost(self, kept: Mapping[str, Kept]) -> list[str]:
        """Lists that were answered and are not in the log."""
        return [id for id, one in self.lists.items() if one.ranker in kept and id not in kept[one.ranker].shown]

    def check_lost(self, lost: Sequence[str]) -> None:
        """Only the last lists before a kill may be lost: nothing that was told after one of them was acknowledged."""
        assert [id for id in lost if RANKERS[self.lists[id].ranker].get("commit") == "all"] == []
        last = dict[int, float]()
        for told in self.acknowledged.values():
            last[told.run] = max(told.sent, last.get(told.run, 0.0))
        early = [id for id in lost if self.lists[id].time < last.get(self.lists[id].run, 0.0)]
        assert early == []

    def settle(self, client: Client, kept: Mapping[str, Kept], lost: Sequence[str]) -> None:
        """Ask again what was in doubt, and tell what happened to lists that were lost: the log decides the answer."""
        for told in self.doubtful:
            log = kept[told.ranker]
            if told.decision not in log.shown:
                self._refused(client, told)
            else:
                there = (told.event, told.decision) in log.events
                assert told.by(client) in (("duplicate",) if there else ("learned", "late"))
                self.acknowledged[told.event] = told
        self.doubtful.clear()
        for id in lost:
            one = self.lists.pop(id)
            self._refused(client, Told(one.run, one.ranker, id, f"lost-{id}", (0,)))

    def _refused(self, client: Client, told: Told) -> None:
        try:
            status = told.by(client)
        except NotFound:
            return
        raise AssertionError(f"feedback for a list that is not in the log was answered with {status}")


@dataclass(frozen=True)
class Kept:
    """The log of one ranker."""

    entries: tuple[LogEntry, ...]
    records: tuple[LogEvent, ...]
    shown: frozenset[str]
    events: Counter[tuple[str, str]]  # event and decision
    items: frozenset[str]

    @classmethod
    def of(cls, entries: Sequence[LogEntry]) -> Kept:
        """What these entries say."""
        records = tuple(decode(entry) for entry in entries)
        return cls(
            tuple(entries),
            records,
            frozenset(one.id for one in records if isinstance(one, DecisionMade)),
            Counter((one.event, one.decision) for one in records if isinstance(one, FeedbackReceived)),
            frozenset(item.id for one in records if isinstance(one, ItemsPut) for item in one.items),
        )


def read(log: str | Path, rankers: Iterable[str] = RANKERS) -> dict[str, Kept]:
    """What a log says of each ranker."""
    with closing(open_store(log)) as store:
        return {ranker: Kept.of(list(store.read(ranker))) for ranker in rankers}


def copied(log: str | Path, place: Path) -> Path:
    """The files of a log as they are now, elsewhere: whoever opens a log also mends it."""
    place.mkdir()
    for file in (Path(log), Path(f"{log}-wal")):
        if file.exists():
            copy(file, place / file.name)
    return place / Path(log).name


def replayed(log: str | Path) -> dict[str, VerificationFinding]:
    """Snapshot and rest are the whole log, and every list comes out again, bit for bit."""
    with closing(open_store(log)) as store:
        found = {ranker: compare_snapshot(store, ranker, RankerConfig.of(one)) for ranker, one in RANKERS.items()}
        lists = [decide_again(store, ranker) for ranker in RANKERS]
    for finding in found.values():
        assert not finding.differences, finding
        assert finding.usable or finding.snapshot is None
    for one in lists:
        assert one.equal == one.decided, one
    return found


def check_live(log: str | Path) -> None:
    """After a service has ended by itself: what it knew at its end is what a replay of the log gives."""
    for finding in replayed(log).values():
        assert finding.snapshot == finding.position, finding


def check_next_lists(client: Client, log: str | Path) -> None:
    """The service decides what a replica would that knows nothing but the log."""
    for ranker in RANKERS:
        _next_list(client, ranker, "")  # numbers of lists that were refused are passed over
        rankings = [_next_list(client, ranker, segment) for segment in (SEGMENTS[0], "new")]
        kept = read(log, [ranker])[ranker]
        place = {one.id: at for at, one in enumerate(kept.records) if isinstance(one, DecisionMade)}
        for ranking in rankings:
            at = place[ranking.id]
            replica = _replica(ranker, kept.entries[:at])
            again = _places(replica.rank(segment=ranking.segment))
            if isinstance(kept.records[at - 1], WindowClosed) and again != _places(ranking):
                replica = _replica(ranker, kept.entries[: at - 1])  # it was decided, then a window closed, then kept
                again = _places(replica.rank(segment=ranking.segment))
            assert again == _places(ranking)


def _next_list(client: Client, ranker: str, segment: str) -> RankAnswer:
    """A list whose feedback was acknowledged, so that both are in the log."""
    ranking = client.rank(ranker, segment=segment)
    event = f"{PROBE}{ranking.id}"
    assert client.feedback(ranker, ranking.id, clicked=[0], event=event).status in ("learned", "late")
    return ranking


def _replica(ranker: str, entries: Sequence[LogEntry]) -> Ranker:
    memory = MemoryStore()
    memory.append([(ranker, entry) for entry in entries])
    return Ranker(RankerConfig.of(RANKERS[ranker]), name=ranker, store=memory)


def _places(ranking: Any) -> list[tuple[Any, ...]]:
    return [(one.item, one.rule, one.score, one.estimate, one.uncertainty) for one in ranking.items]
