"""The parts of a report: sections and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table whose first column holds names and whose other columns hold numbers."""

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(slots=True)
class Section:
    """A question, the answer in one sentence, and the details."""

    key: str  # identifies the section, for example to add a chart
    title: str
    tone: str  # good, bad, open (inconclusive) or plain
    headline: str
    lines: list[str] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)  # shell commands to run
