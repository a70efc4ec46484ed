"""Read worlds from the fields of specs."""

from rankloop.worlds.specs.kinds import KINDS, from_spec

__all__ = ["KINDS", "from_spec"]
