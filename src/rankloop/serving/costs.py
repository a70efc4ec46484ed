"""What a request costs, in numbers that are computed: an estimate before anything is done for it."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop.errors import InvalidInput, Words

PER_PRIOR = 5_000.0
"""Numbers that could be computed in the time that an item with a prior takes in any case."""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a field of a request, which is proportional to a number that the field gives."""

    field: str
    given: int
    each: float
    unit: str = ""  # what the number counts, if the field does not say so

    @property
    def total(self) -> float:
        """The cost of the whole request."""
        return self.given * self.each

    def require(self, limit: float, whom: str = "") -> None:
        """Refuse a request whose cost exceeds the limit; the sentence says how much would be accepted."""
        if self.total > limit:
            accepted = f"at most {int(limit / self.each)} with the items, features and segments of this ranker"
            given = Words(f"{self.given} {self.unit}") if self.unit else self.given
            raise InvalidInput(self.field, given, f"{accepted}, {whom}" if whom else accepted)


def of_draws(draws: int, items: int, row: int) -> Cost:
    """Return the cost of the draws that estimate a propensity: each scores all items, which have rows of this size."""
    return Cost("propensity", draws, float(items * row + row * row))


def of_priors(priors: int, segments: int, row: int) -> Cost:
    """Return the cost of items with priors: each changes the learners of all segments and of those to come."""
    return Cost("items", priors, PER_PRIOR + float((segments + 1) * row * row), "with a prior")
