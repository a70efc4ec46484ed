"""A run: several callers play visits against a service until all have been played."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from rankloop.client import Calls
from rankloop.errors import InvalidInput, NotFound, RankloopError
from rankloop.visitors import visit_requests
from rankloop.visitors.audience import Audience, Visitor
from rankloop.visitors.caller import Caller
from rankloop.visitors.retry import Retry, Stopped, SupportsCall
from rankloop.visitors.schedule import Schedule
from rankloop.visitors.statistics import VisitStatistics
from rankloop.visitors.visit_requests import VisitFeedback

Job = Callable[[SupportsCall, float], None]
"""A visit, or late feedback: played with a service, and told when it was due."""


@dataclass(frozen=True)
class VisitPlan:
    """How visitors come.

    Args:
        ranker: whom they visit.
        rate: visits per second, at random moments; 0: as fast as the callers can.
        callers: visits at once, at most.
        rounds: visits; 0: until stopped.
        seconds: no visit begins after so long (None: no such bound); late feedback is waited for.
        patience: seconds after which a service that does not answer is given up.
        candidates: only these items are asked for (None: all).
        order: the caller's own order of the items, sent along for a control group (None: nothing is sent).
    """

    ranker: str
    rate: float = 0.0
    callers: int = 16
    rounds: int = 0
    seconds: float | None = None
    patience: float = 30.0
    candidates: Sequence[str] | None = None
    order: Sequence[str] | None = None


class Run:
    """Visits under way. `start`, then `wait`; `stop` ends it before its time.

    Args:
        plan: how visitors come.
        audience: who comes.
        url: where the service is; each caller has a connection of its own.
        key: an API key, where the service needs one.
    """

    def __init__(self, plan: VisitPlan, audience: Audience, url: str, key: str | None = None) -> None:
        self.plan, self.audience, self._url, self._key = plan, audience, url, key
        self.tally = VisitStatistics()
        self.error: Exception | None = None  # what ended the run before its time
        self._stopped = threading.Event()
        self._patience = Retry(plan.patience, self._stopped, self.tally.failed)
        self._agenda: Schedule[Job] = Schedule(self._arrivals(), self._stopped)
        self._threads = [threading.Thread(target=self._caller, daemon=True) for _ in range(plan.callers)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; whether all is done."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Begin nothing more; what is on its way may still arrive."""
        self._agenda.stop()

    def _arrivals(self) -> Iterator[tuple[float, Job]]:
        """Visits and when they begin."""
        plan, begin = self.plan, time.monotonic()
        due = begin
        for number in count():
            due += self.audience.gap(plan.rate) if plan.rate else 0.0
            late = plan.seconds is not None and max(due, time.monotonic()) - begin >= plan.seconds
            if late or (plan.rounds and number >= plan.rounds):
                return
            yield due, partial(self._visit, self.audience.next())

    def _caller(self) -> None:
        try:
            with Caller(self._url, self._key) as service:
                while (job := self._agenda.take()) is not None:
                    due, play = job
                    play(service, due)
                    self._agenda.done()
        except Stopped:
            pass
        except RankloopError as error:
            self.tally.ended(error)
            self._end(error)
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> None:
        """What ended the run before its time: the first error counts."""
        self.error = self.error or error
        self._agenda.stop()

    def _visit(self, visitor: Visitor, service: SupportsCall, due: float) -> None:
        plan = self.plan
        behind = max(0.0, time.monotonic() - due) if plan.rate else 0.0
        call = visit_requests.rank(plan.ranker, visitor, candidates=plan.candidates, order=plan.order)
        ranking, took = self._patience.timed(service, call)
        seen = time.monotonic()
        clicked, regret = visitor.looks(self.audience.columns(ranking.ids, visitor.k))
        self.tally.shown(took, behind=behind, clicked=bool(clicked), regret=regret, delay=visitor.delay)
        if visitor.delay is None:
            return
        told = VisitFeedback(visitor.event, ranking.id, clicked, regret)
        if visitor.delay:
            self._agenda.later(seen + visitor.delay, lambda service, due: self._tell(service, told, late=True))
        else:
            self._tell(service, told, late=False)

    def _tell(self, service: SupportsCall, told: VisitFeedback, *, late: bool) -> None:
        try:
            receipt, took = self._patience.timed(service, visit_requests.feedback(self.plan.ranker, told))
        except NotFound as error:  # the ranker was replaced, or died in the moment after it had answered
            self.tally.refuse(error)
            return
        except InvalidInput as error:
            if error.field != "event":
                raise
            # Told by an earlier run of this name, of another list: this one must not count as seen without a click.
            self._patience.ask(service, Calls.withdraw(self.plan.ranker, told.decision))
            self.tally.again()
            return
        self.tally.acknowledged(took, receipt.status, late=late)
