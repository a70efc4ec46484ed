"""Paper `prior`: Thompson sampling with misspecified priors, Section 5 and Appendix F."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rankloop.experiments.claims import Claim, CloseTo, LowerRegret, LowestRegret, RegretSpread
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import Curves, FinalRegret
from rankloop.experiments.outcome import Panel
from rankloop.experiments.posteriors import BetaPosteriorWider, PosteriorDensities

Players = tuple[Mapping[str, object], ...]
BETA = {"beta": {"items": 30, "a": {"integers": [1, 10]}, "b": 10}}

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

NONCONTEXTUAL = (TS_BETA, BAYES_UCB, GTS, GTS_PMEAN, GTS_P, TS_CASCADE, KL_UCB, UCB1, TOPRANK, ENSEMBLE)
LINEAR = (LIN_TS_LTR, LIN_TS_CASCADE, GTS, LIN_UCB, WOFUL)
LOGISTIC = (LOG_TS_LTR, LIN_TS_LTR, GTS, TS_BETA, BAYES_UCB, LIN_UCB, WOFUL)
REAL = (LOG_TS_LTR, LIN_TS_LTR, GTS, TS_BETA)
ALL_REAL = (*REAL, ENSEMBLE, TS_CASCADE, WOFUL)

NOISE = (
    "The paper does not give the noise σ of its Gaussian policies, which matters much; 0.5 is taken, the bound of a "
    "Bernoulli variable. "
)


def _one(
    title: str, attraction: object, players: Players, full: int, small: int
) -> Callable[[bool], tuple[Panel, ...]]:
    """Return panels of one world: 10,000 rounds and `full` replications, or 2,000 and `small`."""

    def panels(quick: bool) -> tuple[Panel, ...]:
        rounds, replications = (2_000, small) if quick else (10_000, full)
        world = {"kind": "cascade", "attraction": attraction, "k": 3}
        return (Panel({"setting": title}, title, world, players, rounds, replications),)

    return panels


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
        length = min(rounds, 2_000) if quick else rounds
        return (Panel({"setting": "Beta"}, "ν ~ Beta(a, 10)", world, players, length, 60 if quick else 400),)

    return panels


def _judged(data: str, players: Players) -> Callable[[bool], tuple[Panel, ...]]:
    """Return panels in which each replication is a random test query, all in one batch."""

    def panels(quick: bool) -> tuple[Panel, ...]:
        rounds, replications = (800, 24) if quick else (10_000, 900)
        world = {"kind": "cascade", "attraction": {"judged": {"data": data}}, "k": 10}
        return (Panel({"data": data}, data, world, players, rounds, replications, chunk=8 if quick else 64),)

    return panels


def _real(
    number: int, data: str, what: str, players: Players, until: int | None, claims: tuple[Claim, ...]
) -> Experiment:
    return Experiment(
        id=f"prior/fig{number}",
        title=f"{what}, K = 10",
        panels=_judged(data, players),
        arrangement=Curves(until=until),
        claims=claims,
        data=(data,),
        differs=(
            "Priors come from ten gradient-boosted rankers, each trained on half of the training queries, not from "
            "deep models; features are scaled to [0, 1], documents to unit norm; a document of grade g attracts with "
            "probability (2^g - 1)/2^4; each replication is a test query drawn at random, not 50 of each."
            + (
                " The public sample of MSLR-WEB30K has 18 test queries, the whole one 6,000."
                if data == "mslr-web"
                else ""
            )
        ),
    )


REAL_CLAIMS = (
    Claim("LogTS-LTR has the lowest regret", "Section 5.4", LowestRegret("LogTS-LTR")),
    Claim("GTS is better than TS-Beta", "Section 5.4", LowerRegret("GTS", ("TS-Beta",))),
    Claim("LinTS-LTR is better than GTS", "Section 5.4", LowerRegret("LinTS-LTR", ("GTS",))),
)
EXPERIMENTS = (
    Experiment(
        "prior/fig1",
        "Attraction drawn from Beta priors, no features",
        _one("ν ~ Beta(a, 10)", BETA, NONCONTEXTUAL, 400, 48),
        Curves(),
        (
            Claim(
                "GTS competes closely with TS-Beta, which knows the prior (at most 1.5 times)",
                "Section 5.1",
                CloseTo("GTS", "TS-Beta", 1.5),
            ),
            Claim("TS-Cascade underperforms GTS significantly", "Section 5.1", LowerRegret("GTS", ("TS-Cascade",))),
            Claim(
                "TS-Beta and BayesUCB-Beta, which know the prior, outperform the policies that do not",
                "Section 5.1",
                LowerRegret("TS-Beta", ("GTS", "TS-Cascade", "CascadeKL-UCB", "CascadeUCB1", "TopRank")),
            ),
        ),
        differs=NOISE,
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
                RegretSpread("GTS-Pmean", 1.5),
            ),
            Claim("TS-Beta degrades (more than 1.5 times)", "Section 5.1", RegretSpread("TS-Beta", 1.5, wide=True)),
            Claim(
                "BayesUCB-Beta degrades (more than 1.5 times)",
                "Section 5.1",
                RegretSpread("BayesUCB-Beta", 1.5, wide=True),
            ),
            Claim(
                "With a wrong prior (c = 8) GTS is better than both",
                "Figure 2",
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
            Claim("LinTS-LTR outperforms C-WOFUL", "Section 5.2", LowerRegret("LinTS-LTR", ("C-WOFUL",))),
            Claim("LinTS-Cascade outperforms C-WOFUL", "Section 5.2", LowerRegret("LinTS-Cascade", ("C-WOFUL",))),
        ),
        differs="The paper does not give the number of features; 5 are taken. " + NOISE,
    ),
    Experiment(
        "prior/fig4",
        "Attraction logistic in five features",
        _one("ν = σ(xᵀθ)", {"logistic": {"items": 30, "dim": 5}}, LOGISTIC, 100, 24),
        Curves(),
        (Claim("LogTS-LTR has the lowest regret", "Section 5.3", LowestRegret("LogTS-LTR")),),
        differs="The paper does not give the number of features; 5 are taken. " + NOISE,
    ),
    _real(5, "mslr-web", "Web30K", REAL, None, REAL_CLAIMS),
    _real(6, "istella", "Istella", REAL, None, REAL_CLAIMS),
    Experiment(
        "prior/fig7",
        "Gaussian and Beta posterior after 100 observations",
        lambda quick: (),
        PosteriorDensities(),
        (
            Claim(
                "The Beta posterior does not concentrate where ν is near 0 or 1", "Appendix A.1", BetaPosteriorWider()
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
        _one("ν ~ Beta(a, 10)", BETA, NONCONTEXTUAL, 400, 48),
        Curves(only=("TS-Beta", "BayesUCB-Beta", "GTS", "GTS-Pmean", "GTS-P")),
        (
            Claim(
                "GTS-Pmean gains little over GTS (GTS at most 1.25 times)",
                "Section 5.1",
                CloseTo("GTS", "GTS-Pmean", 1.25),
            ),
            Claim("GTS-P is slightly worse than GTS-Pmean", "Section 5.1", LowerRegret("GTS-Pmean", ("GTS-P",))),
        ),
        differs=NOISE,
    ),
    Experiment(
        "prior/fig9",
        "As figure 3, the policies of lowest regret",
        _one("ν = xᵀθ", {"linear": {"items": 30, "dim": 5}}, LINEAR, 100, 24),
        Curves(only=("LinTS-LTR", "LinTS-Cascade", "GTS")),
        (
            Claim("LinTS-LTR outperforms GTS", "Section 5.2", LowerRegret("LinTS-LTR", ("GTS",))),
            Claim("LinTS-Cascade outperforms GTS", "Section 5.2", LowerRegret("LinTS-Cascade", ("GTS",))),
        ),
        differs="As figure 3.",
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
                LowestRegret("LogTS-LTR", at=1_000),
            ),
        ),
        differs="As figure 4.",
    ),
    _real(11, "mslr-web", "Web30K, the first 2,000 rounds", REAL, 2_000, REAL_CLAIMS[:1]),
    _real(12, "istella", "Istella, the first 2,000 rounds", REAL, 2_000, REAL_CLAIMS[:1]),
    _real(
        13,
        "mslr-web",
        "Web30K, all algorithms",
        ALL_REAL,
        None,
        (Claim("GTS is competitive with TS-Beta (at most 1.1 times)", "Appendix F", CloseTo("GTS", "TS-Beta", 1.1)),),
    ),
    _real(
        14,
        "istella",
        "Istella, all algorithms",
        ALL_REAL,
        None,
        (Claim("C-WOFUL underperforms the others", "Section 5.4", LowerRegret("GTS", ("C-WOFUL",))),),
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
                    CloseTo("[0, 1]", "[BetaMean, BetaVar]", 1.5),
                ),
            ),
            differs=NOISE + "The priors that the paper draws are not named in its text; six are taken.",
        )
        for number, rounds in ((15, 1_000), (16, 10_000))
    ),
)
