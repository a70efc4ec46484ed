"""The definition of an experiment as data: worlds, policies, figures and claims, under a permanent id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rankloop.experiments.claims import Claim
from rankloop.experiments.outcome import Outcome, Panel
from rankloop.experiments.sensitivity import Sensitivity
from rankloop.experiments.tables import ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Arrangement(Protocol):
    """How results are shown as a figure and tables."""

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure, arranged as in the paper."""

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Return tables by name; the main one is called `table`."""


@dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper."""

    id: str  # paper/name
    title: str
    panels: Callable[[bool], tuple[Panel, ...]]  # quick or full
    arrangement: Arrangement
    claims: tuple[Claim, ...] = ()
    data: tuple[str, ...] = ()  # ids of data sets
    horizon: int | None = None  # the paper's number of rounds, where even the full version has fewer
    sensitivity: tuple[Sensitivity, ...] = ()  # constants that the paper does not print
    differs: str = ""  # what differs from the paper, and why

    @property
    def paper(self) -> str:
        """Return the paper's id."""
        return self.id.split("/", maxsplit=1)[0]

    def cost(self, quick: bool) -> int:
        """Return the replication-rounds of all panels."""
        return sum(panel.cost for panel in self.panels(quick))
