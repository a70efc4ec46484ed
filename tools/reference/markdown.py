"""Build Markdown that renders the same on the site and on a code forge."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$")
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.*)$")


def page(title: str, source: str, *parts: Iterable[str]) -> str:
    """Return a generated page: a title, one line that says from which code it was generated, and its parts."""
    lines = [f"# {title}", "", f"*Generated from {source} by `make generate`; change the code, not this page.*", ""]
    for part in parts:
        lines += [*part, ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; a pipe inside a cell is escaped."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split())) or "–"


def code(text: str) -> str:
    """Return inline code, or nothing for an empty text."""
    return f"`{text}`" if text else ""


def sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop, as a cell or a paragraph needs it."""
    text = " ".join(text.split())
    if not text:
        return ""
    text = text[0].upper() + text[1:] if re.match(r"[a-z]+\b(?![_.(`])", text) else text
    return text if text.endswith((".", "…", ":", "!", "?")) else text + "."


def escaped(text: str) -> str:
    """Return prose in which `<` outside inline code is no HTML."""
    parts = text.split("`")
    return "`".join(part if at % 2 else part.replace("<", "&lt;") for at, part in enumerate(parts))


def first_line(documented: object) -> str:
    """Return the first line of an object's docstring."""
    return escaped((inspect.getdoc(documented) or "").split("\n")[0])


def docstring(documented: object) -> list[str]:
    """Return a docstring as Markdown: sections become lists, doctests become code blocks."""
    lines = (inspect.getdoc(documented) or "").split("\n")
    result: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if heading := SECTION.match(line):
            block, at = _indented(lines, at + 1)
            result += ["", f"**{heading[1]}**", "", *_entries(block), ""]
        elif line.startswith(">>>"):
            end = next((n for n in range(at, len(lines)) if not lines[n].strip()), len(lines))
            result += ["", "```python", *lines[at:end], "```", ""]
            at = end
        elif line.startswith(" ") and (not result or not result[-1].strip()):
            block, at = _indented(lines, at)
            result += ["```text", *block, "```", ""]
        else:
            result.append(escaped(line))
            at += 1
    return result


def _indented(lines: Sequence[str], start: int) -> tuple[list[str], int]:
    end = start
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" ")):
        end += 1
    return inspect.cleandoc("\n".join(["", *lines[start:end]])).split("\n"), end


def _entries(block: Sequence[str]) -> list[str]:
    """Return the entries of a section such as Args as a list; a continuation line belongs to the entry above it."""
    entries: list[str] = []
    for line in block:
        found = ENTRY.match(line)
        if found:
            entries.append(f"- `{found[1]}`: {escaped(found[2])}")
        elif entries and line.startswith(" "):
            entries[-1] += " " + escaped(line.strip())
        elif line.strip():
            entries.append(escaped(line))
    return entries
