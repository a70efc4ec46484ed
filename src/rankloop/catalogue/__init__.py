"""The catalogue: every named policy as one function, grouped by paper, and the lookup by id."""

from rankloop.catalogue import cascade, choice, hybrid, long_sequences, prior, select_rank
from rankloop.catalogue.plugins import load
from rankloop.catalogue.registry import (
    PolicyEntry,
    UnknownPolicy,
    adopt,
    build,
    build_entry,
    code_of,
    entries,
    find,
    own_entries,
    policy,
    resolve,
)

__all__ = [
    "PolicyEntry",
    "UnknownPolicy",
    "adopt",
    "build",
    "build_entry",
    "cascade",
    "choice",
    "code_of",
    "entries",
    "find",
    "hybrid",
    "load",
    "long_sequences",
    "own_entries",
    "policy",
    "prior",
    "resolve",
    "select_rank",
]
