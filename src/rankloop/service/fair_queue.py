"""A queue in which keys, and the rankers of a key, take turns, so that neither can use up the service alone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial


@dataclass(slots=True, eq=False)
class Waiting:
    """A request that waits to be executed."""

    key: str
    ranker: str
    arrived: float
    deadline: float
    start: Callable[[], None]
    refuse: Callable[[str], None]  # takes the reason


class FairQueue:
    """Requests in turns: the keys take turns, and the rankers of a key, each with its requests in order of arrival."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, deque[Waiting]]] = {}  # in the order of their turns
        self._of_key: dict[str, int] = {}
        self._of_ranker: dict[str, int] = {}
        self._held: set[str] = set()  # rankers whose requests keep waiting
        self.size = 0
        self.ready = 0  # requests of rankers that are not held

    def of_ranker(self, ranker: str) -> int:
        """Return the number of requests that wait for a ranker."""
        return self._of_ranker.get(ranker, 0)

    def hold(self, ranker: str) -> None:
        """Let the requests of a ranker wait until it is released; others overtake them."""
        if ranker not in self._held:
            self._held.add(ranker)
            self.ready -= self.of_ranker(ranker)

    def release(self, ranker: str) -> None:
        """Let the requests of a ranker take their turns again."""
        if ranker in self._held:
            self._held.remove(ranker)
            self.ready += self.of_ranker(ranker)

    def is_held(self, ranker: str) -> bool:
        """Return whether the requests of a ranker keep waiting."""
        return ranker in self._held

    def push(self, request: Waiting) -> None:
        """Add a request."""
        key, ranker = request.key, request.ranker
        rankers = self._keys.get(key)
        if rankers is None:
            rankers = self._keys[key] = {}
        queue = rankers.get(ranker)
        if queue is None:
            queue = rankers[ranker] = deque()
        queue.append(request)
        self._of_key[key] = self._of_key.get(key, 0) + 1
        self._of_ranker[ranker] = self._of_ranker.get(ranker, 0) + 1
        self.size += 1
        self.ready += ranker not in self._held

    def pop(self, *, newest: bool = False) -> Waiting:
        """Take the oldest or the newest request of the key and ranker whose turn it is, of those that are ready."""
        held = self._held
        key, ranker = next((key, one) for key, rankers in self._keys.items() for one in rankers if one not in held)
        return self._take(key, ranker, deque.pop if newest else deque.popleft, next_turn=True)

    def longest(self, key: str, ranker: str) -> tuple[str, str]:
        """Return the key and its ranker with the most requests, if one more of this key and ranker came."""
        counts = Counter(self._of_key)
        counts[key] += 1
        most = max(counts, key=lambda one: (counts[one], one == key))
        rankers = Counter({name: len(queue) for name, queue in self._keys.get(most, {}).items()})
        if most == key:
            rankers[ranker] += 1
        return most, max(rankers, key=lambda one: (rankers[one], one == ranker))

    def pop_newest(self, key: str, ranker: str) -> Waiting:
        """Take the request of a key and ranker that came last."""
        return self._take(key, ranker, deque.pop)

    def pop_expired(self, now: float) -> list[Waiting]:
        """Take all requests that are past their deadline."""
        expired = []
        for key, rankers in list(self._keys.items()):
            for ranker, queue in list(rankers.items()):
                late = [request for request in queue if request.deadline < now]
                expired += [self._take(key, ranker, partial(_removed, request)) for request in late]
        return expired

    def _take(
        self, key: str, ranker: str, take: Callable[[deque[Waiting]], Waiting], *, next_turn: bool = False
    ) -> Waiting:
        rankers = self._keys[key]
        queue = rankers[ranker]
        request = take(queue)
        self.size -= 1
        self.ready -= ranker not in self._held
        _decrease(self._of_key, key)
        _decrease(self._of_ranker, ranker)
        if not queue or (next_turn and len(rankers) > 1):
            del rankers[ranker]
            if queue:
                rankers[ranker] = queue  # after the other rankers of the key
        if not rankers or (next_turn and len(self._keys) > 1):
            del self._keys[key]
            if rankers:
                self._keys[key] = rankers  # after the other keys
        return request


def _decrease(counts: dict[str, int], name: str) -> None:
    left = counts[name] - 1
    if left:
        counts[name] = left
    else:
        del counts[name]


def _removed(request: Waiting, queue: deque[Waiting]) -> Waiting:
    queue.remove(request)
    return request
