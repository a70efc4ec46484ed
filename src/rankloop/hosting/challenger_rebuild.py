"""Rebuilds a challenger from a ranker's log in the background, and compares it with the active policy."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from rankloop.analytics.comparison import Comparison, compare
from rankloop.errors import RankloopError
from rankloop.serving import Ranker, RankerConfig, snapshots
from rankloop.serving.memory.budget import MemoryBudget, Room
from rankloop.serving.memory.state_size import state_size
from rankloop.serving.replica import Replica
from rankloop.serving.warm_up import warm_up

PAUSE_SECONDS = 0.005
"""Pause of a rebuild after every few hundred entries, in which requests are served."""
log = logging.getLogger("rankloop.service")


@dataclass(frozen=True, slots=True)
class ChallengerStatus:
    """State of a challenger (`rebuilding`, `ready` or `failed`) and its comparison with the active policy."""

    state: str
    config: dict[str, Any]
    position: int  # log position up to which it has been rebuilt
    comparison: Comparison | None  # with the policy that was active during the rebuild
    problem: str | None = None  # why it failed


class RebuildMemory:
    """The memory of a rebuild: that of the challenger, and of the active policy, which is replayed beside it.

    Args:
        budget: of the service.
        ranker: whose log is replayed.
        config: of the challenger.
        instead_of: the memory of an earlier challenger, which is discarded first.
    """

    def __init__(
        self, budget: MemoryBudget, ranker: Ranker, config: RankerConfig, instead_of: Collection[Room] = ()
    ) -> None:
        self.challenger, self.active = budget.room(instead_of), budget.room(instead_of)
        self.attached = False  # the challenger belongs to the ranker, and its memory with it
        sizes = {
            self.challenger: state_size(config, ranker.extent),
            self.active: state_size(ranker.config, ranker.extent),
        }
        budget.require(sizes, "ranker", "a challenger that")

    @property
    def rooms(self) -> list[Room]:
        """What the rebuild holds."""
        return [self.active] if self.attached else [self.active, self.challenger]

    def release(self) -> None:
        """Release what the rebuild holds."""
        for room in self.rooms:
            room.release()


class ChallengerRebuild:
    """A thread that replays the log with both policies, compares them, and adds the challenger to its ranker."""

    def __init__(
        self, ranker: Ranker, config: RankerConfig, on_ready: Callable[[], None], memory: RebuildMemory
    ) -> None:
        self._ranker, self.config, self._on_ready = ranker, config, on_ready
        self._memory = memory
        self._challenger: Replica | None = None  # until the rebuild has begun
        self._comparison: Comparison | None = None
        self._problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankloop-rebuild", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        ranker = self._ranker
        try:
            warm_up(self.config)  # before it may be promoted
            ranker.flush()
            challenger = snapshots.first_state(self.config, ranker.store, ranker.name, room=self._memory.challenger)
            self._challenger = challenger
            active = snapshots.first_state(ranker.config, ranker.store, ranker.name, room=self._memory.active)
            entries = ranker.store.read(ranker.name, active.position)  # where the challenger begins as well
            self._comparison = compare(active, challenger, entries, self._pause)
            ranker.add_challenger(challenger)
            self._memory.attached = True
            self._on_ready()
        except _Stopped:
            return
        except RankloopError as error:
            self._problem = str(error)
        except Exception:
            log.exception("the rebuild of a challenger failed")
            self._problem = "the rebuild failed; the cause is in the service's log output."
        finally:
            self._memory.release()

    def _pause(self) -> None:
        time.sleep(PAUSE_SECONDS)
        if self._stop.is_set():
            raise _Stopped

    @property
    def state(self) -> str:
        """`rebuilding`, `ready` or `failed`."""
        if self._problem is not None:
            return "failed"
        return "rebuilding" if self._thread.is_alive() else "ready"

    def status(self) -> ChallengerStatus:
        """Return the state of the challenger and the comparison."""
        config, position = self.config.as_mapping(), 0 if self._challenger is None else self._challenger.position
        return ChallengerStatus(self.state, config, position, self._comparison, self._problem)

    @property
    def rooms(self) -> list[Room]:
        """The memory that the rebuild holds."""
        return self._memory.rooms

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._stop.set()
        self._thread.join()


class _Stopped(Exception):
    """The rebuild was stopped."""
