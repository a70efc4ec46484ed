"""Planners: how do scores become a list?"""

from rankloop.plan.base import Planner
from rankloop.plan.greedy import GreedyBySlot
from rankloop.plan.top_k import TopK, top_k
from rankloop.plan.uniform import Uniform

__all__ = ["GreedyBySlot", "Planner", "TopK", "Uniform", "top_k"]
