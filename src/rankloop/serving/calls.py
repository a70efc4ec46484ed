"""The part of a ranker that takes calls of the same process: they wait for their commits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import cast

from rankloop.errors import RankloopError
from rankloop.eventlog.events import DecisionMade, Withdrawn
from rankloop.eventlog.writer import Commit
from rankloop.schema import FeedbackEvent, RankRequest, Receipt, RequestItems
from rankloop.schema.answers import BatchAnswer
from rankloop.schema.fields import Fields
from rankloop.serving.changing_items import ItemsRanker
from rankloop.serving.ranking import Ranking

Submitted = tuple[Ranking, Commit[Receipt | None] | None]
"""A list, and the commit to wait for before it may be shown, if there is one."""
FOR_EVER = -1.0
"""Patience without a limit."""


class CallableRanker(ItemsRanker):
    """A ranker whose methods take the fields of a request as arguments."""

    @abstractmethod
    def submit_rank(
        self, request: RankRequest, patience: float = FOR_EVER
    ) -> tuple[Ranking, Commit[Receipt | None] | None]:
        """Decide a list; return it with the commit to wait for before it may be shown, if there is one."""

    @abstractmethod
    def submit_feedback(
        self, given: FeedbackEvent, decision: DecisionMade, patience: float = FOR_EVER
    ) -> Commit[Receipt]:
        """Submit feedback; the commit has its receipt once it is in the log and applied."""

    def rank(
        self,
        *,
        k: int | None = None,
        budget: int | None = None,
        context: Sequence[float] | Fields | None = None,
        candidates: Sequence[str] | None = None,
        items: RequestItems | None = None,
        open: bool = False,
        exclude: Sequence[str] = (),
        pin: Mapping[int, str] | None = None,
        segment: str = "",
        propensity: int = 0,
        order: Sequence[str] | None = None,
        rewards: Sequence[float] | None = None,
        losses: Sequence[float] | None = None,
        visitor: str | None = None,
        strict: bool = False,
        decision: str | None = None,
        after: int | None = None,
    ) -> Ranking:
        """Decide a list; `schema.RankRequest` describes the options."""
        request = RankRequest(
            k=k,
            budget=budget,
            context=context,
            candidates=candidates,
            items=items,
            open=open,
            exclude=exclude,
            pin=pin,
            segment=segment,
            propensity=propensity,
            order=order,
            rewards=rewards,
            losses=losses,
            visitor=visitor,
            strict=strict,
            decision=decision,
            after=after,
        )
        ranking, commit = self.submit_rank(request)
        if commit is not None:
            commit.result()
        self._close_if_too_many()
        self.follow_features()
        return ranking

    def rank_many(
        self,
        requests: Sequence[RankRequest | Mapping[str, object]],
        uncomputable: tuple[type[Exception], ...] = (),
    ) -> list[BatchAnswer]:
        """Decide a list for each request, with one wait for all commits; each is answered or refused by itself.

        Args:
            requests: what to rank.
            uncomputable: further errors for which a single request is refused.
        """
        submitted: list[tuple[Submitted | None, BatchAnswer]] = []
        for i, one in enumerate(requests):
            try:
                submitted.append((self.submit_rank(RankRequest.of(one, f"requests[{i}]")), RANKED))
            except RankloopError as error:
                submitted.append((None, refusal(error)))
            except uncomputable:
                submitted.append((None, UNCOMPUTABLE_ANSWER))
        answers = [refused if one is None else _answer(*one) for one, refused in submitted]
        self._close_if_too_many()
        self.follow_features()
        return answers

    def feedback(
        self,
        decision: str,
        *,
        clicked: Sequence[int] | None = None,
        items: Sequence[str] | None = None,
        values: Sequence[float] | None = None,
        item_values: Mapping[str, float] | None = None,
        event: str | None = None,
        final: bool = False,
        regret: float | None = None,
        seen: int | Sequence[int] | None = None,
        kind: str = "click",
        value: float | None = None,
    ) -> Receipt:
        """Report feedback for a decision; `schema.FeedbackEvent` describes the options."""
        given = FeedbackEvent(decision, clicked, items, values, item_values, event, final, regret, seen, kind, value)
        return self.submit_feedback(given, self.find_decision(decision)).result()

    def withdraw(self, decision: str) -> Receipt:
        """Withdraw a decision whose list was never shown; it is too late after the policy has learned from it."""
        id = self.find_decision(decision).id
        commit = self._submit(Withdrawn(self._clock(), id), lambda: Receipt(id, "duplicate"))
        return cast("Commit[Receipt]", commit).result()


RANKED = BatchAnswer("ranked")
UNCOMPUTABLE_ANSWER = BatchAnswer(
    "refused", problem="a number in the request is too large or too small to compute with."
)


def refusal(error: RankloopError) -> BatchAnswer:
    """Return why a request of a batch was refused, and whether it may be repeated."""
    return BatchAnswer("unavailable" if error.retry else "refused", problem=str(error))


def _answer(ranking: Ranking, commit: Commit[Receipt | None] | None) -> BatchAnswer:
    """Return a list after its commit, or why that failed."""
    try:
        if commit is not None:
            commit.result()
    except RankloopError as error:
        return refusal(error)
    return BatchAnswer("ranked", ranking.answer())
