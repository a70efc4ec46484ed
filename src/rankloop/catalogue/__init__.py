"""Every named policy: one function each, grouped by paper, and the lookup by id."""

from rankloop.catalogue import cascade, choice, long_sequences, prior, select_rank
from rankloop.catalogue.registry import Entry, build, build_entry, entries, find, policy, resolve

__all__ = [
    "Entry",
    "build",
    "build_entry",
    "cascade",
    "choice",
    "entries",
    "find",
    "long_sequences",
    "policy",
    "prior",
    "resolve",
    "select_rank",
]
