"""When a policy is credibly worse than the caller's own order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankloop.schema import Guardrail

TUNED = 2000.0
"""Lists of the smaller group at which the bound is tightest."""


def trips(guardrail: Guardrail, policy: Sequence[float], control: Sequence[float]) -> bool:
    """Whether it is time to fall back, given (settled, clicked) of both groups."""
    (n, clicks), (m, own) = policy, control
    if min(n, m) < guardrail.min_lists:
        return False
    p, q = clicks / n, own / m
    keep = 1.0 - guardrail.drop
    # A pseudo-count keeps an group without any click from looking certain.
    smooth = (clicks + 1.0) / (n + 2.0), (own + 1.0) / (m + 2.0)
    variance = smooth[0] * (1 - smooth[0]) / n + keep**2 * smooth[1] * (1 - smooth[1]) / m
    return p - keep * q + sequential_radius(min(n, m), guardrail.error) * math.sqrt(variance) < 0.0


def sequential_radius(n: float, error: float) -> float:
    """How many standard errors bound a mean at all times at once.

    The asymptotic confidence sequence of Waudby-Smith et al. (2024, "Time-uniform central limit theory and
    asymptotic confidence sequences"), tightest at n = TUNED.
    """
    rho2 = (-2.0 * math.log(error) + math.log(-2.0 * math.log(error) + 1.0)) / TUNED
    scaled = n * rho2
    return math.sqrt(2.0 * (scaled + 1.0) / scaled * math.log(math.sqrt(scaled + 1.0) / error))
