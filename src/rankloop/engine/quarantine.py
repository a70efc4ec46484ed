"""A ranker that is set aside: it answers no more, and names the log position that could not be applied."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop.errors import RankloopError


class Quarantined(RankloopError):
    """The ranker is set aside; nothing of what was asked has happened."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Where and why. All other rankers serve."""

    position: int  # of the event that could not be applied
    reason: str

    def error(self) -> Quarantined:
        """The error of every request to this ranker."""
        return Quarantined(f"the ranker is quarantined at log position {self.position}: {self.reason}.")
