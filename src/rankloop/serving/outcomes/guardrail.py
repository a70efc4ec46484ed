"""The guardrail: a sequential test of whether the policy is credibly worse than the control ranking.

The test is in the ranker's objective. A group is given by its settled lists, their summed values and the summed
squares. For any-click the value of a list is 0 or 1, and the test is one of proportions.

Constraints are tests of the same form on the value per list of single kinds of feedback. All tests share the error
equally (Bonferroni), so that the probability of ever falling back although nothing is lost is at most `error`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from rankloop.analytics.list_value import UNITS, is_binary
from rankloop.analytics.mean_intervals import Moments
from rankloop.arrays import Array
from rankloop.eventlog.open_decisions import OpenDecision
from rankloop.eventlog.outcome_rule import OutcomeRule
from rankloop.schema import Guardrail

TIGHTEST_AT_LISTS = 2000.0
"""Number of lists of the smaller group at which the confidence sequence is tightest."""


class GuardrailCounts:
    """What the guardrail compares: settled lists, summed values and summed squares of both groups since the reset.

    Values in the objective count with the event that settles a list, values by kind when nothing more can come for it.
    """

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        self.names = tuple(kinds)
        self.restart(0)

    def restart(self, position: int) -> None:
        """Begin again after a position of the log."""
        self.since = position
        self.objective = [[0.0] * 3, [0.0] * 3]  # of treatment and control; added to with each list that is settled
        self.kinds = np.zeros((2, len(self.names), 3))

    def amend(self, decision: OpenDecision, before: float, after: float) -> None:
        """Replace the value of a list, if it was counted since the reset."""
        if decision.learned_at > self.since:
            counts = self.objective[int(decision.control)]
            counts[1] += after - before
            counts[2] += after * after - before * before

    def count_kinds(self, decision: OpenDecision, rule: OutcomeRule) -> None:
        """Count the values by kind of a list for which nothing more can come, if it was decided since the reset."""
        if decision.position > self.since:
            for kind in range(len(self.names)):
                value = rule.value(decision.combined, kind)
                self.kinds[int(decision.control), kind] += (1.0, value, value * value)

    def arrays(self) -> dict[str, Array]:
        """Return copies of the counts by name, for a snapshot."""
        by_kind: dict[str, Array] = {"guardrail_kinds": self.kinds.copy()} if self.names else {}
        return {"guardrail_counts": np.array(self.objective), **by_kind}

    def restore(self, since: int, arrays: Mapping[str, Array]) -> None:
        """Restore the counts that `arrays` returned."""
        self.restart(since)
        self.objective = arrays["guardrail_counts"].tolist()
        if self.names:
            self.kinds = arrays["guardrail_kinds"].astype(np.float64)

    def reason(self, guardrail: Guardrail, objective: str) -> str | None:
        """Return in one sentence why to fall back to the control ranking; None if there is no reason."""
        tests = 1 + len(guardrail.constraints)
        shared = replace(guardrail, error=guardrail.error / tests)
        found = reason_to_trip(shared, objective, *self.objective)
        for name, drop in guardrail.constraints.items():
            if found is None and name in self.names:
                groups = self.kinds[:, self.names.index(name)].tolist()
                found = reason_to_trip(replace(shared, drop=drop), name, *groups)
        return found


def reason_to_trip(
    guardrail: Guardrail, objective: str, treatment: Sequence[float], control: Sequence[float]
) -> str | None:
    """Return in one sentence why to fall back to the control ranking; None if there is no reason.

    Args:
        guardrail: the rule.
        objective: in which lists are valued, or a kind of feedback.
        treatment: settled lists, summed values and summed squares.
        control: the same of the control group.
    """
    if is_binary(objective):
        tripped = trips(guardrail, treatment[:2], control[:2])
    else:
        tripped = trips_by_mean(guardrail, Moments(*treatment), Moments(*control))
    if not tripped:
        return None
    p, q = treatment[1] / treatment[0], control[1] / control[0]
    unit = UNITS.get(objective, f"{objective} value")
    name, digits = ("click-through", ".4f") if is_binary(objective) else (f"{unit} per list", ".4g")
    return (
        f"{name} {p:{digits}} of {treatment[0]:.0f} lists is credibly more than {guardrail.drop:.0%} below "
        f"control's {q:{digits}} of {control[0]:.0f}"
    )


def trips(guardrail: Guardrail, treatment: Sequence[float], control: Sequence[float]) -> bool:
    """Return whether to fall back to the control ranking, given (settled, clicked) lists of both groups."""
    (n, clicks), (m, control_clicks) = treatment, control
    if min(n, m) < guardrail.min_lists:
        return False
    p, q = clicks / n, control_clicks / m
    keep = 1.0 - guardrail.drop
    # Pseudo-counts, so that a group without any click does not look certain.
    smooth = (clicks + 1.0) / (n + 2.0), (control_clicks + 1.0) / (m + 2.0)
    variance = smooth[0] * (1 - smooth[0]) / n + keep**2 * smooth[1] * (1 - smooth[1]) / m
    return p - keep * q + sequential_radius(min(n, m), guardrail.error) * math.sqrt(variance) < 0.0


def trips_by_mean(guardrail: Guardrail, treatment: Moments, control: Moments) -> bool:
    """Return whether to fall back, for values of any kind: whether p < q - drop·|q| is credible.

    p and q are the mean values per list of treatment and control. `drop` is a fraction of the absolute value of q,
    since a net reward may be negative: with q = -2 and a drop of 10 %, p may go down to -2.2. The bound is the smaller
    one of (1 - drop)·q and (1 + drop)·q, so p must be credibly below both.

    The confidence sequence is asymptotic: it holds at all times together if `min_lists` are enough for the central
    limit theorem and for the sample variances, which stand for the true ones. The variances are finite, and lists are
    independent. Where few lists have a value at all (1 % with a purchase), raise `min_lists` accordingly.
    """
    n, m = treatment.n, control.n
    if min(n, m) < guardrail.min_lists:
        return False
    p, q = treatment.mean, control.mean
    variance = treatment.variance_near(q) / n, control.variance_near(p) / m
    radius = sequential_radius(min(n, m), guardrail.error)
    keeps = 1.0 - guardrail.drop, 1.0 + guardrail.drop
    return all(p - k * q + radius * math.sqrt(variance[0] + k * k * variance[1]) < 0.0 for k in keeps)


def sequential_radius(n: float, error: float) -> float:
    """Return the number of standard errors that bound a mean at all times simultaneously.

    The asymptotic confidence sequence of Waudby-Smith et al. (2024, "Time-uniform central limit theory and
    asymptotic confidence sequences"), tightest at n = TIGHTEST_AT_LISTS.
    """
    rho2 = (-2.0 * math.log(error) + math.log(-2.0 * math.log(error) + 1.0)) / TIGHTEST_AT_LISTS
    scaled = n * rho2
    return math.sqrt(2.0 * (scaled + 1.0) / scaled * math.log(math.sqrt(scaled + 1.0) / error))
