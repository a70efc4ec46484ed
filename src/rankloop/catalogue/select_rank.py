"""Paper `select-rank`: Wang et al., Adaptively Learning to Select-Rank in Online Platforms (2024)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from rankloop.belief import LogisticRows, OnlineLogistic, OnlineState, RowsState
from rankloop.catalogue.params import NonNegative, Positive, Whole
from rankloop.catalogue.registry import policy
from rankloop.design import Design, Interaction, Positional
from rankloop.explore import Ucb
from rankloop.feedback import SemiBandit
from rankloop.plan import Assignment
from rankloop.policy import Policy, PolicyState
from rankloop.types import Setting
from rankloop.wrappers import RandomLists, before

Fit = Literal["online", "mle"]
SelectRank = RandomLists[PolicyState[OnlineState]] | RandomLists[PolicyState[RowsState]]


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
) -> SelectRank:
    plan = Assignment(setting.objective)
    if fit == "online":
        online = OnlineLogistic(dim, models, ridge, v_ridge)
        explore = Ucb[OnlineState](lambda state, t: np.full(len(t), radius))
        return RandomLists(Policy(design, online, explore, plan, SemiBandit()), before(T0))
    rounds = setting.need_rounds(f"{name} with fit 'mle'", "fit 'online'")
    rows = LogisticRows(dim, models, rounds * (1 if models > 1 else setting.slots), ridge, v_ridge)
    exact = Ucb[RowsState](lambda state, t: np.full(len(t), radius))
    return RandomLists(Policy(design, rows, exact, plan, SemiBandit()), before(T0))


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
) -> SelectRank:
    """UCR: a logistic model for each item with its own position effect, UCB, and maximum-weight matching.

    P(click | x, item j in slot k) = σ(θ_jᵀz), z = (k, x), k = 1 … K. Weight of (j, k): g(σ(θ_jᵀz + bonus·ξ‖z‖)) in
    the norm of V_j⁻¹, V_j = v_ridge·I + Σzzᵀ; g by the world's objective: any-click -log(1-m), clicks m, revenue
    price_j·m. Rounds 1 … T0-1 are random lists; items never shown have θ = 0.

    fit 'online' (the default) is one recursive Laplace step for a click, O(d²), and forgets the row: the cost of a
    round does not grow with the rounds played, which is what one deploys. fit 'mle' refits the ridge logistic
    regression of every shown item on all its rows after each round, as the paper does;
    `docs/explanation/select-rank.md` shows both regrets side by side. The paper's real-data experiment learns from 30 rounds together: `every: 30`.

    Reference: Wang et al. (2024), Algorithm 1.
    Deviates from the paper: the estimate has a ridge, without which it does not exist after few rounds.
    """
    d = 1 + setting.need_context("ucr")
    return _select_rank(setting, "ucr", Positional(d - 1), d, setting.items, bonus * xi, fit, ridge, v_ridge, T0)


@policy("g-mle", paper="select-rank", feedback="semi-bandit", needs=("context", "lasting"))
def g_mle(setting: Setting, *, T0: Whole = 5, ridge: Positive = 1.0, fit: Fit = "online") -> SelectRank:
    """G-MLE: UCR without its bonus, ξ = 0.

    Reference: Wang et al. (2024), Section 5.
    """
    d = 1 + setting.need_context("g-mle")
    return _select_rank(setting, "g-mle", Positional(d - 1), d, setting.items, 0.0, fit, ridge, 1.0, T0)


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
) -> SelectRank:
    """Feature-based UCR: one model for all items, z = (k, x, y_j, vec(x y_jᵀ)).

    Otherwise as ucr. Without item features each item is its own feature (one-hot).

    Reference: Wang et al. (2024), Appendix, feature-based UCR.
    Deviates from the paper: as ucr.
    """
    dx = setting.need_context("feature-ucr")
    one_hot = setting.items if setting.dim is None else None
    if one_hot is not None:
        setting.need_lasting("feature-ucr without item features")
    dy = one_hot or setting.need_dim("feature-ucr")
    d = 1 + dx + dy + dx * dy
    design = Interaction(dx, one_hot, setting.dim)
    return _select_rank(setting, "feature-ucr", design, d, 1, bonus * xi, fit, ridge, v_ridge, T0)
