"""The README's Python example prints exactly the output that the README shows."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
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
