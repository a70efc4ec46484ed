"""Decision ids that callers bring: the same request with the same id is answered with the same list."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from rankloop.errors import ConflictingDecision
from rankloop.eventlog.events import DecisionMade
from rankloop.schema import RankRequest, Receipt
from rankloop.serving.ranking import Ranking

LOCK_STRIPES = 64
"""At most as many requests that bring their ids are decided concurrently."""


def fingerprint(asked: RankRequest) -> str:
    """16 hexadecimal digits that equal requests have in common, their decision ids apart."""
    told = {
        option: value for option, value in asked.non_default_fields().items() if option != "decision" and value != {}
    }
    return hashlib.blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()


def noted(request: str | None, ignored: Sequence[str]) -> str | None:
    """What a decision records of its request: the fingerprint, then the ids that were ignored."""
    return None if request is None else "\n".join([request, *ignored])


def answer(shown: DecisionMade, request: str, ids: Sequence[str]) -> Ranking:
    """The answer to a repeated request: the decision made before; ids are those of the table's columns."""
    first, *ignored = (shown.asked or "").split("\n")
    if first != request:
        raise ConflictingDecision(f"decision is {shown.id!r}; accepted: an id that no other request had.")
    return Ranking(shown, ids, ignored=tuple(ignored), repeated=True)


class IdempotentDecisions:
    """Whose turn it is to decide under an id, and the lists that wait for their commit.

    Requests with one id take turns: the second finds the decision of the first, on its way to the log, open or settled,
    and the log is never read under the ranker's lock.
    """

    def __init__(self) -> None:
        self._turns = [threading.Lock() for _ in range(LOCK_STRIPES)]
        self._awaited: dict[str, tuple[DecisionMade, Future[Receipt | None]]] = {}

    def turn(self, id: str) -> threading.Lock:
        """The lock under which the decision of an id is looked up, and made if there is none."""
        return self._turns[hash(id) % LOCK_STRIPES]

    def wait_for(self, shown: DecisionMade, kept: Future[Receipt | None]) -> Future[Receipt | None]:
        """Track a decision until its commit succeeds or fails."""
        if shown.asked is not None:
            self._awaited[shown.id] = shown, kept
            kept.add_done_callback(lambda _: self._awaited.pop(shown.id, None))
        return kept

    def awaited(self, id: str) -> tuple[DecisionMade, Future[Receipt | None]] | None:
        """A list on its way to the log, and what to wait for before it is answered."""
        return self._awaited.get(id)
