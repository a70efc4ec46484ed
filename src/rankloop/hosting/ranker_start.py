"""Opens a registered ranker from its log, or quarantines it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rankloop.catalogue import UnknownPolicy
from rankloop.eventlog import Store, StoreUnavailable, Writer
from rankloop.eventlog.events import CannotReplay, ConfigChanged, decode
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.hosting.registry_log import RegistryEntry
from rankloop.schema import Quarantine
from rankloop.schema.service_settings import ServiceLimits
from rankloop.serving import Ranker, snapshots
from rankloop.serving.config import LoggedConfig, learning_of
from rankloop.serving.memory.budget import MemoryBudget, StateTooLarge
from rankloop.serving.verification import last_settings

NOT_LOADED = (
    "its policy {!r} is not loaded; start the service with --policy module:name, or add module:name to `policies` of "
    "the settings"
)
log = logging.getLogger("rankloop.service")


def open_ranker(
    name: str, entry: RegistryEntry, writer: Writer, limits: ServiceLimits, memory: MemoryBudget
) -> HostedRanker:
    """Return a registered ranker in the state of its log, or in quarantine if that state cannot be restored.

    A state that does not fit into the memory is not allocated.
    """
    store = writer.store
    if entry.damaged is not None:
        settings = settings_in_log(store, entry.log)  # the ranker's own log may be intact
        return HostedRanker(name, entry.log, settings, None, entry.damaged)
    settings, challenger, position = entry.config, entry.challenger, 0
    room = memory.room()
    try:
        if configs := store.of_kind(entry.log, ConfigChanged.kind):
            position = configs[-1].position
            last: Any = decode(configs[-1])
            if challenger is not None and learning_of(challenger) == learning_of(last.config):
                challenger = settings  # the process ended between a promotion and its registry entry
            settings = last.config
        ranker = Ranker(LoggedConfig.of(settings), name=entry.log, writer=writer, limits=limits, room=room)
    except StoreUnavailable:
        raise
    except StateTooLarge as error:
        room.release()
        reason = Quarantine(error.position or position, f"its state is too large ({error})")
        return _quarantined(name, entry.log, settings, reason)
    except UnknownPolicy as error:
        log.error("ranker %s is quarantined: its policy %r is not loaded", name, error.value)
        reason = Quarantine(position, NOT_LOADED.format(error.value))
        return HostedRanker(name, entry.log, settings, None, reason)
    except CannotReplay as error:
        room.release()
        return _quarantined(name, entry.log, settings, Quarantine(error.position, error.reason))
    except Exception as error:
        room.release()
        reason = Quarantine(position, f"its settings cannot be used ({error})")
        return _quarantined(name, entry.log, settings, reason)
    if challenger is not None:
        restore_challenger(name, ranker, challenger, memory)
    return HostedRanker(name, entry.log, settings, ranker)


def restore_challenger(name: str, ranker: Ranker, challenger: Mapping[str, object], memory: MemoryBudget) -> None:
    """Rebuild a registered challenger from the log; where that is impossible, the ranker goes on without it."""
    room = memory.room()
    try:
        config = LoggedConfig.of(learning_of(challenger)).adjusted_as(ranker.config.plain())
        ranker.add_challenger(snapshots.start(config, ranker.store, ranker.name, challenger=True, room=room))
    except Exception as error:
        room.release()
        log.error("the challenger of ranker %s cannot be rebuilt and is discarded: %s", name, error)


def _quarantined(name: str, log_name: str, settings: Mapping[str, object], reason: Quarantine) -> HostedRanker:
    log.error("ranker %s is quarantined at log position %d: %s", name, reason.position, reason.reason)
    return HostedRanker(name, log_name, settings, None, reason)


def settings_in_log(store: Store, log_name: str) -> Mapping[str, object]:
    """Return the last settings in a ranker's log, or none if they cannot be read."""
    try:
        return last_settings(store, log_name) or {}
    except Exception:
        return {}
