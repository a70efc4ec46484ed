"""Write what follows from the code: pages of docs/reference, tables inside other pages, the site's list of pages.

python -m tools.generate          # write
python -m tools.generate --check  # fail if anything is out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from tools import trace_request
from tools.reference import navigation
from tools.reference.api import api_page, parts_page
from tools.reference.catalogue import drift_example, policies_page, propensities, worlds
from tools.reference.cli import cli_page
from tools.reference.endpoints import endpoints_page
from tools.reference.events import events_page
from tools.reference.metrics import metrics_page
from tools.reference.settings import settings_page
from tools.reference.settings_file import settings_file

ROOT = Path(__file__).parent.parent
PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/api.md": api_page,
    "docs/reference/cli.md": cli_page,
    "docs/reference/endpoints.md": endpoints_page,
    "docs/reference/events.md": events_page,
    "docs/reference/metrics.md": metrics_page,
    "docs/reference/parts.md": parts_page,
    "docs/reference/policies.md": policies_page,
    "docs/reference/settings.md": settings_page,
}
"""Pages that are generated as a whole."""
BLOCKS: tuple[tuple[str, str, Callable[[], list[str]]], ...] = (
    ("docs/reference/worlds.md", "worlds", worlds),
    ("docs/reference/worlds.md", "drift", drift_example),
    ("docs/explanation/propensity.md", "propensities", propensities),
    ("docs/explanation/architecture.md", "walk", trace_request.markdown),
)
"""Pages of which the lines between two marks are generated, where the marks are present."""


def between(text: str, start: str, end: str, lines: Callable[[], list[str]]) -> str:
    """Return a text with the lines between its marks renewed; a text without the marks is returned unchanged."""
    if start not in text or end not in text:
        return text
    block = "\n".join([start, *lines(), end])
    return re.sub(f"{re.escape(start)}.*{re.escape(end)}", lambda _: block, text, flags=re.DOTALL)


def generated() -> dict[str, str]:
    """Return every generated file, by its path, as it should be."""
    files = {name: make() for name, make in PAGES.items()}
    for name, mark, lines in BLOCKS:
        text = files.get(name) or (ROOT / name).read_text("utf-8")
        files[name] = between(text, f"<!-- {mark}:start -->", f"<!-- {mark}:end -->", lines)
    config = (ROOT / "zensical.toml").read_text("utf-8")
    pages = navigation.navigation(ROOT / "docs", [ROOT / name for name in PAGES])
    files["deploy/rankloop.yaml"] = settings_file()
    return files | {"zensical.toml": between(config, "# nav:start", "# nav:end", lambda: pages)}


def main() -> int:
    """Write the files, or with --check compare them; return the exit status."""
    files = generated()
    stale = [
        name for name, text in files.items() if not (ROOT / name).exists() or (ROOT / name).read_text("utf-8") != text
    ]
    if "--check" in sys.argv:
        for name in stale:
            print(f"{name} is out of date: run `make generate`.", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(files[name], encoding="utf-8")
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
