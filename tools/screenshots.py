"""Take the screenshots in docs/images: a service with one day of simulated visitors, and examples/report.py.

python -m tools.screenshots                 # dashboard-desk-light.png, dashboard-phone-dark.png and report.png
python -m tools.screenshots --out DIR --all # every view
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from rankloop.client import Client
from rankloop.schema.service_settings import ServiceSettings
from tools.serving import serving
from tools.simulated import fill

CHROMIUM = os.environ.get("RANKLOOP_CHROMIUM", "/usr/bin/chromium")
ROOT = Path(__file__).parent.parent
IMAGES, EXAMPLES = ROOT / "docs" / "images", ROOT / "examples"
MAX_HEIGHT_PIXELS = 1440
REPORT_HEIGHT_PIXELS = 1500
TWO_POLLS_MS = 4500
DESK, PHONE, REPORT = (1280, 1000), (390, 844), (1200, 1000)
DOCUMENTED_VIEWS = (
    ("desk-light", DESK, "light", "#/ranker/shop?span=24h"),
    ("phone-dark", PHONE, "dark", "#/ranker/shop?span=24h"),
)
OTHER_VIEWS = (
    ("desk-dark", DESK, "dark", "#/ranker/shop?span=24h"),
    ("phone-light", PHONE, "light", "#/ranker/shop?span=24h"),
    ("rankers-light", DESK, "light", "#/"),
    ("rankers-dark", DESK, "dark", "#/"),
    ("rankers-phone", PHONE, "dark", "#/"),
    ("guardrail-light", DESK, "light", "#/ranker/music?span=24h"),
    ("shadow-dark", DESK, "dark", "#/ranker/news?span=24h"),
    ("decision-light", DESK, "light", "#/ranker/shop/decision/{decision}"),
    ("decision-phone", PHONE, "dark", "#/ranker/shop/decision/{decision}"),
)


def shoot(
    browser: Any, address: str, out: Path, size: tuple[int, int], theme: str, max_height: int, wait_ms: int
) -> None:
    """Write a screenshot of a page, at most `max_height` pixels of it."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=1 if width > 600 else 1.5
    )
    tab = context.new_page()
    tab.goto(address)
    tab.wait_for_selector("main [aria-busy]", state="detached")
    tab.wait_for_timeout(wait_ms)
    whole = tab.evaluate("document.documentElement.scrollHeight")
    tab.screenshot(path=out, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": min(whole, max_height)})
    context.close()
    print(f"{out.name}: {out.stat().st_size / 1000:.0f} kB")


def main() -> int:
    """Fill a log, serve it, and take the screenshots."""
    parser = argparse.ArgumentParser(description="Take screenshots of the dashboard and of a report.")
    parser.add_argument("--out", type=Path, default=IMAGES, help="Folder of the images (default docs/images).")
    parser.add_argument("--all", action="store_true", help="Take every view, not only those of the documentation.")
    parser.add_argument("--visits", type=int, default=20000, help="Number of simulated visits (default 20000).")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        log, report = Path(folder) / "log.db", Path(folder) / "report.html"
        fill(log, given.visits, 1.0, time.time())
        runpy.run_path(str(EXAMPLES / "report.py"))["main"](report)
        with serving(ServiceSettings(log=str(log))) as url, sync_playwright() as playwright:
            with Client(url) as client:
                ranking = client.rank("shop", order=["green tea"])
                client.feedback("shop", ranking.id, clicked=[0])
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            max_height = 100_000 if given.all else MAX_HEIGHT_PIXELS
            for name, size, theme, view in (*DOCUMENTED_VIEWS, *OTHER_VIEWS) if given.all else DOCUMENTED_VIEWS:
                address, out = (
                    f"{url}/dashboard/{view.format(decision=ranking.id)}",
                    given.out / f"dashboard-{name}.png",
                )
                shoot(browser, address, out, size, theme, max_height, TWO_POLLS_MS)
            max_height = 100_000 if given.all else REPORT_HEIGHT_PIXELS
            shoot(browser, report.as_uri(), given.out / "report.png", REPORT, "light", max_height, 0)
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
