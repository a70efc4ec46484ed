"""Words and numbers of a report in the ranker's objective: rates for any-click, values per list otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from rankloop.analytics.list_value import is_binary
from rankloop.reports.number_format import digits, number, percent, signed


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """How values of a ranker are written."""

    objective: str
    unit: str

    @property
    def is_rate(self) -> bool:
        """Whether the value per list is a click-through rate."""
        return is_binary(self.objective)

    @property
    def name(self) -> str:
        """The value per list, as a noun."""
        return "click-through rate" if self.is_rate else f"{self.unit} per list"

    @property
    def title(self) -> str:
        """The same at the beginning of a heading."""
        return f"{self.name[0].upper()}{self.name[1:]}"

    @property
    def difference_name(self) -> str:
        """A difference of two values per list, as a noun."""
        return "Difference of the click-through rates" if self.is_rate else f"Difference in {self.name}"

    @property
    def difference_unit(self) -> str:
        """What follows a difference."""
        return " percentage points" if self.is_rate else f" {self.unit}"

    @property
    def per_list(self) -> str:
        """What follows a difference and its unit where nothing says that it is per list."""
        return "" if self.is_rate else " per list"

    def level(self, value: float | None, reference: float | None = None) -> str:
        """Return a value per list, with the decimals of a reference where it is a rate."""
        if value is None:
            return "–"
        return percent(value, None if reference is None else digits(reference)) if self.is_rate else number(value)

    def change(self, difference: float, reference: float) -> str:
        """Return a difference with its sign, without its unit."""
        if self.is_rate:
            return signed(difference, digits(reference))
        return f"{'+' if difference >= 0 else '−'}{number(abs(difference))}"

    def interval(self, low: float, high: float, reference: float) -> str:
        """Return an interval of values per list."""
        if self.is_rate:
            d = digits(reference)
            return f"{100 * low:.{d}f} to {100 * high:.{d}f} %"
        return f"{number(low)} to {number(high)}"

    def tick(self, value: float) -> str:
        """Return the label of an axis."""
        return f"{100 * value:g} %" if self.is_rate else f"{value:,g}"
