"""The cache key of stored results changes with the code that a simulated round runs through, and with nothing else."""

from __future__ import annotations

import ast
import shutil
import sys
import time
from pathlib import Path
from types import FrameType

import pytest

from rankloop.experiments import cache_key
from rankloop.experiments.cache_key import PACKAGE, code_hash, hash_modules, imported_modules
from rankloop.simulator import Spec
from rankloop.simulator.api import plays
from rankloop.simulator.chunk import play, prepare_world
from small_worlds import CASCADE, DEPENDENT

PRODUCTION = (
    *("analytics", "checks", "cli", "client", "connection", "eventlog", "experiments", "hosting", "reports"),
    *("service", "serving", "visitors"),
)
MODULES = imported_modules(PACKAGE)
FILES = {
    name: next(path for path in (PACKAGE / f"{tail}.py", PACKAGE / tail / "__init__.py") if path.is_file())
    for name in MODULES
    for tail in [name.removeprefix("rankloop.").replace(".", "/")]
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that a test may change."""
    return Path(shutil.copytree(PACKAGE, tmp_path / "rankloop", ignore=shutil.ignore_patterns("__pycache__")))


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_the_closure_contains_all_that_a_round_consists_of() -> None:
    parts = ("belief", "catalogue", "design", "explore", "math", "plan", "worlds", "wrappers")
    for part in parts:
        assert any(name.startswith(f"rankloop.{part}") for name in MODULES), part
    for name in ("belief.linear", "plan.top_k", "math.kernels", "worlds.rewards", "worlds.drifting", "catalogue.prior"):
        assert f"rankloop.{name}" in MODULES
    for name in ("policy", "state", "feedback", "types", "simulator.chunk", "simulator.streams", "datasets.prepared"):
        assert f"rankloop.{name}" in MODULES


def test_the_closure_contains_no_production_code() -> None:
    assert "rankloop" not in MODULES
    assert not [name for name in MODULES if name.split(".")[1] in PRODUCTION]
    simulator = {name for name in MODULES if name.startswith("rankloop.simulator")}
    assert simulator == {f"rankloop.simulator.{name}" for name in ("chunk", "policy_spec", "streams")}


def test_packages_above_the_closure_only_import() -> None:
    """Their `__init__` is not hashed, so it must not set anything up; that of `rankloop` loads names lazily."""
    above = {name.rpartition(".")[0] for name in MODULES} - MODULES.keys() - {"rankloop"}
    assert above == {
        f"rankloop.{name}"
        for name in ("datasets", "math", "math.caps", "math.hybrid", "propensity", "schema", "simulator")
    }
    for name in above:
        folder = PACKAGE.joinpath(*name.split(".")[1:])
        tree = ast.parse((folder / "__init__.py").read_bytes())
        code = [statement for statement in tree.body if not isinstance(statement, ast.Import | ast.ImportFrom)]
        for statement in code:
            described = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            assert described or ast.unparse(statement).startswith("__all__ = "), name


@pytest.mark.parametrize("world", [CASCADE, DEPENDENT, {"kind": "choice", "attraction": [1, 0.5], "bias": [1, 0.5]}])
def test_every_function_that_a_round_calls_is_in_the_closure(world: dict[str, object]) -> None:
    """Observed, not derived: imports by name, which the syntax tree does not show, would be found here."""
    policies = ["mnl-bandit", "toprank"] if world["kind"] == "choice" else ["gts", "toprank", "cascade-kl-ucb"]
    spec = Spec.of({"world": world, "policies": policies, "rounds": 20, "replications": 2})
    called: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        called.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        prepared = prepare_world(spec.world, 1)
        for policy, chunk in plays(spec):
            play(prepared, policy, chunk, spec.rounds, 1, lambda t: None)
    finally:
        sys.setprofile(None)
    called -= {sys.modules["rankloop.simulator.api"].__file__ or ""}  # `plays`, called by this test
    own = {Path(name) for name in called if Path(name).is_relative_to(PACKAGE)}
    assert len(own) > 10
    assert own <= set(FILES.values())


def test_comments_docstrings_and_formatting_change_nothing(package: Path) -> None:
    for path in package.rglob("*.py"):
        append(path, '\n\n# A comment.\n"""A description of the line above."""\n')
    chunk = package / "simulator" / "chunk.py"
    text = chunk.read_text(encoding="utf-8")
    shown = "won += gain\n"
    assert shown in text
    chunk.write_text(text.replace(shown, "won += (\n            gain  # reward\n        )\n"), encoding="utf-8")
    version = package / "version.py"
    version.write_text('"""Another release."""\n\n__version__ = "9.9"\n', encoding="utf-8")
    assert hash_modules(package) == code_hash()


def test_code_outside_the_closure_changes_nothing(package: Path) -> None:
    inside = {path.relative_to(PACKAGE) for path in FILES.values()}
    changed = 0
    for path in package.rglob("*.py"):
        if path.relative_to(package) not in inside:
            append(path, "\n\nADDED = 1\n")
            changed += 1
    assert changed > 100
    assert hash_modules(package) == code_hash()


def test_code_in_any_module_of_the_closure_changes_the_key(package: Path) -> None:
    keys = {code_hash()}
    names = ["belief.linear", "plan.top_k", "math.kernels", "worlds.rewards", "catalogue", "simulator.streams", "types"]
    for name in (f"rankloop.{name}" for name in names):
        append(package / FILES[name].relative_to(PACKAGE), "\n\nADDED = 1\n")
        keys.add(hash_modules(package))
    assert len(keys) == len(names) + 1


def test_each_module_of_the_closure_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {code_hash()}
    for name in MODULES:
        monkeypatch.setattr(cache_key, "imported_modules", lambda package, n=name: MODULES | {n: MODULES[n] + "x"})
        keys.add(hash_modules(PACKAGE))
    assert len(keys) == len(MODULES) + 1


def test_a_changed_number_changes_the_key(package: Path) -> None:
    streams = package / "simulator" / "streams.py"
    text = streams.read_text(encoding="utf-8")
    assert "range(4)" in text
    streams.write_text(text.replace("range(4)", "range(1, 5)"), encoding="utf-8")
    assert hash_modules(package) != code_hash()


@pytest.mark.parametrize(
    ("statement", "counts"),
    [
        ("from rankloop.serving import ranker", True),
        ("import rankloop.serving.ranker", True),
        ("from ..serving import ranker", True),
        ("def late():\n    from rankloop.serving.ranker import Ranker", True),
        ("try:\n    pass\nexcept ValueError:\n    import rankloop.serving.ranker", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rankloop.serving.ranker", False),
        ("import numpy", False),
    ],
)
def test_every_form_of_import_is_followed(package: Path, statement: str, counts: bool) -> None:
    append(package / "math" / "kernels.py", f"\n\n{statement}\n")
    assert ("rankloop.serving.ranker" in imported_modules(package)) == counts


def test_a_name_imported_from_a_package_brings_what_its_init_imports(package: Path) -> None:
    append(package / "math" / "kernels.py", "\n\nfrom rankloop.reports import __doc__ as about\n")
    append(package / "reports" / "__init__.py", "\n\nfrom rankloop.eventlog import process_lock\n")
    assert {"rankloop.reports", "rankloop.eventlog.process_lock"} <= imported_modules(package).keys()


def test_a_missing_root_is_an_error(package: Path) -> None:
    (package / "simulator" / "streams.py").unlink()
    with pytest.raises(FileNotFoundError, match=r"rankloop\.simulator\.streams"):
        hash_modules(package)


def test_the_hash_is_computed_once_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    first = code_hash()
    monkeypatch.setattr(cache_key, "hash_modules", lambda package: "another")
    assert code_hash() == first


def test_the_hash_takes_a_fraction_of_a_second() -> None:
    """About 0.2 s on a shared core; the limit leaves room for a busy machine."""
    started = time.process_time()
    hash_modules(PACKAGE)
    assert time.process_time() - started < 1.0
