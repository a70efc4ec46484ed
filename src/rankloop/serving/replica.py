"""The state of one ranker as a function of its log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

import numpy as np

from rankloop import catalogue
from rankloop.analytics.click_assumptions import ClickAssumptions
from rankloop.analytics.counters import Counters
from rankloop.analytics.list_value import NET_REWARD, ListValue
from rankloop.analytics.ranker_state import Witness
from rankloop.errors import RankloopError
from rankloop.eventlog.events import (
    CannotReplay,
    ConfigChanged,
    DecisionMade,
    FeedbackReceived,
    GuardrailReset,
    GuardrailTripped,
    HistoryPruned,
    Impression,
    ItemsPut,
    ItemsRemoved,
    LogEvent,
    decode,
    decode_all,
)
from rankloop.eventlog.open_decisions import OpenDecisions, Recall
from rankloop.eventlog.outcome_rule import OutcomeRule
from rankloop.eventlog.store import LogEntry, StoreUnavailable
from rankloop.schema import Item, Prior, Receipt
from rankloop.serving.config import ChallengerConfig, RankerConfig, learning_of
from rankloop.serving.items.feature_history import FeatureHistory
from rankloop.serving.items.item_table import ItemTable
from rankloop.serving.learners import Learners
from rankloop.serving.lesson import Lesson
from rankloop.serving.memory.budget import Room
from rankloop.serving.outcomes.guardrail import GuardrailCounts
from rankloop.serving.outcomes.settlement import Settlement
from rankloop.types import FloatArray

MAX_PAGE_ENTRIES = 2000
"""Entries that a replay decodes and applies at once."""
MAX_CONFIG_MARKERS = 100
"""Changes of the configuration that charts can show."""


class Replica(Settlement):
    """Items, learners, open decisions and counters after the events of a log up to a position.

    Only events change it: equal logs give equal replicas, bit for bit. Applying an event that was checked before its
    commit never fails.

    Args:
        config: the settings.
        skipped: positions that an operator has excluded.
        recall: reads open decisions back from the log; without it, all of them stay in memory.
        room: the part of a memory budget that the state may take; without it, all memory of the machine.
    """

    def __init__(
        self,
        config: RankerConfig,
        skipped: Collection[int] = (),
        recall: Recall | None = None,
        *,
        room: Room | None = None,
    ) -> None:
        self.config, self.skipped = config, frozenset(skipped)  # positions that an operator has excluded
        self.version = 0  # of the configuration; 0 before the log has one
        self.own_versions: set[int] = set()  # under which this policy decided with these settings of learning
        self.settings: Mapping[str, Any] = {}  # the last ones of the log, also where another policy decides
        self.changes: list[tuple[float, str]] = []  # when the settings or the guardrail changed, and how
        self.items = ItemTable(config.dim, config.coverage, features=config.feature_settings, context=config.context)
        self.learners = Learners(config, self.items, room)
        self.open_decisions = OpenDecisions(config.window, recall)
        self.feature_history = FeatureHistory(self.items)
        self.contexts = 0  # decisions whose context had fields
        self.last_foreign = 0  # position of the last decision of another policy
        self.rule = OutcomeRule.of(config)
        kinds = () if self.rule is None else self.rule.kinds
        self.counters = Counters(config.slots, self.items.capacity, kinds)
        self.list_value = ListValue.of_setting(config.setting(1, np.zeros(1)))
        self._values_any_click = self.list_value.objective == "any-click"
        self.guardrail_tripped: str | None = None  # the reason, if the guardrail fell back to the control ranking
        self.guardrail = GuardrailCounts(kinds)
        self.rejected_prior: str | None = None  # why the policy cannot take a prior that the log has, if so
        self.decided = 0  # number of the last decision
        self.position = 0  # of the last entry
        self.mixed_numerics = False  # the snapshot that this started from was made by another numerics version
        self.witness: Witness | None = None  # sees outcomes before the policy learns from them
        self._deferred: dict[int, list[Lesson]] | None = None  # lessons of a replay by learner, not learned yet
        self._recalled: Mapping[str, DecisionMade] = {}  # decisions that were read back for the events to apply

    # Applying events

    def apply_all(self, events: Sequence[tuple[int, LogEvent]]) -> list[Receipt | None]:
        """Apply (position, event) pairs: the result of one by one, with the lessons of a learner learned together."""
        if len(events) == 1 and not events[0][1].settles_many:
            self.position = events[0][0]
            return [self.handle(events[0][1])]
        receipts: list[Receipt | None] = []
        self._deferred = {}
        try:
            for position, event in events:
                if event.changes_items:
                    self._learn_deferred()
                self.position = position
                receipts.append(self.handle(event))
            self._learn_deferred()
        finally:
            self._deferred = None
        return receipts

    def follow(self, entries: Iterable[LogEntry], until: int | None = None, page: int = MAX_PAGE_ENTRIES) -> None:
        """Apply entries page by page, up to a position if one is given."""
        wanted = entries if until is None else takewhile(lambda entry: entry.position <= until, entries)
        left = iter(wanted)
        while block := list(islice(left, page)):
            applied = [entry for entry in block if entry.position not in self.skipped]
            events = decode_all(applied)
            self._recalled = self.open_decisions.events(self._settled_by(applied, events))  # in one query
            self.apply_all([(entry.position, event) for entry, event in zip(applied, events, strict=True)])
            self._recalled = {}
            self.position = block[-1].position
            self.open_decisions.detach(entry.key for entry in applied if entry.kind == DecisionMade.kind)

    def _settled_by(self, entries: Sequence[LogEntry], events: Sequence[LogEvent]) -> list[str]:
        """Return the decisions that the feedback among these events settles, amends or activates."""
        learns_first = self.config.aggregate == "earliest" if self.rule is None else self.rule.at_once
        if learns_first or self.config.activation == "impression":
            kinds = FeedbackReceived.kind, Impression.kind
            return [entry.subject for entry in entries if entry.kind in kinds]
        return [event.ends for event in events if event.ends is not None]

    def apply_carefully(self, entries: Iterable[LogEntry]) -> None:
        """Apply entries one by one, and raise CannotReplay at the first that cannot be applied."""
        for entry in entries:
            self.position = entry.position
            try:
                if entry.position not in self.skipped:
                    self.handle(decode(entry))
            except (CannotReplay, StoreUnavailable):
                raise
            except Exception as error:
                raise CannotReplay(entry.position, entry.kind, error) from error

    def _learn_deferred(self) -> None:
        for lessons in (self._deferred or {}).values():
            try:
                self.learners.learn(lessons)
            except Exception as error:
                raise CannotReplay(lessons[0].position, "feedback", error) from error
        self._deferred = {}

    # Decisions

    def is_foreign(self, event: DecisionMade) -> bool:
        """Return whether another policy decided, or this one with other parameters: its rows may differ."""
        if event.config and self.version:
            return event.config not in self.own_versions
        return bool(event.policy) and event.policy != self.config.policy

    # Items

    def on_items_put(self, event: ItemsPut) -> None:
        """Put the items into the table, and apply the priors that changed."""
        columns = self.items.columns_with(item.id for item in event.items)
        self.learners.make_room(columns=columns, priors=self.items.prior_scores_with(event.items))
        changed = [item for item in event.items if self._prior_changes(item)]
        for item in changed:
            self._with_prior(item.id, self.learners.disbelieve)  # with the features that it was applied with
        self._keep_features(event)
        self.items.put(event.items, self.position)
        self.learners.follow()
        self.counters.grow(self.items.capacity)
        for item in changed:
            self._with_prior(item.id, self.learners.believe)

    def _keep_features(self, event: ItemsPut) -> None:
        """Keep the features that the event changes, if an open decision of another policy may need them."""
        oldest = self.open_decisions.oldest()
        if oldest is not None and oldest.since_position <= self.last_foreign:
            self.feature_history.forget_until(self.open_decisions.oldest_foreign())
            self.feature_history.keep(event.items, self.position)
        elif len(self.feature_history):
            self.feature_history.forget_until(None)

    def on_items_removed(self, event: ItemsRemoved) -> None:
        """Take back the priors of the items and remove them."""
        for id in event.ids:
            self._with_prior(id, self.learners.disbelieve)
        self.items.remove(event.ids)
        self.learners.follow()

    def _prior_changes(self, item: Item) -> bool:
        """Return whether the prior of an item changes, or the features that it applies to."""
        at = self.items.column.get(item.id)
        before = None if at is None else self.items.priors.get(at)
        policy = self.learners.policy
        if policy.takes_priors and not policy.replaces_priors:
            # The deciding policy refuses these before the commit; applying never fails, so a challenger is discarded.
            if before is not None and item.prior not in (None, before):
                self.rejected_prior = f"{self.config.policy} cannot take back the prior that {item.id!r} had before."
            elif item.prior is not None and item.prior.segments and item.prior.strength:
                self.rejected_prior = f"{self.config.policy} cannot take another prior of {item.id!r} in a segment."
            if before is not None:
                return False
        if before is None or item.prior not in (None, before):
            return item.prior is not None
        return self.items.changes_row(item)

    def _with_prior(self, id: str, how: Callable[[int, Prior], None]) -> None:
        at = self.items.column.get(id)
        prior = None if at is None else self.items.priors.get(at)
        if at is not None and prior is not None:
            how(at, prior)

    # Configuration and guardrail

    def on_config_changed(self, event: ConfigChanged) -> None:
        """Go on with other settings; what is learned, and how, stays this replica's own."""
        first = self.version == 0
        self.version, self.settings = event.version, event.config
        if learning_of(event.config) == self.config.learning():
            self.own_versions.add(event.version)
        self.config = self.config.adjusted_as(event.config)
        self.open_decisions.window = self.config.window
        if not first:
            self._mark(event.time, ", ".join(f"{name}: {value}" for name, value in event.changed.items()))

    def on_guardrail_tripped(self, event: GuardrailTripped) -> None:
        """Fall back to the control ranking."""
        self._restart_guardrail(event.time, event.reason, f"guardrail tripped: {event.reason}")

    def on_guardrail_reset(self, event: GuardrailReset) -> None:
        """Let the policy decide again."""
        self._restart_guardrail(event.time, None, f"guardrail reset: {event.reason}")

    def on_history_pruned(self, event: HistoryPruned) -> None:
        """Count on from the last decision that was removed: a policy rebuilt from what is left has not seen it."""
        self.decided = max(self.decided, event.decided)

    def _restart_guardrail(self, time: float, tripped: str | None, label: str) -> None:
        """Compare both groups from the beginning again."""
        self.guardrail_tripped = tripped
        self.guardrail.restart(self.position)
        self._mark(time, label)

    def _mark(self, time: float, label: str) -> None:
        self.changes = [*self.changes[1 - MAX_CONFIG_MARKERS :], (time, label)]

    # Reading

    @property
    def objective(self) -> str:
        """The objective in which lists are valued; requests with rewards of their own make it the net reward."""
        return NET_REWARD if self.counters.own_rewards else self.list_value.objective

    def value_of(self, event: DecisionMade, outcome: FloatArray) -> float:
        """Return the value of a settled list in the objective, given its outcome [k]."""
        return self.list_value.of(event, self.learners.outcome(outcome), self.items)

    def counts(self) -> dict[str, int]:
        """Return the number of items, segments, decisions and open decisions, and the log position."""
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
            settings = config.as_mapping()
            if "policy" in changed:
                settings.pop("params", None)
            try:
                ChallengerConfig.of({**settings, **changed})
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
