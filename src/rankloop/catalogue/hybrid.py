"""The hybrid policy: features explain a part of an item's appeal, and every item has an effect of its own."""

from __future__ import annotations

import numpy as np

from rankloop.belief.hybrid import Hybrid
from rankloop.belief.hybrid_state import HybridState
from rankloop.belief.pooled import PooledHybrid
from rankloop.catalogue.params import NonNegative
from rankloop.catalogue.registry import PLAIN_FEEDBACKS, policy
from rankloop.design import refuse_hashed
from rankloop.design.hybrid_rows import HybridRows
from rankloop.errors import Unsupported
from rankloop.explore import Thompson
from rankloop.feedback import Feedback, LearnedBias, PositionBased
from rankloop.plan import Planner, plan_for
from rankloop.plan.learned_bias import ByLearnedBias
from rankloop.policy import Policy
from rankloop.types import FloatArray, IntArray, Setting

POSITION_BASED = "position-based"


@policy("hybrid", paper="own", feedback=POSITION_BASED, needs=("lasting",))
def hybrid(setting: Setting, *, explore: NonNegative = 0.5) -> Policy[HybridState]:
    """Hybrid: a linear model of features and of the caller's own scores, plus an effect of each item.

    μ_i = x_iᵀθ + b_i, θ ~ N(θ_0, I/0.3²), b_i ~ N(0, τ²); an outcome is y = λ·μ_i + noise of variance s², with λ the
    bias of the slot. x_i = (1, score, order, 0.1·fields): the caller's score (θ_0 = 1); 1/√(1+r) for an item of rank r
    without score (θ_0 fitted to the rate of clicks); the item's features y or, with a context c, (c, y, c⊗y). Sample θ̃
    and b̃_i from the posterior, its spread multiplied by `explore` (by 0 in the first round, so that the first list is
    the caller's order); the item with the k-th largest μ̃ is placed in the slot with the k-th largest λ̂.
    Keeping n_i = Σλ², Y_i = Σλy, S_i = Σλ²x, κ = s²/τ² and c = n_i + κ, an observation adds
    (λ²c/(c+λ²))·uuᵀ/s² with u = x - S_i/c to the precision of θ, and b_i given θ is N((Y_i - S_iᵀθ)/c, s²/c): the
    posterior of a regression with one coefficient for each item. Every 200 rounds τ² and s² are fitted by empirical
    Bayes and, unless biases are given, λ_k = (clicks in slot k + 5)/(Σ μ̂ of what was shown there + 5), relative to the
    first slot. Feedback may be any number. With pooled segments an item deviates in segment g by d_ig ~ N(0, ω²), one
    more effect that is eliminated in the same way, and ω² is fitted like τ².

    Args:
        explore: scale of the posterior's spread; 0 never explores.

    Deviates from the paper: there is none; the policy combines linear Thompson sampling with random effects. The fit of
    τ² adds the leverage x̄ᵀA⁻¹x̄ of each item, since θ was fitted to the same outcomes, and the first τ² = 0.01 weighs as
    five items: without both, τ² collapses where features explain nothing. A slot moves above an earlier one only if its
    λ̂ is larger by two standard errors. The first θ_0 of the order is 0.1.
    """
    model = setting.feedback or POSITION_BASED
    learns_bias = model == POSITION_BASED and setting.bias is None
    prices = setting.objective.prices if learns_bias else None
    rows = _rows(setting)
    amounts = learns_bias and setting.objective.name == "amount"
    size, most = (setting.items, setting.slots, rows.row_features or 0), np.inf if amounts else 1.0
    if setting.segments is None:
        belief = Hybrid(*size, learns_bias=learns_bias, most_mean=most)
    else:
        belief = PooledHybrid(*size, learns_bias=learns_bias, most_mean=most, segments=setting.segments)
    plan: Planner = ByLearnedBias(prices) if learns_bias else plan_for(model, setting)

    def scale(t: IntArray) -> FloatArray:
        return np.multiply(explore, t > 1, dtype=np.float64)

    rule = Thompson(scale) if explore > 0.0 else Thompson(0.0)
    return Policy(rows, belief, rule, plan, _feedback(setting, model))


def _rows(setting: Setting) -> HybridRows:
    refuse_hashed(setting, "hybrid")
    try:
        return HybridRows(setting.dim, setting.context, setting.products)
    except Unsupported as error:
        raise Unsupported(f"hybrid {error}") from None


def _feedback(setting: Setting, model: str) -> Feedback:
    """Return the feedback model of this name; position biases are learned unless they are given."""
    if model != POSITION_BASED:
        return PLAIN_FEEDBACKS[model]
    return LearnedBias() if setting.bias is None else PositionBased(setting.need_bias("hybrid"))
