"""Paper `choice`: multinomial logit choice among the items of a list, Section 6."""

from __future__ import annotations

from rankloop.experiments.claims import Claim, CloseTo, LinearGrowth, LowerRegret
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import CurvesAndFinals
from rankloop.experiments.outcome import Panel

POLICIES = (
    {"id": "epoch-ucb", "label": "Epoch-UCB"},
    {"id": "epoch-ucb-w", "label": "Epoch-UCB-W"},
    {"id": "epoch-ucb-upb", "label": "Epoch-UCB-UPB"},
    {"id": "epoch-ucb-upb-star", "label": "Epoch-UCB-UPB*"},
    {"id": "mnl-bandit", "label": "MNL-Bandit"},
    {"id": "pbm-ucb", "label": "PBM-UCB"},
    {"id": "toprank", "label": "TopRank"},
)
PROBLEMS: dict[str, dict[str, object]] = {
    "a": {"attraction": [0.3, 0.28, 0.26, 0.24, 0.22, 0.2], "bias": [1, 0.3, 0.2, 0.1]},
    "b": {"attraction": [0.05, 0.1, 0.15, 0.2], "bias": [1, 0.2, 0.9]},
    "c": {"attraction": [1] * 4 + [0.8] * 2 + [0.1] * 24, "bias": [1, 0.9, 0.7, 0.3, 0.5, 0.7]},
}
DIFFERS = (
    "The paper's estimates of unknown biases come from an iteration that it calls an EM algorithm, and that does not "
    "converge to the maximum of the likelihood; the maximum itself is used here."
)


def _experiment(figure: int, problem: str, rounds: int, few: int, claims: tuple[Claim, ...]) -> Experiment:
    def panels(small: bool) -> tuple[Panel, ...]:
        replications = few if small else 40
        world = {"kind": "choice", **PROBLEMS[problem]}
        return (Panel({"problem": problem}, f"problem ({problem})", world, POLICIES, rounds, replications, chunk=20),)

    return Experiment(
        id=f"choice/fig{figure}",
        title=f"Seven algorithms on problem ({problem})",
        panels=panels,
        arrangement=CurvesAndFinals(),
        claims=(*COMMON, *claims),
        differs=DIFFERS,
    )


ALL = "all three problems"
COMMON = (
    Claim(
        "Epoch-UCB-W, with the weaker coefficients, is far behind Epoch-UCB (more than 2 times its regret)",
        "Section 6",
        ALL,
        LowerRegret("Epoch-UCB", ("Epoch-UCB-W",), times=2.0),
    ),
    Claim(
        "Epoch-UCB is among the best of those who know the biases (at most 2 times PBM-UCB)",
        "Section 6",
        ALL,
        CloseTo("Epoch-UCB", "PBM-UCB", times=2.0),
    ),
    Claim(
        "PBM-UCB is among the best of those who know the biases (at most 2 times Epoch-UCB)",
        "Section 6",
        ALL,
        CloseTo("PBM-UCB", "Epoch-UCB", times=2.0),
    ),
    Claim("Epoch-UCB-W is worse than TopRank", "Section 6", ALL, LowerRegret("TopRank", ("Epoch-UCB-W",))),
    Claim(
        "Epoch-UCB-UPB* is not much worse than those who know the biases (at most 2 times Epoch-UCB)",
        "Section 6",
        ALL,
        CloseTo("Epoch-UCB-UPB*", "Epoch-UCB", times=2.0),
    ),
    Claim(
        "Epoch-UCB-UPB is overly conservative beside Epoch-UCB-UPB* (more than 2 times its regret)",
        "Section 6",
        ALL,
        LowerRegret("Epoch-UCB-UPB*", ("Epoch-UCB-UPB",), times=2.0),
    ),
)
LINEAR = Claim(
    "TopRank's regret is linear where the biases do not decrease down the list",
    "Section 6",
    "problems (b) and (c)",
    LinearGrowth("TopRank"),
)
EXPERIMENTS = (
    _experiment(1, "a", 50_000, 4, ()),
    _experiment(2, "b", 50_000, 4, (LINEAR,)),
    _experiment(
        3,
        "c",
        8_000,
        8,
        (
            LINEAR,
            Claim(
                "MNL-Bandit goes on exploring long after Epoch-UCB-UPB* exploits (more than 2 times its regret)",
                "Section 6",
                "problem (c)",
                LowerRegret("Epoch-UCB-UPB*", ("MNL-Bandit",), times=2.0),
            ),
        ),
    ),
)
