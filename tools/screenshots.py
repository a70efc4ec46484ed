"""Take the pictures of the dashboard in docs/images, from a service with a day of simulated visitors.

python -m tools.screenshots               # docs/images/dashboard-*.png
python -m tools.screenshots --out DIR --all
"""

from __future__ import annotations

import argparse
import os
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
IMAGES = Path(__file__).parent.parent / "docs" / "images"
MOST = 1440
DESK, PHONE = (1280, 1000), (375, 812)
KEPT = (
    ("desk-light", DESK, "light", "#/ranker/shop?span=24h"),
    ("phone-dark", PHONE, "dark", "#/ranker/shop?span=24h"),
)
MORE = (
    ("desk-dark", DESK, "dark", "#/ranker/shop?span=24h"),
    ("phone-light", PHONE, "light", "#/ranker/shop?span=24h"),
    ("rankers-light", DESK, "light", "#/"),
    ("rankers-dark", DESK, "dark", "#/"),
    ("rankers-phone", PHONE, "dark", "#/"),
    ("guard-light", DESK, "light", "#/ranker/music?span=24h"),
    ("shadow-dark", DESK, "dark", "#/ranker/news?span=24h"),
    ("decision-light", DESK, "light", "#/ranker/shop/decision/{decision}"),
    ("decision-phone", PHONE, "dark", "#/ranker/shop/decision/{decision}"),
)


def shoot(browser: Any, address: str, out: Path, size: tuple[int, int], theme: str, most: int) -> None:
    """One picture of a page, at most so many pixels of it."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=1 if width > 600 else 1.5
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("main [aria-busy]", state="detached")
    page.wait_for_timeout(4500)  # two more polls: a pace needs more than one
    whole = page.evaluate("document.documentElement.scrollHeight")
    page.screenshot(path=str(out), full_page=True, clip={"x": 0, "y": 0, "width": width, "height": min(whole, most)})
    context.close()


def main() -> int:
    """Fill a log, serve it, take pictures."""
    parser = argparse.ArgumentParser(description="Pictures of the dashboard.")
    parser.add_argument("--out", type=Path, default=IMAGES)
    parser.add_argument("--all", action="store_true", help="every view, not only those of the documentation")
    parser.add_argument("--visits", type=int, default=20000)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.db"
        fill(log, given.visits, 1.0, time.time())
        with serving(ServiceSettings(log=str(log))) as url, sync_playwright() as playwright:
            with Client(url) as client:
                ranking = client.rank("shop", order=["green tea"])
                client.feedback("shop", ranking.id, clicked=[0])
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for name, size, theme, view in (*KEPT, *MORE) if given.all else KEPT:
                out = given.out / f"dashboard-{name}.png"
                shoot(
                    browser,
                    f"{url}/dashboard/{view.format(decision=ranking.id)}",
                    out,
                    size,
                    theme,
                    100_000 if given.all else MOST,
                )
                print(f"{out.name}: {out.stat().st_size / 1000:.0f} kB")
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
