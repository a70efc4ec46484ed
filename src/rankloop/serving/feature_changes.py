"""The part of a ranker whose features change: it learns again from its log under the new ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from rankloop.errors import Conflict, RankloopError, Unsupported
from rankloop.eventlog.events import skipped_positions
from rankloop.eventlog.open_decisions import recall_from
from rankloop.schema.answers import FeaturesAnswer
from rankloop.schema.feature_settings import FREEZE_AFTER, FeatureSettings
from rankloop.serving.config import RankerConfig, changes
from rankloop.serving.configuration import ConfigurableRanker
from rankloop.serving.feature_settings import FIRST_CONTEXTS, carried_over, due, first_contexts, simplified
from rankloop.serving.memory.state_size import state_size
from rankloop.serving.replica import MAX_PAGE_ENTRIES, Replica

SHORT_LOG = 5_000
"""Entries of a log that is learned again at once, while a request waits."""
T = TypeVar("T")
log = logging.getLogger("rankloop.serving")


class FeatureChangingRanker(ConfigurableRanker):
    """A ranker whose features may change while it serves.

    A replica learns the whole log again under the new features, where decisions of earlier ones are scored from their
    fields. It follows the log, and takes over at the position of the event that has the new configuration.
    """

    _changing_features: threading.Lock  # held while another configuration is learned
    _features_seen: tuple[int, int]  # items and contexts when it was last asked which features are due

    def _follow_features(self) -> None:
        self._changing_features, self._features_seen = threading.Lock(), (0, 0)

    def adjust(self, config: RankerConfig, by: str | None = None) -> None:
        """Change adjustable settings, which leaves everything learned as it is, or features, which are learned again.

        Args:
            config: the same settings of learning but for the features, with other settings of the rollout or of the
                feedback window.
            by: the name of the API key that made the change, if there was one.
        """
        config = with_features_of_log(config, self.config.plain().get("features"))
        if self.changes_features(config):
            self.change_features(config, by)
        else:
            super().adjust(config, by)

    def changes_features(self, config: RankerConfig) -> bool:
        """Return whether the features are all that a configuration changes of what is learned."""
        return changes(self.config.learning(), config.learning()).keys() == {"features"}

    def change_features(
        self, config: RankerConfig, by: str | None = None, pause: Callable[[], None] = lambda: None
    ) -> None:
        """Learn the log again under other features, and let these decide.

        Args:
            config: the configuration with other features.
            by: the name of the API key that made the change, if there was one.
            pause: called after every page of the log.
        """
        with self._changing_features:
            if self._challenger is not None:
                raise Unsupported("ranker.features cannot change while there is a challenger; discard it first.")
            room = self._replica.learners.room.budget.room()
            try:
                room.budget.require({room: state_size(config, self.extent)}, "ranker.features", "a rebuild that")
                skipped, recall = skipped_positions(self.store, self.name), recall_from(self.store, self.name)
                successor = Replica(config, skipped, recall, room=room)
                self.flush()
                for page in _pages(self.store.read(self.name), MAX_PAGE_ENTRIES):
                    successor.follow(page)
                    pause()
                self.add_challenger(successor)
            except BaseException:
                room.release()
                raise
            try:
                self._configure(successor.config, by)
            finally:
                self.discard_challenger()

    def due_features(self) -> RankerConfig | None:
        """Return the configuration with the features that are due: inferred ones, or ones with fixed scales."""
        with self._lock:
            config, items = self.config, self._replica.items
            seen = len(items.raw_fields), self._replica.contexts
            if config.features is None or not self._may_be_due(seen):
                return None
            self._features_seen = seen
            features = config.feature_settings
            enough = FREEZE_AFTER if features is None else features.freeze_after
            first = items.raw_fields.first(enough)
        contexts = first_contexts(self.store, self.name, max(enough, FIRST_CONTEXTS)) if seen[1] else []
        next = due(features, first, contexts)
        for simpler in () if next is None else simplified(next, features):
            if simpler == features:
                return None
            try:
                found = RankerConfig.of({**config.as_mapping(), "features": simpler, "caps": None})
                return replace(found, caps=config.caps)  # on fields that may come later
            except RankloopError as error:
                log.warning("ranker %s cannot have the features %s: %s", self.name, simpler, error)
        return None

    def _may_be_due(self, seen: tuple[int, int]) -> bool:
        """Return whether there are twice as many items or contexts as at the last look, or the first enough ones."""
        features = self.config.feature_settings
        enough = 1 if features is None else features.freeze_after
        marks = enough, min(enough, FIRST_CONTEXTS)
        return any(
            now >= 2 * max(before, 1) or before < mark <= now
            for now, before, mark in zip(seen, self._features_seen, marks, strict=True)
        )

    def follow_features(self, longest: int | None = None) -> bool:
        """Change the features if others are due; return whether they have changed.

        Args:
            longest: entries of the longest log that is learned again; without it, any.
        """
        if self.config.features is None or self._challenger is not None:
            return False
        if longest is not None and self._replica.position > longest:
            return False
        config = self.due_features()
        if config is None:
            return False
        try:
            self.change_features(config)
        except Conflict:  # another process has changed them meanwhile
            return False
        return True

    def features_answer(self) -> FeaturesAnswer | None:
        """Return what the ranker does with fields; None if it has no features."""
        encoding = self._replica.items.encoding
        if encoding is None:
            return None if self.config.features is None else FeaturesAnswer(None, 0, None, "full", INFERRING)
        return FeaturesAnswer(
            encoding.settings,
            encoding.dim,
            encoding.context_width,
            "diagonal" if encoding.settings.is_sparse else "full",
            INFERRING_CONTEXT if encoding.settings.infer_context else encoding.note,
        )


INFERRING = "the features will be inferred from the first items"
INFERRING_CONTEXT = f"the features of the context will be inferred from the first {FIRST_CONTEXTS} contexts"


def with_features_of_log(config: RankerConfig, logged: object) -> RankerConfig:
    """Return a configuration with what its log already says about its features: inferred ones, and fixed scales.

    Args:
        config: the configuration.
        logged: the features of the last configuration in the log, as JSON values.
    """
    if config.features is None or logged is None or logged == "auto":
        return config
    before = FeatureSettings.of(logged)  # type: ignore[arg-type]
    given = config.feature_settings
    return replace(config, features=before if given is None else carried_over(given, before))


def _pages(entries: Iterator[T], size: int) -> Iterator[list[T]]:
    """Yield the entries in lists of this size."""
    page: list[T] = []
    for entry in entries:
        page.append(entry)
        if len(page) == size:
            yield page
            page = []
    yield page
