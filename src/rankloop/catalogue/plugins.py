"""Policies from outside the package: named as `module:name`, or installed with an entry point."""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
import threading
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from rankloop.catalogue import registry
from rankloop.catalogue.params import params_of
from rankloop.catalogue.registry import PolicyEntry
from rankloop.errors import InvalidInput, RankloopError

GROUP = "rankloop.policies"
"""The entry point group of packages that provide policies."""
ACCEPTED = "module:name of a function from a Setting to a policy"

log = logging.getLogger("rankloop.catalogue")
_lock = threading.RLock()  # reentrant: a module may use the catalogue while it is imported
_named: dict[str, ModuleType] = {}
_discovered = False


def load(source: str, *, field: str = "--policy") -> PolicyEntry:
    """Import the function `module:name`, add it to the catalogue and return its entry.

    Only an operator may name a source: on the command line or in the settings of a service. The current folder is
    searched first. A function that its module registers with `@policy(...)` keeps its id; any other function gets its
    name as id, with hyphens for underscores. Loading the same source again changes nothing.

    Args:
        source: `module:name`.
        field: where the source was given, for the error.
    """
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)  # not removed afterwards: the module may import from there later
    with _lock:
        entry = _enter(source, field)
        if entry.own:
            module = source.partition(":")[0]
            _named[module] = sys.modules[module]
    return entry


def named_modules() -> tuple[ModuleType, ...]:
    """Return the modules that were named as a source; a worker on another machine may not be able to import them."""
    return tuple(_named.values())


def discover() -> None:
    """Add the policies of installed packages, which have an entry point in the group `rankloop.policies`.

    This happens once, when an unknown id or all ids are requested. A policy that cannot be loaded is skipped with a
    warning, so that the others stay usable.
    """
    global _discovered
    with _lock:
        if _discovered:
            return
        _discovered = True
        from importlib.metadata import entry_points

        for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
            try:
                _enter(f"{point.module}:{point.attr or ''}", f"entry point {point.name} of {GROUP}")
            except InvalidInput as error:
                log.warning("a policy is left out: %s", error)


def _enter(source: str, field: str) -> PolicyEntry:
    try:
        with registry.all_or_nothing():
            return _entered(source)
    except RankloopError as error:
        reason = str(error)
    except (Exception, SystemExit) as error:  # importing a module outside the package may raise anything
        reason = f"{type(error).__name__}: {error}"
    raise InvalidInput(field, source, f"{ACCEPTED} ({' '.join(reason.split()).rstrip('.')})")


def _entered(source: str) -> PolicyEntry:
    module, _, name = source.partition(":")
    if not module or not name:
        raise RankloopError("a module, a colon and a name are needed")
    build: Any = reduce(getattr, name.split("."), importlib.import_module(module))
    if not callable(build):
        raise RankloopError(f"it is of type {type(build).__name__}, which cannot be called")
    if (known := registry.entry_of(build)) is not None:
        return known
    try:
        inspect.signature(build).bind(None)
    except TypeError:
        raise RankloopError("it cannot be called with a Setting alone") from None
    id = name.rpartition(".")[2].strip("_").replace("_", "-") or name
    code = registry.code_in(module)
    try:
        return registry.enter(PolicyEntry(id, "own", "its own", (), True, build, params_of(build), code))
    except InvalidInput:
        raise RankloopError(f"another policy has the id {id}; give it one of its own with @policy(id)") from None


registry.discover_with(discover)
