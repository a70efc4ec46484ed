"""A ranker that is answered for, or one that is set aside."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankloop.errors import InvalidInput, NotFound
from rankloop.hosting.challenger_rebuild import ChallengerRebuild
from rankloop.schema import Quarantine, RankerAnswer
from rankloop.serving import Item, Ranker


@dataclass(slots=True, eq=False)
class HostedRanker:
    """A ranker by its name. One whose log cannot be replayed is there too: it says so, and does nothing else."""

    name: str
    log: str  # the name of its log
    settings: Mapping[str, Any]  # as the log said at the start, for one that is set aside
    held: Ranker | None
    set_aside: Quarantine | None = None
    changing: threading.Lock = field(default_factory=threading.Lock)  # its items, one change after the other
    rebuild: ChallengerRebuild | None = None  # of another policy

    @property
    def ranker(self) -> Ranker:
        """The ranker; `Quarantined` where it is set aside."""
        if self.held is None or self.quarantine is not None:
            raise (self.quarantine or Quarantine(0, "it could not be opened")).error()
        return self.held

    @property
    def quarantine(self) -> Quarantine | None:
        """Where and why it was set aside, if it was."""
        return self.set_aside or (None if self.held is None else self.held.quarantine)

    def answer(self) -> RankerAnswer:
        """The ranker, how far it is, and how it does."""
        aside = self.quarantine
        if aside is not None:
            return RankerAnswer(self.name, dict(self.settings), 0, 0, 0, 0, aside.position, quarantine=aside)
        ranker = self.ranker
        now = ranker.overview(hours=0.0)
        told: dict[str, Any] = {
            **ranker.counts(),
            "guardrail_tripped": now.guardrail_tripped,
            "groups": now.groups,
            "lift": now.lift,
        }
        return RankerAnswer(self.name, ranker.config.as_mapping(), **told, version=ranker.version)

    def item(self, id: str) -> Item:
        """One item; `NotFound` where there is none."""
        try:
            return self.ranker.item(id)
        except InvalidInput:
            raise NotFound(f"item {id!r} is not one of this ranker's.") from None
