"""Policies of paper `select-rank`: Wang et al., Adaptively Learning to Select-Rank in Online Platforms (2024)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from rankloop.belief import (
    AmountState,
    LogisticRows,
    OnlineAmounts,
    OnlineCounts,
    OnlineLogistic,
    OnlineState,
    RowsState,
)
from rankloop.catalogue.params import AddedLater, NonNegative, OneOf, Positive, Whole
from rankloop.catalogue.registry import policy
from rankloop.design import Design, Interaction, Positional, refuse_hashed
from rankloop.errors import Unsupported
from rankloop.explore import Ucb
from rankloop.feedback import SemiBandit
from rankloop.math.crossed import width_of
from rankloop.math.links import IDENTITY, POISSON, Link
from rankloop.plan import matching_plan
from rankloop.policy import Policy, PolicyState
from rankloop.types import Setting
from rankloop.wrappers import RandomLists, before_round

Fit = Literal["online", "mle"]
LINKS = ("logistic", "identity", "poisson")
OutcomeLink = Annotated[str, OneOf(LINKS), AddedLater()]
SelectRank = (
    RandomLists[PolicyState[OnlineState]] | RandomLists[PolicyState[RowsState]] | RandomLists[PolicyState[AmountState]]
)


def _select_rank(
    setting: Setting,
    name: str,
    design: Design,
    dim: int,
    models: int,
    radius: float,
    fit: Fit,
    ridge: float,
    v_ridge: float,
    T0: int,
    link: OutcomeLink,
) -> SelectRank:
    if link != "logistic":
        return _of_amounts(setting, name, design, dim, models, radius, fit, ridge, v_ridge, T0, link)
    plan = matching_plan(setting)
    if fit == "online":
        online = OnlineLogistic(dim, models, ridge, v_ridge)
        explore = Ucb[OnlineState](lambda state, t: np.full(len(t), radius))
        return RandomLists(Policy(design, online, explore, plan, SemiBandit()), before_round(T0))
    rounds = setting.need_rounds(f"{name} with fit 'mle'", "fit 'online'")
    rows = LogisticRows(dim, models, rounds * (1 if models > 1 else setting.slots), ridge, v_ridge)
    exact = Ucb[RowsState](lambda state, t: np.full(len(t), radius))
    return RandomLists(Policy(design, rows, exact, plan, SemiBandit()), before_round(T0))


def _of_amounts(
    setting: Setting,
    name: str,
    design: Design,
    dim: int,
    models: int,
    radius: float,
    fit: Fit,
    ridge: float,
    v_ridge: float,
    T0: int,
    link: OutcomeLink,
) -> RandomLists[PolicyState[AmountState]]:
    """Return the policy for outcomes that are amounts (identity link) or counts (Poisson link)."""
    if fit == "mle":
        raise Unsupported(f"{name} has no fit 'mle' for the link '{link}'; accepted: fit 'online'.")
    scale: Link = IDENTITY if link == "identity" else POISSON
    belief = (OnlineAmounts if link == "identity" else OnlineCounts)(dim, models, ridge, v_ridge)
    explore = Ucb[AmountState](lambda state, t: np.full(len(t), radius))
    inner = Policy(design, belief, explore, matching_plan(setting, link=scale), SemiBandit())
    return RandomLists(inner, before_round(T0))


@policy("ucr", paper="select-rank", feedback="semi-bandit", needs=("context", "lasting"))
def ucr(
    setting: Setting,
    *,
    xi: NonNegative = 1.0,
    T0: Whole = 5,
    ridge: Positive = 1.0,
    v_ridge: Positive = 1.0,
    bonus: NonNegative = 1.0,
    fit: Fit = "online",
    link: OutcomeLink = "logistic",
) -> SelectRank:
    """UCR: a logistic model for each item with its own position effect, UCB, and maximum-weight matching.

    P(click | x, item j in slot k) = σ(θ_jᵀz), z = (k, x), k = 1 … K; θ_j = (α_j, β_j) in the paper.
    w(j, k) = g(σ(θ_jᵀz + bonus·ξ‖z‖)) in the norm of V_j⁻¹, V_j = v_ridge·I + Σzzᵀ; the list is the matching of items
    and slots of largest total weight. g depends on the objective: any-click -log(1-m), clicks m, revenue price_j·m,
    amount m; slot weights multiply it.
    Rounds 1 … T0-1 show random lists; an item that was never shown has θ_j = 0.

    Args:
        xi: the paper's ξ, the exploration radius (Algorithm 2, line 3).
        T0: the paper's T_0, the first round after the random initialisation (Algorithm 1).
        ridge: ridge of the logistic regression; not in the paper, whose equation (5) has none.
        v_ridge: ridge of V_j; not in the paper, whose equation (6) has none.
        bonus: a factor of ξ; 1 in Algorithm 2.
        fit: 'online' makes one recursive Laplace step for each observation, O(d²), and stores no rows, so that the cost
            of a round stays constant; 'mle' refits the regression of every shown item on all its rows after each round,
            as the paper does. docs/explanation/select-rank.md compares the regret of both.
        link: what an outcome is: 'logistic' a click, 'identity' an amount (ridge regression), 'poisson' a count, whose
            expectation is e^(θ_jᵀz). The last two need fit 'online' and the objective amount or revenue.

    Deviates from the paper: the estimate and V_j have a ridge, without which they do not exist after few rounds; the
    default fit is 'online'. The paper's real-data experiment learns in batches of 30 rounds: set `every` to 30.

    Reference: Wang et al. (2024), Section 3, Algorithms 1 and 2.
    """
    refuse_hashed(setting, "ucr")
    d = 1 + setting.need_context("ucr")
    return _select_rank(setting, "ucr", Positional(d - 1), d, setting.items, bonus * xi, fit, ridge, v_ridge, T0, link)


@policy("g-mle", paper="select-rank", feedback="semi-bandit", needs=("context", "lasting"))
def g_mle(
    setting: Setting,
    *,
    T0: Whole = 5,
    ridge: Positive = 1.0,
    fit: Fit = "online",
    link: OutcomeLink = "logistic",
) -> SelectRank:
    """G-MLE: UCR without its exploration bonus, that is ξ = 0.

    w(j, k) = g(σ(θ_jᵀz)), z = (k, x); otherwise as ucr.

    Args:
        T0: the paper's T_0, the first round after the random initialisation (Algorithm 1).
        ridge: ridge of the logistic regression; not in the paper, whose equation (5) has none.
        fit: 'online' or 'mle', as in ucr.
        link: 'logistic', 'identity' or 'poisson', as in ucr.

    Deviates from the paper: as ucr.

    Reference: Wang et al. (2024), Remark 3.1 and Section 5.
    """
    refuse_hashed(setting, "g-mle")
    d = 1 + setting.need_context("g-mle")
    return _select_rank(setting, "g-mle", Positional(d - 1), d, setting.items, 0.0, fit, ridge, 1.0, T0, link)


@policy("feature-ucr", paper="select-rank", feedback="semi-bandit", needs=("context",))
def feature_ucr(
    setting: Setting,
    *,
    xi: NonNegative = 1.0,
    T0: Whole = 5,
    ridge: Positive = 1.0,
    v_ridge: Positive = 1.0,
    bonus: NonNegative = 3.0,
    fit: Fit = "online",
    link: OutcomeLink = "logistic",
) -> SelectRank:
    """Feature-based UCR: one logistic model for all items, with item features and their interactions with the context.

    w(j, k) = g(σ(θᵀz + bonus·ξ‖z‖)) in the norm of V⁻¹, z = (k, x, y_j, vec(x y_jᵀ)), x the context and y_j the
    features of item j; otherwise as ucr. Without item features each item is its own feature (one-hot).

    Args:
        xi: the paper's ξ, the exploration radius.
        T0: the paper's T_0, the first round after the random initialisation (Algorithm 1).
        ridge: ridge of the logistic regression; not in the paper.
        v_ridge: ridge of V; not in the paper.
        bonus: a factor of ξ; 3 in the paper's Appendix B.
        fit: 'online' or 'mle', as in ucr.
        link: 'logistic', 'identity' or 'poisson', as in ucr.

    Deviates from the paper: as ucr.

    Reference: Wang et al. (2024), Appendix B.
    """
    refuse_hashed(setting, "feature-ucr")
    dx = setting.need_context("feature-ucr")
    one_hot = setting.items if setting.dim is None else None
    if one_hot is not None:
        setting.need_lasting("feature-ucr without item features")
    dy = one_hot or setting.need_dim("feature-ucr")
    products = None if one_hot is not None else setting.products
    d = 1 + width_of(dx, dy, products)
    design = Interaction(dx, one_hot, setting.dim, products)
    return _select_rank(setting, "feature-ucr", design, d, 1, bonus * xi, fit, ridge, v_ridge, T0, link)
