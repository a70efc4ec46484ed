"""The settings of a ranker, which are part of its log, and another policy that stands by to take over."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.eventlog.events import ConfigChanged, DecisionMade, EventFollower, LogEvent
from rankloop.schema import Receipt
from rankloop.serving.config import RankerConfig, changes, learning_of
from rankloop.serving.queries import RankerQueries
from rankloop.serving.replica import Replica

log = logging.getLogger("rankloop.serving")


class ConfigurableRanker(RankerQueries):
    """The part of a ranker that changes its settings: every change is an event of the log."""

    _clock: Callable[[], float]
    _configuring: threading.Lock
    _challenger: Replica | None  # another policy that follows the same log

    @abstractmethod
    def _keep(self, record: LogEvent) -> Future[Receipt | None]:
        """Commit an event, then apply it."""

    @property
    def config(self) -> RankerConfig:
        """The settings as they are now."""
        return self._replica.config

    @property
    def version(self) -> int:
        """Of the configuration, from 1."""
        return self._replica.version

    def adjust(self, config: RankerConfig, by: str | None = None) -> None:
        """Other adjustable settings from now on; what is learned stays.

        Args:
            config: the same settings of learning, with others of the rollout or of when feedback settles.
            by: the name of the API key that asked for it, where there was one.
        """
        if config.learning() != self.config.learning():
            told = ", ".join(changes(self.config.learning(), config.learning()))
            raise Unsupported(f"{told} cannot change while a ranker runs; rebuild a challenger, or start a new log.")
        self._configure(config, by)

    def _configure(self, config: RankerConfig, by: str | None = None, after: int = 0) -> None:
        """Log the settings, unless the log has said them last; the first version comes after this one."""
        with self._configuring:
            said, given = self._replica.settings, config.plain()
            if said == given:
                return
            if said and not fits(said, given):
                accepted = "the dim, context, coverage and slots that the log was written with"
                raise InvalidInput("ranker", Words("of another shape"), accepted)
            version = max(self._replica.version, after) + 1
            self._keep(ConfigChanged(self._clock(), version, given, changes(said, given), by)).result()

    def add_challenger(self, challenger: Replica) -> None:
        """Let a replica of this log under other settings catch up, and follow from now on."""
        if not fits(challenger.config.plain(), self.config.plain()):
            raise Unsupported("another policy must have the same dim, context, coverage and slots.")
        challenger.follow(self.store.read(self.name, challenger.position))  # most of it, while others go on
        self.flush()  # it may have read what is committed and not applied here yet
        with self._lock:
            challenger.follow(self.store.read(self.name, challenger.position), until=self._replica.position)
            if challenger.rejected_prior is not None:
                raise Unsupported(challenger.rejected_prior)
            self._challenger = challenger

    def promote(self, by: str | None = None) -> RankerConfig:
        """Let the policy that stands by decide from now on, and this one stand by; the new settings."""
        challenger = self._challenger
        if challenger is None:
            raise Unsupported("no other policy stands by.")
        # Who sees the lists is the ranker's affair, whichever policy makes them.
        challenger.config.check()
        self._configure(challenger.config, by)
        return self.config

    def discard_challenger(self) -> None:
        """The other policy follows no more."""
        with self._lock:
            self._challenger = None

    @property
    def challenger(self) -> RankerConfig | None:
        """Settings of the policy that stands by."""
        challenger = self._challenger
        return None if challenger is None else challenger.config

    def _followed(self, kept: Sequence[tuple[int, LogEvent]]) -> Replica | None:
        """The challenger after the same events; one that fails to apply an event is discarded."""
        try:
            if self._challenger is not None:
                self._challenger.apply_all(kept)
                if self._challenger.rejected_prior is not None:
                    log.warning("the challenger of %s is given up: %s", self.name, self._challenger.rejected_prior)
                    return None
        except Exception:
            log.exception("the policy that stands by for %s cannot follow, and is given up", self.name)
            return None
        return self._challenger

    def _promote(self, record: ConfigChanged) -> None:
        """Where the new settings are those of the policy that stands by, it decides from now on."""
        learning, challenger = learning_of(record.config), self._challenger
        if learning == self._replica.config.learning():
            return
        if challenger is None or learning != challenger.config.learning():
            raise Unsupported("the policy that was to decide could not follow the log.")
        self._replica, self._challenger = challenger, self._replica


class CommitFollower(EventFollower[None]):
    """What a ranker does about records that are in the log and applied."""

    def __init__(self, unkept: dict[str, DecisionMade], promote: Callable[[ConfigChanged], None]) -> None:
        self._unkept, self._promote = unkept, promote

    def on_decision(self, record: DecisionMade) -> None:
        """The list is on its way no more."""
        self._unkept.pop(record.id, None)

    def on_config_changed(self, record: ConfigChanged) -> None:
        """Another policy may decide from now on."""
        self._promote(record)


def fits(challenger: Mapping[str, object], config: Mapping[str, object]) -> bool:
    """Whether a policy can learn from the log of another, by their plain settings: items and visitors are alike."""
    return all(challenger.get(name) == config.get(name) for name in ("dim", "context", "coverage", "slots"))
