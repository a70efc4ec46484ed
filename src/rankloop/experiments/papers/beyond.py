"""What the papers describe without an experiment of their own: other outcomes, contexts, rewards and prices.

None of these has a number in print. A claim is listed only where a paper says something that the experiment tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from rankloop.experiments.claims import Claim, LowerRegret, LowestRegret
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import Curves, FinalRegret
from rankloop.experiments.outcome import Panel
from rankloop.experiments.papers.prior_players import (
    LIN_TS_CASCADE,
    LIN_TS_LTR,
    LIN_UCB,
    LOG_TS_LTR,
    WOFUL,
)

Players = tuple[Mapping[str, object], ...]
OURS = "The paper has no experiment on this; sizes are ours. "
WRONG = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares by which an item's prior mean is that of another item."""


def _panel(
    title: str, world: Mapping[str, object], players: Players, rounds: int, full: int, few: int
) -> Callable[[bool], tuple[Panel, ...]]:
    """Return panels of one world with `full` replications, or `few`."""
    return lambda quick: (Panel({"setting": title}, title, world, players, rounds, few if quick else full),)


def _fresh(kind: str) -> dict[str, object]:
    return {"kind": "cascade", "attraction": {kind: {"items": 30, "dim": 5, "fresh_features": True}}, "k": 3}


def _wrong_priors(kind: str) -> Callable[[bool], tuple[Panel, ...]]:
    """Return panels of one shop of 30 items whose priors are right for no item but on average.

    The prior of item i is Beta with mean (1 - m)ν_i + mν_j and strength as in the paper's logistic setting, j another
    item; features and weights are drawn once, from a fixed seed.
    """
    rng = np.random.default_rng(2023)
    drawn = rng.random((31, 5))
    drawn /= np.linalg.vector_norm(drawn, axis=1, keepdims=True)
    weights, features = drawn[0], drawn[1:]
    z = features @ weights
    nu = np.clip(z, 0.01, 0.99) if kind == "linear" else 1.0 / (1.0 + np.exp(-z))
    other = nu[rng.permutation(30)]
    learner = LIN_TS_LTR if kind == "linear" else LOG_TS_LTR
    world = {
        "kind": "cascade",
        "attraction": {kind: {"features": features.round(6).tolist(), "weights": weights.round(6).tolist()}},
        "k": 3,
    }

    def players(share: float) -> Players:
        mean = (1.0 - share) * nu + share * other
        prior = {"a": (10.0 * mean / (1.0 - mean)).round(6).tolist(), "b": [10.0] * 30}
        return (
            {"id": "ts-beta", "label": "TS-Beta", **prior},
            {"id": "bayes-ucb", "label": "BayesUCB-Beta", **prior},
            {"id": "gts", "label": "GTS"},
            learner,
        )

    def panels(quick: bool) -> tuple[Panel, ...]:
        count = 20 if quick else 100
        return tuple(Panel({"m": m}, f"m = {m:g}", world, players(m), 1_000, count) for m in WRONG)

    return panels


def _misspecified(kind: str, label: str) -> Experiment:
    return Experiment(
        f"prior/misspecified-{kind}",
        f"Final regret by the share m of a wrong item's mean in the prior, attraction {kind} in five features",
        _wrong_priors(kind),
        FinalRegret("m", "m, the share of another item's mean in the prior"),
        (
            Claim(
                f"With a wrong prior (m = 1) {label}, which has none, is better than TS-Beta and BayesUCB-Beta",
                "Section 5.1, carried over: the performance of those who know the prior degrades",
                f"synthetic, {kind}",
                LowerRegret(label, ("TS-Beta", "BayesUCB-Beta"), where={"m": 1.0}),
            ),
        ),
        differs=OURS + "The paper misspecifies one Beta prior for all items (figure 2), without features. ",
    )


PRIOR = (
    Experiment(
        "prior/scalar",
        "Scalar feedback: amounts linear in five features, every slot observed",
        _panel(
            "amount = xᵀθ + noise",
            {"kind": "amounts", "amount": {"linear": {"items": 30, "dim": 5}}, "k": 3},
            (
                {"id": "lin-ts-ltr", "feedback": "semi-bandit", "label": "LinTS-LTR"},
                {"id": "gts", "feedback": "semi-bandit", "label": "GTS"},
            ),
            10_000,
            100,
            20,
        ),
        Curves(),
        (
            Claim(
                "The linear model handles scalar feedback (here: less than a tenth of the random policy's regret)",
                "Sections 3.2 and 6",
                "synthetic, amounts",
                LowerRegret("LinTS-LTR", ("random",), times=10.0),
            ),
        ),
        differs=OURS + "The paper keeps the cascade; the amounts of all three slots are seen here, since a cascade of "
        "amounts would stop at the first that is not 0.",
    ),
    Experiment(
        "prior/fig3-fresh",
        "As figure 3, with the features of all items drawn again in every round",
        _panel("ν = xᵀθ, new x", _fresh("linear"), (LIN_TS_LTR, LIN_TS_CASCADE, LIN_UCB, WOFUL), 10_000, 100, 24),
        Curves(),
        (
            Claim(
                "LinTS-LTR outperforms C-WOFUL",
                "Section 5.2",
                "synthetic, linear, x by round",
                LowerRegret("LinTS-LTR", ("C-WOFUL",)),
            ),
            Claim(
                "LinTS-Cascade outperforms C-WOFUL",
                "Section 5.2",
                "synthetic, linear, x by round",
                LowerRegret("LinTS-Cascade", ("C-WOFUL",)),
            ),
        ),
        differs="Policies that learn item by item are left out: an item's attraction changes with its features.",
    ),
    Experiment(
        "prior/fig4-fresh",
        "As figure 4, with the features of all items drawn again in every round",
        _panel("ν = σ(xᵀθ), new x", _fresh("logistic"), (LOG_TS_LTR, LIN_TS_LTR, LIN_UCB, WOFUL), 10_000, 100, 24),
        Curves(),
        (
            Claim(
                "LogTS-LTR has the lowest regret",
                "Section 5.3",
                "synthetic, logistic, x by round",
                LowestRegret("LogTS-LTR"),
            ),
        ),
        differs="Policies that learn item by item are left out: an item's attraction changes with its features. "
        "LogTS-LTR uses its online form, since rows do not return.",
    ),
    _misspecified("linear", "LinTS-LTR"),
    _misspecified("logistic", "LogTS-LTR"),
)


