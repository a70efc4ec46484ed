"""What a kept result depends on, besides its own parameters."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

NOT_PLAYED = ("cli", "connection", "engine", "experiments", "hosting", "schema", "store", "checks.py", "version.py")
"""Parts of the package that no round runs through; of the simulator only PLAYED is."""
PLAYED = ("chunk.py", "streams.py")


@cache
def code() -> str:
    """A hash of all code that a simulated round runs through: with other code, nothing kept is taken."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in NOT_PLAYED and (name.parts[0] != "simulator" or name.name in PLAYED):
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
