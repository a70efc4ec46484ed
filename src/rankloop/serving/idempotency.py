"""Idempotent decisions: the same request with the same decision id is answered with the same list."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence

import msgspec

from rankloop.errors import ConflictingDecision
from rankloop.eventlog.events import DecisionMade
from rankloop.eventlog.writer import Commit
from rankloop.schema import RankRequest, Receipt
from rankloop.serving.ranking import Ranking

NOT_ASKED = ("decision", "after")
"""Options that do not change what is asked."""
LOCK_STRIPES = 64
"""Upper limit of idempotent requests that are decided concurrently."""


def fingerprint(request: RankRequest) -> str:
    """Return 16 hexadecimal digits that equal requests share, whatever their decision ids."""
    options = {
        option: value
        for option, value in request.non_default_fields().items()
        if option not in NOT_ASKED and value != {}
    }
    text = json.dumps(options, sort_keys=True, default=msgspec.to_builtins)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def repeat(event: DecisionMade, fingerprint: str, ids: Sequence[str]) -> Ranking:
    """Return the decision that was made before, or raise ConflictingDecision if the request was another one.

    Args:
        event: the decision of this id.
        fingerprint: of the request.
        ids: the item of each column.
    """
    first, *ignored = (event.asked or "").split("\n")
    if first != fingerprint:
        raise ConflictingDecision(f"decision is {event.id!r}; accepted: an id that no other request had.")
    return Ranking(event, ids, ignored=tuple(ignored), repeated=True)


class IdempotentDecisions:
    """Serialises requests of one decision id, and remembers the decisions that wait for their commit.

    The second request of an id finds the decision of the first, whether it is uncommitted, open or settled. The log is
    never read under the ranker's lock.
    """

    def __init__(self) -> None:
        self._locks = [threading.Lock() for _ in range(LOCK_STRIPES)]
        self._awaited: dict[str, tuple[DecisionMade, Commit[Receipt | None]]] = {}

    def lock(self, id: str) -> threading.Lock:
        """Return the lock under which the decision of an id is looked up, or made if there is none."""
        return self._locks[hash(id) % LOCK_STRIPES]

    def track(self, event: DecisionMade, commit: Commit[Receipt | None]) -> None:
        """Remember a decision until its commit succeeds or fails."""
        self._awaited[event.id] = event, commit
        commit.add_done_callback(lambda _: self._awaited.pop(event.id, None))

    def awaited(self, id: str) -> tuple[DecisionMade, Commit[Receipt | None]] | None:
        """Return a decision that waits for its commit, and the commit."""
        return self._awaited.get(id)
