"""Rewards and losses by slot, as far as a list can be planned for them exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rankloop.errors import InvalidInput, Words


def check_by_slot(where: str, slots: int, rewards: Sequence[float] | None, losses: Sequence[float] | None) -> None:
    """Refuse rewards and losses of another length, and those for which no list can be planned exactly.

    Ordering items by attraction and then choosing the length is exact only for rewards of at least 0 and losses of at
    most 0 that both fall, or stay the same, from slot to slot.

    Args:
        where: prefix of the names of the fields, in errors.
        slots: of the ranker.
        rewards: one for each slot.
        losses: one more, the first for an empty list.
    """
    for name, values, length in (("rewards", rewards, slots), ("losses", losses, slots + 1)):
        if values is None:
            continue
        if len(values) != length:
            raise InvalidInput(f"{where}{name}", Words(f"a list of {len(values)}"), f"a list of {length}")
        sign = "at least 0" if name == "rewards" else "at most 0"
        fits = all(value >= 0.0 for value in values) if name == "rewards" else all(value <= 0.0 for value in values)
        if not fits or any(later > earlier for earlier, later in pairwise(values)):
            raise InvalidInput(
                f"{where}{name}", list(values), f"numbers of {sign}, none greater than the one before it"
            )
