"""The rankers of a process that shares its log: what other processes create, change and delete happens here too."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Self

from rankloop.eventlog import LogEntry
from rankloop.eventlog.shared.postgres import SharedPostgresStore
from rankloop.eventlog.shared.watch import PostgresWatch
from rankloop.eventlog.shared.writer import SharedWriter
from rankloop.eventlog.writer import positions
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.hosting.ranker_start import open_ranker, restore_challenger
from rankloop.hosting.registry import RankerRegistry
from rankloop.hosting.registry_log import RESERVED, RegistryEntry, registered_rankers
from rankloop.schema.service_settings import ServiceSettings
from rankloop.serving import Ranker
from rankloop.serving.config import LoggedConfig, learning_of

CHECK_SECONDS = 0.5
"""Time between two looks at rankers that must be opened again."""
LOOK_SECONDS = 0.05
"""Least time between two looks for a ranker that does not exist here."""
log = logging.getLogger("rankloop.service")


class SharedRegistry(RankerRegistry):
    """Rankers that several processes serve from one log.

    The registry follows the entries that register rankers: a thread opens those that another process has created or
    reset, rebuilds their challengers, and closes those that it has deleted. A change of rankers excludes those of other
    processes, and starts from all that they have done before.
    """

    def __init__(
        self, settings: ServiceSettings, store: SharedPostgresStore, writer: SharedWriter, watch: PostgresWatch
    ) -> None:
        self._watch, self._due, self._closing = watch, threading.Event(), False
        self._local = threading.Lock()
        self._looked_at = 0.0
        self._without: dict[str, str] = {}  # challengers that could not be rebuilt, as JSON, by ranker
        self._thread = threading.Thread(target=self._run, name="rankloop-registry", daemon=True)
        super().__init__(settings, store, writer)
        self.writer: SharedWriter = writer
        self._thread.start()

    @classmethod
    def _of_log(cls, settings: ServiceSettings, resources: ExitStack) -> Self:
        store = SharedPostgresStore(settings.log)
        resources.callback(store.close)
        watch = PostgresWatch(settings.log, store.process)
        return cls(settings, store, SharedWriter(store, watch), watch)

    def close(self) -> None:
        """Stop following, then close as a registry does."""
        self._closing = True
        self._due.set()
        if self._thread.is_alive():
            self._thread.join()
        super().close()

    def look_for(self, name: str) -> None:
        """Open a ranker that another process has just created, if there is one."""
        if name in self._hosted or time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        with self._local:
            if name not in self._hosted:
                self._reconcile()
                self._looked_at = time.monotonic()

    # Following

    def _change_lock(self) -> AbstractContextManager[object]:
        return _ChangeLock(self)

    def _put_configured(self, settings: ServiceSettings) -> None:
        self.writer.follow(RESERVED, positions, self._note_changes, lambda position: None)
        with self._changing:  # another process may be creating them at this moment
            pass
        super()._put_configured(settings)

    def _note_changes(self, entries: Sequence[LogEntry]) -> None:
        """Note that another process has changed rankers; the writer must not wait for what follows from it."""
        self._due.set()

    def _run(self) -> None:
        while not self._closing:
            if not self._due.wait(CHECK_SECONDS) and not any(map(_is_outdated, self.all())):
                continue
            self._due.clear()
            if self._closing:
                return
            try:
                with self._local:
                    self._reconcile()
            except Exception as error:
                log.warning("the changes of other processes cannot be followed now: %s", error)
                self._due.set()
                time.sleep(CHECK_SECONDS)

    def _reconcile(self) -> None:
        """Serve the rankers that the log registers now."""
        registered, logs = registered_rankers(self.store)
        self._log_names |= logs
        for name in self._hosted.keys() - registered.keys():
            self._replace(name, None)
        for name, entry in registered.items():
            hosted = self._hosted.get(name)
            if hosted is None or hosted.log != entry.log or _is_outdated(hosted):
                self._replace(name, open_ranker(name, entry, self.writer, self.limits, self.memory))
            elif hosted.opened is not None:
                self._follow_challenger(hosted, hosted.opened, entry)

    def _replace(self, name: str, new: HostedRanker | None) -> None:
        """Serve another ranker of a name, or none any more."""
        old = self._hosted.get(name)
        if new is not None:
            self._hosted[name] = new
        elif old is not None:
            del self._hosted[name]
        if old is not None:
            with old.changing:
                self._drop_challenger(old)
                if new is None or new.log != old.log:
                    self.writer.unfollow(old.log)
                old.release()

    def _follow_challenger(self, hosted: HostedRanker, ranker: Ranker, entry: RegistryEntry) -> None:
        """Have the challenger that the log registers."""
        if hosted.rebuild is not None and hosted.rebuild.state == "rebuilding":
            return  # it will be registered
        wanted, current = entry.challenger, ranker.challenger
        if wanted is None:
            if current is not None:
                self._drop_challenger(hosted)
            return
        learning = LoggedConfig.of(learning_of(wanted)).learning()
        if learning == ranker.config.learning() or (current is not None and learning == current.learning()):
            return  # it was promoted a moment ago, or it is there
        if self._without.get(hosted.name) != (text := _text(wanted)):
            self._drop_challenger(hosted)
            restore_challenger(hosted.name, ranker, wanted, self.memory)
            if ranker.challenger is None:
                self._without[hosted.name] = text


def open_rankers(settings: ServiceSettings) -> RankerRegistry:
    """Open the rankers of a service, beside other processes if its settings say so."""
    return (SharedRegistry if settings.shares_log else RankerRegistry).open(settings)


class _ChangeLock:
    """Excludes other changes of rankers, in this process and in others; what they have done is followed first."""

    def __init__(self, registry: SharedRegistry) -> None:
        self._registry = registry
        self._inside = ExitStack()

    def __enter__(self) -> None:
        registry = self._registry
        with ExitStack() as entered:
            entered.enter_context(registry._local)
            entered.enter_context(registry._watch.changing_rankers())
            registry.writer.flush()  # applies all entries
            registry._reconcile()
            self._inside = entered.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside.__exit__(kind, error, trace)


def _is_outdated(hosted: HostedRanker) -> bool:
    return hosted.opened is not None and hosted.opened.outdated


def _text(settings: Mapping[str, object]) -> str:
    return json.dumps(settings, sort_keys=True)
