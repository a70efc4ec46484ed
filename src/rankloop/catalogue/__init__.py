"""Every named policy: one function each, grouped by paper, and the lookup by id."""

from rankloop.catalogue import cascade, prior
from rankloop.catalogue.registry import Entry, build, entries, find, policy, resolve

__all__ = ["Entry", "build", "cascade", "entries", "find", "policy", "prior", "resolve"]
