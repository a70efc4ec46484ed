"""Reports for people: what a ranker does, in plain words, on a terminal and as a page."""

from rankloop.reports.facts import Facts
from rankloop.reports.page import page
from rankloop.reports.sections import Section, sections
from rankloop.reports.text import text

__all__ = ["Facts", "Section", "page", "sections", "text"]
