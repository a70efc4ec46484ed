"""The panels of an experiment, and their results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from rankloop.errors import RankloopError
from rankloop.simulator.policy_spec import PolicySpec
from rankloop.simulator.result import Result
from rankloop.simulator.spec import Spec
from rankloop.simulator.trace import Trace

SEED = 1
Key = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Panel:
    """One world with its policies: a part of a figure, or cells of a table."""

    key: Key  # distinguishes it from the other panels, for instance {"items": 256}
    title: str
    world: Mapping[str, object]  # as in a spec file
    policies: tuple[Mapping[str, object] | PolicySpec, ...]
    rounds: int
    replications: int
    chunk: int = 128

    def spec(self) -> Spec:
        """Return the spec that `rankloop simulate` would run."""
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
        """Return the ids of the data sets that the world is made from."""
        attraction = self.world.get("attraction")
        judged = attraction.get("judged") if isinstance(attraction, Mapping) else None
        id = judged["data"] if judged else self.world.get("data")
        genres = ("song-genres",) if id == "songs" and self.world.get("categories") else ()
        return () if id is None else (str(id), *genres)

    @property
    def own(self) -> tuple[str, ...]:
        """Return the labels of custom policies."""
        return tuple(p.label for p in self.policies if isinstance(p, PolicySpec) and p.own)

    def with_policy(self, policy: PolicySpec) -> Panel:
        """Return the panel with one policy added."""
        return replace(self, policies=(*self.policies, policy))

    @property
    def cost(self) -> int:
        """Return the replication-rounds of all policies and the baseline."""
        return self.rounds * self.replications * (len(self.policies) + 1)


@dataclass(frozen=True)
class Outcome:
    """All results of one experiment."""

    id: str  # of the experiment
    quick: bool
    parts: tuple[tuple[Panel, Result], ...]
    inputs: Mapping[str, str] = field(default_factory=dict)  # fingerprints of the data sets

    def where(self, **key: str | int | float) -> Iterator[tuple[Panel, Result]]:
        """Yield the panels whose key has these values, with their results."""
        for panel, result in self.parts:
            if all(panel.key.get(name) == value for name, value in key.items()):
                yield panel, result

    def only(self, **key: str | int | float) -> Result:
        """Return the result of the only panel with this key."""
        results = [result for _, result in self.where(**key)]
        if len(results) != 1:
            raise RankloopError(f"{self.id} has {len(results)} panels with {dict(key)}.")
        return results[0]

    @property
    def size(self) -> str:
        """Return the number of rounds and replications as text."""
        sizes = sorted({(panel.rounds, panel.replications) for panel, _ in self.parts})
        amount = "; ".join(f"{t:,} rounds, {r:,} replications" for t, r in sizes) or "no simulation"
        return f"{'quick version: ' if self.quick else ''}{amount}"

    def traces(self) -> Iterator[tuple[Panel, Trace]]:
        """Yield every trace with its panel; the baseline only where it is a policy of the panel."""
        for panel, result in self.parts:
            for trace in result:
                yield panel, trace
