"""Tables of results by the value of a constant that a paper does not print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankloop.experiments.claims import compare_regret, trace
from rankloop.experiments.outcome import Key, Outcome
from rankloop.experiments.tables import ResultTable, number
from rankloop.simulator.stats import half_width


@dataclass(frozen=True)
class Sensitivity:
    """A constant, the policies that were run with values of it, and a policy that they are compared with."""

    constant: str
    values: tuple[tuple[str, str, Key], ...]  # value, label of the policy, key of the panel
    beside: str  # label of the policy to compare with


def table(constants: Sequence[Sensitivity], outcome: Outcome) -> ResultTable:
    """Return the final regret at each value, and the regret of the other policy as a multiple of it."""
    rows = []
    for one in constants:
        for value, label, key in one.values:
            result = outcome.only(**key)
            mine, other = trace(result, label), trace(result, one.beside)
            final = mine.final
            found = compare_regret(other, mine, 1.0)
            rows.append(
                (
                    one.constant,
                    value,
                    number(float(final.mean())),
                    number(float(half_width(final))),
                    found.numbers,
                )
            )
    return ResultTable(("constant", "value", "regret", "± (95 %)", "compared"), tuple(rows))
