"""Planners: how scores become a list."""

from rankloop.plan.base import Plan, Planner
from rankloop.plan.greedy import GreedyBySlot
from rankloop.plan.objective_planner import plan_for
from rankloop.plan.slots import Assignment, BestLength, BySlotBias
from rankloop.plan.top_k import TopK, top_k
from rankloop.plan.uniform import Uniform

__all__ = [
    "Assignment",
    "BestLength",
    "BySlotBias",
    "GreedyBySlot",
    "Plan",
    "Planner",
    "TopK",
    "Uniform",
    "plan_for",
    "top_k",
]
