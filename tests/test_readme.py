"""The README's example prints exactly the output that it shows, and the citation names this version."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import yaml

import rankloop

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_LINES = 90


def test_the_readme_fits_on_one_screen() -> None:
    assert len(README.splitlines()) <= MAX_LINES


def test_the_example_prints_what_the_readme_shows() -> None:
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, flags=re.DOTALL)
    assert len(examples) == 1
    ((code, expected),) = examples
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {"__name__": "README"})
    assert printed.getvalue() == expected


def test_the_citation_names_this_version_and_the_five_papers() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == rankloop.__version__
    assert all(paper["title"] in README for paper in citation["references"])
    assert len(citation["references"]) == 5
