"""A ranker of a registry: one that serves, or one that is quarantined."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from rankloop.errors import InvalidInput, NotFound, Quarantined
from rankloop.hosting.challenger_rebuild import ChallengerRebuild
from rankloop.hosting.feature_change import FeatureChange
from rankloop.schema import Quarantine, RankerAnswer
from rankloop.serving import Item, Ranker
from rankloop.serving.memory.budget import Room


@dataclass(slots=True, eq=False)
class HostedRanker:
    """A ranker with its name and its challenger. A ranker whose log cannot be replayed is kept too, in quarantine."""

    name: str
    log: str  # name of its log
    settings: Mapping[str, Any]  # as the log stated them at the start, for a quarantined ranker
    opened: Ranker | None  # None if it could not be opened
    start_quarantine: Quarantine | None = None  # why it could not be opened
    changing: threading.Lock = field(default_factory=threading.Lock)  # held while its items change
    rebuild: ChallengerRebuild | None = None  # of its challenger
    feature_change: FeatureChange | None = None  # the last one

    @property
    def ranker(self) -> Ranker:
        """The ranker; raises `Quarantined` if it is quarantined."""
        ranker = self.opened
        if ranker is None or ranker.quarantine is not None:
            raise self.quarantine_error()
        return ranker

    @property
    def quarantine(self) -> Quarantine | None:
        """Position and reason of the quarantine, if there is one."""
        return self.start_quarantine or (None if self.opened is None else self.opened.quarantine)

    def quarantine_error(self) -> Quarantined:
        """Return the error of every request to a quarantined ranker."""
        return (self.quarantine or Quarantine(0, "it could not be opened")).error()

    @property
    def challenger_rooms(self) -> list[Room]:
        """The memory of the challenger and of its rebuild."""
        attached = [] if self.opened is None else self.opened.rooms[1:]
        return attached + ([] if self.rebuild is None else self.rebuild.rooms)

    @property
    def rooms(self) -> list[Room]:
        """The memory of the ranker, its challenger and a rebuild."""
        return [*([] if self.opened is None else self.opened.rooms[:1]), *self.challenger_rooms]

    def release(self) -> None:
        """Release the memory of a ranker that no longer exists."""
        for room in self.rooms:
            room.release()

    def answer(self) -> RankerAnswer:
        """Return the ranker's settings, counts and results."""
        quarantine = self.quarantine
        if quarantine is not None:
            settings = dict(self.settings)
            return RankerAnswer(self.name, settings, 0, 0, 0, 0, quarantine.position, quarantine=quarantine)
        ranker, change = self.ranker, self.feature_change
        features = ranker.features_answer()
        if features is not None and change is not None:
            features = replace(features, rebuilding=change.running, problem=change.problem)
        overview = ranker.overview(hours=0.0)
        results: dict[str, Any] = {
            **ranker.counts(),
            "guardrail_tripped": overview.guardrail_tripped,
            "groups": overview.groups,
            "lift": overview.lift,
            "objective": overview.objective,
            "unit": overview.unit,
            "features": features,
            "kinds": overview.kinds,
        }
        return RankerAnswer(
            self.name, ranker.config.as_mapping(), **results, version=ranker.version, state_bytes=ranker.state_bytes
        )

    def item(self, id: str) -> Item:
        """Return one item; raise `NotFound` if it does not exist."""
        try:
            return self.ranker.item(id)
        except InvalidInput:
            raise NotFound(f"item {id!r} does not exist in this ranker.") from None
