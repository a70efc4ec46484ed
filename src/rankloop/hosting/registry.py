"""Rankers by name: over one log, which also says which rankers there are."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Self

from msgspec.structs import replace

from rankloop import catalogue
from rankloop.catalogue import UnknownPolicy
from rankloop.catalogue.setting_use import OF_LOG
from rankloop.errors import Conflict, InvalidInput, NotFound, Words, closest
from rankloop.eventlog import LogEntry, Store, StoreUnavailable, Writer
from rankloop.eventlog.address import is_database, open_store
from rankloop.eventlog.events import CannotReplay, ConfigChanged, decode
from rankloop.eventlog.format_history import upgraded_settings
from rankloop.eventlog.writer import positions
from rankloop.hosting.challenger_rebuild import ChallengerRebuild, ChallengerStatus
from rankloop.hosting.change_history import DELETED, PUT, RESERVED
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.hosting.process_lock import hold
from rankloop.schema import Item, ItemFields, Quarantine, RankerSettings
from rankloop.schema.identifiers import ranker_name
from rankloop.schema.request_bodies import ResetBody
from rankloop.schema.service_settings import ServiceSettings
from rankloop.serving import Ranker, RankerConfig, snapshots
from rankloop.serving.config import ADJUSTABLE, ChallengerConfig, LoggedConfig, changes, learning_of
from rankloop.serving.configuration import fits
from rankloop.serving.verification import last_settings

SETTINGS = RankerSettings.__struct_fields__
NOT_LOADED = (
    "its policy {!r} is not loaded; start the service with --policy module:name of the function that makes it, or name "
    "that in `policies` of the settings"
)
log = logging.getLogger("rankloop.service")


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """What the log says of a ranker: the name of its own log, its settings, and those of another policy."""

    log: str
    config: Mapping[str, Any]
    challenger: Mapping[str, Any] | None = None
    damaged: Quarantine | None = None  # where the note cannot be read


class RankerRegistry:
    """Creates, changes and deletes rankers; what it did survives a restart.

    A ranker that starts anew has its predecessor's items, where they have the same features, and has learned nothing.
    Its entries are in the log under a name of their own: those of its predecessor stay what they were. A ranker whose
    log cannot be replayed is set aside; all others serve.
    """

    def __init__(self, settings: ServiceSettings, store: Store) -> None:
        self.limits, self.store = settings.limits, store
        self._hosted: dict[str, HostedRanker] = {}
        self._used: set[str] = set()  # names of logs that a ranker has or had
        self._changing, self._opened = threading.Lock(), ExitStack()
        self.writer = Writer(store)
        for name, noted in self._logged().items():
            self._hosted[name] = self._started(name, noted)
        for name, config in settings.rankers.items():
            if name not in self._hosted:
                self.put(name, config)
            elif (
                self._hosted[name].quarantine is None
                and self.config(name, config, LoggedConfig).plain() != self._hosted[name].settings
            ):
                log.warning("ranker %s is in the log with other settings, which are kept", name)

    @classmethod
    def open(cls, settings: ServiceSettings) -> Self:
        """All rankers of a log, as they were when it was last written; first the policies that the settings name."""
        for i, source in enumerate(settings.policies):
            catalogue.load(source, field=f"policies[{i}]")
        catalogue.entries()  # those of installed packages are imported now, and not when a request comes
        with ExitStack() as opened:
            if not is_database(settings.log) and (claim := hold(settings.log)) is not None:
                opened.callback(claim.close)
            store = open_store(settings.log, exclusive=True)
            opened.callback(store.close)
            made = cls(settings, store)
            made._opened = opened.pop_all()  # closed at the end, not here
        return made

    def _logged(self) -> dict[str, RegistryEntry]:
        """Log, settings, and those of another policy, of every ranker that was not deleted."""
        there: dict[str, RegistryEntry] = {}
        for entry in self.store.read(RESERVED):
            if entry.kind == PUT:
                try:
                    body = json.loads(entry.body)
                    self._used.add(body["log"])
                    challenger = body.get("challenger", body.get("other"))
                    there[entry.subject] = RegistryEntry(
                        body["log"],
                        upgraded_settings(body["config"]),
                        None if challenger is None else upgraded_settings(challenger),
                    )
                except (ValueError, KeyError, TypeError) as error:
                    why = Quarantine(entry.position, f"its entry cannot be read ({error})")
                    there[entry.subject] = RegistryEntry(entry.subject, {}, damaged=why)
            elif entry.kind == DELETED:
                there.pop(entry.subject, None)
        return there

    def _started(self, name: str, noted: RegistryEntry) -> HostedRanker:
        """A ranker as its log says, or set aside."""
        place, settings, challenger = noted.log, noted.config, noted.challenger
        if noted.damaged is not None:
            settings = _last_settings(self.store, place)  # perhaps the log itself is whole
            return HostedRanker(name, place, settings, None, noted.damaged)
        at = 0
        try:
            if said := self.store.of_kind(place, ConfigChanged.kind):
                at = said[-1].position
                last: Any = decode(said[-1])
                if challenger is not None and learning_of(challenger) == learning_of(last.config):
                    challenger = settings  # the process ended between a switch and its note
                settings = last.config
            ranker = Ranker(LoggedConfig.of(settings), name=place, writer=self.writer, limits=self.limits)
        except StoreUnavailable:
            raise
        except UnknownPolicy as error:
            log.error("ranker %s is quarantined: its policy %r is not loaded", name, error.value)
            return HostedRanker(name, place, settings, None, Quarantine(at, NOT_LOADED.format(error.value)))
        except CannotReplay as error:
            return _set_aside(name, place, settings, Quarantine(error.position, error.reason))
        except Exception as error:
            return _set_aside(name, place, settings, Quarantine(at, f"its settings cannot be used ({error})"))
        if challenger is not None:
            try:
                config = LoggedConfig.of(learning_of(challenger)).adjusted_as(ranker.config.plain())
                ranker.add_challenger(snapshots.start(config, self.store, place, challenger=True))
            except Exception as error:
                log.error("the policy that stood by for ranker %s cannot be rebuilt, and is left out: %s", name, error)
        return HostedRanker(name, place, settings, ranker)

    def __iter__(self) -> Iterator[HostedRanker]:
        return iter([hosted for hosted in self.all() if hosted.quarantine is None])

    def all(self) -> list[HostedRanker]:
        """All rankers, also those that are quarantined."""
        return list(self._hosted.values())

    @property
    def quarantined(self) -> dict[str, Quarantine]:
        """Those that are set aside, by name."""
        return {hosted.name: hosted.quarantine for hosted in self.all() if hosted.quarantine is not None}

    @property
    def writes(self) -> bool:
        """Whether somebody writes the log."""
        return self.writer.alive

    def find(self, name: str) -> HostedRanker:
        """A ranker; `NotFound` where there is none."""
        hosted = self._hosted.get(name)
        if hosted is None:
            raise NotFound(f"ranker {name[:100]!r} does not exist.")
        return hosted

    def ranker(self, name: str) -> Ranker:
        """Return the ranker of a name; `NotFound` if there is none, `Quarantined` if it does not serve."""
        hosted = self._hosted.get(name)
        if hosted is None:
            raise NotFound(f"ranker {name[:100]!r} does not exist.")
        ranker = hosted.held
        if ranker is None or hosted.set_aside is not None:
            return hosted.ranker  # raises the error of the quarantine
        return ranker

    def config(self, name: str, given: Mapping[str, object], kind: type[RankerConfig] = RankerConfig) -> RankerConfig:
        """Check a ranker's name and settings, new ones unless they are of a log that is there."""
        ranker_name(name)
        rows = RankerSettings.row_size(given)
        if rows > self.limits.features:
            raise InvalidInput("ranker.dim", rows, f"at most {self.limits.features}, times ranker.context")
        return kind.of(given)

    def put(self, name: str, given: Mapping[str, object], by: str | None = None) -> bool:
        """Create a ranker, or adjust it; whether it is new. The same settings again change nothing.

        Adjustable settings that are not given stay as they are. Other settings would learn anew: `Conflict`.
        """
        with self._changing:
            before = self._hosted.get(name)
            if before is None:
                config = self.config(name, given)
                if len(self._hosted) >= self.limits.rankers:
                    accepted = f"one of the {len(self._hosted)} rankers that there are, and no more"
                    raise InvalidInput("name", name, accepted)
                made = self._created(name, config, by)
                self._remember(made, by)
                self._hosted[name] = made
                return True
            now = before.ranker.config.plain()
            kept = {field: now[field] for field in ADJUSTABLE if field in now}
            self._adjust(before, self.config(name, {**kept, **given}, LoggedConfig), by)
            return False

    def patch(self, name: str, given: Mapping[str, object], by: str | None = None) -> HostedRanker:
        """Change named settings: null takes one back to its default. `reset: true` learns anew, with the items."""
        with self._changing:
            before = self.find(name)
            named = {field: value for field, value in given.items() if field != "reset"}
            for field, value in named.items():
                if field not in SETTINGS:
                    raise InvalidInput(
                        f"ranker.{field}", value, "a setting of a ranker, or reset", closest(field, SETTINGS)
                    )
            reset = ResetBody.of({"reset": given.get("reset", False)}).reset
            now = dict(before.settings) if before.held is None else before.held.config.plain()
            merged = {field: value for field, value in (now | named).items() if value is not None}
            if not reset:
                self._adjust(before, self.config(name, merged, LoggedConfig), by)
                return before
            # What items and requests carry stays, read or not; what is newly said of it must be read.
            kind = RankerConfig if any(named.get(field) is not None for field in OF_LOG) else ChallengerConfig
            return self._reset(before, self.config(name, merged, kind), by)

    def _adjust(self, hosted: HostedRanker, config: RankerConfig, by: str | None) -> None:
        """Change what can change while it runs; `Conflict` where it would have to learn anew."""
        told = changes(hosted.ranker.config.learning(), config.learning())
        if told:
            raise Conflict(
                f"{', '.join(told)}: {'this setting decides' if len(told) == 1 else 'these settings decide'} what was "
                "learned, so nothing was changed. To keep what was learned, rebuild another policy from the log (PUT "
                f"/v1/rankers/{hosted.name}/challenger) and switch to it; to learn anew, PATCH with reset: true.",
            )
        hosted.ranker.adjust(config, by)

    def _created(self, name: str, config: RankerConfig, by: str | None, after: int = 0) -> HostedRanker:
        """A ranker with a log of its own, which is not in the registry until it is remembered.

        A log of its name that no ranker had goes on where it fits: the process ended before it was remembered, or the
        ranker was in process before.
        """
        said = _last_settings(self.store, name)
        free = name not in self._used and (name not in self.store.rankers() or fits(said, config.plain()))
        place = name if free else f"{name}#{secrets.token_hex(6)}"
        self._used.add(place)
        return HostedRanker(
            name,
            place,
            config.plain(),
            Ranker(config, name=place, writer=self.writer, limits=self.limits, by=by, after=after),
        )

    def _reset(self, before: HostedRanker, config: RankerConfig, by: str | None) -> HostedRanker:
        """The same items and other settings, with nothing learned. Nothing changes where it cannot be done."""
        versions = [int(entry.key) for entry in self.store.of_kind(before.log, ConfigChanged.kind)]
        with before.changing:  # until items go to the new one
            made = self._created(before.name, config, by, max(versions, default=0))
            items = [] if before.held is None else before.held.items()
            old = None if before.held is None else before.held.config
            if old is not None and (old.dim, old.coverage) == (config.dim, config.coverage):
                same = (old.objective == "amount") == (config.objective == "amount")
                made.ranker.put_items(
                    [one if same and made.ranker.accepts_prior(one) else replace(one, prior=None) for one in items]
                )
            self._drop(before)  # a rebuild that went on could write a later note
            self._remember(made, by)
            self._hosted[before.name] = made
        return made

    def _remember(self, hosted: HostedRanker, by: str | None = None) -> None:
        """Note which log a ranker has, and which policy stands by, for the next start."""
        ranker = hosted.ranker
        challenger = None if ranker.challenger is None else ranker.challenger.plain()
        self._note(
            PUT, hosted.name, {"log": ranker.name, "config": ranker.config.plain(), "challenger": challenger, "by": by}
        )

    # Another policy

    def put_challenger(self, name: str, given: Mapping[str, object], by: str | None = None) -> HostedRanker:
        """Rebuild another policy from the ranker's log, in the background."""
        now = self.find(name).ranker.config.plain()
        kept = {field: now[field] for field in OF_LOG if field in now}
        config = self.config(name, {**kept, **given}, ChallengerConfig)
        with self._changing:
            hosted = self.find(name)
            now, asked = hosted.ranker.config.plain(), config.plain()
            for field in ADJUSTABLE:
                if field in given and asked.get(field) != now.get(field):
                    accepted = f"{now.get(field)!r}, as the ranker has it, whichever policy decides: PATCH the ranker"
                    raise InvalidInput(f"ranker.{field}", given[field], accepted)
            config = config.adjusted_as(now)
            config.check()
            if not fits(config.plain(), hosted.ranker.config.plain()):
                accepted = "the dim, context, coverage and slots of the ranker that it is to replace"
                raise InvalidInput("ranker", Words("of another shape"), accepted)
            self._drop(hosted)
            hosted.rebuild = ChallengerRebuild(hosted.ranker, config, lambda: self._remember(hosted, by))
            return hosted

    def challenger_status(self, name: str) -> ChallengerStatus:
        """How far the other policy is; `NotFound` where there is none."""
        ranker, rebuild = self.find(name).ranker, self.find(name).rebuild
        if rebuild is not None and (
            ranker.challenger is None or ranker.challenger.learning() == rebuild.config.learning()
        ):
            return rebuild.challenger_status()
        if ranker.challenger is not None:
            return ChallengerStatus("ready", ranker.challenger.as_mapping(), ranker.position, None)
        raise NotFound(f"ranker {name[:100]!r} has no other policy.")

    def discard_challenger(self, name: str, by: str | None = None) -> None:
        """The other policy follows no more."""
        with self._changing:
            hosted = self.find(name)
            self.challenger_status(name)
            self._drop(hosted)
            self._remember(hosted, by)

    def _drop(self, hosted: HostedRanker) -> None:
        if hosted.rebuild is not None:
            hosted.rebuild.stop()
            hosted.rebuild = None
        if hosted.held is not None:
            hosted.held.discard_challenger()

    def promote(self, name: str, by: str | None = None) -> HostedRanker:
        """Let the other policy decide; the one that did stands by. `Conflict` where it is not ready."""
        with self._changing:
            hosted = self.find(name)
            standing = self.challenger_status(name)
            if standing.state != "ready":
                raise Conflict(standing.problem or "the other policy is still being rebuilt; ask again.")
            hosted.ranker.promote(by)
            self._remember(hosted, by)
            return hosted

    def delete(self, name: str, by: str | None = None) -> None:
        """The ranker answers no more; its log stays."""
        with self._changing:
            hosted = self.find(name)
            with hosted.changing:
                self._drop(hosted)  # a rebuild that went on could write a later note
                self._note(DELETED, name, {"by": by})
                del self._hosted[name]

    def put_items(self, name: str, items: Sequence[Item | ItemFields]) -> None:
        """Add or change items of a ranker."""
        made = [Item.of(item, f"items[{i}]") for i, item in enumerate(items)]
        with self._changing_items(name) as hosted:
            there = hosted.ranker.columns_with([item.id for item in made])
            if there > self.limits.items:
                raise InvalidInput("items", Words(f"{there} items in all"), f"at most {self.limits.items}")
            hosted.ranker.put_items(made)

    def remove_item(self, name: str, id: str) -> None:
        """Never list an item again; `NotFound` where there is none."""
        with self._changing_items(name) as hosted:
            hosted.item(id)
            hosted.ranker.remove_items([id])

    @contextmanager
    def _changing_items(self, name: str) -> Iterator[HostedRanker]:
        """The ranker of a name under its item lock; never one that was replaced in the meantime."""
        while True:
            hosted = self.find(name)
            with hosted.changing:
                if self._hosted.get(name) is hosted:
                    yield hosted
                    return

    def _note(self, kind: str, name: str, body: Mapping[str, object]) -> None:
        entry = LogEntry(kind, "", name, time.time(), json.dumps(body).encode())
        self.writer.submit(RESERVED, entry, None, positions).result()

    def close(self) -> None:
        """Keep states, write what is waiting, let go of the log."""
        for hosted in self:
            if hosted.rebuild is not None:
                hosted.rebuild.stop()
            try:
                hosted.ranker.snapshot()
            except Exception as error:
                log.warning("no snapshot of ranker %s at the end: %s", hosted.name, error)
        self.writer.close()
        self._opened.close()


def _set_aside(name: str, place: str, settings: Mapping[str, object], why: Quarantine) -> HostedRanker:
    log.error("ranker %s is quarantined at log position %d: %s", name, why.position, why.reason)
    return HostedRanker(name, place, settings, None, why)


def _last_settings(store: Store, log: str) -> Mapping[str, object]:
    """What a log said last of its ranker's settings; nothing where that cannot be read."""
    try:
        return last_settings(store, log) or {}
    except Exception:
        return {}
