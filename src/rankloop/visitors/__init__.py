"""Simulated visitors of a running service: any world of the library, played over HTTP."""

from rankloop.visitors.audience import Audience, Habits
from rankloop.visitors.ranker_fit import fit
from rankloop.visitors.run import Run, VisitPlan
from rankloop.visitors.world_choice import load_world

__all__ = ["Audience", "Habits", "Run", "VisitPlan", "fit", "load_world"]
