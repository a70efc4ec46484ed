"""What the documentation shows runs as written, and says all there is."""

from __future__ import annotations

import re
import shlex
import sys
import types
from functools import partial
from pathlib import Path

import pytest
import yaml

from helpers import loading_nothing
from rankloop import catalogue, checks
from rankloop.cli.main import main, parser
from rankloop.simulator import Spec
from rankloop.worlds import KINDS

ROOT = Path(__file__).parent.parent


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("README.md", "of random's"),
        ("docs/how-to/add-a-policy.md", "of random's"),
        ("docs/explanation/propensity.md", "exact [0.16666667 0.03333333 0.00833333]"),
    ],
)
def test_the_first_python_example_without_a_service_runs(
    page: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Documentation of this repository, run as a reader would paste it.
    code = next(block for block in blocks(page, "python") if "Client" not in block)  # those are run in test_client
    exec(compile(code, page, "exec"), {"__name__": page})
    assert printed in capsys.readouterr().out


def test_both_ways_to_embed_it_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks("docs/how-to/embed.md", "python"):
        exec(compile(code, "docs/how-to/embed.md", "exec"), {"__name__": "docs/how-to/embed.md"})
    said = capsys.readouterr().out
    assert "learned 1\nk is 3; accepted: a whole number from 0 to 2.\n" in said
    assert "at most one click in a list" in said


def test_the_belief_of_the_docs_keeps_all_laws(capsys: pytest.CaptureFixture[str]) -> None:
    """A discounted GTS, as docs/how-to/add-a-policy.md writes it, with those of the laws that a service depends on."""
    (code,) = [block for block in blocks("docs/how-to/add-a-policy.md", "python") if "Discounted" in block]
    # A module of its own: dataclasses look their module up.
    page = types.ModuleType("add_a_policy")
    sys.modules["add_a_policy"] = page
    try:
        exec(compile(code, "docs/how-to/add-a-policy.md", "exec"), page.__dict__)
    finally:
        del sys.modules["add_a_policy"]
    held = re.findall(r"holds: (\S+)", capsys.readouterr().out)
    assert {
        "accepted-feedback-replays-to-the-same-state",
        "catching-up-equals-single-updates",
        "every-logged-list-is-reproduced",
    } <= set(held)
    assert len(held) >= 13


def test_the_module_of_the_docs_is_used_by_its_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file, the spec and the first two commands of docs/how-to/add-a-policy.md, and options of all its commands."""
    page = "docs/how-to/add-a-policy.md"
    (module,) = [block for block in blocks(page, "python") if "@policy(" in block]
    ((spec,), (shell,)) = (blocks(page, language) for language in ("yaml", "sh"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_policies.py").write_text(module, encoding="utf-8")
    (tmp_path / "spec.yaml").write_text(spec, encoding="utf-8")
    lines = [shlex.split(line, comments=True)[1:] for line in shell.splitlines()]
    with loading_nothing(monkeypatch):
        for line in lines:
            assert parser().parse_args(line).policy == ["my_policies:epsilon_greedy"]
        assert main([*lines[0], "--jobs", "1"]) == 0
        assert main(lines[1]) == 0
        for id in ("epsilon-greedy", "bold-gts"):
            for law in checks.laws(partial(catalogue.build, id)):
                law.check()
    out = capsys.readouterr().out
    assert all(id in out for id in ("epsilon-greedy", "bold-gts", "epsilon = 0.05: a number in (0, 1]"))


def test_the_readme_spec_is_valid() -> None:
    (text,) = blocks("README.md", "yaml")
    assert Spec.of(yaml.safe_load(text)).rounds == 10_000


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_is_a_valid_spec(path: Path) -> None:
    assert Spec.of(yaml.safe_load(path.read_text(encoding="utf-8"))).policies


def test_every_policy_world_and_command_is_documented() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
    (commands,) = [action for action in parser()._actions if action.choices]
    names = (
        [entry.id for entry in catalogue.entries()] + list(KINDS) + [f"rankloop {c}" for c in commands.choices or ()]
    )
    assert [name for name in names if name not in pages] == []


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
