"""Simulated visitors who send the requests of any world to a running service over HTTP."""

from rankloop.visitors.audience import Audience, VisitorBehaviour
from rankloop.visitors.ranker_fit import fit
from rankloop.visitors.run import Run, VisitPlan
from rankloop.visitors.world_choice import load_world

__all__ = ["Audience", "Run", "VisitPlan", "VisitorBehaviour", "fit", "load_world"]
