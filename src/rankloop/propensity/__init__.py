"""Propensities: the probability that a policy shows a list, exact where it has a closed form."""

from rankloop.propensity.list_distribution import DETERMINISTIC, EXACT, MONTE_CARLO, ListDistribution
from rankloop.propensity.propensity import (
    DETERMINISTIC_PROPENSITY,
    HasListDistribution,
    Propensity,
    closed_form,
    estimate,
    of,
)

__all__ = [
    "DETERMINISTIC",
    "DETERMINISTIC_PROPENSITY",
    "EXACT",
    "MONTE_CARLO",
    "HasListDistribution",
    "ListDistribution",
    "Propensity",
    "closed_form",
    "estimate",
    "of",
]
