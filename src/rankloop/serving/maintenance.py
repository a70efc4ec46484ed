"""The part of a ranker that works on a schedule: feedback windows, the guardrail and snapshots."""

from __future__ import annotations

from abc import abstractmethod

from rankloop.eventlog import Writer
from rankloop.eventlog.events import GuardrailReset, GuardrailTripped, WindowClosed
from rankloop.schema import Quarantine
from rankloop.serving import guardrail, snapshots
from rankloop.serving.configuration import ConfigurableRanker


class MaintainedRanker(ConfigurableRanker):
    """A ranker whose feedback windows, guardrail and snapshots are attended to by `tick` and `snapshot`."""

    quarantine: Quarantine | None
    _writer: Writer

    @abstractmethod
    def _require_serving(self) -> None:
        """Refuse if the ranker is quarantined."""

    def tick(self) -> int:
        """Close the feedback windows that have ended and evaluate the guardrail; return the number of windows."""
        if self.quarantine is not None:
            return 0
        now = self._clock()
        with self._lock:
            # Uncommitted decisions are in the log before the event that closes them.
            due = self._replica.open_decisions.due(now, self._uncommitted.values())
            tripped = self._guardrail_reason()
        if due:
            self._submit(WindowClosed(now, due)).result()
        if tripped is not None:
            self._submit(GuardrailTripped(now, tripped)).result()
        return len(due)

    def _guardrail_reason(self) -> str | None:
        """Return why the guardrail trips now, if it does."""
        rule, (treatment, control) = self._replica.config.guardrail, self._replica.guardrail_counts
        if rule is None or self._replica.guardrail_tripped is not None:
            return None
        return guardrail.reason(rule, treatment, control) if guardrail.trips(rule, treatment, control) else None

    def reset_guardrail(self, why: str = "by hand") -> None:
        """Let the policy decide again after the guardrail was tripped."""
        self._submit(GuardrailReset(self._clock(), why)).result()

    def snapshot(self) -> int:
        """Save the state, so that the next start replays only the rest of the log; return its log position."""
        with self._lock:
            self._require_serving()
            copy = snapshots.take(self._replica)
            challenger = None if self._challenger is None else snapshots.take(self._challenger)
        self._writer.flush()  # fails if another process serves the log: its snapshots are newer
        self.store.save_snapshot(self.name, snapshots.packed(copy))
        if challenger is not None:
            self.store.save_snapshot(snapshots.name_of(self.name, challenger=True), snapshots.packed(challenger))
        return copy.position
