"""What a log says: the state of one ranker, entry after entry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

import numpy as np

from rankloop import catalogue
from rankloop.analytics.click_assumptions import ClickAssumptions
from rankloop.analytics.counters import Counters
from rankloop.errors import RankloopError
from rankloop.eventlog.events import (
    CannotReplay,
    ConfigChanged,
    DecisionMade,
    EventFollower,
    FeedbackReceived,
    GuardrailReset,
    GuardrailTripped,
    ItemsPut,
    ItemsRemoved,
    LogEvent,
    WindowClosed,
    Withdrawn,
    decode,
    decode_all,
)
from rankloop.eventlog.open_decisions import OpenDecision, OpenDecisions
from rankloop.eventlog.store import LogEntry
from rankloop.schema import Item, Prior, Receipt
from rankloop.serving.config import ChallengerConfig, RankerConfig, learning_of
from rankloop.serving.item_table import ItemTable
from rankloop.serving.learners import Learners, Lesson
from rankloop.types import FloatArray

TOGETHER = 2000
"""Entries of a replay that are taken in at once."""
CHANGES = 100
"""Changes of settings that are remembered."""


class Replica(EventFollower[Receipt]):
    """Items, learners, open decisions and counts after the entries of a log up to a position.

    Only `apply`, `apply_all` and `follow` change it, and only by what records say: equal logs give equal replicas, bit
    for bit.
    """

    def __init__(self, config: RankerConfig, skipped: Collection[int] = ()) -> None:
        self.config, self.skipped = config, frozenset(skipped)  # positions that an operator has excluded
        self.version = 0  # of the configuration; 0 before the log has said any
        self.own: set[int] = set()  # versions under which this policy decided, with these settings of learning
        self.settings: Mapping[str, Any] = {}  # as the log has said last, also where another policy decides
        self.changes: list[tuple[float, str]] = []  # when the settings or the guard changed, and how
        self.items = ItemTable(config.dim, config.coverage)
        self.learners = Learners(config, self.items)
        self.open_decisions = OpenDecisions(config.window)
        self.counters = Counters(config.slots, self.items.capacity)
        self.guardrail_tripped: str | None = None  # why the guard fell back to the control order, if it did
        self.guardrail_counts = [
            [0.0, 0.0],
            [0.0, 0.0],
        ]  # settled and clicked lists of both groups since the guard stands
        self.rejected_prior: str | None = None  # why the policy does not believe what the log says of an item, if so
        self.decided = 0  # number of the last decision
        self.position = 0  # of the last entry
        self.witness: Callable[[DecisionMade, FloatArray], None] | None = (
            None  # sees lists before they are learned from
        )
        self._later: dict[str, list[Lesson]] | None = None  # lessons of a replay by segment, not taken in yet

    def apply(self, record: LogEvent) -> Receipt | None:
        """Become what one more record says."""
        return record.dispatch(self)

    def on_decision(self, record: DecisionMade) -> None:
        """The list is open, and counted."""
        self.decided = max(self.decided, record.number)
        self.learners.row(record.segment)
        self.open_decisions.add(self.learners.scored(record) if self.is_foreign(record) else record)
        self.counters.count_decision(record)

    def on_items_removed(self, record: ItemsRemoved) -> None:
        """What was believed of the items is taken back."""
        for id in record.ids:
            self._believe(id, self.learners.disbelieve)
        self.items.remove(record.ids)
        self.learners.follow()

    def on_window_closed(self, record: WindowClosed) -> None:
        """The decisions settle with what is known of them."""
        for id in record.decisions:
            self._close(self.open_decisions.pop(id))

    def on_guardrail_tripped(self, event: GuardrailTripped) -> None:
        """Fall back to the control ranking."""
        self._reset_guardrail(event.time, event.reason, f"guardrail tripped: {event.reason}")

    def on_guardrail_reset(self, event: GuardrailReset) -> None:
        """Let the policy decide again."""
        self._reset_guardrail(event.time, None, f"guardrail reset: {event.reason}")

    def _reset_guardrail(self, time: float, tripped: str | None, label: str) -> None:
        """Compare both groups from the beginning again."""
        self.guardrail_tripped, self.guardrail_counts = tripped, [[0.0, 0.0], [0.0, 0.0]]
        self._note(time, label)

    def on_config_changed(self, record: ConfigChanged) -> None:
        """Go on with other settings; what is learned, and how, stays this replica's own."""
        first = self.version == 0
        self.version, self.settings = record.version, record.config
        if learning_of(record.config) == self.config.learning():
            self.own.add(record.version)
        self.config = self.config.adjusted_as(record.config)
        self.open_decisions.window = self.config.window
        if not first:
            self._note(record.time, ", ".join(f"{name}: {value}" for name, value in record.changed.items()))

    def _note(self, time: float, label: str) -> None:
        self.changes = [*self.changes[1 - CHANGES :], (time, label)]

    def is_foreign(self, shown: DecisionMade) -> bool:
        """Whether another policy decided, or this one with other parameters: its rows may be others."""
        if shown.config and self.version:
            return shown.config not in self.own
        return bool(shown.policy) and shown.policy != self.config.policy

    def follow(self, entries: Iterable[LogEntry], until: int | None = None, page: int = TOGETHER) -> None:
        """Apply entries, up to a position if one is given: the same as one by one, and quicker, so many at once."""
        wanted = entries if until is None else takewhile(lambda entry: entry.position <= until, entries)
        left = iter(wanted)
        while some := list(islice(left, page)):
            read = [entry for entry in some if entry.position not in self.skipped]
            records = decode_all(read)
            self.apply_all([(entry.position, record) for entry, record in zip(read, records, strict=True)])
            self.position = some[-1].position
            self.open_decisions.part(entry.key for entry in read if entry.kind == DecisionMade.kind)

    def apply_all(self, kept: Sequence[tuple[int, LogEvent]]) -> list[Receipt | None]:
        """Apply records, each after its position: what one by one would give, with lessons of a segment together."""
        told: list[Receipt | None] = []
        self._later = {}
        try:
            for position, record in kept:
                if record.changes_items:
                    self._catch_up()
                self.position = position
                told.append(self.apply(record))
            self._catch_up()
        finally:
            self._later = None
        return told

    def apply_carefully(self, entries: Iterable[LogEntry]) -> None:
        """Apply entries one by one, and say which of them cannot be applied."""
        for entry in entries:
            try:
                if entry.position not in self.skipped:
                    self.apply(decode(entry))
            except CannotReplay:
                raise
            except Exception as error:
                raise CannotReplay(entry.position, entry.kind, error) from error
            self.position = entry.position

    def _catch_up(self) -> None:
        for lessons in (self._later or {}).values():
            try:
                self.learners.learn(lessons)
            except Exception as error:
                raise CannotReplay(lessons[0].position, "feedback", error) from error
        self._later = {}

    def on_feedback(self, record: FeedbackReceived) -> Receipt:
        """The outcome is taken in, and learned from where nothing more will come."""
        waiting = self.open_decisions.get(record.decision)
        if waiting is None:
            self.counters.late += 1
            return Receipt(record.decision, "late")
        if waiting.outcome is None:
            self.counters.count_feedback(waiting.shown, record.time)
        waiting.add(record.outcome, record.regret, self.config.aggregate)
        if record.final or self.config.aggregate == "earliest":
            self.open_decisions.pop(record.decision)
            return Receipt(record.decision, self._settle(waiting))
        return Receipt(record.decision, "pending")

    def _close(self, waiting: OpenDecision | None) -> None:
        if waiting is None:
            return
        self.counters.closed += 1
        if waiting.outcome is not None or self.config.on_close == "nothing":
            self._settle(waiting)

    def on_withdrawn(self, record: Withdrawn) -> Receipt:
        """Nothing is learned from the list."""
        waiting = self.open_decisions.pop(record.decision)
        if waiting is None:
            return Receipt(record.decision, "late")
        self.counters.withdrawn += 1
        return Receipt(record.decision, "withdrawn")

    def _settle(self, waiting: OpenDecision) -> str:
        """The outcome of a list is known: count it, and learn from it where that is possible."""
        shown = waiting.shown
        told = np.zeros(len(shown.items)) if waiting.outcome is None else waiting.outcome
        outcome = self.learners.outcome(told)
        clicked = self.counters.count_outcome(shown, outcome, waiting.regret)
        control = shown.group == "control"
        watched = self.guardrail_counts[1 if control else 0]
        watched[0] += 1.0
        watched[1] += clicked
        if self.witness is not None:
            self.witness(shown, outcome)
        if (control or self.is_foreign(shown)) and not self.learners.policy.learns_off_policy:
            return "ignored"
        lesson = Lesson(shown, outcome, self.position)
        if self._later is None:
            self.learners.learn([lesson])
        else:
            self._later.setdefault(shown.segment, []).append(lesson)
        return "learned"

    def on_items_put(self, record: ItemsPut) -> None:
        """The table has the items, the learners have room for them and believe what is said of them."""
        items = record.items
        changed = [item for item in items if self._prior_changes(item)]
        for item in changed:
            self._believe(item.id, self.learners.disbelieve)  # with the features that it was believed with
        self.items.put(items)
        self.learners.follow()
        self.counters.grow(self.items.capacity)
        for item in changed:
            self._believe(item.id, self.learners.believe)

    def _prior_changes(self, item: Item) -> bool:
        """Whether what is believed of an item before the first click changes, or the features that stand for it."""
        at = self.items.column.get(item.id) if self.items.has(item.id) else None
        before = None if at is None else self.items.priors.get(at)
        policy = self.learners.policy
        if policy.takes_priors and not policy.replaces_priors:
            # The deciding policy refuses these before the commit; applying never refuses, and a challenger is given up.
            if before is not None and item.prior not in (None, before):
                self.rejected_prior = f"{self.config.policy} cannot take back the prior that {item.id!r} had before."
            elif item.prior is not None and item.prior.segments and item.prior.strength:
                self.rejected_prior = f"{self.config.policy} cannot believe another prior of {item.id!r} in a segment."
            if before is not None:
                return False
        if before is None or item.prior not in (None, before):
            return item.prior is not None
        return item.features != self.items.get(item.id).features

    def _believe(self, id: str, how: Callable[[int, Prior], None]) -> None:
        """Believe what another ranker said of an item, if anything, or take it back."""
        at = self.items.column.get(id) if self.items.has(id) else None
        prior = None if at is None else self.items.priors.get(at)
        if at is not None and prior is not None:
            how(at, prior)

    def counts(self) -> dict[str, int]:
        """How large it is, and how far."""
        return {
            "items": len(self.items),
            "segments": len(self.learners.segments),
            "decisions": self.decided,
            "open_decisions": len(self.open_decisions),
            "position": self.position,
        }

    def assumptions(self) -> ClickAssumptions:
        """Return what the policy assumes about visitors and slots."""
        policy, config = self.learners.policy, self.config
        feedback = policy.feedback.name

        def accepts(changed: Mapping[str, object]) -> bool:
            kept = config.as_mapping()
            if "policy" in changed:
                kept.pop("params", None)
            try:
                ChallengerConfig.of({**kept, **changed})
            except RankloopError:
                return False
            return True

        return ClickAssumptions(
            settings=config,
            feedback=feedback,
            single=policy.feedback.single,
            learns=catalogue.find(config.policy).learns,
            ignores_slots=policy.ignores_slots,
            takes_feedback=policy.takes_feedback,
            fractional=policy.fractional,
            bias=config.bias if feedback in ("position-based", "choice") else None,
            accepts=accepts,
        )
