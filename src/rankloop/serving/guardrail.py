"""The guardrail: a sequential test of whether the policy is credibly worse than the control ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankloop.schema import Guardrail

TIGHTEST_AT_LISTS = 2000.0
"""Number of lists of the smaller group at which the confidence sequence is tightest."""


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


def reason(guardrail: Guardrail, treatment: Sequence[float], control: Sequence[float]) -> str:
    """Return why the guardrail trips, in one sentence."""
    p, q = treatment[1] / treatment[0], control[1] / control[0]
    return (
        f"click-through {p:.4f} of {treatment[0]:.0f} lists is credibly more than {guardrail.drop:.0%} below "
        f"control's {q:.4f} of {control[0]:.0f}"
    )


def sequential_radius(n: float, error: float) -> float:
    """Return the number of standard errors that bound a mean at all times simultaneously.

    The asymptotic confidence sequence of Waudby-Smith et al. (2024, "Time-uniform central limit theory and
    asymptotic confidence sequences"), tightest at n = TIGHTEST_AT_LISTS.
    """
    rho2 = (-2.0 * math.log(error) + math.log(-2.0 * math.log(error) + 1.0)) / TIGHTEST_AT_LISTS
    scaled = n * rho2
    return math.sqrt(2.0 * (scaled + 1.0) / scaled * math.log(math.sqrt(scaled + 1.0) / error))
