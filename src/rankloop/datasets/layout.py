"""Where the files of a data set lie in a folder tree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankloop.datasets.svmlight import first_width

MAX_FOLDER_DEPTH = 3
"""How many folders below the root are looked into."""

SUFFIXES = ("", ".gz")


@dataclass(frozen=True)
class FileLayout:
    """Files by role, as patterns of path ends; .gz may follow each. The first is looked for, the others beside it."""

    files: Mapping[str, str]
    optional: tuple[str, ...] = ()  # roles that may be missing
    under: str = ""  # a word that the path has, in upper or lower case
    width: int | None = None  # how many features the first line of the first file has

    def find(self, tree: Sequence[Path]) -> dict[str, Path] | None:
        """Role -> path, in the first place of the tree that has them all."""
        main = next(iter(self.files.values()))
        for path in tree:
            if self._is_main(path, main):
                base = path.parents[main.count("/")]
                places = {role: _first(tree, base, pattern) for role, pattern in self.files.items()}
                found = {role: place for role, place in places.items() if place is not None}
                if all(role in found or role in self.optional for role in self.files):
                    return found
        return None

    def _is_main(self, path: Path, pattern: str) -> bool:
        named = _ends(path, pattern) and self.under in str(path).lower()
        return named and (self.width is None or first_width(path) == self.width)


def walk(root: Path) -> list[Path]:
    """All files at most DEPTH folders below the root, in order of their names, links followed."""
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
