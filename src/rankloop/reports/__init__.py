"""Reports about a ranker for people: as text for a terminal and as a self-contained HTML page."""

from rankloop.reports.page import page
from rankloop.reports.report_data import ReportData
from rankloop.reports.sections import Section, sections
from rankloop.reports.text import text

__all__ = ["ReportData", "Section", "page", "sections", "text"]
