"""The shape of a log: settings that every event of it depends on, so that a ranker must have the same.

Features may differ: the log has the fields from which those of any setting are computed.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankloop.errors import InvalidInput
from rankloop.eventlog.events import CannotReplay, ConfigChanged, decode_as
from rankloop.eventlog.store import Store

SHAPE = ("dim", "context", "coverage", "slots")


def fits(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Return whether a policy can learn from the log of another, by their settings."""
    return all(one.get(name) == other.get(name) for name in SHAPE)


def require_fit(logged: Mapping[str, object], given: Mapping[str, object]) -> None:
    """Refuse settings of another shape than those of the log."""
    for name in SHAPE:
        if given.get(name) != logged.get(name):
            value = "no value" if logged.get(name) is None else str(logged[name])
            raise InvalidInput(f"ranker.{name}", given.get(name), f"{value}, with which the log was written")


def check_shape(store: Store, ranker: str, given: Mapping[str, object]) -> Mapping[str, object]:
    """Refuse settings that do not fit the log of a ranker, before an event is applied that they cannot read.

    Return the last settings of the log; none if it has none.
    """
    configs = store.of_kind(ranker, ConfigChanged.kind)
    if configs:
        try:
            logged = decode_as(ConfigChanged, configs[-1]).config
        except CannotReplay:
            return {}  # the replay says which event is damaged
        require_fit(logged, given)
        return logged
    return {}