def _ucr(**shared: object) -> Players:
    return (
        {"id": "ucr", "xi": 0.5, "label": "UCR, ξ = 0.5", **shared},
        {"id": "ucr", "xi": 1.0, "label": "UCR, ξ = 1", **shared},
        {"id": "g-mle", "label": "G-MLE", **shared},
    )


SELECT_RANK = (
    Experiment(
        "select-rank/watch-time",
        "Watch time: amounts linear in item and context, slots of decreasing attention (Example 2.3)",
        _panel(
            "amounts, N = 10, K = 5",
            {
                "kind": "amounts",
                "amount": {"linear": {"items": 10, "dim": 3}},
                "k": 5,
                "bias": [1.0, 0.8, 0.65, 0.5, 0.4],
                "context": {"dim": 3},
            },
            _ucr(link="identity"),
            2_000,
            100,
            20,
        ),
        Curves(),
        differs=OURS + "The position effect is a factor of the amount here, where the paper's generalised linear model "
        "adds α_j k to it: no world has such amounts, so UCR is slightly misspecified.",
    ),
    Experiment(
        "select-rank/revenue",
        "Revenue: prices differ, purchases are logistic with item-specific position effects (Example 2.4)",
        _panel(
            "revenue, N = 10, K = 5",
            {
                "kind": "item-position",
                "items": 10,
                "dim": 7,
                "k": 5,
                "objective": "revenue",
                "prices": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0],
            },
            _ucr(),
            2_000,
            100,
            20,
        ),
        Curves(),
        differs=OURS
        + "A general H with gains g_k is open to a ranker's configuration, but worlds know only the three of "
        "the paper's examples: clicks and revenue (H the identity) and any-click (H(z) = 1 - exp(-z), figure 1).",
    ),
)
EARLY, FLAT = [1.0, 0.5, 0.25, 0.125], [1.0, 1.0, 1.0, 1.0]
LONG_SEQUENCES = (
    Experiment(
        "long-sequences/rewards-by-round",
        "Rewards r_{j,t} and losses ℓ_{j,t} that change from round to round and are known in advance, with a context",
        _panel(
            "exponential and vanilla rounds by turns",
            {
                "kind": "cascade-rewards",
                "attraction": {"logistic": {"items": 20, "dim": 5}},
                "budget": 4,
                "context": {"dim": 2},
                "rewards": [EARLY, FLAT],
                "losses": [[-0.2, -0.6, -0.8, -0.9, -0.95], [0.0] * 5],
            },
            (
                {"id": "ind", "label": "Ind"},
                {"id": "eps-ind", "label": "Eps"},
                {"id": "c-ucb1", "label": "C-UCB1"},
                {"id": "gl-cdcm", "label": "GL-CDCM"},
            ),
            2_000,
            60,
            12,
        ),
        Curves(),
        (
            Claim(
                "Only Ind is made for varying rewards and losses: it has lower regret than the baselines",
                "Section 5",
                "synthetic, logistic",
                LowerRegret("Ind", ("Eps", "C-UCB1", "GL-CDCM")),
            ),
        ),
        differs=OURS
        + "Rewards alternate between the two scenarios of the paper; the context changes what attracts, not "
        "the rewards, which a request carries.",
    ),
)
CHOICE = (
    Experiment(
        "choice/revenue",
        "Prices under multinomial logit choice, problem (a)",
        _panel(
            "problem (a), prices 1 to 6",
            {
                "kind": "choice",
                "attraction": [0.3, 0.28, 0.26, 0.24, 0.22, 0.2],
                "bias": [1.0, 0.3, 0.2, 0.1],
                "objective": "revenue",
                "prices": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            },
            (
                {"id": "epoch-ucb", "label": "Epoch-UCB"},
                {"id": "epoch-ucb-w", "label": "Epoch-UCB-W"},
                {"id": "epoch-ucb-upb", "label": "Epoch-UCB-UPB"},
                {"id": "epoch-ucb-upb-star", "label": "Epoch-UCB-UPB*"},
                {"id": "mnl-bandit", "label": "MNL-Bandit"},
                {"id": "pbm-ucb", "label": "PBM-UCB"},
            ),
            10_000,
            40,
            8,
        ),
        Curves(),
        differs=OURS + "The paper's reward is a click. TopRank only orders items and has no planner for revenue.",
    ),
)
