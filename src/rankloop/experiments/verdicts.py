"""The verdicts of an outcome: what its tests find, unless the run is too small to judge the paper by it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from rankloop.experiments.claims import Claim, ClaimFinding, ClaimVerdict
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.outcome import Outcome, Panel
from rankloop.simulator.policy_spec import PolicySpec


def judge(experiment: Experiment, outcome: Outcome) -> list[tuple[Claim, ClaimFinding]]:
    """Return every claim with its finding; a run that is too small leaves each of them undecided."""
    small = too_small(experiment, outcome)
    findings = [(claim, claim.test.judge(outcome)) for claim in experiment.claims]
    return [(c, replace(f, verdict=ClaimVerdict.SMALL) if small else f) for c, f in findings]


def too_small(experiment: Experiment, outcome: Outcome) -> bool:
    """Return whether a run differs from the paper's in more than its number of replications.

    A run with fewer replications has wider intervals, and these decide. A run of fewer rounds, with a coarser search of
    parameters or with other fits says nothing about the paper's.
    """
    full = {_name(panel.key): panel for panel in experiment.panels(False)}
    return any(_smaller(panel, full.get(_name(panel.key)), experiment.horizon) for panel, _ in outcome.parts)


def _smaller(panel: Panel, full: Panel | None, horizon: int | None) -> bool:
    if full is None or panel.rounds < max(full.rounds, horizon or 0):
        return True
    return panel.world != full.world or _policies(panel) != _policies(full)


def _policies(panel: Panel) -> list[object]:
    """Return the policies of a panel without custom ones, which no claim is about."""
    return [p for p in panel.policies if not (isinstance(p, PolicySpec) and p.own)]


def _name(key: Mapping[str, str | int | float]) -> str:
    return json.dumps(key, sort_keys=True)
