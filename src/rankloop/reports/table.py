"""The parts of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows under a head; the first column is a name, the others are numbers."""

    name: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(slots=True)
class Section:
    """One question, its answer in a sentence, and what stands behind it."""

    key: str  # for those who add charts
    title: str
    tone: str  # good, bad, open (too early) or plain
    headline: str
    lines: list[str] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)  # to type
