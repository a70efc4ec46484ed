"""A simulated process: a ranker whose writer writes when the schedule says so."""

from __future__ import annotations

from typing import TypeVar

from fault_simulation.model_log import ModelLog, ModelStore
from rankloop.eventlog import Writer
from rankloop.eventlog.writer import Commit
from rankloop.schema.service_settings import ServiceLimits
from rankloop.serving import Ranker, RankerConfig

T = TypeVar("T")
NAME = "ranker"
OPEN_LIMIT = 4
MAX_STEPS = 100
"""Steps within which a writer writes or refuses what is queued."""


class SteppedCommit(Commit[T]):
    """A commit whose waiter lets the writer work, since no other thread does."""

    writer: SteppedWriter

    def result(self, timeout: float | None = None) -> T:
        """Write until the commit is done."""
        for _ in range(MAX_STEPS):
            if self.done():
                break
            self.writer.step()
        assert self.done(), "the writer neither writes nor refuses an entry"
        return super().result(timeout)


class SteppedWriter(Writer):
    """A writer without a thread: `step` does what the thread would do with the next batch."""

    def _start(self) -> None:
        """Start no thread."""

    def _new_commit(self) -> Commit[T]:
        commit: SteppedCommit[T] = SteppedCommit(self._wakeups)
        commit.writer = self
        return commit

    def step(self) -> None:
        """Write one batch, or try again to claim the log."""
        if not self._moved and (self._queue or self.refusal is not None):
            self._write(self._take_batch())

    def close(self) -> None:
        """Write what is queued; entries that cannot be written are dropped."""
        self._closed = True
        while self._queue and not self._moved:
            self.step()


class Clocks:
    """Wall clock and monotonic clock in virtual time; only the wall clock jumps."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_000_000.0, 0.0

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.wall += seconds
        self.monotonic += seconds


class Engine:
    """One process from its start to its end."""

    def __init__(self, log: ModelLog, config: RankerConfig, clocks: Clocks) -> None:
        self.store = ModelStore(log)
        try:
            self.writer = SteppedWriter(self.store)
            self.ranker = Ranker(
                config,
                name=NAME,
                writer=self.writer,
                clock=lambda: clocks.wall,
                monotonic=lambda: clocks.monotonic,
                limits=ServiceLimits(open_decisions=OPEN_LIMIT),
            )
        except BaseException:
            self.store.close()
            raise
        self.started = clocks.monotonic

    @property
    def refuses(self) -> bool:
        """Whether it has found out that another process serves the log."""
        return self.writer.refusal is not None
