"""The settings of a ranker, which are part of its log, and another policy that stands by to take over."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from rankloop.engine.config import RankerConfig, changes, learning_of
from rankloop.engine.questions import Questions
from rankloop.engine.records import ConfigChanged, Follower, Record, Shown
from rankloop.engine.replica import Replica
from rankloop.errors import InvalidInput, Unsupported, Words
from rankloop.schema import Receipt

log = logging.getLogger("rankloop.engine")


class Configurable(Questions):
    """The part of a ranker that changes its settings: every change is an event of the log."""

    _clock: Callable[[], float]
    _configuring: threading.Lock
    _other: Replica | None  # another policy that follows the same log

    @abstractmethod
    def _keep(self, record: Record) -> Future[Receipt | None]:
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

    def stand_by(self, other: Replica) -> None:
        """Let a replica of this log under other settings catch up, and follow from now on."""
        if not fits(other.config.plain(), self.config.plain()):
            raise Unsupported("another policy must have the same dim, context, coverage and slots.")
        other.follow(self.store.read(self.name, other.position))  # most of it, while others go on
        self.flush()  # it may have read what is committed and not applied here yet
        with self._lock:
            other.follow(self.store.read(self.name, other.position), until=self._replica.position)
            if other.untaken is not None:
                raise Unsupported(other.untaken)
            self._other = other

    def switch(self, by: str | None = None) -> RankerConfig:
        """Let the policy that stands by decide from now on, and this one stand by; the new settings."""
        other = self._other
        if other is None:
            raise Unsupported("no other policy stands by.")
        # Who sees the lists is the ranker's affair, whichever policy makes them.
        other.config.check()
        self._configure(other.config, by)
        return self.config

    def dismiss(self) -> None:
        """The other policy follows no more."""
        with self._lock:
            self._other = None

    @property
    def other(self) -> RankerConfig | None:
        """Settings of the policy that stands by."""
        other = self._other
        return None if other is None else other.config

    def _followed(self, kept: Sequence[tuple[int, Record]]) -> Replica | None:
        """The challenger after the same events; one that fails to apply an event is discarded."""
        try:
            if self._other is not None:
                self._other.apply_all(kept)
                if self._other.untaken is not None:
                    log.warning("the challenger of %s is given up: %s", self.name, self._other.untaken)
                    return None
        except Exception:
            log.exception("the policy that stands by for %s cannot follow, and is given up", self.name)
            return None
        return self._other

    def _promote(self, record: ConfigChanged) -> None:
        """Where the new settings are those of the policy that stands by, it decides from now on."""
        learning, other = learning_of(record.config), self._other
        if learning == self._replica.config.learning():
            return
        if other is None or learning != other.config.learning():
            raise Unsupported("the policy that was to decide could not follow the log.")
        self._replica, self._other = other, self._replica


class Committed(Follower[None]):
    """What a ranker does about records that are in the log and applied."""

    def __init__(self, unkept: dict[str, Shown], promote: Callable[[ConfigChanged], None]) -> None:
        self._unkept, self._promote = unkept, promote

    def on_shown(self, record: Shown) -> None:
        """The list is on its way no more."""
        self._unkept.pop(record.id, None)

    def on_config_changed(self, record: ConfigChanged) -> None:
        """Another policy may decide from now on."""
        self._promote(record)


def fits(other: Mapping[str, object], config: Mapping[str, object]) -> bool:
    """Whether a policy can learn from the log of another, by their plain settings: items and visitors are alike."""
    return all(other.get(name) == config.get(name) for name in ("dim", "context", "coverage", "slots"))
