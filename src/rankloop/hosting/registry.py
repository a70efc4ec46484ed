"""`RankerRegistry`: rankers by name over one log, which also records which rankers exist."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Self

from msgspec.structs import replace

from rankloop import catalogue
from rankloop.catalogue.setting_use import OF_LOG
from rankloop.errors import Conflict, InvalidInput, NotFound, Words, closest
from rankloop.eventlog import LogEntry, Store, Writer
from rankloop.eventlog.address import open_store
from rankloop.eventlog.events import ConfigChanged
from rankloop.eventlog.writer import positions
from rankloop.hosting.challenger_rebuild import ChallengerRebuild, ChallengerStatus, RebuildMemory
from rankloop.hosting.feature_change import FeatureChange
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.hosting.ranker_start import open_ranker, settings_in_log
from rankloop.hosting.registry_log import RESERVED, deleted_entry, put_entry, registered_rankers
from rankloop.schema import Item, ItemFields, Quarantine, RankerSettings
from rankloop.schema.identifiers import ranker_name
from rankloop.schema.request_bodies import ItemsAnswer, ResetBody
from rankloop.schema.service_settings import ServiceSettings
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import ADJUSTABLE, ChallengerConfig, LoggedConfig, changes
from rankloop.serving.feature_changes import with_features_of_log
from rankloop.serving.items.item_table import prior_scores
from rankloop.serving.log_shape import fits
from rankloop.serving.memory.budget import MemoryBudget, Room
from rankloop.serving.memory.state_size import Extent, state_size
from rankloop.serving.warm_up import warm_up

SETTINGS = RankerSettings.__struct_fields__
log = logging.getLogger("rankloop.service")


class RankerRegistry:
    """Creates, changes and deletes rankers; the changes survive a restart.

    A reset ranker keeps its items, if their features fit, and has learned nothing. It writes to a log of its own name;
    the log of its predecessor is not changed. A ranker whose log cannot be replayed is quarantined; all others serve.
    """

    def __init__(self, settings: ServiceSettings, store: Store, writer: Writer | None = None) -> None:
        self.limits, self.store = settings.limits, store
        self.memory = MemoryBudget.of_service(settings.limits.memory)
        self._changing, self._resources = self._change_lock(), ExitStack()
        self.writer = Writer(store) if writer is None else writer
        with ExitStack() as on_error:
            on_error.callback(self.writer.close)
            registered, self._log_names = registered_rankers(store)
            self._hosted = {
                name: open_ranker(name, entry, self.writer, settings.limits, self.memory)
                for name, entry in registered.items()
            }
            self._put_configured(settings)
            on_error.pop_all()

    def _change_lock(self) -> AbstractContextManager[object]:
        """Return the lock that is held while rankers are created, changed and deleted."""
        return threading.Lock()

    def _put_configured(self, settings: ServiceSettings) -> None:
        """Create the rankers of the settings that the log does not have."""
        for name, config in settings.rankers.items():
            if name not in self._hosted:
                self.put(name, config)
            elif (
                self._hosted[name].quarantine is None
                and self.config(name, config, LoggedConfig).plain() != self._hosted[name].settings
            ):
                log.warning("ranker %s has other settings in the log than in the settings file; the log's apply", name)

    @classmethod
    def open(cls, settings: ServiceSettings) -> Self:
        """Load the policies that the settings name, and open all rankers of the log in their last state."""
        for i, source in enumerate(settings.policies):
            catalogue.load(source, field=f"policies[{i}]")
        catalogue.entries()  # imports the policies of installed packages now, not during a request
        with ExitStack() as resources:
            registry = cls._of_log(settings, resources)
            registry._resources = resources.pop_all()  # released by `close`
        return registry

    @classmethod
    def _of_log(cls, settings: ServiceSettings, resources: ExitStack) -> Self:
        """Return the rankers of the settings' log; the resources close its store."""
        return cls(settings, resources.enter_context(closing(open_store(settings.log, exclusive=True))))

    def close(self) -> None:
        """Store snapshots, write everything that is queued, and release the log."""
        for hosted in self.all():
            if hosted.rebuild is not None:
                hosted.rebuild.stop()
            if hosted.feature_change is not None:
                hosted.feature_change.stop()
        for hosted in self if self.writer.leads else ():
            try:
                hosted.ranker.snapshot()
            except Exception as error:
                log.warning("the last snapshot of ranker %s could not be stored: %s", hosted.name, error)
        self.writer.close()
        self._resources.close()

    # Lookup

    def __iter__(self) -> Iterator[HostedRanker]:
        """Iterate over the rankers that are not quarantined."""
        return iter([hosted for hosted in self.all() if hosted.quarantine is None])

    def all(self) -> list[HostedRanker]:
        """Return all rankers, including the quarantined ones."""
        return list(self._hosted.values())

    @property
    def quarantined(self) -> dict[str, Quarantine]:
        """The quarantined rankers by name."""
        return {hosted.name: hosted.quarantine for hosted in self.all() if hosted.quarantine is not None}

    def __contains__(self, name: str) -> bool:
        """Return whether a ranker of this name exists."""
        return name in self._hosted

    def look_for(self, name: str) -> None:
        """Open a ranker that another process has just created; this one knows all of its own."""

    @property
    def writes(self) -> bool:
        """Whether the writer of the log is running."""
        return self.writer.alive

    def find(self, name: str) -> HostedRanker:
        """Return a ranker for administration, also a quarantined one; raise `NotFound` if it does not exist."""
        hosted = self._hosted.get(name)
        if hosted is None:
            raise NotFound(f"ranker {name[:100]!r} does not exist.")
        return hosted

    def ranker(self, name: str) -> Ranker:
        """Return a ranker that serves; raise `NotFound` if it does not exist, `Quarantined` if it is quarantined."""
        hosted = self.find(name)
        ranker = hosted.opened
        if ranker is None or ranker.quarantine is not None:
            raise hosted.quarantine_error()
        return ranker

    # Lifecycle

    def config(self, name: str, given: Mapping[str, object], kind: type[RankerConfig] = RankerConfig) -> RankerConfig:
        """Check a ranker's name and settings; `kind` is another class for settings that a log already contains."""
        ranker_name(name)
        size = RankerSettings.row_size(given)
        if size > self.limits.features:
            raise InvalidInput("ranker.dim", size, f"at most {self.limits.features}, times ranker.context")
        return kind.of(given)

    def put(self, name: str, given: Mapping[str, object], by: str | None = None) -> bool:
        """Create a ranker or change its settings; return whether it is new. Repeating the same settings does nothing.

        Adjustable settings that are not given keep their values. A setting that determines what was learned cannot
        change: `Conflict`.
        """
        with self._changing:
            hosted = self._hosted.get(name)
            if hosted is None:
                config = self.config(name, given)
                if len(self._hosted) >= self.limits.rankers:
                    raise InvalidInput("name", name, f"one of the {len(self._hosted)} existing rankers, and no more")
                hosted = self._create(name, config, by, self.memory.room())
                try:
                    self._register(hosted, by)
                except BaseException:
                    hosted.release()
                    raise
                self._hosted[name] = hosted
                return True
            current = hosted.ranker.config.plain()
            adjustable = {field: current[field] for field in ADJUSTABLE if field in current}
            self._adjust(hosted, self.config(name, {**adjustable, **given}, LoggedConfig), by)
            return False

    def patch(self, name: str, given: Mapping[str, object], by: str | None = None) -> HostedRanker:
        """Change the given settings; null restores a default. `reset: true` discards everything but the items."""
        with self._changing:
            hosted = self.find(name)
            settings = {field: value for field, value in given.items() if field != "reset"}
            for field, value in settings.items():
                if field not in SETTINGS:
                    raise InvalidInput(
                        f"ranker.{field}", value, "a setting of a ranker, or reset", closest(field, SETTINGS)
                    )
            reset = ResetBody.of({"reset": given.get("reset", False)}).reset
            current = dict(hosted.settings) if hosted.opened is None else hosted.opened.config.plain()
            merged = {field: value for field, value in (current | settings).items() if value is not None}
            if not reset:
                self._adjust(hosted, self.config(name, merged, LoggedConfig), by)
                return hosted
            # Settings that describe items and requests may stay although the policy does not read them; new ones must
            # be read.
            kind = RankerConfig if any(settings.get(field) is not None for field in OF_LOG) else ChallengerConfig
            return self._reset(hosted, self.config(name, merged, kind), by)

    def _adjust(self, hosted: HostedRanker, config: RankerConfig, by: str | None) -> None:
        """Change settings of a running ranker; `Conflict` if one of them determines what was learned."""
        ranker = hosted.ranker
        config = with_features_of_log(config, ranker.config.plain().get("features"))
        if config.caps != ranker.config.caps:
            config.check_capped_fields()
        fixed = changes(ranker.config.learning(), config.learning())
        if fixed.keys() == {"features"}:
            self.change_features(hosted, RankerConfig.of(config.as_mapping()), by)
            return
        if fixed:
            raise Conflict(
                f"{', '.join(fixed)}: {'this setting determines' if len(fixed) == 1 else 'these settings determine'} "
                "what was learned, so nothing was changed. To keep what was learned, rebuild a challenger from the log "
                f"(PUT /v1/rankers/{hosted.name}/challenger) and promote it; to discard it, PATCH with reset: true.",
            )
        ranker.adjust(config, by)

    def change_features(self, hosted: HostedRanker, config: RankerConfig, by: str | None = None) -> None:
        """Learn a ranker's log again under other features: a short log at once, a long one in the background."""
        before = hosted.feature_change
        if before is not None and before.running:
            raise Conflict("the features are being changed already; try again later.")
        hosted.feature_change = FeatureChange(hosted.ranker, config, by, lambda: self._register(hosted, by))
        hosted.feature_change.wait()

    def follow_features(self, hosted: HostedRanker) -> None:
        """Change the features of a ranker in the background if others are due: inferred ones, or fixed scales."""
        before, ranker = hosted.feature_change, hosted.ranker
        if (before is None or not before.running) and ranker.config.features is not None and ranker.challenger is None:
            config = ranker.due_features()
            if config is not None:
                hosted.feature_change = FeatureChange(ranker, config, None, lambda: self._register(hosted))

    def _create(self, name: str, config: RankerConfig, by: str | None, room: Room, after: int = 0) -> HostedRanker:
        """Return a new ranker with a log, not registered yet; its state takes its memory from this room.

        An unregistered log of its name is continued if it fits: the process ended before the ranker was registered, or
        the ranker was used in process before.
        """
        logged = settings_in_log(self.store, name)
        is_free = name not in self._log_names and (name not in self.store.rankers() or fits(logged, config.plain()))
        log_name = name if is_free else f"{name}#{secrets.token_hex(6)}"
        try:
            warm_up(config)  # before the ranker's first request
            ranker = Ranker(
                config, name=log_name, writer=self.writer, limits=self.limits, by=by, after=after, room=room
            )
        except BaseException:
            room.release()
            raise
        self._log_names.add(log_name)
        return HostedRanker(name, log_name, config.plain(), ranker)

    def _reset(self, hosted: HostedRanker, config: RankerConfig, by: str | None) -> HostedRanker:
        """Replace a ranker by one with other settings, the same items and nothing learned; on an error keep it."""
        versions = [int(entry.key) for entry in self.store.of_kind(hosted.log, ConfigChanged.kind)]
        with hosted.changing:  # until item changes go to the new ranker
            old = None if hosted.opened is None else hosted.opened.config
            fits_items = old is not None and (old.dim, old.coverage) == (config.dim, config.coverage)
            items = hosted.opened.items() if hosted.opened is not None and fits_items else []
            room = self.memory.room(instead_of=hosted.rooms)
            extent = Extent.of(len(items), 1, prior_scores(items))
            self.memory.require({room: state_size(config, extent)}, "ranker", "a configuration that")
            try:
                new = self._create(hosted.name, config, by, room, max(versions, default=0))
                if old is not None and fits_items:
                    same_units = (old.objective == "amount") == (config.objective == "amount")
                    accepts = new.ranker.accepts_prior
                    new.ranker.put_items(
                        [one if same_units and accepts(one) else replace(one, prior=None) for one in items]
                    )
                self._drop_challenger(hosted)  # a rebuild that continued could register the old ranker again
                self._register(new, by)
            except BaseException:
                room.release()
                raise
            self._hosted[hosted.name] = new
            hosted.release()
        return new

    def delete(self, name: str, by: str | None = None) -> None:
        """Delete a ranker; its log is kept."""
        with self._changing:
            hosted = self.find(name)
            with hosted.changing:
                self._drop_challenger(hosted)  # a rebuild that continued could register the ranker again
                self._append(deleted_entry(name, by))
                del self._hosted[name]
                hosted.release()

    def _register(self, hosted: HostedRanker, by: str | None = None) -> None:
        """Record a ranker's log and challenger for the next start."""
        self._append(put_entry(hosted.name, hosted.ranker, by))

    def _append(self, entry: LogEntry) -> None:
        self.writer.submit(RESERVED, entry, None, positions).result()

    # Challenger

    def put_challenger(self, name: str, given: Mapping[str, object], by: str | None = None) -> HostedRanker:
        """Start to rebuild a challenger from the ranker's log in the background."""
        current = self.find(name).ranker.config.plain()
        inherited = {field: current[field] for field in OF_LOG if field in current}
        config = self.config(name, {**inherited, **given}, ChallengerConfig)
        with self._changing:
            hosted = self.find(name)
            current, requested = hosted.ranker.config.plain(), config.plain()
            for field in ADJUSTABLE:
                if field in given and requested.get(field) != current.get(field):
                    accepted = f"{current.get(field)!r}, the ranker's setting for either policy: PATCH the ranker"
                    raise InvalidInput(f"ranker.{field}", given[field], accepted)
            config = config.adjusted_as(current)
            config.check()
            if not fits(config.plain(), hosted.ranker.config.plain()):
                accepted = "the dim, context, coverage and slots of the active policy"
                raise InvalidInput("ranker", Words("of another shape"), accepted)
            memory = RebuildMemory(self.memory, hosted.ranker, config, instead_of=hosted.challenger_rooms)
            try:
                self._drop_challenger(hosted)
                hosted.rebuild = ChallengerRebuild(hosted.ranker, config, lambda: self._register(hosted, by), memory)
            except BaseException:
                memory.release()
                raise
            return hosted

    def challenger_status(self, name: str) -> ChallengerStatus:
        """Return the status of the challenger; raise `NotFound` if there is none."""
        ranker, rebuild = self.find(name).ranker, self.find(name).rebuild
        if rebuild is not None and (
            ranker.challenger is None or ranker.challenger.learning() == rebuild.config.learning()
        ):
            return rebuild.status()
        if ranker.challenger is not None:
            return ChallengerStatus("ready", ranker.challenger.as_mapping(), ranker.position, None)
        raise NotFound(f"ranker {name[:100]!r} has no challenger.")

    def discard_challenger(self, name: str, by: str | None = None) -> None:
        """Discard the challenger; raise `NotFound` if there is none."""
        with self._changing:
            hosted = self.find(name)
            self.challenger_status(name)
            self._drop_challenger(hosted)
            self._register(hosted, by)

    def _drop_challenger(self, hosted: HostedRanker) -> None:
        if hosted.feature_change is not None:
            hosted.feature_change.stop()
        if hosted.rebuild is not None:
            hosted.rebuild.stop()
            hosted.rebuild = None
        if hosted.opened is not None:
            hosted.opened.discard_challenger()

    def promote(self, name: str, by: str | None = None) -> HostedRanker:
        """Let the challenger decide; the active policy becomes the challenger. `Conflict` if it is not ready."""
        with self._changing:
            hosted = self.find(name)
            status = self.challenger_status(name)
            if status.state != "ready":
                raise Conflict(status.problem or "the challenger is still being rebuilt; try again later.")
            hosted.ranker.promote(by)
            self._register(hosted, by)
            return hosted

    # Items

    def put_items(self, name: str, items: Sequence[Item | ItemFields]) -> ItemsAnswer | None:
        """Add or change items of a ranker, all of them or none; return what had no effect, if anything."""
        checked = [Item.of(item, f"items[{i}]") for i, item in enumerate(items)]
        with self._locked_items(name) as hosted:
            total = hosted.ranker.columns_with([item.id for item in checked])
            if total > self.limits.items:
                raise InvalidInput("items", Words(f"{total} items in all"), f"at most {self.limits.items}")
            return hosted.ranker.put_items(checked)

    def remove_item(self, name: str, id: str) -> None:
        """Remove an item; raise `NotFound` if it does not exist."""
        with self._locked_items(name) as hosted:
            hosted.item(id)
            hosted.ranker.remove_items([id])

    @contextmanager
    def _locked_items(self, name: str) -> Iterator[HostedRanker]:
        """Yield the current ranker of a name under its item lock, never one that was replaced meanwhile."""
        while True:
            hosted = self.find(name)
            with hosted.changing:
                if self._hosted.get(name) is hosted:
                    yield hosted
                    return
