"""When a policy is credibly worse than the caller's own order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from rankloop import validate

TUNED = 2000.0
"""Lists of the smaller arm at which the bound is tightest."""


@dataclass(frozen=True)
class Guard:
    """Falls back to the control order when click-through is credibly below control by more than a share.

    Args:
        drop: the share of control's click-through that may be lost.
        error: probability that it ever falls back although no more than that is lost, however often one looks.
        least: settled lists of each arm before it says anything.
    """

    drop: float = 0.1
    error: float = 0.01
    least: int = 200

    @classmethod
    def of(cls, given: Any) -> Self | None:
        """Check a mapping; true means the defaults, nothing means no guard."""
        if given is None or given is False:
            return None
        if isinstance(given, cls):
            return given
        names = tuple(cls.__dataclass_fields__)
        fields = validate.mapping("ranker.guard", {} if given is True else given, required=(), optional=names)
        return cls(
            drop=validate.number("ranker.guard.drop", fields.get("drop", cls.drop), low=0.0, high=0.99),
            error=validate.number("ranker.guard.error", fields.get("error", cls.error), low=1e-9, high=0.5),
            least=validate.integer("ranker.guard.least", fields.get("least", cls.least)),
        )

    def trips(self, policy: Sequence[float], control: Sequence[float]) -> bool:
        """Whether it is time to fall back, given (settled, clicked) of both arms."""
        (n, clicks), (m, own) = policy, control
        if min(n, m) < self.least:
            return False
        p, q = clicks / n, own / m
        keep = 1.0 - self.drop
        # A pseudo-count keeps an arm without any click from looking certain.
        smooth = (clicks + 1.0) / (n + 2.0), (own + 1.0) / (m + 2.0)
        variance = smooth[0] * (1 - smooth[0]) / n + keep**2 * smooth[1] * (1 - smooth[1]) / m
        return p - keep * q + sequential_radius(min(n, m), self.error) * math.sqrt(variance) < 0.0


def sequential_radius(n: float, error: float) -> float:
    """How many standard errors bound a mean at all times at once.

    The asymptotic confidence sequence of Waudby-Smith et al. (2024, "Time-uniform central limit theory and
    asymptotic confidence sequences"), tightest at n = TUNED.
    """
    rho2 = (-2.0 * math.log(error) + math.log(-2.0 * math.log(error) + 1.0)) / TUNED
    scaled = n * rho2
    return math.sqrt(2.0 * (scaled + 1.0) / scaled * math.log(math.sqrt(scaled + 1.0) / error))
