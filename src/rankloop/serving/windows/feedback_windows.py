"""The part of a ranker that closes feedback windows, when their time has passed or too many are open."""

from __future__ import annotations

import contextlib
import logging
import threading
from itertools import islice, takewhile

from rankloop.errors import RankloopError
from rankloop.eventlog.events import CannotReplay, GuardrailTripped, WindowClosed
from rankloop.eventlog.open_decisions import recall_from
from rankloop.schema import Quarantine
from rankloop.schema.service_settings import ServiceLimits
from rankloop.serving.feature_changes import FeatureChangingRanker
from rankloop.serving.windows.window_ages import Clock, WindowAges, monotonic_of

MAX_CLOSED_AT_ONCE = 1000
"""Windows that one event closes; their decisions are in memory together."""
MAX_EXCESS = 100
"""Decisions above the limit at which a ranker in process closes the oldest ones, instead of one with each list."""
log = logging.getLogger("rankloop.serving")


class _SettledMeanwhile(RankloopError):
    """Another process has done what was to be done."""


class FeedbackWindows(FeatureChangingRanker):
    """A ranker whose open decisions are closed: each when its window has ended, the oldest if there are too many.

    Windows follow a monotonic clock. A jump of the wall clock changes the stamps in the log and nothing else.
    """

    _monotonic: Clock
    _decided_at: dict[str, float]  # monotonic time of the decisions that are not committed yet, in their order
    closed_early: int = 0  # windows that this process closed because too many decisions were open

    def _start_windows(self, clock: Clock, monotonic: Clock | None, limits: ServiceLimits | None) -> None:
        """Take the ages of the decisions that are open in the log."""
        self._monotonic = monotonic_of(clock) if monotonic is None else monotonic
        self.open_limit = (ServiceLimits() if limits is None else limits).open_decisions
        self._decided_at, self._ages, self._closing = {}, WindowAges(), threading.Lock()
        decisions = self._replica.open_decisions.values()
        positions, times = [one.since_position for one in decisions], [one.since for one in decisions]
        self._ages.restore(positions, times, clock(), self._monotonic())

    def _note_opened(self, id: str, position: int) -> None:
        """Start the window of a decision that has been applied and so is uncommitted no longer."""
        self._uncommitted.pop(id, None)
        since = self._decided_at.get(id)
        if since is None:  # when it was decided is not known
            since = self._monotonic()
        else:
            while id in self._decided_at:  # what was decided earlier and is not in the log could not be committed
                del self._decided_at[next(iter(self._decided_at))]
        self._ages.add(position, since)
        opened = self._replica.open_decisions
        self._ages.forget_settled((one.since_position for one in opened.values()), len(opened))

    def _note_activated(self) -> None:
        """Start the windows of decisions that an impression has activated since they were made."""
        newest = next(reversed(self._replica.open_decisions.values()), None)
        if newest is not None and newest.since_position > max(newest.position, self._ages.last):
            self._ages.add(newest.since_position, self._monotonic())

    def tick(self) -> int:
        """Close the feedback windows that have ended and evaluate the guardrail; return the number of windows.

        If more decisions are open than the limit allows, the oldest ones are closed as well. Of several processes, one
        does it; the others only note how old the windows are, since one of them may have to go on.
        """
        if self.quarantine is not None:
            return 0
        if not self._writer.leads:
            self._age()
            return 0
        with self._lock:
            due = self._due()
            tripped = self._guardrail_reason()
        with self._closing:
            self._close(due)
            early = self._close_excess()
        if tripped is not None:
            self._trip(tripped)
        return len(due) + early

    def _age(self) -> None:
        """Note since when the decisions are open at the latest."""
        with self._lock:
            now, opened = self._monotonic(), self._replica.open_decisions
            oldest, newest = opened.oldest(), next(reversed(opened.values()), None)
            if oldest is not None and newest is not None:
                self._ages.forget_before(oldest.since_position)
                if newest.since_position > self._ages.last:
                    self._ages.add(newest.since_position, now)

    def _due(self) -> list[str]:
        """Return the decisions whose window has ended, oldest first."""
        self._age()
        now, opened = self._monotonic(), self._replica.open_decisions
        last = self._ages.due(now, opened.window)
        committed = [id for id, _ in takewhile(lambda one: one[1].since_position <= last, opened.items())]
        # Uncommitted decisions are in the log before the event that closes them.
        waiting = ((id, self._decided_at.get(id, now)) for id in self._uncommitted)
        return committed + [id for id, since in waiting if since + opened.window <= now]

    def _close_if_too_many(self) -> None:
        """Close the oldest windows if clearly more decisions are open than the limit, unless another thread does it.

        An error is logged: the list of the caller is in the log by then. The next call or tick tries again.
        """
        allowed = self.open_limit + min(MAX_EXCESS, self.open_limit // 100)
        if len(self._replica.open_decisions) + len(self._uncommitted) <= allowed or not self._writer.leads:
            return
        if self._closing.acquire(blocking=False):
            try:
                self._close_excess()
            except Exception as error:
                log.warning("ranker %s: the oldest feedback windows could not be closed: %s", self.name, error)
            finally:
                self._closing.release()

    def _close_excess(self) -> int:
        """Close the oldest windows above the limit; return how many."""
        with self._lock:
            opened = self._replica.open_decisions
            ids = list(islice(opened, max(0, len(opened) + len(self._uncommitted) - self.open_limit)))
        self._close(ids)
        self.closed_early += len(ids)
        return len(ids)

    def _close(self, ids: list[str]) -> None:
        """Close windows, in events of limited size; what is not in memory is read before anything is committed.

        A decision that cannot be read quarantines the ranker, as a replay would.
        """
        recall = recall_from(self.store, self.name)
        for start in range(0, len(ids), MAX_CLOSED_AT_ONCE):
            piece = ids[start : start + MAX_CLOSED_AT_ONCE]
            recent = {id: event for id in piece if (event := self.recent_decision(id)) is not None}
            try:
                decided = {**recent, **recall([id for id in piece if id not in recent])}
            except CannotReplay as error:
                raise self._quarantined(error) from error
            self._submit(WindowClosed(self._clock(), tuple(piece), decided)).result()

    def _quarantined(self, cause: CannotReplay) -> RankloopError:
        """Stop serving, and return the error that says so."""
        self.quarantine = Quarantine(cause.position, cause.reason)
        return self.quarantine.error()

    def _trip(self, reason: str) -> None:
        """Fall back to the control ranking, unless another process has done so, or reset the guardrail, meanwhile."""

        def check() -> None:
            with self._lock:
                if self._guardrail_reason() is None:
                    raise _SettledMeanwhile("the guardrail does not trip any more.")

        with contextlib.suppress(_SettledMeanwhile):
            self._submit(GuardrailTripped(self._clock(), reason), check=check).result()

    def _guardrail_reason(self) -> str | None:
        """Return why the guardrail trips now, if it does."""
        replica = self._replica
        rule = replica.config.guardrail
        if rule is None or replica.guardrail_tripped is not None:
            return None
        return replica.guardrail.reason(rule, replica.objective)
