"""The part of a ranker that an operator maintains: the guardrail and snapshots."""

from __future__ import annotations

from abc import abstractmethod

from rankloop.eventlog.events import GuardrailReset
from rankloop.serving import snapshots
from rankloop.serving.following import FollowingRanker


class MaintainedRanker(FollowingRanker):
    """A ranker whose guardrail can be reset, and whose state is saved."""

    @abstractmethod
    def _require_serving(self) -> None:
        """Refuse if the ranker is quarantined."""

    def reset_guardrail(self, why: str = "by hand") -> None:
        """Let the policy decide again after the guardrail was tripped."""
        self._submit(GuardrailReset(self._clock(), why)).result()

    def snapshot(self) -> int:
        """Save the state, so that the next start replays only the rest of the log; return its log position."""
        self._require_serving()
        self._writer.flush()  # fails if the log cannot be written, before the state is copied in vain
        with self._lock:
            self._require_serving()
            copy = snapshots.take(self._replica)
            challenger = None if self._challenger is None else snapshots.take(self._challenger)
        self._writer.flush()  # fails if another process serves the log: its snapshots are newer
        self.store.save_snapshot(self.name, snapshots.packed(copy))
        if challenger is not None:
            self.store.save_snapshot(snapshots.name_of(self.name, challenger=True), snapshots.packed(challenger))
        return copy.position
