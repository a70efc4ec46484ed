"""docs/reference says everything that exists, and the site lists every page."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import generate, trace_request
from tools.reference import cli, markdown
from tools.reference.coverage import rows, sections, undocumented
from tools.reference.endpoints import endpoints
from tools.reference.metrics import metrics
from tools.reference.settings import PAYLOADS
from tools.reference.signatures import signature

from rankloop.eventlog.events import KINDS
from rankloop.schema import Payload, RankerSettings

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"


def test_everything_is_documented() -> None:
    assert undocumented(REFERENCE) == []


def examples() -> Iterator[tuple[str, str, str]]:
    """A page, a line of it that matters, and what is missing without that line."""
    setting = RankerSettings.__struct_fields__[-1]
    yield "settings.md", rf"\| `{setting}` .*", f"RankerSettings.{setting}"
    yield "settings.md", r"\| `RANKLOOP_PORT` .*", "RANKLOOP_PORT"
    one = next(one for one in endpoints()[0] if len(one.operation.get("parameters", ())) > 1)
    yield "endpoints.md", f"## {re.escape(one.title)}", one.title
    parameter = one.operation["parameters"][-1]["name"]
    yield (
        "endpoints.md",
        rf"(?<=## {re.escape(one.title)}\n)(?:.*\n)*?\| `{parameter}` .*",
        f"{parameter} of {one.title}",
    )
    kind = next(iter(KINDS))
    yield "events.md", f"## {kind}", kind
    yield "events.md", rf"(?<=## {kind}\n)(?:.*\n)*?\| `time` .*", f"{kind}.time"
    metric = metrics()[0]
    yield "metrics.md", rf"\| .*`{metric.exposed[0]}`.*", metric.exposed[0]
    yield "cli.md", "## rankloop serve", "rankloop serve"
    yield "cli.md", r"(?<=## rankloop serve\n)(?:.*\n)*?\| `--log` .*", "--log of rankloop serve"
    yield "api.md", "### Ranker", "rankloop.Ranker"
    yield "policies.md", "## gts", "gts"
    yield "worlds.md", "## cascade", "cascade"


def test_what_a_page_omits_is_reported(tmp_path: Path) -> None:
    shutil.copytree(REFERENCE, tmp_path, dirs_exist_ok=True)
    for page, line, missing in examples():
        text = (REFERENCE / page).read_text(encoding="utf-8")
        shorter = re.sub(rf"(?m)^{line}$", "", text, count=1)
        assert shorter != text, line
        (tmp_path / page).write_text(shorter.replace("`Ranker`", ""), encoding="utf-8")
        assert f"{page} lacks {missing}" in undocumented(tmp_path)
        (tmp_path / page).write_text(text, encoding="utf-8")


def test_every_payload_has_a_section() -> None:
    """Those that only wrap a list of others, or one id, are described with their endpoint."""

    def subclasses(kind: type[Payload]) -> Iterator[type[Payload]]:
        for one in kind.__subclasses__():
            yield one
            yield from subclasses(one)

    listed = {kind for _, _, kind in PAYLOADS}
    page = (REFERENCE / "endpoints.md").read_text(encoding="utf-8")
    schema = {kind for kind in subclasses(Payload) if kind.__module__.startswith("rankloop.schema")}
    for kind in schema - listed:
        assert kind.__name__ in sections(page) or set(kind.__struct_fields__) <= rows(page), kind.__name__


def test_every_endpoint_states_its_role() -> None:
    roles = {one.title: one.roles for one in endpoints()[0]}
    assert roles["GET /healthz"] == ()
    assert roles["POST /v1/rankers/{name}/rank"] == ("rank", "admin")
    assert roles["DELETE /v1/rankers/{name}"] == ("admin",)


def test_every_generated_page_says_so_in_its_first_lines() -> None:
    for name in generate.PAGES:
        assert "*Generated from" in "".join((ROOT / name).read_text(encoding="utf-8").splitlines()[:3])


def test_the_site_lists_every_page_once() -> None:
    def listed(entries: object) -> Iterator[str]:
        if isinstance(entries, str):
            yield entries
        elif isinstance(entries, dict):
            yield from listed(list(entries.values()))
        elif isinstance(entries, list):
            for entry in entries:
                yield from listed(entry)

    with (ROOT / "zensical.toml").open("rb") as file:
        config = tomllib.load(file)["project"]
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed(config["nav"])) == sorted(pages)
    kinds = [next(iter(entry)) for entry in config["nav"] if isinstance(entry, dict)]
    assert kinds == [kind for kind in ("Tutorials", "How-to guides", "Reference", "Explanation") if kind in kinds]


def test_marks_are_needed_for_a_generated_block() -> None:
    assert generate.between("no marks", "<a>", "</a>", lambda: ["new"]) == "no marks"
    assert generate.between("x <a>old</a> y", "<a>", "</a>", lambda: ["new"]) == "x <a>\nnew\n</a> y"


def test_a_docstring_becomes_markdown() -> None:
    def documented(a: int, *, b: str = "x") -> None:
        """Do a thing where 1 < `a < b`.

        Args:
            a: the first
                argument.
            b: the second.

        >>> documented(1)
        """

    assert "\n".join(markdown.docstring(documented)).split("\n") == [
        "Do a thing where 1 &lt; `a < b`.", "", "", "**Args**", "", "- `a`: the first argument.", "- `b`: the second.",
        "", "", "```python", ">>> documented(1)", "```", "",
    ]  # fmt: skip
    assert signature("documented", documented) == "documented(a: int, *, b: str = 'x') -> None"


def test_every_command_is_listed_with_its_parents_first() -> None:
    names = [prog for prog, _, _ in cli.commands()]
    assert names.index("rankloop log") < names.index("rankloop log verify")


def test_the_walk_of_a_request_is_the_same_each_time() -> None:
    first, second = trace_request.markdown(), trace_request.markdown()
    assert first == second
    assert any("service/endpoints.py" in line for line in first)


def test_a_rank_request_passes_through_at_most_20_files_and_feedback_through_20() -> None:
    assert trace_request.main(["--limit-rank", "20", "--limit-feedback", "20"]) == 0


def test_too_many_files_fail_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace_request.main(["--limit-rank", "1", "--limit-feedback", "1000"]) == 1
    out, err = capsys.readouterr()
    assert re.search(r"^rank: \d+ files, \d+ changes of file, \d+ calls until the answer$", out, re.MULTILINE)
    assert re.fullmatch(r"rank passes through \d+ files; accepted: at most 1\.\n", err)
