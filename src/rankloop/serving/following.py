"""The part of a ranker that applies what other processes write to its log."""

from __future__ import annotations

from collections.abc import Sequence

from rankloop.errors import Unsupported
from rankloop.eventlog import LogEntry
from rankloop.eventlog.events import CannotReplay, DecisionMade, EventSkipped, VisitorsErased
from rankloop.serving.windows.feedback_windows import FeedbackWindows

REWRITING = (EventSkipped.kind, VisitorsErased.kind)
"""Events that change what the log says before them."""


class FollowingRanker(FeedbackWindows):
    """A ranker that follows its log where several processes write it."""

    def _catch_up(self, position: int) -> None:
        """Apply what the log has up to a position; nobody else uses the ranker yet."""
        self._replica.follow(self.store.read(self.name, self._replica.position), until=position)

    def _follow(self, entries: Sequence[LogEntry]) -> None:
        """Apply entries that another process has written; quarantine the ranker if that fails."""
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
            if self._replica.config.activation == "impression":
                self._note_activated()
