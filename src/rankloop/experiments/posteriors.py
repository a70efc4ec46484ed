"""Gaussian against Beta posteriors after 100 observations: a picture that needs no simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rankloop.experiments.claims import ClaimFinding, ClaimVerdict
from rankloop.experiments.experiment import Outcome
from rankloop.experiments.figures import canvas, legend
from rankloop.experiments.tables import ResultTable, number
from rankloop.simulator.plot import styles
from rankloop.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRUTHS = (0.1, 0.5, 0.9)
OBSERVATIONS = 100
SIGMA = 0.5


class Density(Protocol):
    """A distribution of numbers with a density, as SciPy has them."""

    def pdf(self, x: FloatArray) -> FloatArray:
        """The density."""

    def mean(self) -> float:
        """Its mean."""

    def std(self) -> float:
        """Its standard deviation."""

    def entropy(self) -> float:
        """Its differential entropy."""


def posteriors(nu: float) -> tuple[Density, Density]:
    """Gaussian from N(0, 1) with noise ½, and Beta from Beta(1, 1), after 100 observations of mean ν."""
    from scipy import stats  # half a second, which no other command should wait for

    n, s = OBSERVATIONS, OBSERVATIONS * nu
    variance = 1.0 / (1.0 + n / SIGMA**2)
    return stats.norm(variance * s / SIGMA**2, np.sqrt(variance)), stats.beta(1.0 + s, 1.0 + n - s)


@dataclass(frozen=True)
class PosteriorDensities:
    """Densities side by side for each true mean."""

    def draw(self, outcome: Outcome) -> Figure:
        """The figure."""
        figure, axes = canvas(1, len(TRUTHS))
        chosen = styles([("Gaussian", "gts"), ("Beta", "ts-beta")])
        for i, (one, nu) in enumerate(zip(axes, TRUTHS, strict=True)):
            x = np.linspace(max(0.0, nu - 0.25), min(1.0, nu + 0.25), 400)
            gauss, beta = posteriors(nu)
            one.plot(x, gauss.pdf(x), label="Gaussian", **chosen["Gaussian"])
            one.plot(x, beta.pdf(x), label="Beta", **chosen["Beta"])
            one.axvline(nu, color="#888888", linewidth=0.8)
            one.set_title(f"ν = {nu}", fontsize=9, loc="left")
            one.set_xlabel("attraction", fontsize=9)
            if i == 0:
                one.set_ylabel("posterior density", fontsize=9)
        legend(figure, axes)
        return figure

    def tables(self, outcome: Outcome) -> Mapping[str, ResultTable]:
        """Mean, standard deviation and entropy of both."""
        rows = [
            (f"{nu}", name, number(float(p.mean())), number(float(p.std())), number(float(p.entropy())))
            for nu in TRUTHS
            for name, p in zip(("Gaussian", "Beta"), posteriors(nu), strict=True)
        ]
        return {"table": ResultTable(("ν", "posterior", "mean", "sd", "entropy"), tuple(rows))}


@dataclass(frozen=True)
class BetaPosteriorWider:
    """At the extremes the Beta posterior is wider than the Gaussian one."""

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare standard deviations."""
        sds = {nu: [float(p.std()) for p in posteriors(nu)] for nu in TRUTHS}
        wider = all(beta > gauss for nu, (gauss, beta) in sds.items() if nu != 0.5)
        numbers = ", ".join(
            f"ν = {nu}: sd {beta:.3f} (Beta), {gauss:.3f} (Gaussian)" for nu, (gauss, beta) in sds.items()
        )
        return ClaimFinding(ClaimVerdict.HOLDS if wider else ClaimVerdict.FAILS, numbers)
