"""Count the places in the package that branch on the type of a value, and the signatures that contain `Any`.

python -m tools.type_decisions                   # every place with file and line, and the totals
python -m tools.type_decisions --quiet --max 15  # the totals; fail if the production half has more than 15
python -m tools.type_decisions --max-any 40      # fail if more than 40 signatures contain `Any`

Counted are `isinstance` and `issubclass`, `hasattr`, `getattr` with a default, comparisons of `type(x)`, `match`
statements with class patterns, dictionaries keyed by classes, lookups by `type(x)`, and `singledispatch`. The package
`schema/` is excluded, because it validates untyped input. A signature contains `Any` if the annotation of a parameter
or of the result does, also inside another type, in quotes, or under another name that the module gives it.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXCLUDED = {"schema"}
LABORATORY = {"worlds", "simulator", "experiments", "datasets", "math"}
EDGES = {"types.py", "request_arrays.py", "state.py", "validate.py", "errors.py", "arrays.py", "files.py"}
HALVES = ("production", "laboratory", "edges")
"""The production half is everything that the sets above do not name, so that a new folder belongs to it."""
CAP_WORDS = re.compile(r"_?[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*")
LOOKUPS = {"get", "pop", "setdefault"}


@dataclass(frozen=True, order=True)
class Finding:
    """A place in the source that is counted."""

    path: str
    line: int
    kind: str
    code: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.code}"


def half_of(path: Path) -> str | None:
    """Return the half to which a file belongs, by its path below the package; None if it is excluded."""
    first = path.parts[0]
    if first in EXCLUDED:
        return None
    return "laboratory" if first in LABORATORY else "edges" if first in EDGES else "production"


def decisions(source: str, path: str = "<source>") -> list[Finding]:
    """Return all type decisions of a module, ordered by line."""
    tree = ast.parse(source)
    found = []
    for node, names in _walk(tree, Names(frozenset(_classes(tree)))):
        kind = _kind(node, names)
        if kind is not None:
            code = ast.unparse(node).splitlines()[0]
            at: Any = node  # an expression or a statement, which has a position
            found.append((at.lineno, at.col_offset, kind, code if len(code) <= 90 else f"{code[:89]}…"))
    return [Finding(path, line, kind, code) for line, _, kind, code in sorted(found)]


@dataclass(frozen=True)
class Names:
    """The names of a scope that stand for classes, or for types of values (`kind = type(x)`)."""

    classes: frozenset[str]
    types: frozenset[str] = frozenset()

    def is_type(self, node: ast.expr) -> bool:
        """Return whether an expression is `type(x)`, `x.__class__`, or a name for one of them."""
        match node:
            case ast.Call(func=ast.Name(id="type"), args=[_], keywords=[]) | ast.Attribute(attr="__class__"):
                return True
            case ast.Name(id=name):
                return name in self.types
        return False

    def is_class(self, node: ast.expr) -> bool:
        """Return whether an expression is a class that the module defines or imports, or a type."""
        match node:
            case ast.Name(id=name) if name in self.classes:
                return True
            case ast.Attribute(attr=name) if CAP_WORDS.fullmatch(name):
                return True
        return self.is_type(node)

    def within(self, scope: ast.AST) -> Names:
        """Return the names inside a function, which may assign a type to a local name."""
        assigned: set[str] = set()
        for node in ast.walk(scope):
            match node:
                case ast.Assign(targets=[target], value=value) | ast.NamedExpr(target=target, value=value):
                    assigned.update(name for name, one in _pairs(target, value) if self.is_type(one))
        return Names(self.classes, self.types | assigned)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield names with the expressions assigned to them, also from tuples."""
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            for one, other in zip(targets, values, strict=True):
                yield from _pairs(one, other)


def _classes(tree: ast.Module) -> Iterator[str]:
    """Yield the names in CapWords that a module defines as a class or imports."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (name for one in names if CAP_WORDS.fullmatch(name := one.asname or one.name))


def _walk(node: ast.AST, names: Names) -> Iterator[tuple[ast.AST, Names]]:
    """Yield every node below a node, with the names in its scope."""
    for child in ast.iter_child_nodes(node):
        inside = names.within(child) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else names
        yield child, inside
        yield from _walk(child, inside)


def _kind(node: ast.AST, names: Names) -> str | None:
    """Return the kind of type decision that a node is; None if it is none."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass" | "hasattr" as name)):
            return name
        case ast.Call(func=ast.Name(id="getattr"), args=[_, _, _]):
            return "getattr with a default"
        case ast.Call(func=ast.Attribute(attr=name), args=[key, *_]) if name in LOOKUPS and names.is_type(key):
            return "lookup by type"
        case ast.Subscript(slice=key) if names.is_type(key):
            return "lookup by type"
        case ast.Compare(left=left, comparators=others) if any(names.is_type(_base(one)) for one in (left, *others)):
            return "comparison of type"
        case ast.Match(cases=cases) if any(isinstance(p, ast.MatchClass) for c in cases for p in ast.walk(c.pattern)):
            return "match on classes"
        case ast.Dict(keys=keys) if any(key is not None and names.is_class(key) for key in keys):
            return "dictionary by class"
        case ast.DictComp(key=key) if names.is_class(key):
            return "dictionary by class"
        case ast.Name(id="singledispatch" | "singledispatchmethod" as name, ctx=ast.Load()):
            return name
        case ast.Attribute(attr="singledispatch" | "singledispatchmethod" as name):
            return name
    return None


