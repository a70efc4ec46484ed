"""A challenger for a ranker: a policy rebuilt from the log in the background, compared, and ready to take over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rankloop.analytics.comparison import Comparison, compare
from rankloop.errors import RankloopError
from rankloop.eventlog.events import skipped_positions
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.replica import Replica

PAUSE = 0.005
"""Seconds that others may work, after every few hundred entries of a rebuild."""
log = logging.getLogger("rankloop.service")


@dataclass(frozen=True, slots=True)
class ChallengerStatus:
    """How far a challenger is: `rebuilding`, `ready` or `failed`; and beside the active policy, once it is there."""

    state: str
    config: dict[str, Any]
    position: int
    comparison: Comparison | None  # with the policy that decided while it was rebuilt
    problem: str | None = None


class ChallengerRebuild:
    """Follows the log in a thread of its own, compares both policies, and lets the challenger stand by."""

    def __init__(self, ranker: Ranker, config: RankerConfig, then: Callable[[], None]) -> None:
        self._ranker, self.config, self._then = ranker, config, then
        self._skipped = skipped_positions(ranker.store, ranker.name)
        self._challenger = Replica(config, self._skipped)
        self._comparison: Comparison | None = None
        self._problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankloop-rebuild", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        ranker = self._ranker
        try:
            ranker.flush()
            active = Replica(ranker.config, self._skipped)
            self._comparison = compare(active, self._challenger, ranker.store.read(ranker.name), self._pause)
            ranker.add_challenger(self._challenger)
            self._then()
        except _Stopped:
            return
        except RankloopError as error:
            self._problem = str(error)
        except Exception:
            log.exception("a policy could not be rebuilt")
            self._problem = "the log could not be followed; the service's own log says why."

    def _pause(self) -> None:
        time.sleep(PAUSE)
        if self._stop.is_set():
            raise _Stopped

    @property
    def state(self) -> str:
        """`rebuilding`, `ready` or `failed`."""
        if self._problem is not None:
            return "failed"
        return "rebuilding" if self._thread.is_alive() else "ready"

    def challenger_status(self) -> ChallengerStatus:
        """How far it is."""
        told = self._comparison
        return ChallengerStatus(self.state, self.config.as_mapping(), self._challenger.position, told, self._problem)

    def stop(self) -> None:
        """Give up."""
        self._stop.set()
        self._thread.join()


class _Stopped(Exception):
    """Nobody wants it any more."""
