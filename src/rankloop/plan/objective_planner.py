"""The planner that follows from a click model and an objective: exact, or refused.

| click model | objective | planner |
|---|---|---|
| cascade | any-click, clicks (there is at most one) | the largest attractions |
| cascade | revenue | `CascadeRevenue` |
| cascade with rewards and losses by position | net reward | the largest attractions, then `BestLength` |
| last-click (dependent click) | any-click | the largest attractions |
| last-click | satisfied | the largest attractions, by falling termination probability |
| position-based, semi-bandit | any-click, clicks, amount | the largest scores, by falling bias |
| position-based, semi-bandit | revenue | `ByRevenue` |
| semi-bandit with scores by slot | any-click, clicks, revenue, amount | `Assignment` |
| choice | any-click, clicks | the largest attractions, by falling bias |
| choice | revenue | `ChoiceRevenue`, `ChoiceMatching` |
| any, with scores that depend on the items above | any-click, clicks, revenue | `GreedyBySlot`, approximate |

A click model is named as its `Feedback`. Everything else is refused.
"""

from __future__ import annotations

import numpy as np

from rankloop.errors import InvalidInput, Unsupported
from rankloop.math.links import LOGISTIC, RATE, Link
from rankloop.objective import Amount, AnyClick, Objective
from rankloop.plan.base import Planner
from rankloop.plan.choice import ChoiceMatching, ChoiceRevenue
from rankloop.plan.greedy import GreedyBySlot
from rankloop.plan.prices import PricedGains
from rankloop.plan.revenue import ByRevenue, CascadeRevenue
from rankloop.plan.slots import Assignment, BestLength, BySlotBias, check_rewards
from rankloop.plan.top_k import TopK
from rankloop.types import FloatArray, Setting

INDEPENDENT = ("position-based", "semi-bandit")
"""Click models in which the outcome of a slot does not depend on the other slots."""

ACCEPTED: dict[str, tuple[str, ...]] = {
    "cascade": ("any-click", "clicks", "revenue"),
    "last-click": ("any-click", "satisfied"),
    "position-based": ("any-click", "clicks", "revenue", "amount"),
    "semi-bandit": ("any-click", "clicks", "revenue", "amount"),
    "choice": ("any-click", "clicks", "revenue"),
}
"""Objectives with an exact planner, by click model, where an item has one score for all slots."""

WITH_PRICES = ("revenue",)


class NoPlanner(Unsupported):
    """No planner is exact for this click model and objective."""


def plan_for(click_model: str, setting: Setting, *, link: Link | None = RATE) -> Planner:
    """Return the planner of the list of largest value under a click model, `Feedback.name`, and the objective.

    Args:
        click_model: the policy's own, unless the setting names another.
        setting: its objective, and what the planner needs: biases, termination probabilities.
        link: how scores become attractions; None where they only order items, so that prices cannot be weighed.
    """
    name = setting.feedback or click_model
    scale = link is not None
    objective = checked(
        name, setting, () if scale else WITH_PRICES, "" if scale else " with scores that only order items"
    )
    priced = objective.name in WITH_PRICES and link is not None
    if name in INDEPENDENT:
        bias = None if name == "semi-bandit" or setting.bias is None else setting.need_bias(f"the click model '{name}'")
        if priced and link is not None:
            return ByRevenue(objective, link, bias)
        # Policies that were built for biases break the ties of equal ones at random. For all others the list is the
        # same where biases fall, and `TopK` has more closed forms.
        return by_weight(bias) if bias is None or setting.feedback is not None else BySlotBias(bias)
    if name == "choice":
        bias = setting.need_bias("the click model 'choice'")
        return ChoiceRevenue(objective, bias) if priced else BySlotBias(bias)
    if objective.name == "satisfied":
        return by_weight(_termination(setting))
    return CascadeRevenue(objective, link) if priced and link is not None else TopK()


def net_reward_plan(click_model: str, setting: Setting, *, link: Link = LOGISTIC) -> Planner:
    """Return the planner that also chooses the length of a list, for rewards and losses by position.

    Rewards and losses belong to the cascade model. The objective is then their sum, so that prices are refused.
    """
    name = setting.feedback or click_model
    if setting.objective.name in WITH_PRICES or name != "cascade":
        _refuse_rewards(name, setting)
        return plan_for(click_model, setting, link=link)
    rewards, losses = _scenario(setting)
    return BestLength(plan_for(click_model, setting, link=link), rewards, losses)


