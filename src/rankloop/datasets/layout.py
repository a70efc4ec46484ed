"""Find the files of a data set in a folder tree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankloop.datasets.svmlight import first_width

MAX_FOLDER_DEPTH = 3
"""Levels of folders below the root that are searched."""

SUFFIXES = ("", ".gz")


@dataclass(frozen=True)
class FileLayout:
    """Files by role, as patterns of path ends with optional .gz; the others are searched relative to the first."""

    files: Mapping[str, str]
    optional: tuple[str, ...] = ()  # roles that may be missing
    under: str = ""  # a word in the path, case-insensitive
    width: int | None = None  # number of features in the first line of the first file

    def find(self, tree: Sequence[Path]) -> dict[str, Path] | None:
        """Return role -> path for the first folder of the tree that has all files; None if there is none."""
        main = next(iter(self.files.values()))
        for path in tree:
            if self._is_main(path, main):
                base = path.parents[main.count("/")]
                matches = {role: _first(tree, base, pattern) for role, pattern in self.files.items()}
                found = {role: match for role, match in matches.items() if match is not None}
                if all(role in found or role in self.optional for role in self.files):
                    return found
        return None

    def _is_main(self, path: Path, pattern: str) -> bool:
        named = _ends(path, pattern) and self.under in str(path).lower()
        return named and (self.width is None or first_width(path) == self.width)


def walk(root: Path) -> list[Path]:
    """Return all files at most MAX_FOLDER_DEPTH folders below the root, sorted by name, following links."""
    found = []
    for folder, folders, files in os.walk(root, followlinks=True):
        below = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(f for f in folders if below < MAX_FOLDER_DEPTH and not f.startswith("."))
        found += [Path(folder) / file for file in sorted(files)]
    return found


def _ends(path: Path, pattern: str) -> bool:
    return any(path.match(pattern + suffix) for suffix in SUFFIXES)


def _first(tree: Sequence[Path], base: Path, pattern: str) -> Path | None:
    depth = pattern.count("/")
    return next((p for p in tree if len(p.parents) > depth and p.parents[depth] == base and _ends(p, pattern)), None)
