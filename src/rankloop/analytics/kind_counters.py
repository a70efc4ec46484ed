"""Counters of feedback by kind, such as clicks and purchases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rankloop.arrays import Array

KIND_FIELDS = ("events", "lists", "value", "squares")
"""Counts of each group and kind: events that counted; lists with such an event; their summed values, as the kind
combines them; the summed squares of the values of lists."""
EVENTS, LISTS_WITH, KIND_VALUE, KIND_SQUARES = range(len(KIND_FIELDS))
LATE_EVENTS, LATE_VALUE = range(2)


class KindCounters:
    """Counts of the events that came in time, by group and kind, and of those that came too late, by kind.

    Unlike outcomes they are counted as they come.
    """

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        self.kinds = tuple(kinds)
        self.total = np.zeros((2, len(self.kinds), len(KIND_FIELDS)))
        self.late = np.zeros((len(self.kinds), 2))  # events, and their summed values

    def count(self, group: int, kind: int, before: float | None, after: float) -> None:
        """Count an event that changes the value of its list in its kind; None before the first."""
        counts, earlier = self.total[group, kind], before or 0.0
        counts[EVENTS] += 1.0
        counts[LISTS_WITH] += before is None
        counts[KIND_VALUE] += after - earlier
        counts[KIND_SQUARES] += after * after - earlier * earlier

    def count_late(self, kind: int, value: float) -> None:
        """Count an event that came after its window or for a list that was settled or withdrawn."""
        self.late[kind] += (1.0, value)

    def arrays(self) -> dict[str, Array]:
        """Return copies of all counts by name, for a snapshot; nothing without kinds."""
        return {"kinds": self.total.copy(), "late_kinds": self.late.copy()} if self.kinds else {}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore the counts that `arrays` returned."""
        if self.kinds:
            self.total, self.late = arrays["kinds"].astype(np.float64), arrays["late_kinds"].astype(np.float64)
