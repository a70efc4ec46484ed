"""Worlds: simulated visitors with known click probabilities."""

from rankloop.worlds.base import Instance, Visit, World
from rankloop.worlds.click_world import ClickWorld
from rankloop.worlds.drifting import DriftingWorld
from rankloop.worlds.matrix import MatrixWorld
from rankloop.worlds.specs import KINDS, from_spec

__all__ = ["KINDS", "ClickWorld", "DriftingWorld", "Instance", "MatrixWorld", "Visit", "World", "from_spec"]
