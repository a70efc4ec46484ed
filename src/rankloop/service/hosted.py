"""A ranker that the service answers for, or one that is set aside."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankloop.engine import Item, Ranker
from rankloop.errors import InvalidInput
from rankloop.schema import Quarantine
from rankloop.service.problems import Refused
from rankloop.service.replacing import Rebuild


@dataclass(slots=True, eq=False)
class Hosted:
    """A ranker by its name. One whose log cannot be replayed is there too: it says so, and does nothing else."""

    name: str
    log: str  # the name of its log
    settings: Mapping[str, Any]  # as the log said at the start, for one that is set aside
    held: Ranker | None
    set_aside: Quarantine | None = None
    changing: threading.Lock = field(default_factory=threading.Lock)  # its items, one change after the other
    rebuild: Rebuild | None = None  # of another policy

    @property
    def ranker(self) -> Ranker:
        """The ranker; 503 where it is quarantined."""
        if self.held is None or self.quarantine is not None:
            raise (self.quarantine or Quarantine(0, "it could not be opened")).error()
        return self.held

    @property
    def quarantine(self) -> Quarantine | None:
        """Where and why it was set aside, if it was."""
        return self.set_aside or (None if self.held is None else self.held.quarantine)

    def has_room_for(self, segment: str, most: int) -> None:
        """Refuse a segment for which there is no room."""
        if self.ranker.has_segment(segment):
            return
        there = self.ranker.segments()
        if segment not in there and len(there) >= most:
            raise Refused(422, f"segment is a new one; accepted: the {most} that this ranker has.", field="segment")

    def item(self, id: str) -> Item:
        """One item; 404 where there is none."""
        try:
            return self.ranker.item(id)
        except InvalidInput:
            raise Refused(404, f"item {id!r} is not one of this ranker's.") from None
