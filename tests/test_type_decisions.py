"""The tool that counts type decisions finds each kind of them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.type_decisions import decisions, half_of, main, package, package_with_any, signatures_with_any


def kinds(source: str) -> list[str]:
    return [found.kind for found in decisions(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("isinstance(x, int)", ["isinstance"]),
        ("a = isinstance(x, A) or isinstance(x, B)", ["isinstance", "isinstance"]),
        ("try:\n    f()\nexcept Exception as e:\n    isinstance(e, OSError)", ["isinstance"]),
        ("issubclass(A, B)", ["issubclass"]),
        ("hasattr(x, 'mean')", ["hasattr"]),
        ("getattr(x, 'mean', None)", ["getattr with a default"]),
        ("getattr(x, 'a', getattr(x, 'b', 0))", ["getattr with a default"] * 2),
        ("type(x) is A", ["comparison of type"]),
        ("A is not type(x)", ["comparison of type"]),
        ("type(x) == A", ["comparison of type"]),
        ("type(x) in (A, B)", ["comparison of type"]),
        ("type(x) not in KNOWN", ["comparison of type"]),
        ("x.__class__ is A", ["comparison of type"]),
        ("type(x).check is not A.check", ["comparison of type"]),
        ("type(x).__name__ == 'A'", ["comparison of type"]),
        ("match x:\n    case A():\n        pass\n    case B(y=C()):\n        pass", ["match on classes"]),
        ("match x:\n    case [A(), *_]:\n        pass", ["match on classes"]),
        ("class A: ...\nT = {A: 1, 'b': 2}", ["dictionary by class"]),
        ("from rankloop.plan import TopK\nT = {TopK: 1}", ["dictionary by class"]),
        ("from rankloop.plan import TopK as Best\nT = {**other, Best: 1}", ["dictionary by class"]),
        ("from rankloop import plan\nT = {plan.TopK: 1}", ["dictionary by class"]),
        ("T = {type(x): x}", ["dictionary by class"]),
        ("T = {type(x): x for x in them}", ["dictionary by class"]),
        ("T[type(x)]", ["lookup by type"]),
        ("T.get(type(x), None)", ["lookup by type"]),
        ("T[x.__class__](x)", ["lookup by type"]),
        (
            "def f(x):\n    kind, n = type(x), 2\n    return kind is A or T[kind]",
            ["comparison of type", "lookup by type"],
        ),
        ("def f(x):\n    return (kind := type(x)) and kind in T", ["comparison of type"]),
        ("from functools import singledispatch\n@singledispatch\ndef f(x): ...", ["singledispatch"]),
        (
            "import functools\nclass A:\n    @functools.singledispatchmethod\n    def f(self, x): ...",
            ["singledispatchmethod"],
        ),
    ],
)
def test_a_decision_is_found(source: str, expected: list[str]) -> None:
    assert kinds(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "getattr(x, 'mean')",
        "f'{type(x).__name__} is no policy'",
        "return_ = type(x)(1)",
        "class A:\n    def __reduce__(self):\n        return type(self), (1,)",
        "match x:\n    case 'a' | 1:\n        pass\n    case [a, *_]:\n        pass\n    case {'k': v}:\n        pass",
        "EMPTY = -1\nT = {EMPTY: 1, 'TopK': 2, int: 3}",
        "from rankloop.types import EMPTY, K\nT = {EMPTY: 1, K: 2}",
        "from rankloop.claims import Verdict\nT = {Verdict.HOLDS: 1, f(x): 2}",
        "T: dict[type, int] = {}\ndef f(x: type[int]) -> None: ...",
        "def f(x):\n    kind = type(x)\n\ndef g(kind):\n    return kind is A",
        "# isinstance(x, A)\n'isinstance(x, A)'",
    ],
)
def test_nothing_else_is_found(source: str) -> None:
    assert kinds(source) == []


def test_each_is_named_with_file_and_line() -> None:
    (found,) = decisions("def f(x):\n\n    return hasattr(x, 'mean')\n", "src/rankloop/a.py")
    assert str(found) == "src/rankloop/a.py:3: hasattr: hasattr(x, 'mean')"


def test_every_file_belongs_to_a_half_and_a_new_folder_to_production() -> None:
    for name in ("engine/x.py", "serving/x.py", "service/a/x.py", "policy.py", "belief/x.py", "new/x.py", "new.py"):
        assert half_of(Path(name)) == "production"
    for name in ("worlds/x.py", "simulator/x.py", "datasets/x.py", "math/x.py"):
        assert half_of(Path(name)) == "laboratory"
    assert {half_of(Path(f"{name}.py")) for name in ("types", "state", "validate", "errors", "arrays", "files")} == {
        "edges"
    }
    assert half_of(Path("engine/types.py")) == "production"
    assert half_of(Path("schema/item.py")) is None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A package with two decisions of production, one of the laboratory, one at the edges, one in the schema."""
    for name, count in {"engine/a.py": 2, "worlds/b.py": 1, "types.py": 1, "schema/c.py": 1}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("isinstance(x, int)\n" * count)
    return tmp_path


