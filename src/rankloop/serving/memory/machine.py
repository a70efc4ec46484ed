"""The memory that this process may use: that of the machine, or less if a control group limits it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

ROOT = Path("/")


@lru_cache
def machine_memory(root: Path = ROOT) -> int:
    """Return the bytes of memory that this process may use; the largest integer where the system does not say.

    Args:
        root: the folder that contains `proc` and `sys`, another one in tests.
    """
    return min([_physical_memory(), *_control_group_limits(root)])


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on this system
        return sys.maxsize


def _control_group_limits(root: Path) -> Iterator[int]:
    """Yield the limits of the control groups of this process and of the groups around them, of both versions."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            yield from _limits(root / "sys/fs/cgroup", path, "memory.max")
        elif "memory" in controllers.split(","):
            yield from _limits(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")


def _limits(mount: Path, path: str, name: str) -> Iterator[int]:
    """Yield the limits of a group and of those around it; in a container, the mount itself may be the group."""
    group = Path(path.lstrip("/"))
    for folder in (group, *group.parents):
        text = _read(mount / folder / name).strip()
        if text.isdecimal():  # not "max"
            yield int(text)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
