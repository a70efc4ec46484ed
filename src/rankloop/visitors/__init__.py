"""Simulated visitors of a running service: any world of the library, played over HTTP."""

from rankloop.visitors.audience import Audience, Habits
from rankloop.visitors.fitting import fit
from rankloop.visitors.run import Plan, Run
from rankloop.visitors.which import load_world

__all__ = ["Audience", "Habits", "Plan", "Run", "fit", "load_world"]