def test_a_package_is_counted_by_half(root: Path) -> None:
    assert {half: len(found) for half, found in package(root).items()} == {
        "production": 2,
        "laboratory": 1,
        "edges": 1,
    }


@pytest.mark.parametrize(("most", "status"), [(1, 1), (2, 0), (3, 0)])
def test_more_than_accepted_fails_with_a_sentence(
    most: int, status: int, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--root", str(root), "--max", str(most)]) == status
    out, err = capsys.readouterr()
    assert "engine/a.py:2: isinstance: isinstance(x, int)" in out
    assert "production: 2 type decisions (2 isinstance)" in out
    assert err.startswith("the production half has 2 type decisions; accepted: at most 1." if status else "")
    assert bool(err) == bool(status)


def test_quiet_prints_the_totals_only(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(root), "--quiet"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: Any) -> None: ...",
        "def f(x, /, y: Any) -> None: ...",
        "def f(*, x: Any = None) -> None: ...",
        "def f(*x: Any) -> None: ...",
        "def f(**x: Any) -> None: ...",
        "async def f() -> dict[str, Any]: ...",
        "class A:\n    def f(self) -> Callable[[Any], int]: ...",
        "def f():\n    def g(x: list[Any]): ...",
        "import typing\ndef f(x: typing.Any): ...",
        "def f(x: 'dict[str, Any]'): ...",
        "from typing import Any as Whatever\ndef f(x: Whatever): ...",
        "Json = Any\ndef f(x: Json): ...",
        "Json: TypeAlias = Any\ndef f(x: list[Json]): ...",
    ],
)
def test_a_signature_with_any_is_found(source: str) -> None:
    assert [found.kind for found in signatures_with_any(source)] == ["Any in a signature"]


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: int) -> None:\n    y: Any = x",
        "x: dict[str, Any] = {}",
        "def f(x: AnyClick, y: 'AnyClick') -> Literal['any']: ...",
        "def f(x=Any): ...",
        "@dataclass\nclass A:\n    x: Any",
    ],
)
def test_other_uses_of_any_are_not(source: str) -> None:
    assert signatures_with_any(source) == []


@pytest.mark.parametrize(("most", "status"), [(1, 1), (2, 0)])
def test_more_signatures_with_any_than_accepted_fail_with_a_sentence(
    most: int, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each counts once however often it says it, in the schema too."""
    (tmp_path / "schema").mkdir()
    for name in ("a.py", "schema/b.py"):
        (tmp_path / name).write_text("def f(x: Any, y: Any) -> Any: ...\n")
    assert [found.line for found in package_with_any(tmp_path)] == [1, 1]
    assert main(["--root", str(tmp_path), "--max-any", str(most)]) == status
    out, err = capsys.readouterr()
    assert "a.py:1: Any in a signature: f" in out
    assert "signatures with Any: 2" in out
    assert err.startswith("2 signatures contain Any; accepted: at most 1." if status else "")
    assert bool(err) == bool(status)
