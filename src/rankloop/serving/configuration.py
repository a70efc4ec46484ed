"""The part of a ranker that changes its configuration and keeps a challenger."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

from rankloop.errors import Conflict, InvalidInput, RankloopError, Unsupported
from rankloop.eventlog.events import ConfigChanged, LogEvent
from rankloop.eventlog.open_decisions import recall_from
from rankloop.eventlog.writer import Commit
from rankloop.schema import Receipt
from rankloop.schema.service_settings import ServiceLimits
from rankloop.serving.config import RankerConfig, changes, learning_of
from rankloop.serving.log_shape import fits, require_fit
from rankloop.serving.memory.budget import Room
from rankloop.serving.memory.state_size import Extent
from rankloop.serving.queries import RankerQueries
from rankloop.serving.replica import Replica

log = logging.getLogger("rankloop.serving")


class _ChangedMeanwhile(RankloopError):
    """Another process has changed what a change starts from."""


class ConfigurableRanker(RankerQueries):
    """A ranker whose configuration can change: every change is an event of the log."""

    outdated: bool = False  # another process has changed what this one cannot follow: it must be opened again
    _configuring: threading.Lock
    _limits: ServiceLimits | None  # of the service
    _challenger: Replica | None  # another policy that follows the same log

    @abstractmethod
    def _submit(
        self,
        event: LogEvent,
        duplicate: Callable[[], Receipt | None] | None = None,
        check: Callable[[], None] | None = None,
    ) -> Commit[Receipt | None]:
        """Commit an event, then apply it."""

    @property
    def config(self) -> RankerConfig:
        """The configuration in force."""
        return self._replica.config

    @property
    def version(self) -> int:
        """The version of the configuration, from 1."""
        return self._replica.version

    def adjust(self, config: RankerConfig, by: str | None = None) -> None:
        """Change adjustable settings; everything that was learned stays.

        Args:
            config: the same settings of learning, with other settings of the rollout or of the feedback window.
            by: the name of the API key that made the change, if there was one.
        """
        if config.learning() != self.config.learning():
            names = ", ".join(changes(self.config.learning(), config.learning()))
            raise Unsupported(f"{names} cannot change while a ranker runs; rebuild a challenger, or start a new log.")
        self._configure(config, by)

    def _configure(self, config: RankerConfig, by: str | None = None, after: int = 0) -> None:
        """Log the configuration, unless the log ends with it; its version is greater than `after`."""
        with self._configuring:
            given = config.plain()
            while (logged := self._replica.settings) != given:
                if logged:
                    require_fit(logged, given)
                version = max(self._replica.version, after) + 1
                event = ConfigChanged(self._clock(), version, given, changes(logged, given), by)
                try:
                    self._submit(event, check=partial(self._require_settings, logged)).result()
                except _ChangedMeanwhile:  # by another process
                    if learning_of(self._replica.settings) != learning_of(logged or given):
                        raise Conflict(
                            "another process has chosen another policy meanwhile, so nothing was changed."
                        ) from None
                    continue
                return

    def _accept_settings(self, config: RankerConfig) -> None:
        """Take the settings of a shared log, which its other processes may be changing, instead of those given."""
        if learning_of(self._replica.settings) != config.learning():
            raise Conflict("the log has other settings of learning than those given; read them again.")

    def _require_settings(self, expected: Mapping[str, object]) -> None:
        """Refuse if the settings are not those any more that a change starts from."""
        if self._replica.settings != expected:
            raise _ChangedMeanwhile("the settings have changed meanwhile; try again.")

    # Memory

    @property
    def rooms(self) -> list[Room]:
        """The memory of the policy and of the challenger, if there is one."""
        return [replica.learners.room for replica in self._replicas()]

    @property
    def extent(self) -> Extent:
        """How large the state is."""
        return self._replica.learners.extent

    @property
    def state_bytes(self) -> int:
        """Bytes of memory that the state takes, that of the challenger included."""
        return sum(room.reserved for room in self.rooms)

    def _replicas(self) -> list[Replica]:
        challenger = self._challenger
        return [self._replica] if challenger is None else [self._replica, challenger]

    def _require_room(self, field: str, what: str, columns: int = 0, segments: int = 0, priors: int = 0) -> None:
        """Reserve the memory of an event before it is committed; `StateTooLarge` if it does not fit."""
        sizes = {one.learners.room: one.learners.larger(columns, segments, priors) for one in self._replicas()}
        wanted = {room: size for room, size in sizes.items() if size is not None}
        if wanted:
            self._replica.learners.room.budget.require(wanted, field, what)

    def _check_new_segment(self, segment: str) -> None:
        """Refuse a segment beyond the limits of the service or of the memory."""
        known, coming = self._replica.learners.segments, self._coming_segments()
        if segment in coming:
            return
        total = len(known) + len(coming)
        if self._limits is not None and total >= self._limits.segments:
            accepted = f"one of the {self._limits.segments} segments that this ranker has"
            raise InvalidInput("segment", segment, accepted)
        self._require_room("segment", "a new one, with which the ranker", segments=total + 1)

    # The challenger

    @property
    def challenger(self) -> RankerConfig | None:
        """The configuration of the challenger, if there is one."""
        challenger = self._challenger
        return None if challenger is None else challenger.config

    def add_challenger(self, challenger: Replica) -> None:
        """Let a replica of this log under other settings catch up, and follow the log from now on."""
        if not fits(challenger.config.plain(), self.config.plain()):
            raise Unsupported("a challenger must have the same dim, context, coverage and slots.")
        challenger.open_decisions.recall = recall_from(self.store, self.name)
        challenger.follow(self.store.read(self.name, challenger.position))  # most of it, without the lock
        self.flush()  # it may have read events that are committed and not applied here yet
        with self._lock:
            challenger.follow(self.store.read(self.name, challenger.position), until=self._replica.position)
            if challenger.rejected_prior is not None:
                raise Unsupported(challenger.rejected_prior)
            challenger.learners.room.replaying = False
            self._challenger = challenger

    def promote(self, by: str | None = None) -> RankerConfig:
        """Let the challenger decide, and make the policy that decided the challenger; return the configuration."""
        challenger = self._challenger
        if challenger is None:
            raise Unsupported("there is no challenger.")
        challenger.config.check()
        self._configure(challenger.config, by)
        return self.config

    def discard_challenger(self) -> None:
        """Let the challenger follow the log no longer."""
        with self._lock:
            if self._challenger is not None:
                self._challenger.learners.room.release()
            self._challenger = None

    def _followed(self, challenger: Replica, apply: Callable[[Replica], object]) -> Replica | None:
        """Return the challenger after some events; None if it cannot apply one of them."""
        try:
            apply(challenger)
        except Exception:
            log.exception("the challenger of %s cannot follow the log and is discarded", self.name)
            challenger.learners.room.release()
            return None
        if challenger.rejected_prior is not None:
            log.warning("the challenger of %s is discarded: %s", self.name, challenger.rejected_prior)
            challenger.learners.room.release()
            return None
        return challenger

    def _promote_if_configured(self) -> None:
        """Swap the policy and the challenger if the configuration in the log is that of the challenger."""
        learning, challenger = learning_of(self._replica.settings), self._challenger
        if learning == self._replica.config.learning():
            return
        if challenger is None or learning != challenger.config.learning():
            self.outdated = (
                self._writer.process > 0
            )  # another process had the challenger: this one reads it from the log
            raise Unsupported("the policy that was promoted could not follow the log.")
        self._replica, self._challenger = challenger, self._replica
