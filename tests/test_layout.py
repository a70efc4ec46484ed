"""The shape of the package: small folders, small modules, one meaning for every class name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "rankloop"
MAX_MODULES_IN_FOLDER = 24
MAX_LINES_IN_MODULE = 400


def modules(root: Path = PACKAGE) -> list[Path]:
    return sorted(path for path in root.rglob("*.py") if "__pycache__" not in path.parts)


def large_folders(root: Path) -> list[str]:
    sizes: dict[Path, int] = defaultdict(int)
    for path in modules(root):
        sizes[path.parent] += path.name != "__init__.py"
    return [f"{folder.relative_to(root)}: {size}" for folder, size in sizes.items() if size > MAX_MODULES_IN_FOLDER]


def long_modules(root: Path) -> list[str]:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules(root)}
    return [f"{path.relative_to(root)}: {n}" for path, n in lines.items() if n > MAX_LINES_IN_MODULE]


def class_names(tree: ast.AST) -> Iterator[str]:
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def repeated_classes(root: Path) -> list[str]:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in modules(root):
        for name in class_names(ast.parse(path.read_text(encoding="utf-8"))):
            homes[name].append(path.relative_to(root).as_posix())
    return [f"{name}: {', '.join(places)}" for name, places in sorted(homes.items()) if len(places) > 1]


def test_no_folder_has_too_many_modules() -> None:
    assert large_folders(PACKAGE) == []


def test_no_module_is_too_long() -> None:
    assert long_modules(PACKAGE) == []


def test_every_class_name_has_one_meaning() -> None:
    assert repeated_classes(PACKAGE) == []


@pytest.mark.parametrize(
    ("files", "check", "expected"),
    [
        ({f"a/m{n}.py": "" for n in range(25)}, large_folders, ["a: 25"]),
        ({"long.py": "x = 1\n" * 401}, long_modules, ["long.py: 401"]),
        (
            {"a.py": "class _Same: ...", "b/c.py": "def f():\n    class _Same: ..."},
            repeated_classes,
            ["_Same: a.py, b/c.py"],
        ),
    ],
)
def test_a_violation_is_reported(
    files: dict[str, str], check: Callable[[Path], list[str]], expected: list[str], tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert check(tmp_path) == expected