def coverage_plan(click_model: str, setting: Setting, *, link: Link = LOGISTIC) -> Planner:
    """Return the planner for scores that depend on the items above: greedy by slot, *approximate*.

    The length is chosen by rewards and losses as in `net_reward_plan`.
    """
    name = setting.feedback or click_model
    objective = checked(name, setting, ("amount", "satisfied"))
    if objective.name in WITH_PRICES:
        _refuse_rewards(name, setting)
        return GreedyBySlot(PricedGains(objective, link))
    if name != "cascade":
        _refuse_rewards(name, setting)
        return GreedyBySlot()
    return BestLength(GreedyBySlot(), *_scenario(setting))


def ranked_plan(click_model: str, setting: Setting) -> Planner:
    """Return the planner of a ranked bandit, which has one model for each slot: greedy by slot, as in its paper."""
    checked(setting.feedback or click_model, setting, ("revenue", "amount", "satisfied"))
    return GreedyBySlot()


def matching_plan(setting: Setting, *, link: Link | None = None) -> Planner:
    """Return the planner for scores by slot whose outcomes are independent: a maximum-weight matching.

    Args:
        setting: its objective and slot weights.
        link: of scores that are amounts or counts; None where scores are log-odds of clicks.
    """
    name = setting.feedback or "semi-bandit"
    if name in INDEPENDENT:
        refused = ("amount",) if link is None else ("any-click", "clicks", "satisfied")
        objective = checked(name, setting, refused, "" if link is None else f" and the link '{link.name}'")
    else:  # at most one click counts, whatever its slot
        checked(name, setting, ("revenue", "amount", "satisfied"))
        objective = AnyClick()
    weights = setting.slot_weights
    if weights is not None:
        weights = np.asarray(weights, dtype=np.float64)
        if weights.shape != (setting.slots,) or not (np.isfinite(weights) & (weights >= 0.0)).all():
            accepted = f"{setting.slots} numbers of at least 0, one for each slot"
            raise InvalidInput("slot_weights", weights.tolist(), accepted)
    return Assignment(objective, link=link, weights=weights)


def choice_plan(setting: Setting, *, by_pairs: bool) -> Planner:
    """Return the planner for scores by slot under choice: weights of pairs, or products of bias and attraction."""
    objective = checked("choice", setting)
    if objective.name != "revenue":
        return Assignment(Amount())
    return ChoiceMatching(objective) if by_pairs else ChoiceRevenue(objective)


def by_weight(weight: FloatArray | None) -> Planner:
    """Return the planner that puts the k-th largest score into the slot with the k-th largest weight [K]."""
    return TopK() if weight is None or _falls(weight) else BySlotBias(weight)


def checked(name: str, setting: Setting, refused: tuple[str, ...] = (), but: str = "") -> Objective:
    """Return the objective, or refuse one for which no planner is exact under this click model."""
    if name not in ACCEPTED:
        raise NoPlanner(f"no planner is known for the click model '{name}'; accepted: {', '.join(ACCEPTED)}.")
    objective, accepted = setting.objective, [o for o in ACCEPTED[name] if o not in refused]
    if objective.name not in accepted:
        other = "; amounts need params.feedback 'semi-bandit' or 'position-based'" if objective.name == "amount" else ""
        raise NoPlanner(
            f"the click model '{name}'{but} has no planner for the objective '{objective.name}'; "
            f"accepted: {', '.join(accepted)}{other}."
        )
    return objective


def _falls(weight: FloatArray) -> bool:
    return bool((np.diff(weight) <= 0.0).all())


def _termination(setting: Setting) -> FloatArray:
    """Return the termination probabilities [K], or refuse."""
    if setting.termination is None:
        raise NoPlanner(
            "the objective 'satisfied' needs termination, the probability that a visitor leaves satisfied after a "
            "click in each slot; give it, or choose the objective any-click."
        )
    termination = np.asarray(setting.termination, dtype=np.float64)
    if termination.shape != (setting.slots,) or not ((termination >= 0.0) & (termination <= 1.0)).all():
        accepted = f"{setting.slots} numbers in [0, 1], one for each slot"
        raise InvalidInput("termination", termination.tolist(), accepted)
    return termination


def _scenario(setting: Setting) -> tuple[FloatArray, FloatArray]:
    """Return rewards and losses, or refuse those for which the order by attraction is not optimal."""
    rewards, losses = setting.scenario()
    check_rewards(rewards, losses)
    return rewards, losses


def _refuse_rewards(name: str, setting: Setting) -> None:
    """Refuse rewards and losses by position where prices or another click model determine the value of a list."""
    if setting.rewards is not None or setting.losses is not None:
        raise NoPlanner(
            f"rewards and losses by position have no planner under the click model '{name}' with the objective "
            f"'{setting.objective.name}'; accepted: the click model 'cascade' with the objective any-click."
        )
