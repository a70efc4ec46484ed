"""Thousands of simulated schedules of faults break no promise, and each old fault that comes back is found."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import pytest

from fault_simulation.engine import SteppedWriter
from fault_simulation.model_log import ModelLog, ModelStore
from fault_simulation.schedule import draw
from fault_simulation.simulation import Violation, play
from rankloop.eventlog import MemoryStore, StoreUnavailable
from rankloop.serving import snapshots
from rankloop.serving.snapshot_frame import framed
from rankloop.serving.windows import window_ages
from rankloop.serving.windows.feedback_windows import FeedbackWindows

SCHEDULES = int(os.environ.get("RANKLOOP_SCHEDULES", "500"))
PARTS = 10
"""The schedules are played in parts, so that several processes can share them."""
MAX_SCHEDULES = 1000
"""A fault must be found within so many schedules."""
KEPT = (191, 245, 1416)
"""Seeds that must not be lost: those that find the rarest of the faults below, and any that breaks a promise."""


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Simulated faults are not news."""
    caplog.set_level(logging.CRITICAL, logger="rankloop")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_schedule_breaks_a_promise(part: int) -> None:
    for seed in range(part, SCHEDULES, PARTS):
        play(draw(seed))


@pytest.mark.parametrize("seed", KEPT)
def test_kept_schedules_break_no_promise(seed: int) -> None:
    play(draw(seed))


def test_a_schedule_follows_from_its_seed() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


# Faults that came back

Mutation = Callable[[pytest.MonkeyPatch], None]


def unconditional_appends(patch: pytest.MonkeyPatch) -> None:
    """A writer appends wherever the log ends."""
    append = ModelStore.append
    patch.setattr(ModelStore, "append", lambda self, batch, after=None: append(self, batch))


def entries_deleted_after_others_read_them(patch: pytest.MonkeyPatch) -> None:
    """The entries of a failed append are deleted although another process has written after them."""

    def resolve(self: ModelStore) -> None:
        if self.unconfirmed:
            self._log.cut(self.unconfirmed[0].position - 1)
            self.unconfirmed = []

    patch.setattr(ModelStore, "_resolve", resolve)


def refused_entries_kept(patch: pytest.MonkeyPatch) -> None:
    """Entries whose callers got an error are written later all the same."""
    fail = SteppedWriter._fail

    def keep(self: SteppedWriter, batch: list[Any], error: Exception, refusal: StoreUnavailable | None = None) -> None:
        fail(self, batch, error, refusal)
        self._queue.extend(one._replace(commit=None) for one in batch if one.commit is not None)

    patch.setattr(SteppedWriter, "_fail", keep)


def answered_decisions_dropped(patch: pytest.MonkeyPatch) -> None:
    """Decisions that were answered before their commit are not written again after a failure."""
    fail = SteppedWriter._fail

    def drop(self: SteppedWriter, batch: list[Any], error: Exception, refusal: StoreUnavailable | None = None) -> None:
        fail(self, batch, error, refusal)
        self._queue.clear()

    patch.setattr(SteppedWriter, "_fail", drop)


def acknowledged_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Callers are answered before their entries are stored."""
    write = SteppedWriter._write

    def early(self: SteppedWriter, batch: list[Any]) -> bool:
        feedback = [one for one in batch if one.commit is not None and one.entry and one.entry.kind == "feedback"]
        for one in feedback:
            one.commit.set_result(None)
        return write(self, [one._replace(commit=None) if one in feedback else one for one in batch])

    patch.setattr(SteppedWriter, "_write", early)


def applied_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Events are applied although they could not be stored."""
    write = SteppedWriter._write

    def early(self: SteppedWriter, batch: list[Any]) -> bool:
        at = self._last
        for one in batch:
            if one.entry is not None:
                at += 1
                one.apply([(at, one.event)])
        return write(self, [one._replace(apply=_applied) for one in batch])

    patch.setattr(SteppedWriter, "_write", early)


def _applied(committed: Sequence[tuple[int, object]]) -> list[None]:
    return [None for _ in committed]


def duplicates_stored(patch: pytest.MonkeyPatch) -> None:
    """An event that is reported twice is stored twice."""
    append = MemoryStore.append

    def forgetful(self: ModelLog, batch: Any, after: int | None = None) -> list[int | None]:
        for ranker, entry in batch:
            if entry.kind == "feedback":
                self._keys.pop((ranker, entry.kind, entry.key), None)
        return append(self, batch, after)

    patch.setattr(ModelLog, "append", forgetful)


def snapshots_ahead_of_their_state(patch: pytest.MonkeyPatch) -> None:
    """A snapshot claims a position whose events are not in it."""
    patch.setattr(snapshots, "framed", lambda position, payload: framed(position + 1, payload))


def windows_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """The age of a decision follows the wall clock, which jumps."""
    start = FeedbackWindows._start_windows
    patch.setattr(
        FeedbackWindows, "_start_windows", lambda self, clock, monotonic, limits: start(self, clock, clock, limits)
    )


def windows_behind_a_stamp_ahead(patch: pytest.MonkeyPatch) -> None:
    """A decision that was stamped with a time ahead blocks the windows of all that follow it in the log."""

    def due(self: FeedbackWindows) -> list[str]:
        now, opened = self._clock(), self._replica.open_decisions
        return [id for id, _ in takewhile(lambda pair: pair[1].time + opened.window <= now, opened.items())]

    patch.setattr(FeedbackWindows, "_due", due)


def stamps_believed_after_a_start(patch: pytest.MonkeyPatch) -> None:
    """Stamps ahead of the present keep windows open after a start."""
    patch.setattr(window_ages, "believable", lambda times, now: times)


def unbounded_open_decisions(patch: pytest.MonkeyPatch) -> None:
    """Decisions stay open, however many they are."""
    patch.setattr(FeedbackWindows, "_close_excess", lambda self: 0)


MUTATIONS: tuple[Mutation, ...] = (
    unconditional_appends,
    entries_deleted_after_others_read_them,
    refused_entries_kept,
    answered_decisions_dropped,
    acknowledged_before_the_commit,
    applied_before_the_commit,
    duplicates_stored,
    snapshots_ahead_of_their_state,
    windows_by_the_wall_clock,
    windows_behind_a_stamp_ahead,
    stamps_believed_after_a_start,
    unbounded_open_decisions,
)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.__name__)
def test_a_fault_that_comes_back_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(Violation):
        _play_all(MAX_SCHEDULES)


def _play_all(schedules: int) -> None:
    for seed in range(schedules):
        play(draw(seed))