def signatures_with_any(source: str, path: str = "<source>") -> list[Finding]:
    """Return all functions of a module whose signature contains `Any`, ordered by line."""
    tree = ast.parse(source)
    names = frozenset(_names_of_any(tree))
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(args=given, returns=returns) | ast.AsyncFunctionDef(args=given, returns=returns):
                arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
                annotations = [returns, *(one.annotation for one in arguments if one is not None)]
                if any(one is not None and _has_any(one, names) for one in annotations):
                    found.append(Finding(path, node.lineno, "Any in a signature", node.name))
    return sorted(found)


def _names_of_any(tree: ast.Module) -> Iterator[str]:
    """Yield `Any` and the other names that a module gives it."""
    yield "Any"
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="typing", names=names):
                yield from (one.asname for one in names if one.name == "Any" and one.asname is not None)
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id="Any") | ast.Attribute(attr="Any"))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Name(id="Any") | ast.Attribute(attr="Any"))
            ):
                yield name


def _has_any(annotation: ast.expr, names: frozenset[str]) -> bool:
    for node in ast.walk(annotation):
        match node:
            case ast.Name(id=name) if name in names:
                return True
            case ast.Attribute(value=ast.Name(id="typing"), attr="Any"):
                return True
            case ast.Constant(value=str(text)) if names & set(re.findall(r"\w+", text)):
                return True
    return False


def _base(node: ast.expr) -> ast.expr:
    """Return `type(x)` of `type(x).method`: comparing an attribute of a class is comparing the class."""
    while isinstance(node, ast.Attribute) and node.attr != "__class__":
        node = node.value
    return node


def package(root: Path) -> dict[str, list[Finding]]:
    """Return the type decisions of every module below a folder, by half."""
    found: dict[str, list[Finding]] = {half: [] for half in HALVES}
    for path in sorted(root.rglob("*.py")):
        half = half_of(path.relative_to(root))
        if half is not None:
            found[half] += decisions(path.read_text(encoding="utf-8"), _name(path))
    return found


def package_with_any(root: Path) -> list[Finding]:
    """Return the signatures with `Any` of every module below a folder, including the schema."""
    paths = sorted(root.rglob("*.py"))
    return [one for path in paths for one in signatures_with_any(path.read_text(encoding="utf-8"), _name(path))]


def _name(path: Path) -> str:
    return (path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix()


def totals(found: dict[str, list[Finding]]) -> Iterator[str]:
    """Yield one line per half: the number of type decisions, and their kinds."""
    for half, those in found.items():
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(one.kind for one in those).most_common())
        yield f"{half}: {len(those)} type decisions{f' ({kinds})' if kinds else ''}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts; return 1 if one exceeds its limit."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.type_decisions", description="Count type decisions and signatures with Any."
    )
    parser.add_argument(
        "--max", type=int, metavar="N", help="Fail if the production half has more than N type decisions."
    )
    parser.add_argument("--max-any", type=int, metavar="N", help="Fail if more than N signatures contain Any.")
    parser.add_argument("--quiet", action="store_true", help="Print only the totals.")
    parser.add_argument("--root", type=Path, default=ROOT / "src" / "rankloop", help="Folder of the package.")
    given = parser.parse_args(arguments)
    found, vague = package(given.root), package_with_any(given.root)
    if not given.quiet:
        for those in (*found.values(), vague):
            print(*those, sep="\n", end="\n\n" if those else "")
    print(*totals(found), f"signatures with Any: {len(vague)}", sep="\n")
    count, wrong = len(found["production"]), []
    if given.max is not None and count > given.max:
        wrong.append(
            f"the production half has {count} type decisions; accepted: at most {given.max}. Give the part a "
            "method instead"
        )
    if given.max_any is not None and len(vague) > given.max_any:
        wrong.append(
            f"{len(vague)} signatures contain Any; accepted: at most {given.max_any}. Name the type, or `object` "
            "where the value is only passed on"
        )
    for sentence in wrong:
        print(f"{sentence}; `python -m tools.type_decisions` lists them.", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
