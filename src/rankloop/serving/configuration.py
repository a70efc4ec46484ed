"""The part of a ranker that changes its configuration and keeps a challenger."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.eventlog.events import ConfigChanged, LogEvent
from rankloop.eventlog.open_decisions import recall_from
from rankloop.eventlog.writer import Commit
from rankloop.schema import Receipt
from rankloop.serving.config import RankerConfig, changes, learning_of
from rankloop.serving.queries import RankerQueries
from rankloop.serving.replica import Replica

log = logging.getLogger("rankloop.serving")


class ConfigurableRanker(RankerQueries):
    """A ranker whose configuration can change: every change is an event of the log."""

    _clock: Callable[[], float]
    _configuring: threading.Lock
    _challenger: Replica | None  # another policy that follows the same log

    @abstractmethod
    def _submit(self, event: LogEvent) -> Commit[Receipt | None]:
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
            logged, given = self._replica.settings, config.plain()
            if logged == given:
                return
            if logged and not fits(logged, given):
                accepted = "the dim, context, coverage and slots that the log was written with"
                raise InvalidInput("ranker", Words("of another shape"), accepted)
            version = max(self._replica.version, after) + 1
            self._submit(ConfigChanged(self._clock(), version, given, changes(logged, given), by)).result()

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
            self._challenger = None

    def _followed(self, challenger: Replica, events: Sequence[tuple[int, LogEvent]]) -> Replica | None:
        """Return the challenger after these events; None if it cannot apply one of them."""
        try:
            challenger.apply_all(events)
        except Exception:
            log.exception("the challenger of %s cannot follow the log and is discarded", self.name)
            return None
        if challenger.rejected_prior is not None:
            log.warning("the challenger of %s is discarded: %s", self.name, challenger.rejected_prior)
            return None
        return challenger

    def _promote_if_configured(self) -> None:
        """Swap the policy and the challenger if the configuration in the log is that of the challenger."""
        learning, challenger = learning_of(self._replica.settings), self._challenger
        if learning == self._replica.config.learning():
            return
        if challenger is None or learning != challenger.config.learning():
            raise Unsupported("the policy that was promoted could not follow the log.")
        self._replica, self._challenger = challenger, self._replica


def fits(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Return whether a policy can learn from the log of another, by their settings."""
    return all(one.get(name) == other.get(name) for name in ("dim", "context", "coverage", "slots"))
