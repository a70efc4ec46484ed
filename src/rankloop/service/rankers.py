"""The rankers of a service by name: over one log, which also says which rankers there are."""

from __future__ import annotations

import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

from rankloop.engine import Item, Ranker, RankerConfig, snapshots
from rankloop.engine.ranker import fits
from rankloop.errors import InvalidInput, Words
from rankloop.service.problems import Refused
from rankloop.service.replacing import Rebuild, Standing
from rankloop.service.settings import Settings
from rankloop.service.single import hold
from rankloop.store import Entry, Store, Writer
from rankloop.store.opening import is_database, open_store
from rankloop.store.writer import positions

RESERVED = ""
"""Under this name the log says which rankers there are."""
PUT, DELETED = "ranker-put", "ranker-deleted"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
log = logging.getLogger("rankloop.service")


@dataclass(slots=True, eq=False)
class Hosted:
    """A ranker that the service answers for."""

    name: str
    ranker: Ranker
    changing: threading.Lock = field(default_factory=threading.Lock)  # its items, one change after the other
    rebuild: Rebuild | None = None  # of another policy

    def has_room_for(self, segment: str, most: int) -> None:
        """Refuse a segment for which there is no room."""
        if self.ranker.has_segment(segment):
            return
        there = self.ranker.segments()
        if segment not in there and len(there) >= most:
            raise Refused(422, f"segment is a new one; accepted: the {most} that this ranker has.", field="segment")

    def item(self, id: str) -> Item:
        """One item; 404 where there is none."""
        try:
            return self.ranker.item(id)
        except InvalidInput:
            raise Refused(404, f"item {id!r} is not one of this ranker's.") from None


