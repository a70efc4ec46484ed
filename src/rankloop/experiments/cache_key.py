"""The code part of the cache key of stored results: a hash of all code that a simulated round runs through.

Which code that is follows from the imports: the modules that play a chunk, and every module of the package that they
import, directly or indirectly. Nothing is executed to find out. Comments, docstrings and formatting do not count.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent
ROOTS = ("rankloop.simulator.chunk", "rankloop.simulator.streams", "rankloop.worlds", "rankloop.catalogue")
"""The modules that play a chunk: the round itself, its random streams, its world and its policy."""

METADATA = frozenset({"__all__", "__version__"})
"""Assignments that describe a module; like a docstring, they do not change what it computes."""

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a syntax node that hold statements, or nodes that hold statements."""


@cache
def code_hash() -> str:
    """Return a hash of the code that a simulated round of this installation runs through."""
    return hash_modules(PACKAGE)


def hash_modules(package: Path) -> str:
    """Return a hash of the names and the code of all modules that a round runs through.

    Args:
        package: the folder of the package `rankloop`.
    """
    digest = hashlib.sha256()
    for name, code in sorted(imported_modules(package).items()):
        digest.update(f"{name}\0{code}\0".encode())
    return digest.hexdigest()[:16]


def imported_modules(package: Path) -> dict[str, str]:
    """Return the code of ROOTS and of every module of the package that they import, by the module's name.

    Imports inside functions count; imports under `if TYPE_CHECKING` do not. Importing a module also runs the `__init__`
    of the packages above it. Such an `__init__` counts only if a name is imported from it: the others only re-export.

    Args:
        package: the folder of the package `rankloop`.
    """
    modules: dict[str, str] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in modules:
            path = _path(package, name)
            if path is None:
                raise FileNotFoundError(f"{package} has no module {name}")
            tree = ast.parse(path.read_bytes())
            imports: list[ast.Import | ast.ImportFrom] = []
            _strip([tree], imports)
            modules[name] = ast.dump(tree)
            parent = name if path.name == "__init__.py" else name.rpartition(".")[0]
            waiting += [target for node in imports for target in _targets(package, parent, node)]
    return modules


def _path(package: Path, name: str) -> Path | None:
    """Return the file of a module; None where the package has no such module."""
    first, *parts = name.split(".")
    path = package.joinpath(*parts)
    candidates = (path.with_suffix(".py"), path / "__init__.py") if parts else (path / "__init__.py",)
    return next((file for file in candidates if first == "rankloop" and file.is_file()), None)


def _targets(package: Path, parent: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """Yield the modules of the package that an import statement loads; `parent` is the package that contains it."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if _path(package, alias.name))
        return
    above = ".".join(parent.split(".")[: len(parent.split(".")) - node.level + 1]) if node.level else ""
    module = ".".join(filter(None, (above, node.module)))
    if _path(package, module):
        for alias in node.names:
            submodule = f"{module}.{alias.name}"
            yield submodule if _path(package, submodule) else module


def _strip(block: Sequence[ast.AST], imports: list[ast.Import | ast.ImportFrom]) -> None:
    """Remove statements that compute nothing, and collect the import statements that are left."""
    for node in block:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
        for name in BLOCKS:
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                inner[:] = [statement for statement in inner if not _computes_nothing(statement)]
                _strip(inner, imports)


def _computes_nothing(statement: ast.AST) -> bool:
    """Return whether a statement is a docstring, metadata or for type checkers only."""
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name in METADATA
        case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=[]):
            return True
    return False
