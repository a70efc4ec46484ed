"""Paper `prior`: Thompson sampling with misspecified priors, Section 5 and Appendix F."""

from __future__ import annotations

from collections.abc import Callable

from rankloop.experiments.claims import Claim, CloseTo, ForEachConstant, LowerRegret, LowestRegret
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import Curves, FinalRegret
from rankloop.experiments.outcome import Panel
from rankloop.experiments.panel_claims import RegretSpread
from rankloop.experiments.papers.prior_judged import ISTELLA, WEB, real, real_claims, scaling
from rankloop.experiments.papers.prior_players import (
    ALL_REAL,
    BAYES_UCB,
    BY_LAMBDA,
    BY_SIGMA,
    GTS_PMEAN,
    LINEAR,
    LOGISTIC,
    NONCONTEXTUAL,
    REAL,
    TS_BETA,
    Players,
    cascade_label,
    for_each_lambda,
    for_each_sigma,
    gts_label,
)
from rankloop.experiments.posteriors import BetaPosteriorWider, PosteriorDensities

NOISE = (
    "The paper does not give the noise σ of its Gaussian policies, which matters much; 0.5 is taken, the bound of a "
    "Bernoulli variable. "
)
FIXED = (
    "Features are fixed within a replication; the paper writes x_{i,t} and does not say whether they are drawn again "
    "in each round (fig3-fresh and fig4-fresh draw them). λ and S of its own policies are replaced by prior N(0, I) "
    "and noise ½ (LinTS-LTR) and by ridge 1 (LogTS-LTR); its λ = 1e-4 and β_t are mode 'paper'. "
)


def _one(
    title: str, attraction: object, players: Players, full: int, small: int
) -> Callable[[bool], tuple[Panel, ...]]:
    """Return panels of one world: 10,000 rounds and `full` replications, or `small` replications."""

    def panels(quick: bool) -> tuple[Panel, ...]:
        world = {"kind": "cascade", "attraction": attraction, "k": 3}
        return (Panel({"setting": title}, title, world, players, 10_000, small if quick else full),)

    return panels


def _close_to(informed: str) -> ForEachConstant:
    """Return the test that GTS has at most 1.5 times the regret of a policy, for each σ."""
    return for_each_sigma(lambda sigma: CloseTo(gts_label("GTS", sigma), informed, 1.5))


def _misspecified(quick: bool) -> tuple[Panel, ...]:
    world = {"kind": "cascade", "attraction": {"beta": {"items": 30, "a": 1, "b": 10}}, "k": 3}
    return tuple(
        Panel(
            {"c": c},
            f"c = {c}",
            {**world, "prior": {"a": 1 + c, "b": 10 - c}},
            (TS_BETA, BAYES_UCB, GTS_PMEAN),
            1_000,
            100 if quick else 400,
        )
        for c in range(9)
    )


def _initial(rounds: int) -> Callable[[bool], tuple[Panel, ...]]:
    """Return panels of GTS with several Gaussian priors, in a world of Beta(a, 10) attraction."""
    players = (
        {"id": "gts", "prior": "full", "label": "[BetaMean, BetaVar]"},
        {"id": "gts", "prior": "mean", "sigma0": 1.0, "label": "[BetaMean, 1]"},
        {"id": "gts", "prior": "mean", "sigma0": 0.1, "label": "[BetaMean, 0.01]"},
        {"id": "gts", "mu0": 0.0, "sigma0": 1.0, "label": "[0, 1]"},
        {"id": "gts", "mu0": 0.5, "sigma0": 1.0, "label": "[0.5, 1]"},
        {"id": "gts", "mu0": 1.0, "sigma0": 1.0, "label": "[1, 1]"},
    )

    def panels(quick: bool) -> tuple[Panel, ...]:
        world = {"kind": "cascade", "attraction": BETA, "k": 3}
        return (Panel({"setting": "Beta"}, "ν ~ Beta(a, 10)", world, players, rounds, 40 if quick else 400),)

    return panels


BETA = {"beta": {"items": 30, "a": {"integers": [1, 10]}, "b": 10}}
EARLY = Claim(
    "The correct prior is slightly better in the early stages (here: after 100 rounds, than uninformed priors)",
    "Appendix F",
    "synthetic, Beta",
    LowerRegret("[BetaMean, BetaVar]", ("[0, 1]", "[0.5, 1]", "[1, 1]"), at=100),
)
DIMENSION = "The paper does not give the number of features; 5 are taken. "
BETAS, LINEAR_DATA, LOGISTIC_DATA = "synthetic, Beta", "synthetic, linear", "synthetic, logistic"


