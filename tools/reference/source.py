"""What only the source says: comments at fields, and the environment variables that modules read."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "rankloop"
VARIABLE = re.compile(r"^RANKLOOP_[A-Z][A-Z_]*$")


def field_comments(kind: type) -> dict[str, str]:
    """Return the comment that ends the line of each annotated field, also of fields that a base class defines."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.startswith("rankloop"):
            found |= _comments(textwrap.dedent(inspect.getsource(base)))
    return found


def _comments(source: str) -> dict[str, str]:
    lines = source.split("\n")
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    found = {}
    for node in definition.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            rest = lines[(node.end_lineno or 1) - 1].encode()[node.end_col_offset or 0 :].decode()
            comment = re.search(r"#\s*(.*)$", rest)
            if comment and not comment[1].startswith(("noqa", "type:")):
                found[node.target.id] = re.sub(r"\s*#\s*(noqa|type:).*$", "", comment[1]).strip()
    return found


def environment_variables(root: Path = PACKAGE) -> dict[str, list[str]]:
    """Return every variable RANKLOOP_… that the package names as a whole string, with the modules that name it."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        module = ".".join(["rankloop", *path.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
        for name in sorted(set(_constants(path))):
            found.setdefault(name, []).append(module)
    return dict(sorted(found.items()))


def _constants(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and VARIABLE.match(node.value):
            yield node.value
