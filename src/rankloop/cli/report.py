"""`rankloop report`: the results of a ranker of a running service, in plain language."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.cli.options import Commands
from rankloop.cli.service_client import CONNECTION, add_url, client
from rankloop.errors import InvalidInput

if TYPE_CHECKING:
    from rankloop.reports import ReportData

MIN_HOURS, MAX_HOURS = 0.1, 24.0 * 90
"""Time spans that a service can report."""


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "report",
        help="Report how a ranker performs, in plain language.",
        description=f"Report how a ranker of a running service performs, in plain language. {CONNECTION}",
    )
    command.add_argument("ranker", metavar="NAME", help="Name of the ranker.")
    add_url(command)
    command.add_argument("--html", metavar="FILE", help="HTML file to write the report to; it needs no other files.")
    command.add_argument(
        "--hours", type=float, metavar="H", help="Number of hours to report (default: since the first decision)."
    )
    command.add_argument("--json", action="store_true", help="Print the numbers and sentences as JSON.")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Fetch the numbers, print the report, and write the HTML page if one is requested."""
    from rankloop import reports, validate
    from rankloop.files import replace_file

    hours = None if args.hours is None else validate.number("--hours", args.hours, low=MIN_HOURS, high=MAX_HOURS)
    page = None if args.html is None else _page_path(args.html)
    facts = fetch_report_data(args, hours)
    if args.json:
        report = {**asdict(facts), "sections": [asdict(section) for section in reports.sections(facts)]}
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        print(reports.text(facts, min(shutil.get_terminal_size((100, 40)).columns, 110)), end="")
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        replace_file(page, lambda path: path.write_text(reports.page(facts), encoding="utf-8"))


def _page_path(option: str) -> Path:
    """Return the path of the page; refuse one that cannot be written before any work is done."""
    from rankloop import validate

    path = Path(option)
    if path.is_dir() or not path.name:
        raise InvalidInput("--html", option, "a file")
    validate.writable_folder("--html", path.absolute().parent)
    return path


def fetch_report_data(args: argparse.Namespace, hours: float | None) -> ReportData:
    """Fetch everything that the report contains."""
    from rankloop.reports import ReportData

    with client(args) as service:
        config = service.ranker(args.ranker).config
        diagnosis = service.diagnosis(args.ranker)
        if hours is None:
            since, until = diagnosis["since"], diagnosis["until"]
            hours = 1.0 if since is None else min(MAX_HOURS, max(MIN_HOURS, (until - since) / 3600.0 + 1 / 60))
        overview = service.report(args.ranker, hours=hours, limit=1)["overview"]
    return ReportData.of(args.ranker, time.time(), config, overview, diagnosis)
