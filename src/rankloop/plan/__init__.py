"""Planners: how scores become a list."""

from rankloop.plan.base import Plan, Planner
from rankloop.plan.choice import ChoiceMatching, ChoiceRevenue
from rankloop.plan.greedy import GreedyBySlot
from rankloop.plan.objective_planner import (
    NoPlanner,
    choice_plan,
    coverage_plan,
    matching_plan,
    net_reward_plan,
    plan_for,
    ranked_plan,
)
from rankloop.plan.revenue import ByRevenue, CascadeRevenue
from rankloop.plan.slots import Assignment, BestLength, BySlotBias, check_rewards
from rankloop.plan.top_k import TopK, top_k
from rankloop.plan.uniform import Uniform

__all__ = [
    "Assignment",
    "BestLength",
    "ByRevenue",
    "BySlotBias",
    "CascadeRevenue",
    "ChoiceMatching",
    "ChoiceRevenue",
    "GreedyBySlot",
    "NoPlanner",
    "Plan",
    "Planner",
    "TopK",
    "Uniform",
    "check_rewards",
    "choice_plan",
    "coverage_plan",
    "matching_plan",
    "net_reward_plan",
    "plan_for",
    "ranked_plan",
    "top_k",
]
