"""The documentation is true: its examples run, its links lead somewhere, and it names only what exists."""

from __future__ import annotations

import re
import shlex
import sys
import types
from functools import partial
from pathlib import Path

import pytest
import yaml
from tools.check_docs import check_page, pages, snippets

from helpers import loading_nothing
from rankloop import catalogue, checks
from rankloop.cli.main import main, parser
from rankloop.simulator import Spec
from rankloop.worlds import KINDS

ROOT = Path(__file__).parent.parent


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def output_after(page: str, code: str) -> str:
    """The text block that follows a code block, without anything between them; empty where there is none."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.match(r"```\s+```text\n(.*?)```", text[text.index(code) + len(code) :], flags=re.DOTALL)
    return found[1] if found else ""


def test_the_example_of_the_readme_prints_what_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = next(block for block in blocks("README.md", "python") if "Client" not in block)
    exec(compile(code, "README.md", "exec"), {"__name__": "README.md"})
    printed = capsys.readouterr().out
    assert printed
    assert output_after("README.md", code) in printed


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "tutorial").glob("*.md")), ids=lambda path: path.stem)
def test_the_examples_of_a_tutorial_print_what_it_says(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those without a service; of a table only the head is compared, since it shows the speed of the machine."""
    monkeypatch.chdir(tmp_path)
    page = path.relative_to(ROOT).as_posix()
    for code in blocks(page, "python"):
        if "Client" not in code:
            exec(compile(code, page, "exec"), {"__name__": page})
            expected = output_after(page, code).split("\n")[0].split()
            assert capsys.readouterr().out.split()[: len(expected)] == expected


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("docs/how-to/add-a-policy.md", "of random's"),
        ("docs/how-to/send-fields.md", "on a phone: earl-grey sencha\nat a desk: mug teapot"),
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


def test_every_specification_on_a_page_is_valid() -> None:
    """Those of docs/how-to/add-a-policy.md name policies of the page, and are played above; some need data sets."""
    found = 0
    for page in pages():
        for snippet in snippets(page.read_text(encoding="utf-8")):
            given = yaml.safe_load(snippet.text) if snippet.language == "yaml" else None
            if isinstance(given, dict) and "world" in given and page.name not in ("add-a-policy.md", "datasets.md"):
                assert Spec.of(given).policies
                found += 1
    assert found


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


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_only_what_exists(page: Path) -> None:
    assert [str(problem) for problem in check_page(page)] == []


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("Use `rankloop.serving.Rankr`.", "Python name", "rankloop.serving.Rankr"),
        ("Call `Ranker.ranks()`.", "attribute", "Ranker.ranks"),
        ("See `serving/rankers.py`.", "file", "serving/rankers.py"),
        ("See `tests/test_nothing.py`.", "file", "tests/test_nothing.py"),
        ("`GET /v1/rankers/{name}/nothing`", "endpoint", "GET /v1/rankers/{name}/nothing"),
        ("`POST …/ranks`", "endpoint", "POST …/ranks"),
        ("`DELETE /v1/rankers/{name}/rank`", "endpoint", "DELETE /v1/rankers/{name}/rank"),
        ("```sh\ncurl localhost:8080/v1/rankers/shop/nothing\n```", "path", "/v1/rankers/shop/nothing"),
        ("`rankloop nothing`", "command", "rankloop nothing"),
        ("`rankloop log nothing shop.db`", "command", "rankloop log nothing"),
        ("`rankloop serve --logg shop.db`", "option", "rankloop serve --logg"),
        ("```sh\nrankloop serve \\\n  --logg shop.db &\n```", "option", "rankloop serve --logg"),
        ("```text\n$ rankloop nothing\n```", "command", "rankloop nothing"),
        ("The option `--nothing`.", "option", "--nothing"),
        (f"RANKLOOP_{'NOTHING'} is read.", "environment variable", f"RANKLOOP_{'NOTHING'}"),
        ("Run `make nothing`.", "make target", "make nothing"),
        ("```sh\nmake nothing  # why\n```", "make target", "make nothing"),
        ("`rankloop_nothing_total`", "metric", "rankloop_nothing_total"),
        ("```yaml\npolicy: gts\nslotz: 3\n```", "field of RankerSettings", "slotz"),
        ("```yaml\nlog: a.db\nlimits: {nothing: 3}\n```", "field of ServiceLimits", "nothing"),
        ("```yaml\nrankers: {shop: {policy: gts, slotz: 3}}\n```", "field of RankerSettings", "slotz"),
        ('```json\n{"policy": "gts", "slotz": 3}\n```', "field of RankerSettings", "slotz"),
        (
            '```sh\ncurl -X PUT --json \'{"policy": "gts", "slotz": 3}\' localhost:8080/v1/rankers/shop\n```',
            "field of RankerSettings",
            "slotz",
        ),
        ("```sh\ncurl --json '{\"kk\": 3}' localhost:8080/v1/rankers/shop/rank\n```", "field of RankRequest", "kk"),
        ("`rankloop rankers set shop slotz=3`", "field of RankerSettings", "slotz"),
        ("`rankloop rankers create shop gts --set slotz=3`", "field of RankerSettings", "slotz"),
        ("```python\nfrom rankloop import Rankr\n```", "Python name", "rankloop.Rankr"),
        ('```python\nshop.put_ranker("teas", policy="gts", slotz=3)\n```', "field of RankerSettings", "slotz"),
    ],
)
def test_a_made_up_name_is_found(text: str, kind: str, name: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\n{text}\n", encoding="utf-8")
    (problem,) = check_page(page)
    assert (problem.kind, problem.name) == (kind, name)
    assert problem.line >= 3
    assert f"page.md:{problem.line}: {kind} `{name}` does not exist; the closest existing one is `" in str(problem)


def test_existing_names_are_not_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`rankloop.serving.Ranker`, `Ranker.rank(k=3)`, `serving/ranker.py`, `POST /v1/rankers/{name}/rank`,\n"
        "`POST …/rank`, `GET /v1/rankers/shop/items?limit=3`, `rankloop log verify`, `rankloop COMMAND --help`,\n"
        "`RANKLOOP_PORT=80`, `RANKLOOP_…`, `make docs`, `--json`, `my_module.py`, `rankloop.db`\n\n"
        "```sh\nrankloop rankers --url http://127.0.0.1:8081 list | head\n```\n"
        "```console\n$ make docs && rankloop serve --log a.db &\n```\n"
        "```python\nfrom rankloop import RankerConfig\nRankerConfig(policy='gts', slots=3)\n```\n"
        '```json\n{"decision": "a", "status": "learned"}\n```\n',
        encoding="utf-8",
    )
    assert check_page(page) == []
