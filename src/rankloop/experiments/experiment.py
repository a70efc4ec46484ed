"""What an experiment is: worlds, policies, an arrangement and claims, all of them data with an id for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from rankloop.errors import RankloopError
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.simulator.result import Result, Trace
from rankloop.simulator.spec import Spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rankloop.experiments.claims import Claim
    from rankloop.experiments.tables import ResultTable

SEED = 1
Key = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Panel:
    """One world with its policies: a part of a figure, or some cells of a table."""

    key: Key  # what tells it from the other panels, for instance {"items": 256}
    title: str
    world: Mapping[str, object]  # as in a spec file
    policies: tuple[Mapping[str, object] | PolicySpec, ...]
    rounds: int
    replications: int
    chunk: int = 128

    def spec(self) -> Spec:
        """The spec that `rankloop simulate` would run."""
        return Spec.of(
            {
                "world": self.world,
                "policies": list(self.policies),
                "rounds": self.rounds,
                "replications": self.replications,
                "chunk": self.chunk,
                "seed": SEED,
            }
        )

    @property
    def data(self) -> tuple[str, ...]:
        """The data sets that its world is made of."""
        attraction = self.world.get("attraction")
        judged = attraction.get("judged") if isinstance(attraction, Mapping) else None
        id = judged["data"] if judged else self.world.get("data")
        genres = ("song-genres",) if id == "songs" and self.world.get("categories") else ()
        return () if id is None else (str(id), *genres)

    @property
    def own(self) -> tuple[str, ...]:
        """Labels of policies that somebody added."""
        return tuple(p.label for p in self.policies if isinstance(p, PolicySpec) and p.own)

    def with_policy(self, policy: PolicySpec) -> Panel:
        """The panel with one policy more."""
        return replace(self, policies=(*self.policies, policy))

    @property
    def cost(self) -> int:
        """Replication-rounds of all policies and the yardstick."""
        return self.rounds * self.replications * (len(self.policies) + 1)


class Arrangement(Protocol):
    """How results become a picture and a table."""

    def draw(self, outcome: Outcome) -> Figure:
        """The figure, arranged as in the paper."""

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Tables by name; the one called `table` is the main one."""


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper."""

    id: str  # paper/name
    title: str
    panels: Callable[[bool], tuple[Panel, ...]]  # quick or full
    arrangement: Arrangement
    claims: tuple[Claim, ...] = ()
    data: tuple[str, ...] = ()  # ids of data sets
    differs: str = ""  # what differs from the paper, and why

    @property
    def paper(self) -> str:
        """The paper's id."""
        return self.id.split("/", maxsplit=1)[0]

    def cost(self, quick: bool) -> int:
        """Replication-rounds of all panels."""
        return sum(panel.cost for panel in self.panels(quick))


@dataclass(frozen=True)
class Outcome:
    """All results of one experiment."""

    experiment: Experiment
    quick: bool
    parts: tuple[tuple[Panel, Result], ...]
    inputs: Mapping[str, str] = field(default_factory=dict)  # fingerprints of the data sets

    def where(self, **key: str | int | float) -> Iterator[tuple[Panel, Result]]:
        """The panels whose key has these values."""
        for panel, result in self.parts:
            if all(panel.key.get(name) == value for name, value in key.items()):
                yield panel, result

    def only(self, **key: str | int | float) -> Result:
        """The result of the one panel with this key."""
        found = [result for _, result in self.where(**key)]
        if len(found) != 1:
            raise RankloopError(f"{self.experiment.id} has {len(found)} panels with {dict(key)}.")
        return found[0]

    @property
    def size(self) -> str:
        """How much was played, in words."""
        sizes = sorted({(panel.rounds, panel.replications) for panel, _ in self.parts})
        amount = "; ".join(f"{t:,} rounds, {r:,} replications" for t, r in sizes) or "no simulation"
        return f"{'quick version: ' if self.quick else ''}{amount}"

    def traces(self) -> Iterator[tuple[Panel, Trace]]:
        """Every trace with its panel, the yardstick's only where it was asked for."""
        for panel, result in self.parts:
            for trace in result:
                yield panel, trace
