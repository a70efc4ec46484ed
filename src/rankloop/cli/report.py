"""`rankloop report`: how a ranker of a running service does, in plain words."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop import validate
from rankloop.cli.options import Commands
from rankloop.cli.service_client import ASKS, add_url, client
from rankloop.errors import InvalidInput
from rankloop.files import replace_file

if TYPE_CHECKING:
    from rankloop.reports import ReportData

LONGEST = 24.0 * 90
"""Hours that a service remembers."""


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "report", help="how a ranker of a running service does, in plain words", description=ASKS
    )
    command.add_argument("ranker", help="its name")
    add_url(command)
    command.add_argument("--html", metavar="FILE", help="write a page that needs nothing else")
    command.add_argument("--hours", type=float, metavar="H", help="how far back time goes (default: to the first list)")
    command.add_argument("--json", action="store_true", help="print the numbers and words as JSON instead")
    command.set_defaults(run=run)


def run(given: argparse.Namespace) -> None:
    """Ask, print, and write the page where one is wanted."""
    hours = None if given.hours is None else validate.number("--hours", given.hours, low=0.1, high=LONGEST)
    page = None if given.html is None else _file(given.html)
    facts = ask(given, hours)
    from rankloop import reports

    if given.json:
        told = {**asdict(facts), "sections": [asdict(section) for section in reports.sections(facts)]}
        print(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        print(reports.text(facts, min(shutil.get_terminal_size((100, 40)).columns, 110)), end="")
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        replace_file(page, lambda path: path.write_text(reports.page(facts), encoding="utf-8"))


def _file(given: str) -> Path:
    """Where the page goes: refused before the work, not after it."""
    path = Path(given)
    if path.is_dir() or not path.name:
        raise InvalidInput("--html", given, "a file")
    validate.writable_folder("--html", path.absolute().parent)
    return path


def ask(given: argparse.Namespace, hours: float | None) -> ReportData:
    """All that a report is made of."""
    from rankloop.reports import ReportData

    with client(given) as service:
        config = service.ranker(given.ranker).config
        diagnosis = service.diagnosis(given.ranker)
        if hours is None:
            since, until = diagnosis["since"], diagnosis["until"]
            hours = 1.0 if since is None else min(LONGEST, max(0.1, (until - since) / 3600.0 + 1 / 60))
        overview = service.report(given.ranker, hours=hours, limit=1)["overview"]
    return ReportData.of(given.ranker, time.time(), config, overview, diagnosis)
