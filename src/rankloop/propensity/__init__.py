"""Propensities: the probability that a policy shows a list, exact where it has a closed form."""

from rankloop.propensity.list_distribution import DETERMINISTIC, EXACT, MONTE_CARLO, ListDistribution
from rankloop.propensity.propensity import ONLY, HasListDistribution, Propensity, closed_form, estimate, of

__all__ = [
    "DETERMINISTIC",
    "EXACT",
    "MONTE_CARLO",
    "ONLY",
    "HasListDistribution",
    "ListDistribution",
    "Propensity",
    "closed_form",
    "estimate",
    "of",
]
