"""Worlds: simulated visitors whose truth is known."""

from rankloop.worlds.base import Instance, Visit, World
from rankloop.worlds.click_world import ClickWorld
from rankloop.worlds.drifting import DriftingWorld
from rankloop.worlds.kinds import KINDS, from_spec
from rankloop.worlds.matrix import MatrixWorld

__all__ = ["KINDS", "ClickWorld", "DriftingWorld", "Instance", "MatrixWorld", "Visit", "World", "from_spec"]
