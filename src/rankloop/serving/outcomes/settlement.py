"""The part of a replica that opens decisions, takes their feedback, learns from it and counts it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np

from rankloop.analytics.counters import Counters
from rankloop.analytics.list_value import ListValue
from rankloop.analytics.ranker_state import Witness
from rankloop.eventlog.events import (
    DecisionMade,
    EventFollower,
    FeedbackReceived,
    Impression,
    WindowClosed,
    Withdrawn,
)
from rankloop.eventlog.open_decisions import OpenDecision, OpenDecisions
from rankloop.eventlog.outcome_rule import OutcomeRule
from rankloop.schema import Receipt
from rankloop.schema.reward import CLICK
from rankloop.serving.config import RankerConfig
from rankloop.serving.items.feature_history import FeatureHistory
from rankloop.serving.items.item_table import ItemTable
from rankloop.serving.learners import Learners
from rankloop.serving.lesson import Lesson
from rankloop.serving.outcomes.guardrail import GuardrailCounts
from rankloop.types import EMPTY, BoolArray, FloatArray

MAX_RECALLED = 1000
"""Decisions that are read back from the log at once."""


class Settlement(EventFollower[Receipt]):
    """Open decisions and what becomes of them, as a function of the log."""

    config: RankerConfig
    rule: OutcomeRule | None  # how events of several kinds make up an outcome; None without a `reward` section
    items: ItemTable
    learners: Learners
    open_decisions: OpenDecisions
    feature_history: FeatureHistory
    counters: Counters
    list_value: ListValue
    guardrail: GuardrailCounts
    position: int  # of the last entry
    decided: int  # number of the last decision
    contexts: int  # decisions whose context had fields
    last_foreign: int  # position of the last event that started the window of another policy's decision
    witness: Witness | None  # sees outcomes before the policy learns from them
    _values_any_click: bool
    _deferred: dict[int, list[Lesson]] | None  # lessons of a replay by learner, not learned yet
    _recalled: Mapping[str, DecisionMade]  # decisions that were read back for the events to apply

    @abstractmethod
    def is_foreign(self, event: DecisionMade) -> bool:
        """Return whether another policy decided, or this one with other parameters: its rows may differ."""

    @abstractmethod
    def _learn_deferred(self) -> None:
        """Learn the lessons that wait."""

    # Decisions and impressions

    def on_decision(self, event: DecisionMade) -> None:
        """Open the decision, and count it unless only an impression makes it count."""
        # Of several processes, two may give the same number, so that the log has more decisions than the last number.
        self.decided = max(self.decided + 1 if event.process else self.decided, event.number)
        self.contexts += event.context_fields is not None
        if self.items.encoding is not None:
            self.items.encoding.learn_context(event.context_fields, self.position)
        self.learners.row(event.segment)
        foreign, active = self.is_foreign(event), self.config.activation == "decision"
        if foreign:
            self.last_foreign = self.position
        self.open_decisions.open(event, self.position, foreign=foreign, active=active)
        if active:
            self.counters.count_decision(event)
        else:
            self.counters.count_explored(event)

    def on_impression(self, event: Impression) -> Receipt:
        """Count the decision as shown from now on, and start its window."""
        decision = self.open_decisions.get(event.decision)
        if decision is None:
            self.counters.late += 1
            return Receipt(event.decision, "late")
        if decision.active:
            return Receipt(event.decision, "duplicate")
        self._activate(event.decision, decision, event.time, event.decided)
        return Receipt(event.decision, "activated")

    def _activate(self, id: str, decision: OpenDecision, time: float, known: DecisionMade | None) -> None:
        self.counters.count_shown(known or self._logged(id, decision, self._recalled))
        self.open_decisions.activate(id, self.position, time)
        if decision.foreign:
            self.last_foreign = self.position

    def on_withdrawn(self, event: Withdrawn) -> Receipt:
        """Close the decision without learning from it."""
        decision = self.open_decisions.get(event.decision)
        if decision is None or decision.learned_at:
            return Receipt(event.decision, "late")
        del self.open_decisions[event.decision]
        self.counters.withdrawn += 1
        self.counters.unshown += not decision.active
        return Receipt(event.decision, "withdrawn")

    # Feedback

    def on_feedback(self, event: FeedbackReceived) -> Receipt:
        """Add the outcome to its decision, and settle the decision if nothing more can come."""
        decision, rule = self.open_decisions.get(event.decision), self.rule
        kind = 0 if rule is None else rule.number(event.of_kind)
        if kind is None or (rule is None and event.of_kind != CLICK):
            return Receipt(event.decision, "ignored")  # of a kind that this policy's settings do not declare
        if decision is not None and not decision.active:
            self._activate(event.decision, decision, event.time, event.decided)
        if decision is None or (rule is not None and not rule.in_time(kind, event.time - decision.since)):
            self.counters.late += 1
            if rule is not None:
                self.counters.kinds.count_late(kind, float(event.outcome.sum()))
            return Receipt(event.decision, "late")
        if decision.outcome is None and decision.combined is None:
            self.counters.count_feedback(decision.time, event.time)
        status = self._combine(event, decision) if rule is None else self._add(event, decision, rule, kind)
        return Receipt(event.decision, status)

    def _combine(self, event: FeedbackReceived, decision: OpenDecision) -> str:
        """Add an event to the outcome of a ranker that takes one kind of feedback; return the status."""
        aggregate = self.config.aggregate
        if event.seen is not None:
            decision.visible = event.combined_visible(decision.visible, decision.outcome, aggregate)
        decision.outcome = event.combined(decision.outcome, aggregate)
        decision.regret = event.regret if decision.regret is None else decision.regret
        if event.final or aggregate == "earliest":
            logged = event.decided or self._logged(event.decision, decision, self._recalled)
            del self.open_decisions[event.decision]
            return self._settle(decision, logged, decision.outcome)
        return "pending"

    def _add(self, event: FeedbackReceived, decision: OpenDecision, rule: OutcomeRule, kind: int) -> str:
        """Add an event to the values of its kind, and learn what can be learned by now; return the status."""
        before = decision.combined
        after = decision.combined = rule.added(before, kind, event.outcome)
        first = before is None or np.isnan(before[kind]).all()
        earlier = None if first else rule.value(before, kind)
        self.counters.kinds.count(int(decision.control), kind, earlier, rule.value(after, kind))
        decision.regret = event.regret if decision.regret is None else decision.regret
        if event.seen is not None and not decision.learned_at:
            decision.visible = event.combined_visible(decision.visible, None, "sum")
        status = "counted" if rule.at_once else "pending"
        outcome = rule.outcome(after)
        if decision.learned_at:
            status = self._amend(event, decision, before, outcome)
        elif event.final or (rule.at_once and outcome is not None and rule.teaches(kind)):
            outcome = np.zeros(len(event.outcome)) if outcome is None else outcome
            status = self._settle(
                decision, event.decided or self._logged(event.decision, decision, self._recalled), outcome
            )
            decision.outcome, decision.learned_at = outcome, self.position
            if decision.visible is not None:
                decision.visible = decision.visible | (outcome != 0.0)
        if event.final:
            del self.open_decisions[event.decision]
            self.guardrail.count_kinds(decision, rule)
        return status

    def _amend(
        self, event: FeedbackReceived, decision: OpenDecision, before: FloatArray | None, outcome: FloatArray | None
    ) -> str:
        """Count and learn the change of an outcome that was learned; return the status."""
        former = None if before is None or self.rule is None else self.rule.outcome(before)
        if former is None or outcome is None or decision.outcome is None or np.array_equal(former, outcome):
            return "counted"
        made = event.decided or self._logged(event.decision, decision, self._recalled)
        seen, ignored = self._as_learned(decision, made)
        old, new, learned = (self.learners.outcome(one) for one in (former, outcome, decision.outcome))
        values = self._value(seen, old), self._value(seen, new)
        self.counters.amend_outcome(seen, (old, values[0]), (new, values[1]))
        self.guardrail.amend(decision, *values)
        unseen = bool(((new != learned) & (seen.items == EMPTY)).any())
        if ignored or unseen or not self.learners.amendable(seen, learned, new):
            return "ignored"
        decision.outcome = outcome
        self._teach(Lesson(seen, new, self.position, learned))
        return "amended"

    # Windows

    def on_window_closed(self, event: WindowClosed) -> None:
        """Settle the decisions with the feedback received so far."""
        for start in range(0, len(event.decisions), MAX_RECALLED):
            ids = event.decisions[start : start + MAX_RECALLED]
            known = event.decided or self.open_decisions.events(ids)
            for id in ids:
                decision = self.open_decisions.get(id)
                if decision is not None:
                    self._close(id, decision, known)
            if self._deferred is not None and sum(map(len, self._deferred.values())) >= MAX_RECALLED:
                self._learn_deferred()  # lessons that wait keep their features in memory

    def _close(self, id: str, decision: OpenDecision, known: Mapping[str, DecisionMade]) -> None:
        """Settle a decision whose window has closed, unless it was learned at once; withdraw it if it was not shown."""
        rule = self.rule
        if not decision.active:
            del self.open_decisions[id]
            self.counters.withdrawn += 1
            self.counters.unshown += 1
            return
        outcome = decision.outcome
        if rule is not None and not decision.learned_at and decision.combined is not None:
            outcome = rule.outcome(decision.combined)
        learns = not decision.learned_at and (outcome is not None or self.config.on_close == "nothing")
        logged = self._logged(id, decision, known) if learns else None
        del self.open_decisions[id]
        self.counters.closed += 1
        if logged is not None:
            self._settle(decision, logged, np.zeros(len(logged.items)) if outcome is None else outcome)
        if rule is not None and (logged is not None or decision.learned_at):
            self.guardrail.count_kinds(decision, rule)

    def _logged(self, id: str, decision: OpenDecision, known: Mapping[str, DecisionMade]) -> DecisionMade:
        """Return the event of an open decision: from memory, from those already read back, or from the log."""
        return decision.event or known.get(id) or self.open_decisions.events([id])[id]

    # Learning

    def _settle(self, decision: OpenDecision, event: DecisionMade, outcome: FloatArray) -> str:
        """Count the outcome of a decision and learn from it where that is possible; return the status."""
        outcome = self.learners.outcome(outcome)
        shown, ignored = self._as_learned(decision, event, outcome)
        if decision.visible is not None and shown.partly_seen:
            self.counters.count_unseen(event, decision.visible | (outcome != 0.0))
        value = self._value(shown, outcome)
        self.counters.count_outcome(shown, outcome, value, decision.regret)
        compared = self.guardrail.objective[1 if event.group == "control" else 0]
        compared[0] += 1.0
        compared[1] += value
        compared[2] += value * value
        if self.witness is not None:
            self.witness(shown, outcome)
        if ignored:
            return "ignored"
        self._teach(Lesson(shown, outcome, self.position))
        return "learned"

    def _as_learned(
        self, decision: OpenDecision, event: DecisionMade, outcome: FloatArray | None = None
    ) -> tuple[DecisionMade, bool]:
        """Return a list with this policy's rows and as it was seen, and whether the policy does not learn from it.

        A click of the outcome [k] says that its slot was seen.
        """
        control = event.group == "control"
        ignored = (control or self.is_foreign(event)) and not self.learners.policy.learns_off_policy
        if decision.foreign and not (ignored and self.witness is None):
            event = self.learners.scored(event, **self.feature_history.as_of(decision.position, event.items))
        if decision.visible is not None:
            visible: BoolArray = decision.visible if outcome is None else decision.visible | (outcome != 0.0)
            event = event.as_seen(visible)
        return event, ignored

    def _value(self, event: DecisionMade, outcome: FloatArray) -> float:
        """Return the value of a list in the objective."""
        if self._values_any_click and event.rewards is None and event.losses is None:
            return 1.0 if outcome.any() else 0.0  # as `list_value` has it, for the objective of most rankers
        return self.list_value.of(event, outcome, self.items)

    def _teach(self, lesson: Lesson) -> None:
        """Let the learner of a lesson learn it, now or together with others."""
        if self._deferred is None:
            self.learners.learn([lesson])
        else:
            self._deferred.setdefault(self.learners.learner(lesson.event.segment), []).append(lesson)
