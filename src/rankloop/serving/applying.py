"""The part of a ranker that commits events and applies those of its log, in one order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rankloop.errors import Unsupported
from rankloop.eventlog import LogEntry
from rankloop.eventlog.events import CannotReplay, DecisionMade, EventSkipped, LogEvent, VisitorsErased
from rankloop.eventlog.writer import Commit
from rankloop.schema import Receipt
from rankloop.serving.windows.feedback_windows import FeedbackWindows

REWRITING = (EventSkipped.kind, VisitorsErased.kind)
"""Events that change what the log says before them."""


class ApplyingRanker(FeedbackWindows):
    """A ranker whose state is changed by the events of its log, and by nothing else."""

    def _require_serving(self) -> None:
        """Refuse if the ranker is quarantined."""
        if self.quarantine is not None:
            raise self.quarantine.error()

    def _submit(
        self,
        event: LogEvent,
        duplicate: Callable[[], Receipt | None] | None = None,
        check: Callable[[], None] | None = None,
    ) -> Commit[Receipt | None]:
        self._require_serving()
        return self._writer.submit(self.name, event.entry(), event, self._apply, duplicate, check)

    def _apply(self, events: Sequence[tuple[int, LogEvent]]) -> list[Receipt | None]:
        """Apply committed events to the state and to the challenger; quarantine the ranker if that fails."""
        with self._lock:
            self._require_serving()
            version = self._replica.version
            try:
                receipts = self._replica.apply_all(events)
                if self._challenger is not None:
                    self._challenger = self._followed(self._challenger, lambda one: one.apply_all(events))
                if self._replica.version != version:
                    self._promote_if_configured()
            except CannotReplay as error:
                raise self._quarantined(error) from error
            except Exception as error:
                raise self._quarantined(CannotReplay(self._replica.position, events[-1][1].kind, error)) from error
            if self._decided_at or self._uncommitted:
                for position, event in events:
                    if event.opens is not None:
                        self._note_opened(event.opens, position)
            return receipts

    # Entries of other processes

    def _catch_up(self, position: int) -> None:
        """Apply what the log has up to a position; nobody else uses the ranker yet."""
        self._replica.follow(self.store.read(self.name, self._replica.position), until=position)

    def _follow(self, entries: Sequence[LogEntry]) -> None:
        """Do as `_apply` for entries that another process has written."""
        with self._lock:
            if self.quarantine is not None:
                return
            entries = [entry for entry in entries if entry.position > self._replica.position]
            if not entries:
                return
            version = self._replica.version
            try:
                if any(entry.kind in REWRITING for entry in entries):
                    self.outdated = True
                    raise Unsupported("events before it were excluded or rewritten, so the log is read again")
                self._replica.follow(entries)
                if self._challenger is not None:
                    self._challenger = self._followed(self._challenger, lambda one: one.follow(entries))
                if self._replica.version != version:
                    self._promote_if_configured()
            except CannotReplay as error:
                raise self._quarantined(error) from error
            except Exception as error:
                raise self._quarantined(CannotReplay(self._replica.position, entries[-1].kind, error)) from error
            for entry in entries:
                if entry.kind == DecisionMade.kind:
                    self._note_opened(entry.key, entry.position)
