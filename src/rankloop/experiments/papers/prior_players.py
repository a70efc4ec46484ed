"""The policies of paper `prior`, by figure, and the constants that it does not print."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rankloop.experiments.claims import ClaimTest, ForEachConstant
from rankloop.experiments.sensitivity import Sensitivity

Players = tuple[Mapping[str, object], ...]
TS_BETA = {"id": "ts-beta", "label": "TS-Beta"}
BAYES_UCB = {"id": "bayes-ucb", "label": "BayesUCB-Beta"}
GTS = {"id": "gts", "label": "GTS"}
GTS_PMEAN = {"id": "gts", "prior": "mean", "label": "GTS-Pmean"}
GTS_P = {"id": "gts", "prior": "full", "label": "GTS-P"}
TS_CASCADE = {"id": "ts-cascade", "label": "TS-Cascade"}
KL_UCB = {"id": "cascade-kl-ucb", "label": "CascadeKL-UCB"}
UCB1 = {"id": "cascade-ucb1", "label": "CascadeUCB1"}
TOPRANK = {"id": "toprank", "label": "TopRank"}
ENSEMBLE = {"id": "ensemble", "label": "Ensemble"}
LIN_TS_LTR = {"id": "lin-ts-ltr", "label": "LinTS-LTR"}
LIN_TS_CASCADE = {"id": "lin-ts-cascade", "label": "LinTS-Cascade"}
LIN_UCB = {"id": "cascade-lin-ucb", "label": "C-LinUCB"}
WOFUL = {"id": "cascade-woful", "label": "C-WOFUL"}
LOG_TS_LTR = {"id": "log-ts-ltr", "label": "LogTS-LTR"}

SIGMAS = (0.25, 0.5, 1.0)
"""Values of σ of the Gaussian policies; a policy with the middle one keeps its plain label."""
LAMBDAS = (0.01, 0.1, 1.0)
"""Values of λ of LinTS-Cascade; the policy with the last one keeps its plain label."""


def gts_label(name: str, sigma: float) -> str:
    """Return the label of a Gaussian policy with this σ."""
    return name if sigma == 0.5 else f"{name}, σ = {sigma:g}"


def cascade_label(lam: float) -> str:
    """Return the label of LinTS-Cascade with this λ."""
    return "LinTS-Cascade" if lam == 1.0 else f"LinTS-Cascade, λ = {lam:g}"


def for_each_sigma(test: Callable[[float], ClaimTest]) -> ForEachConstant:
    """Return a claim's test for each σ of the Gaussian policies."""
    return ForEachConstant(tuple((f"σ = {sigma:g}", test(sigma)) for sigma in SIGMAS))


def for_each_lambda(test: Callable[[float], ClaimTest]) -> ForEachConstant:
    """Return a claim's test for each λ of LinTS-Cascade."""
    return ForEachConstant(tuple((f"λ = {lam:g}", test(lam)) for lam in LAMBDAS))


OTHER_GTS: Players = tuple(
    {**spec, "sigma": sigma, "label": gts_label(str(spec["label"]), sigma)}
    for sigma in SIGMAS
    if sigma != 0.5
    for spec in (GTS, GTS_PMEAN, GTS_P)
)
OTHER_CASCADE: Players = tuple(
    {"id": "lin-ts-cascade", "lam": lam, "label": cascade_label(lam)} for lam in LAMBDAS if lam != 1.0
)
NONCONTEXTUAL = (TS_BETA, BAYES_UCB, GTS, GTS_PMEAN, GTS_P, TS_CASCADE, KL_UCB, UCB1, TOPRANK, ENSEMBLE, *OTHER_GTS)
LINEAR = (LIN_TS_LTR, LIN_TS_CASCADE, GTS, LIN_UCB, WOFUL, *OTHER_CASCADE)
BY_SIGMA = tuple(
    Sensitivity(f"σ of {name}", tuple((f"{s:g}", gts_label(name, s), {}) for s in SIGMAS), "TS-Beta")
    for name in ("GTS", "GTS-Pmean", "GTS-P")
)
BY_LAMBDA = (Sensitivity("λ of LinTS-Cascade", tuple((f"{lam:g}", cascade_label(lam), {}) for lam in LAMBDAS), "GTS"),)
LOGISTIC = (LOG_TS_LTR, LIN_TS_LTR, GTS, TS_BETA, BAYES_UCB, LIN_UCB, WOFUL)
REAL = (LOG_TS_LTR, LIN_TS_LTR, GTS, TS_BETA)
ALL_REAL = (*REAL, ENSEMBLE, TS_CASCADE, WOFUL)