class Rankers:
    """Creates, replaces and deletes rankers; what it did survives a restart.

    A ranker that replaces another starts with its items, where they have the same features, and has learned nothing.
    Its entries are in the log under a name of their own: those of its predecessor stay what they were.
    """

    def __init__(self, settings: Settings, store: Store) -> None:
        self.limits, self.store = settings.limits, store
        self._hosted: dict[str, Hosted] = {}
        self._used: set[str] = set()  # names of logs
        self._changing, self._opened = threading.Lock(), ExitStack()
        self.writer = Writer(store)
        for name, body in self._logged().items():
            ranker = Ranker(RankerConfig.of(body["config"]), name=body["log"], writer=self.writer)
            if body.get("other") is not None:
                ranker.stand_by(snapshots.start(RankerConfig.of(body["other"]), store, body["log"], other=True))
            self._hosted[name] = Hosted(name, ranker)
        for name, config in settings.rankers.items():
            if name not in self._hosted:
                self.put(name, config)
            elif _plain(self.config(name, config)) != _plain(self._hosted[name].ranker.config):
                log.warning("ranker %s is in the log with other settings, which are kept", name)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """All rankers of a log, as they were when it was last written."""
        with ExitStack() as opened:
            if not is_database(settings.log) and (claim := hold(settings.log)) is not None:
                opened.callback(claim.close)
            store = open_store(settings.log, exclusive=True)
            opened.callback(store.close)
            made = cls(settings, store)
            made._opened = opened.pop_all()  # closed at the end, not here
        return made

    def _logged(self) -> dict[str, dict[str, Any]]:
        """Log, settings, and those of another policy, of every ranker that was not deleted."""
        there: dict[str, dict[str, Any]] = {}
        for entry in self.store.read(RESERVED):
            if entry.kind == PUT:
                body = json.loads(entry.body)
                there[entry.subject] = body
                self._used.add(body["log"])
            elif entry.kind == DELETED:
                there.pop(entry.subject, None)
        return there

    def __iter__(self) -> Any:
        return iter(list(self._hosted.values()))

    def __len__(self) -> int:
        return len(self._hosted)

    @property
    def writes(self) -> bool:
        """Whether somebody writes the log."""
        return self.writer.alive

    def find(self, name: str) -> Hosted:
        """A ranker; 404 where there is none."""
        hosted = self._hosted.get(name)
        if hosted is None:
            raise Refused(404, f"ranker {name[:100]!r} is not one of this service's.")
        return hosted

    def config(self, name: str, given: Any) -> RankerConfig:
        """Check a ranker's name and settings."""
        if not isinstance(name, str) or re.fullmatch(NAME, name) is None:
            accepted = "1 to 64 letters, digits, dots, underscores and hyphens, a letter or digit first"
            raise InvalidInput("name", name, accepted)
        fields = given if isinstance(given, Mapping) else {}
        sizes = [size for size in (fields.get("dim"), fields.get("context")) if isinstance(size, int)]
        rows = 1
        for size in sizes:
            rows *= max(1, size)
        if rows > self.limits.features:
            raise InvalidInput("ranker.dim", rows, f"at most {self.limits.features}, times ranker.context")
        return RankerConfig.of(given)

    def put(self, name: str, given: Any) -> bool:
        """Create or replace a ranker; whether it is new. The same settings again change nothing."""
        config = self.config(name, given)
        with self._changing:
            before = self._hosted.get(name)
            if before is not None and _plain(before.ranker.config) == _plain(config):
                return False
            if before is not None and before.ranker.config.learning() == config.learning():
                before.ranker.adjust(config)
                self._remember(before)
                return False
            if before is None and len(self._hosted) >= self.limits.rankers:
                raise Refused(422, f"the service has {len(self._hosted)} rankers; accepted: no more.", field="name")
            place = name if name not in self._used else f"{name}#{secrets.token_hex(6)}"
            self._used.add(place)
            ranker = Ranker(config, name=place, writer=self.writer)
            if before is not None:
                self._drop(before)  # or it would be remembered after its successor
                if (before.ranker.config.dim, before.ranker.config.coverage) == (config.dim, config.coverage):
                    with before.changing:
                        ranker.put_items(before.ranker.items())
            hosted = Hosted(name, ranker)
            self._remember(hosted)
            self._hosted[name] = hosted
        return before is None

    def _remember(self, hosted: Hosted) -> None:
        """Keep what a ranker is, for the next start."""
        ranker = hosted.ranker
        other = None if ranker.other is None else _plain(ranker.other)
        self._note(PUT, hosted.name, {"log": ranker.name, "config": _plain(ranker.config), "other": other})

    # Another policy

    def put_other(self, name: str, given: Any) -> Hosted:
        """Rebuild another policy from the ranker's log, in the background."""
        config = self.config(name, given)
        with self._changing:
            hosted = self.find(name)
            config = config.rolled_out_as(hosted.ranker.config)
            if not fits(config, hosted.ranker.config):
                accepted = "the dim, context, coverage and slots of the ranker that it is to replace"
                raise InvalidInput("ranker", Words("of another shape"), accepted)
            self._drop(hosted)
            hosted.rebuild = Rebuild(hosted.ranker, config, lambda: self._remember(hosted))
            return hosted

    def standing(self, name: str) -> Standing:
        """How far the other policy is; 404 where there is none."""
        ranker, rebuild = self.find(name).ranker, self.find(name).rebuild
        if rebuild is not None and (ranker.other is None or ranker.other.learning() == rebuild.config.learning()):
            return rebuild.standing()
        if ranker.other is not None:
            return Standing("ready", ranker.other.as_mapping(), ranker.position, None, None)
        raise Refused(404, f"ranker {name[:100]!r} has no other policy.")

    def drop_other(self, name: str) -> None:
        """The other policy follows no more."""
        with self._changing:
            hosted = self.find(name)
            self.standing(name)
            self._drop(hosted)
            self._remember(hosted)

    def _drop(self, hosted: Hosted) -> None:
        if hosted.rebuild is not None:
            hosted.rebuild.stop()
            hosted.rebuild = None
        hosted.ranker.dismiss()

    def switch(self, name: str) -> Hosted:
        """Let the other policy decide; the one that did stands by. 409 where it is not ready."""
        with self._changing:
            hosted = self.find(name)
            standing = self.standing(name)
            if standing.state != "ready":
                raise Refused(409, standing.problem or "the other policy is still being rebuilt; ask again.")
            hosted.ranker.switch()
            self._remember(hosted)
            return hosted

    def delete(self, name: str) -> None:
        """The ranker answers no more; its log stays."""
        with self._changing:
            self._drop(self.find(name))  # or it would be remembered after its end
            self._note(DELETED, name, {})
            del self._hosted[name]

    def put_items(self, name: str, items: list[dict[str, Any]]) -> None:
        """Add or change items of a ranker."""
        hosted = self.find(name)
        with hosted.changing:
            there = hosted.ranker.room([item["id"] for item in items])
            if there > self.limits.items:
                raise Refused(422, f"the ranker would have {there} items; accepted: at most {self.limits.items}.")
            hosted.ranker.put_items(items)

    def remove_item(self, name: str, id: str) -> None:
        """Never list an item again; 404 where there is none."""
        hosted = self.find(name)
        with hosted.changing:
            hosted.item(id)
            hosted.ranker.remove_items([id])

    def _note(self, kind: str, name: str, body: dict[str, Any]) -> None:
        entry = Entry(kind, "", name, time.time(), json.dumps(body).encode())
        self.writer.submit(RESERVED, entry, positions).result()

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


def _plain(config: RankerConfig) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(config.as_mapping()))
