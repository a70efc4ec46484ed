"""What a ranker answers: a list with its reasons, and a receipt for feedback."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankloop.eventlog.events import DecisionMade
from rankloop.propensity import Propensity
from rankloop.schema import RankAnswer, RankedItem
from rankloop.types import EMPTY, FloatArray, IntArray


class Ranking:
    """A decided list."""

    __slots__ = ("_ids", "_listed", "_shares", "ignored", "repeated", "shown")

    def __init__(
        self,
        shown: DecisionMade,
        ids: Sequence[str],
        shares: Sequence[float | None] | None = None,
        ignored: tuple[str, ...] = (),
        repeated: bool = False,
    ) -> None:
        self.shown, self._ids, self._shares = shown, ids, shares
        self.ignored = ignored  # ids of the request that said nothing: of no item, or of one that may not be listed
        self.repeated = repeated  # decided before, and answered again to a caller who brought its id
        self._listed: tuple[RankedItem, ...] | None = None

    @property
    def id(self) -> str:
        """Of the decision."""
        return self.shown.id

    @property
    def segment(self) -> str:
        """Whose learner decided."""
        return self.shown.segment

    @property
    def policy(self) -> str:
        """That decided."""
        return self.shown.policy

    @property
    def group(self) -> str:
        """`policy`, or `control`: the caller's order, or the default order."""
        return self.shown.group

    @property
    def propensity(self) -> Propensity | None:
        """How likely the list was, where that is known."""
        return self.shown.propensity

    @property
    def ids(self) -> tuple[str, ...]:
        """The items in order."""
        return tuple(self._ids[column] for column in self.shown.items.tolist() if column != EMPTY)

    @property
    def items(self) -> tuple[RankedItem, ...]:
        """The places that hold something, and why."""
        if self._listed is None:
            shares = self._shares
            if shares is None:
                shares = exploration(self.shown.items, self.shown.scores, self.shown.why, self.shown.pinned)
            self._listed = _places(self.shown, self._ids, shares)
        return self._listed

    def answer(self) -> RankAnswer:
        """The list as it is told to a caller who is elsewhere."""
        likely = self.propensity
        told = None if likely is None else likely.answer()
        return RankAnswer(self.id, self.segment, self.policy, self.group, self.items, told, self.ignored)


def _places(shown: DecisionMade, ids: Sequence[str], shares: Sequence[float | None]) -> tuple[RankedItem, ...]:
    slots = shown.items.tolist()
    nothing = [None] * len(slots)
    scores = nothing if shown.scores is None else shown.scores.tolist()
    estimates, widths, priors = [nothing] * 3 if shown.why is None else shown.why.tolist()
    usual = "control" if shown.group == "control" else "random" if shown.scores is None else "ranked"
    return tuple(
        RankedItem(
            ids[column],
            "pinned" if slot in shown.pinned and usual != "control" else usual,
            _finite(scores[slot]),
            _finite(estimates[slot]),
            _finite(widths[slot]),
            _finite(priors[slot]),
            None if usual == "control" else shares[slot],
        )
        for slot, column in enumerate(slots)
        if column != EMPTY
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and -math.inf < value < math.inf else None


def exploration(
    items: IntArray, scores: FloatArray | None, why: FloatArray | None, pinned: Sequence[int] = ()
) -> list[float | None]:
    """How much of each place's score is exploring: |score - estimate| beside |estimate|.

    All of it where a place is random, nothing where it is pinned; None where the policy has no estimate, and in
    empty slots.
    """
    slots = items.tolist()
    if scores is None:
        return [None if column == EMPTY else 0.0 if at in pinned else 1.0 for at, column in enumerate(slots)]
    if why is None:
        return [0.0 if at in pinned else None for at in range(len(slots))]
    found: list[float | None] = []
    for at, (column, score, estimate) in enumerate(zip(slots, scores.tolist(), why[0].tolist(), strict=True)):
        if column == EMPTY or estimate != estimate:
            found.append(None)
        elif at in pinned:
            found.append(0.0)
        elif math.isinf(score):  # beyond all numbers: nobody has seen it
            found.append(1.0)
        else:
            added = abs(score - estimate)
            whole = added + abs(estimate)
            found.append(added / whole if whole > 0 else 0.0)
    return found
