"""Paper `select-rank`: upper confidence ranking with item-specific position effects, Section 5."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rankloop.experiments.claims import Claim, LowerRegret, SimilarRegret
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import Curves
from rankloop.experiments.outcome import Panel

SIZES = ((7, 5), (10, 5), (5, 5))
XI = (0.1, 0.5, 1.0, 2.0)
BATCH = 30


def _players(id: str = "ucr", **shared: object) -> tuple[Mapping[str, object], ...]:
    """Return UCR with several ξ, and the greedy policy without its bonus."""
    ucr = tuple({"id": id, "xi": xi, "label": f"UCR, ξ = {xi:g}", **shared} for xi in XI)
    greedy = {"id": "g-mle"} if id == "ucr" else {"id": id, "xi": 0.0}
    return (*ucr, {**greedy, **shared, "label": "G-MLE"})


def _simulated(quick: bool) -> tuple[Panel, ...]:
    replications = 20 if quick else 300
    return tuple(
        Panel(
            {"items": items},
            f"N = {items}, K = {k}",
            {"kind": "item-position", "items": items, "dim": 7, "k": k, "objective": "any-click"},
            _players(fit="mle"),
            500,
            replications,
            chunk=50,
        )
        for items, k in SIZES
    )


def _logged(id: str, runs: int) -> Callable[[bool], tuple[Panel, ...]]:
    """Return panels of a simulator fitted on logs: 100 batches of 30 visitors, the first four with random lists."""

    def panels(quick: bool) -> tuple[Panel, ...]:
        world = {"kind": "item-position", "data": "open-bandit", "k": 3, "objective": "clicks"}
        players = _players(id, every=BATCH, T0=4 * BATCH + 1)
        rounds, replications = (50 * BATCH, runs // 10) if quick else (100 * BATCH, runs)
        return (Panel({"id": id}, "fitted on Open Bandit logs", world, players, rounds, replications, chunk=20),)

    return panels


def _simulated_claims() -> tuple[Claim, ...]:
    text = "UCR has lower regret than G-MLE"
    return tuple(
        Claim(f"{text}, ξ = {xi:g}", "Section 5.1, Figure 1", "simulated", LowerRegret(f"UCR, ξ = {xi:g}", ("G-MLE",)))
        for xi in XI
    )


STAND_IN = "Open Bandit, in place of the paper's private log"
LOGGED_CLAIMS = (
    Claim(
        "UCR with ξ = 0.5 is comparable to G-MLE (here: 0.95 to 1.05 times its regret)",
        "Section 5.1, Figure 2",
        STAND_IN,
        SimilarRegret("UCR, ξ = 0.5", "G-MLE", 0.95, 1.05),
    ),
    *(
        Claim(
            f"UCR with a larger ξ has lower regret than G-MLE, ξ = {xi:g}",
            "Section 5.1, Figure 2",
            STAND_IN,
            LowerRegret(f"UCR, ξ = {xi:g}", ("G-MLE",)),
        )
        for xi in (1.0, 2.0)
    ),
    Claim(
        "A larger ξ gives smaller regret (ξ = 2 below ξ = 0.5)",
        "Section 5.1, Figure 2",
        STAND_IN,
        LowerRegret("UCR, ξ = 2", ("UCR, ξ = 0.5",)),
    ),
)
POSITIONS = "Positions are 1 to K, not rescaled to (-½, ½) as in Assumption 2.2. "
LOGS = (
    "The paper's log is private: 13,717 samples of 436 items, 259 of them with a reward. Here the simulator is a "
    "logistic regression with item effects, fitted on the 20,000 impressions of the small Open Bandit Dataset "
    "(80 clicks, 41 items ever clicked), and contexts are those of clicked impressions. Relative regret is not defined "
    "in the paper: cumulative regret over the cumulative reward of the best lists. With so few clicks, little can be "
    "learned in 3,000 visits. "
)
EXPERIMENTS = (
    Experiment(
        id="select-rank/fig1",
        title="UCR and G-MLE in the simulated environment",
        panels=_simulated,
        arrangement=Curves(),
        claims=_simulated_claims(),
        differs=POSITIONS
        + (
            "The paper does not say which ξ it draws, and its bands are standard deviations; bands here are 95 % "
            "intervals of the mean. Algorithm 5 of the paper has lost the 1 of its logistic function. Fits are "
            "exact: maximum likelihood with ridge 1 after every round."
        ),
    ),
    Experiment(
        id="select-rank/fig2",
        title="Relative regret in a simulator fitted on logs, batches of 30",
        panels=_logged("ucr", 200),
        arrangement=Curves("relative"),
        claims=LOGGED_CLAIMS,
        data=("open-bandit",),
        differs=LOGS + POSITIONS + "Fits are online.",
    ),
    Experiment(
        id="select-rank/fig2-features",
        title="The same with one model for all items (feature-based UCR)",
        panels=_logged("feature-ucr", 40),
        arrangement=Curves("relative"),
        data=("open-bandit",),
        differs=LOGS
        + POSITIONS
        + "The paper has no figure and no claim of the feature-based variant; items have three features here.",
    ),
)
