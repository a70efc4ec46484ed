"""Simulated regret does not change: small runs of every example specification equal the kept ones.

`python -m tests.test_simulation_fixtures` writes the fixture anew, for a change that is meant to alter results.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rankloop.math import numerics
from rankloop.simulator.api import run
from rankloop.simulator.spec import Spec

EXAMPLES = Path(__file__).parents[1] / "examples"
FIXTURE = Path(__file__).parent / "fixtures" / "simulations.json"
ROUNDS, REPLICATIONS = 150, 6
TOLERANCE = 1e-7
"""Relative, where libraries or the processor differ from those that made the fixture."""

NAMES = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.yaml"))


def played(name: str) -> dict[str, list[float]]:
    """Mean cumulative regret and reward of each policy at every fifteenth checkpoint of a small run."""
    given = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    spec = Spec.of(given | {"rounds": ROUNDS, "replications": REPLICATIONS, "chunk": 4})
    found: dict[str, list[float]] = {}
    for i, trace in enumerate(run(spec).traces):
        numbers = np.concatenate([trace.regret.mean(axis=1)[::15], trace.reward.mean(axis=1)[::15]])
        found[f"{i} {trace.label}"] = numbers.tolist()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_small_run_of_an_example_gives_the_kept_numbers(name: str) -> None:
    kept: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))
    now, before = played(name), kept["examples"][name]
    assert list(now) == list(before)
    for policy, numbers in now.items():
        if kept["numerics"] == numerics.version():
            assert numbers == before[policy], policy
        else:
            np.testing.assert_allclose(numbers, before[policy], rtol=TOLERANCE, err_msg=policy)


def test_every_example_has_a_fixture() -> None:
    kept = json.loads(FIXTURE.read_text(encoding="utf-8"))
    assert sorted(kept["examples"]) == NAMES


if __name__ == "__main__":
    FIXTURE.parent.mkdir(exist_ok=True)
    made = {"numerics": numerics.version(), "examples": {name: played(name) for name in NAMES}}
    FIXTURE.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