EXPERIMENTS = (
    Experiment(
        "prior/fig1",
        "Attraction drawn from Beta priors, no features",
        _one("ν ~ Beta(a, 10)", BETA, NONCONTEXTUAL, 400, 24),
        Curves(),
        (
            *(
                Claim(
                    f"GTS competes closely with {informed}, which knows the prior (at most 1.5 times)",
                    "Section 5.1",
                    BETAS,
                    _close_to(informed),
                )
                for informed in ("TS-Beta", "BayesUCB-Beta")
            ),
            Claim(
                "TS-Cascade underperforms GTS significantly",
                "Section 5.1",
                BETAS,
                for_each_sigma(lambda sigma: LowerRegret(gts_label("GTS", sigma), ("TS-Cascade",))),
            ),
            *(
                Claim(
                    f"{informed}, which knows the prior, outperforms the earlier policies that do not",
                    "Section 5.1, of Kveton et al. (2022)",
                    BETAS,
                    LowerRegret(informed, ("TS-Cascade", "CascadeKL-UCB", "CascadeUCB1", "TopRank")),
                )
                for informed in ("TS-Beta", "BayesUCB-Beta")
            ),
        ),
        differs=NOISE,
        sensitivity=BY_SIGMA[:1],
    ),
    Experiment(
        "prior/fig2",
        "Final regret when the given prior is Beta(1 + c, 10 - c) and the truth is Beta(1, 10)",
        _misspecified,
        FinalRegret("c", "c, by which the prior is wrong"),
        (
            Claim(
                "GTS is robust against a wrong prior (at most 1.5 times, from best to worst)",
                "Section 5.1",
                BETAS,
                RegretSpread("GTS-Pmean", 1.5),
            ),
            Claim(
                "TS-Beta degrades (more than 1.5 times)",
                "Section 5.1",
                BETAS,
                RegretSpread("TS-Beta", 1.5, wide=True),
            ),
            Claim(
                "BayesUCB-Beta degrades (more than 1.5 times)",
                "Section 5.1",
                BETAS,
                RegretSpread("BayesUCB-Beta", 1.5, wide=True),
            ),
            Claim(
                "With a wrong prior (c = 8) GTS is better than both",
                "Figure 2",
                BETAS,
                LowerRegret("GTS-Pmean", ("TS-Beta", "BayesUCB-Beta"), where={"c": 8}),
            ),
        ),
        differs=NOISE,
    ),
    Experiment(
        "prior/fig3",
        "Attraction linear in five features",
        _one("ν = xᵀθ", {"linear": {"items": 30, "dim": 5}}, LINEAR, 100, 24),
        Curves(),
        (
            Claim("LinTS-LTR outperforms C-WOFUL", "Section 5.2", LINEAR_DATA, LowerRegret("LinTS-LTR", ("C-WOFUL",))),
            Claim(
                "LinTS-Cascade outperforms C-WOFUL",
                "Section 5.2",
                LINEAR_DATA,
                for_each_lambda(lambda lam: LowerRegret(cascade_label(lam), ("C-WOFUL",))),
            ),
        ),
        differs=DIMENSION + FIXED + NOISE,
        sensitivity=BY_LAMBDA,
    ),
    Experiment(
        "prior/fig4",
        "Attraction logistic in five features",
        _one("ν = σ(xᵀθ)", {"logistic": {"items": 30, "dim": 5}}, LOGISTIC, 100, 24),
        Curves(),
        (Claim("LogTS-LTR has the lowest regret", "Section 5.3", LOGISTIC_DATA, LowestRegret("LogTS-LTR")),),
        differs=DIMENSION + FIXED + NOISE,
    ),
    real(5, "mslr-web", "Web30K", REAL, None, real_claims(WEB)),
    real(6, "istella", "Istella", REAL, None, real_claims(ISTELLA)),
    Experiment(
        "prior/fig7",
        "Gaussian and Beta posterior after 100 observations",
        lambda quick: (),
        PosteriorDensities(),
        (
            Claim(
                "The Beta posterior does not concentrate where ν is near 0 or 1 (computed, no simulation)",
                "Appendix A.1",
                "ν = 0.1 and 0.9",
                BetaPosteriorWider(),
            ),
        ),
        differs=(
            "The paper does not say which priors it draws: Beta(1, 1) and N(0, 1) with noise 0.5 are taken, and the "
            "mean number of clicks."
        ),
    ),
    Experiment(
        "prior/fig8",
        "As figure 1, the policies of lowest regret",
        _one("ν ~ Beta(a, 10)", BETA, NONCONTEXTUAL, 400, 24),
        Curves(only=("TS-Beta", "BayesUCB-Beta", "GTS", "GTS-Pmean", "GTS-P")),
        (
            Claim(
                "GTS-Pmean gains little over GTS (GTS at most 1.25 times)",
                "Section 5.1",
                BETAS,
                for_each_sigma(lambda sigma: CloseTo(gts_label("GTS", sigma), gts_label("GTS-Pmean", sigma), 1.25)),
            ),
            Claim(
                "GTS-P is slightly worse than GTS-Pmean",
                "Section 5.1",
                BETAS,
                for_each_sigma(lambda sigma: LowerRegret(gts_label("GTS-Pmean", sigma), (gts_label("GTS-P", sigma),))),
            ),
        ),
        differs=NOISE,
        sensitivity=BY_SIGMA,
    ),
    Experiment(
        "prior/fig9",
        "As figure 3, the policies of lowest regret",
        _one("ν = xᵀθ", {"linear": {"items": 30, "dim": 5}}, LINEAR, 100, 24),
        Curves(only=("LinTS-LTR", "LinTS-Cascade", "GTS")),
        (
            Claim("LinTS-LTR outperforms GTS", "Section 5.2", LINEAR_DATA, LowerRegret("LinTS-LTR", ("GTS",))),
            Claim(
                "LinTS-Cascade outperforms GTS",
                "Section 5.2",
                LINEAR_DATA,
                for_each_lambda(lambda lam: LowerRegret(cascade_label(lam), ("GTS",))),
            ),
        ),
        differs="As figure 3.",
        sensitivity=BY_LAMBDA,
    ),
    Experiment(
        "prior/fig10",
        "As figure 4, the first 1,000 rounds",
        _one("ν = σ(xᵀθ)", {"logistic": {"items": 30, "dim": 5}}, LOGISTIC, 100, 24),
        Curves(until=1_000, hide={"ν = σ(xᵀθ)": ("C-LinUCB", "C-WOFUL")}),
        (
            Claim(
                "After 1,000 rounds LogTS-LTR has the lowest regret, the prior-informed policies included",
                "Section 5.3",
                LOGISTIC_DATA,
                LowestRegret("LogTS-LTR", at=1_000),
            ),
        ),
        differs="As figure 4.",
    ),
    real(11, "mslr-web", "Web30K, the first 2,000 rounds", REAL, 2_000, real_claims(WEB)[:1]),
    scaling(),
    real(12, "istella", "Istella, the first 2,000 rounds", REAL, 2_000, real_claims(ISTELLA)[:1]),
    real(
        13,
        "mslr-web",
        "Web30K, all algorithms",
        ALL_REAL,
        None,
        (
            Claim(
                "GTS is competitive with TS-Beta (at most 1.1 times)", "Appendix F", WEB, CloseTo("GTS", "TS-Beta", 1.1)
            ),
        ),
    ),
    real(
        14,
        "istella",
        "Istella, all algorithms",
        ALL_REAL,
        None,
        (
            Claim(
                "C-WOFUL underperforms the other algorithms",
                "Section 5.4",
                ISTELLA,
                LowerRegret("GTS", ("C-WOFUL",)),
            ),
        ),
    ),
    *(
        Experiment(
            f"prior/fig{number}",
            f"GTS from several priors [mean, variance], {rounds:,} rounds",
            _initial(rounds),
            Curves(),
            (
                Claim(
                    "The prior has no large effect on GTS (at most 1.5 times)",
                    "Appendix F",
                    BETAS,
                    CloseTo("[0, 1]", "[BetaMean, BetaVar]", 1.5),
                ),
                *((EARLY,) if rounds == 1_000 else ()),
            ),
            differs=NOISE + "The priors that the paper draws are not named in its text; six are taken.",
        )
        for number, rounds in ((15, 1_000), (16, 10_000))
    ),
)
