"""Changes the features of a ranker in the background: its log is learned again while it serves."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from rankloop.errors import RankloopError
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.warm_up import warm_up

PAUSE_SECONDS = 0.005
"""Pause after every page of the log, in which requests are served."""
PATIENCE_SECONDS = 5.0
"""Time for which the request that changes features waits; a longer rebuild goes on in the background."""
log = logging.getLogger("rankloop.service")


class FeatureChange:
    """A thread that learns the log again under other features, and lets these decide.

    Args:
        ranker: whose features change.
        config: its configuration with the new features.
        by: the name of the API key that made the change, if there was one.
        on_done: called when the new features decide.
    """

    def __init__(self, ranker: Ranker, config: RankerConfig, by: str | None, on_done: Callable[[], None]) -> None:
        self._ranker, self._config, self._by, self._on_done = ranker, config, by, on_done
        self._refused: RankloopError | None = None
        self.problem: str | None = None  # why it failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rankloop-features", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the log is still being learned."""
        return self._thread.is_alive()

    def wait(self) -> None:
        """Wait for a short rebuild, and raise the reason if it failed."""
        self._thread.join(PATIENCE_SECONDS)
        if self._refused is not None:
            raise self._refused

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            warm_up(self._config)
            self._ranker.change_features(self._config, self._by, self._pause)
            self._on_done()
        except _StoppedChange:
            return
        except RankloopError as error:
            self._refused, self.problem = error, str(error)
        except Exception:
            log.exception("a change of features failed")
            self.problem = "the rebuild failed; the cause is in the service's log output."

    def _pause(self) -> None:
        time.sleep(PAUSE_SECONDS)
        if self._stop.is_set():
            raise _StoppedChange


class _StoppedChange(Exception):
    """The change was stopped."""
