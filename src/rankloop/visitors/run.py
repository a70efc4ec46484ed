"""A run of simulated visitors: several threads send the requests of visits to a service."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from rankloop.client import Calls
from rankloop.errors import InvalidInput, NotFound, RankloopError
from rankloop.visitors import visit_requests
from rankloop.visitors.audience import Audience, Visitor
from rankloop.visitors.caller import Caller
from rankloop.visitors.retry import Retry, RunStopped, SupportsCall
from rankloop.visitors.schedule import Schedule
from rankloop.visitors.statistics import VisitStatistics
from rankloop.visitors.visit_requests import VisitFeedback

Job = Callable[[SupportsCall, float], None]
"""A visit or delayed feedback; called with a connection and the time at which it was due."""


@dataclass(frozen=True)
class VisitPlan:
    """How many visits to send, and how.

    Args:
        ranker: the name of the ranker.
        rate: visits per second, as a Poisson process; 0 for as fast as possible.
        callers: number of threads, the limit of concurrent visits.
        rounds: number of visits; 0 for no limit.
        seconds: time after which no visit begins (None for no limit); late feedback is still sent.
        retry_seconds: how long failed requests are retried.
        candidates: ids of the items to request (None for all).
        order: the control ranking that is sent with every request (None for none).
        values: which values of a visit the ranker takes: features, price or rewards.
    """

    ranker: str
    rate: float = 0.0
    callers: int = 16
    rounds: int = 0
    seconds: float | None = None
    retry_seconds: float = 30.0
    candidates: Sequence[str] | None = None
    order: Sequence[str] | None = None
    values: Collection[str] = visit_requests.VALUES


class Run:
    """A run of visits: call `start`, then `wait`; `stop` ends it early.

    Args:
        plan: how many visits to send, and how.
        audience: the visitors.
        url: the base URL of the service; each thread has its own connection.
        key: an API key, where the service needs one.
    """

    def __init__(self, plan: VisitPlan, audience: Audience, url: str, key: str | None = None) -> None:
        self.plan, self.audience, self._url, self._key = plan, audience, url, key
        self.statistics = VisitStatistics()
        self.error: Exception | None = None  # the error that ended the run early
        self._stopped = threading.Event()
        self._retry = Retry(plan.retry_seconds, self._stopped, self.statistics.failed)
        self._schedule: Schedule[Job] = Schedule(self._arrivals(), self._stopped)
        self._threads = [threading.Thread(target=self._caller, daemon=True) for _ in range(plan.callers)]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for at most `seconds`; return whether the run has finished."""
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Begin no further visit; requests in progress may still complete."""
        self._schedule.stop()

    def _arrivals(self) -> Iterator[tuple[float, Job]]:
        """Yield visits with their due times."""
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
                while (job := self._schedule.take()) is not None:
                    due, play = job
                    play(service, due)
                    self._schedule.done()
        except RunStopped:
            pass
        except RankloopError as error:
            self.statistics.ended(error)
            self._end(error)
        except Exception as error:
            self._end(error)

    def _end(self, error: Exception) -> None:
        """End the run because of an error; the first one is recorded."""
        self.error = self.error or error
        self._schedule.stop()

    def _visit(self, visitor: Visitor, service: SupportsCall, due: float) -> None:
        plan = self.plan
        behind = max(0.0, time.monotonic() - due) if plan.rate else 0.0
        call = visit_requests.rank(
            plan.ranker, visitor, candidates=plan.candidates, order=plan.order, values=plan.values
        )
        ranking, took = self._retry.timed(service, call)
        seen = time.monotonic()
        shown = self.audience.columns(ranking.ids, visitor.k)
        clicked, regret = visitor.click(shown)
        self.statistics.shown(took, behind=behind, clicked=bool(clicked), regret=regret, delay=visitor.delay)
        if visitor.delay is None:
            return
        values = visitor.values(shown)
        amounts = None if values is None else values[: len(ranking.ids)]
        feedback = VisitFeedback(visitor.event, ranking.id, clicked, regret, amounts)
        if visitor.delay:
            send = partial(self._send_feedback, feedback, late=True)
            self._schedule.later(seen + visitor.delay, lambda service, due: send(service))
        else:
            self._send_feedback(feedback, service, late=False)

    def _send_feedback(self, feedback: VisitFeedback, service: SupportsCall, *, late: bool) -> None:
        try:
            receipt, took = self._retry.timed(service, visit_requests.feedback(self.plan.ranker, feedback))
        except NotFound as error:  # the ranker was replaced, or crashed just after it had answered
            self.statistics.refuse(error)
            return
        except InvalidInput as error:
            if error.field != "event":
                raise
            # An earlier run of this name sent this event for another list: this one must not count as unclicked.
            self._retry.ask(service, Calls.withdraw(self.plan.ranker, feedback.decision))
            self.statistics.withdrawn()
            return
        self.statistics.acknowledged(took, receipt.status, late=late)
