"""How much of a score is exploring?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankloop.types import EMPTY, FloatArray, IntArray


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
