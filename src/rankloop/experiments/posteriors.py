"""Gaussian and Beta posteriors after 100 observations: a figure that needs no simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from rankloop.experiments.claims import ClaimFinding, ClaimVerdict
from rankloop.experiments.figures import canvas, legend
from rankloop.experiments.outcome import Outcome
from rankloop.experiments.tables import ResultTable, number
from rankloop.simulator.plot import styles
from rankloop.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRUTHS = (0.1, 0.5, 0.9)
OBSERVATIONS = 100
SIGMA = 0.5


class Density(Protocol):
    """A continuous distribution, as in SciPy."""

    def pdf(self, x: FloatArray) -> FloatArray:
        """Return the density."""

    def mean(self) -> float:
        """Return the mean."""

    def std(self) -> float:
        """Return the standard deviation."""

    def entropy(self) -> float:
        """Return the differential entropy."""


def posteriors(nu: float) -> tuple[Density, Density]:
    """Return the posteriors of N(0, 1) with noise ½ and of Beta(1, 1) after 100 observations of mean ν."""
    from scipy import stats  # imported here: it takes half a second

    n, s = OBSERVATIONS, OBSERVATIONS * nu
    variance = 1.0 / (1.0 + n / SIGMA**2)
    return stats.norm(variance * s / SIGMA**2, np.sqrt(variance)), stats.beta(1.0 + s, 1.0 + n - s)


@dataclass(frozen=True)
class PosteriorDensities:
    """The posterior densities for each true mean, side by side."""

    def draw(self, outcome: Outcome) -> Figure:
        """Return the figure."""
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
        """Return mean, standard deviation and entropy of both posteriors."""
        rows = [
            (f"{nu}", name, number(float(p.mean())), number(float(p.std())), number(float(p.entropy())))
            for nu in TRUTHS
            for name, p in zip(("Gaussian", "Beta"), posteriors(nu), strict=True)
        ]
        return {"table": ResultTable(("ν", "posterior", "mean", "sd", "entropy"), tuple(rows))}


@dataclass(frozen=True)
class BetaPosteriorWider:
    """Where ν is near 0 or 1, the Beta posterior is wider than the Gaussian one."""

    def judge(self, outcome: Outcome) -> ClaimFinding:
        """Compare the standard deviations."""
        sds = {nu: [float(p.std()) for p in posteriors(nu)] for nu in TRUTHS}
        wider = all(beta > gauss for nu, (gauss, beta) in sds.items() if nu != 0.5)
        numbers = ", ".join(
            f"ν = {nu}: sd {beta:.3f} (Beta), {gauss:.3f} (Gaussian)" for nu, (gauss, beta) in sds.items()
        )
        return ClaimFinding(ClaimVerdict.HOLDS if wider else ClaimVerdict.FAILS, numbers)
