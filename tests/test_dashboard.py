"""The dashboard: its files over HTTP, and all of it in a real browser."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Locator,
    Page,
    Request,
    Route,
    ViewportSize,
    expect,
    sync_playwright,
)
from tools.serving import serving

from rankloop.client import Client
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service import dashboard
from rankloop.service.access.auth import make_key

CHROMIUM = Path(os.environ.get("RANKLOOP_CHROMIUM", "/usr/bin/chromium"))
PATIENCE = 20_000.0
DESK, PHONE = ViewportSize(width=1280, height=900), ViewportSize(width=390, height=844)
EVIL = ("<script>alert(1)</script>", "<img src=x onerror=alert(2)>", "javascript:alert(3)", '"><b>bold</b>')
MANY = 10_000
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
expect.set_options(timeout=PATIENCE)


def visit(client: Client, ranker: str, visits: int, **more: Any) -> None:
    """Visitors who click the first item of every list of control, and of every third one of the policy's.

    Those of the ranker that is guarded like nothing that its policy shows.
    """
    events: list[dict[str, Any]] = []
    for visitor in range(visits):
        made = client.rank(ranker, visitor=f"v{visitor}", **more)
        liked = made.group == "control" or (visitor % 3 == 0 and ranker != "guarded")
        events.append(
            {"decision": made.id, "clicked": [0] if liked else [], "regret": 0.25 if ranker == "shop" else None}
        )
    assert {one.status for one in client.feedback_bulk(ranker, events)} == {"learned"}


def earn(client: Client) -> None:
    """A ranker whose objective is revenue: treatment earns more with fewer clicks."""
    settings = {"policy": "ucr", "slots": 1, "context": 1, "objective": "revenue", "traffic": 0.5}
    client.put_ranker("earning", settings | {"guardrail": True})
    client.put_items("earning", [{"id": "cheap", "price": 2.0}, {"id": "dear", "price": 50.0}])
    for visitor in range(60):
        made = client.rank("earning", visitor=f"v{visitor}", order=["cheap"], context=[1.0])
        liked = made.group == "control" or visitor % 3 == 0
        client.feedback("earning", made.id, clicked=[0] if liked else [])


def choose(client: Client) -> None:
    """A ranker that learns position biases: each slot is clicked less than the one above."""
    client.put_ranker("choosing", {"policy": "epoch-ucb-upb-star", "slots": 3, "seed": 3})
    client.put_items("choosing", [{"id": id} for id in "abcd"])
    for visitor in range(300):
        slot = (0, 1, 0, None, 2, 0, None, 1, None, 0)[visitor % 10]
        client.feedback("choosing", client.rank("choosing").id, clicked=[] if slot is None else [slot])


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with rankers in all the states that a page can show."""
    log = tmp_path_factory.mktemp("dashboard") / "log.db"
    with serving(ServiceSettings(log=str(log))) as address, Client(address) as client:
        few = [{"id": id} for id in ("tea", "coffee", "cocoa", "water", "juice")]
        settings: dict[str, Any] = {"policy": "gts", "slots": 3, "seed": 1}
        guard = {"min_lists": 5, "drop": 0.0}
        client.put_ranker("shop", settings | {"traffic": 0.5})
        client.put_ranker("guarded", settings | {"traffic": 0.5, "guardrail": guard})
        client.put_ranker("large", settings | {"slots": 10})
        for name in ("live", "evil", "quiet", "bare"):
            client.put_ranker(name, settings)
        for name in ("shop", "live", "guarded", "quiet"):
            client.put_items(name, few)
        client.put_items("evil", [{"id": id} for id in EVIL])
        client.put_items("large", [{"id": f"item-{i:05d}"} for i in range(MANY)])
        visit(client, "shop", 60, order=["tea", "coffee", "cocoa"])
        visit(client, "guarded", 60, order=["tea", "coffee", "cocoa"])
        visit(client, "evil", 6, segment=EVIL[1])
        visit(client, "large", 3)
        earn(client)
        choose(client)
        yield address


# Files, without a browser


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(verify=False) as client:
        yield client


def test_the_root_leads_to_the_page(url: str, http: httpx.Client) -> None:
    for path in ("/", "/dashboard"):
        answer = http.get(url + path)
        assert (answer.status_code, answer.headers["location"]) == (307, "dashboard/")
    page = http.get(url, follow_redirects=True)
    assert str(page.url) == f"{url}/dashboard/"
    assert page.text.startswith("<!doctype html>")


def test_every_file_has_strict_headers_and_is_sent_once(url: str, http: httpx.Client) -> None:
    assert len(dashboard.load()) > 15
    for name, file in dashboard.load().items():
        at = f"{url}/dashboard/" + ("" if name == dashboard.INDEX_FILE else name)
        answer = http.get(at)
        assert answer.content == file.body
        assert answer.headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-cache"
        media = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
        assert answer.headers["content-type"].startswith(media[name.rpartition(".")[2]])
        tag = answer.headers["etag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            again = http.get(at, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert http.get(at, headers={"If-None-Match": '"other"'}).status_code == 200
        head = http.head(at)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(file.body)))


@pytest.mark.parametrize("path", ["none.js", "__init__.py", "../auth.py", "..%2Fauth.py", "%2e%2e/app.py", "a/b.js"])
def test_nothing_else_is_handed_out(url: str, http: httpx.Client, path: str) -> None:
    answer = http.get(f"{url}/dashboard/{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_pages_hold_no_data_and_need_no_key(tmp_path: Path, http: httpx.Client) -> None:
    _, kept = make_key("k", ["read"])
    settings = ServiceSettings.of({"log": str(tmp_path / "log.db"), "keys": [kept]})
    with serving(settings) as address:
        assert http.get(f"{address}/dashboard/").status_code == 200
        assert http.get(f"{address}/v1/rankers").status_code == 401
        assert not [path for path in http.get(f"{address}/openapi.json").json()["paths"] if "dashboard" in path]


def test_nothing_is_loaded_from_elsewhere_and_no_markup_is_made_of_text() -> None:
    for name, file in dashboard.load().items():
        text = file.body.decode()
        found = set(re.findall(r"(?:https?:)?//[a-z][a-z0-9.-]+\.[a-z]+[^\s\"']*", text))
        assert found <= {"http://www.w3.org/2000/svg"}, name
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ):
            assert word not in text, f"{word} in {name}"
        assert not re.search(r"<[^>]+\s(style|on[a-z]+)=", text), name
    page = dashboard.load()[dashboard.INDEX_FILE].body.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "<style" not in page


# In a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"there is no browser at {CHROMIUM}; say where one is with RANKLOOP_CHROMIUM")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield made
        made.close()


Opener = Callable[..., Page]


@pytest.fixture
def window(browser: Browser, url: str) -> Iterator[Opener]:
    """Opens pages; in the end none of them has complained, and nothing was asked of another machine."""
    contexts, faults, asked = [], [], []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            faults.append(message.text)

    def dismissed(dialog: Dialog) -> None:
        faults.append(dialog.message)
        dialog.dismiss()

    def requested(request: Request) -> None:
        asked.append(request.url)

    def begin(view: str = "#/", *, at: str = url, size: ViewportSize = DESK, theme: Any = "light") -> Page:
        context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", heard)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", dismissed)
        page.on("request", requested)
        page.goto(f"{at}/dashboard/{view}")
        return page

    yield begin
    for context in contexts:
        for page in context.pages:  # an answer that is still being altered would fail in the middle of the next test
            page.unroute_all(behavior="wait")
        context.close()
    assert faults == []
    assert asked
    assert {urlsplit(one).hostname for one in asked} == {"127.0.0.1"}


def ready(page: Page) -> Page:
    """A page that has shown its first answer."""
    expect(page.locator("#status")).to_have_text("Live")
    return page


def tile(page: Page, name: str) -> Locator:
    return page.locator(".tile", has=page.get_by_text(name, exact=True)).locator(".big")


def rows(page: Page) -> Locator:
    return page.locator(".items tbody tr")


def test_rankers_at_a_glance_lead_to_one_of_them(window: Opener, url: str) -> None:
    page = ready(window())
    assert page.title() == "rankloop"
    card = page.locator(".ranker-card", has_text="shop")
    expect(page.locator(".ranker-card")).to_have_count(9)
    with Client(url) as client:
        answer = client.ranker("shop")
    treatment = answer.groups["treatment"]
    expect(card).to_contain_text("gts")
    expect(card).to_contain_text("Live, 50")
    expect(card).to_contain_text(f"{100 * (treatment.click_through or 0.0):.1f}")
    expect(card).to_contain_text("60")
    expect(page.locator(".ranker-card", has_text="guarded")).to_contain_text("Guardrail tripped")
    card.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    assert page.url.endswith("#/ranker/shop")
    assert page.title() == "shop · rankloop"
    page.get_by_label("Breadcrumb").get_by_text("Rankers").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Rankers")


@pytest.mark.slow
def test_numbers_move_while_feedback_comes_in(window: Opener, url: str) -> None:
    page = window("#/ranker/live")
    expect(page.get_by_role("heading", name="No decisions yet")).to_be_visible()
    with Client(url) as client:
        visit(client, "live", 9)
        expect(tile(page, "Decisions")).to_have_text("9")
        expect(tile(page, "Click-through rate")).to_contain_text("33.3")
        for _ in range(9):
            client.feedback("live", client.rank("live").id, clicked=[1])
        expect(tile(page, "Decisions")).to_have_text("18")
        expect(tile(page, "Click-through rate")).to_contain_text("66.7")
        client.rank("live")
        expect(tile(page, "Open decisions")).to_have_text("1")
    expect(page.locator(".figure svg[role=img] desc").first).to_contain_text("66.7")
    expect(page.get_by_text("Regret is not known. Only simulated visitors know the best list")).to_be_visible()
    expect(tile(page, "Lift over control")).to_have_text("–")


def test_the_page_of_a_ranker_says_what_the_api_says(window: Opener, url: str) -> None:
    page = ready(window("#/ranker/shop"))
    with Client(url) as client:
        answer = client.overview("shop", hours=1)
    lift = answer["lift"]
    expect(tile(page, "Lift over control")).to_contain_text(f"{abs(100 * lift['share']):.1f}")
    control = answer["groups"]["control"]["click_through"]
    expect(page.locator(".tile", has_text="Click-through")).to_contain_text(f"control {100 * control:.1f}")
    lost = f"over {answer['groups']['treatment']['regret_lists']} decisions, 0.250 per decision"
    expect(page.locator(".card", has_text="Cumulative regret").locator(".hint")).to_contain_text(lost)
    expect(page.locator(".counts", has_text="Log position")).to_contain_text(str(answer["position"]))
    expect(page.locator(".heat tbody tr")).to_have_count(5)
    page.locator(".over").first.hover()
    expect(page.locator(".tip").first).to_contain_text("Control 100.0")
    page.get_by_text("As a table").first.click()
    expect(page.locator(".tip").first).to_be_hidden()
    table = page.get_by_role("region", name="Click-through rate over time, as a table")
    expect(table.locator("tbody tr")).to_have_count(len(answer["times"]))
    expect(table.locator("thead th")).to_have_text(["Time", "Control", "Treatment"])


def test_kinds_of_feedback_are_a_table_of_a_ranker_that_declares_some(window: Opener, url: str) -> None:
    kinds = {"click": {"weight": 0.1}, "purchase": {}}
    with Client(url) as client:
        client.put_ranker("selling", slots=2, objective="amount", reward={"kinds": kinds})
        client.put_items("selling", [{"id": "a"}, {"id": "b"}])
        made = client.rank("selling")
        client.feedback("selling", made.id, clicked=[0])
        client.feedback("selling", made.id, kind="purchase", clicked=[0], value=19.5)
    page = ready(window("#/ranker/selling"))
    rows = page.get_by_role("region", name="Kinds of feedback").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("purchase")
    expect(rows.nth(1)).to_contain_text("19.5")
    page.goto(f"{url}/dashboard/#/ranker/selling/decision/{made.id}")
    expect(page.get_by_role("region", name="Event table").locator("tbody tr").nth(1)).to_contain_text("purchase")
    page = ready(window("#/ranker/shop"))
    expect(page.get_by_role("region", name="Kinds of feedback")).to_have_count(0)
    with Client(url) as client:
        client.delete_ranker("selling")


def test_values_are_in_the_objective_with_its_unit(window: Opener, url: str) -> None:
    with Client(url) as client:
        pinned = (client.rank("earning", visitor=f"v{n}", context=[1.0], pin={0: "dear"}) for n in range(60))
        made = next(one for one in pinned if one.group == "treatment")
        client.feedback("earning", made.id, clicked=[0])
        answer = client.report("earning", hours=1)["overview"]
    assert (answer["objective"], answer["unit"]) == ("revenue", "revenue")
    page = ready(window())
    card = page.locator(".ranker-card", has_text="earning")
    expect(card).to_contain_text("Revenue per list")
    expect(card).to_contain_text("trips if the revenue per list is 10")
    card.click()
    first = page.locator(".tile").first
    expect(first.locator("dt")).to_have_text("Revenue per list")
    expect(first).to_contain_text("click-through")
    expect(first).to_contain_text(f"control {answer['groups']['control']['value_per_list']:.2f}")
    expect(tile(page, "Lift over control")).to_contain_text(f"{100 * answer['lift']['share']:.1f}")
    expect(page.get_by_role("heading", name="Revenue per list")).to_be_visible()
    expect(page.get_by_text("The objective is revenue: a list is worth its revenue.")).to_be_visible()
    page.get_by_text("As a table").first.click()
    table = page.get_by_role("region", name="Revenue per list over time, as a table")
    expect(table.locator("thead th")).to_have_text(["Time", "Control", "Treatment"])
    expect(table.locator("tbody")).to_contain_text("2.00 (2.00 to 2.00)")  # in the minute of the lists before
    page.goto(f"{url}/dashboard/#/ranker/earning/decision/{made.id}")
    expect(page.locator(".counts", has_text="Value")).to_contain_text("50.0 (revenue)")


def test_the_worth_of_slots_is_drawn_where_a_policy_learns_it(window: Opener, url: str) -> None:
    with Client(url) as client:
        slots = client.report("choosing")["slot_worths"]
    page = ready(window("#/ranker/choosing"))
    page.locator(".items").scroll_into_view_if_needed()
    card = page.locator(".card", has=page.get_by_role("heading", name="What are your slots worth?"))
    expect(card.locator("svg rect")).to_have_count(3)
    expect(card.locator("svg desc")).to_contain_text("of one in slot 0")
    expect(card.locator("p").nth(1)).to_contain_text(f"A place in slot 2 is worth {100 * slots[2]['effect']:.0f}")
    card.get_by_text("As a table").click()
    expect(card.locator("tbody tr")).to_have_count(3)
    expect(card.locator("tbody tr").first).to_contain_text("by definition")
    other = ready(window("#/ranker/shop"))
    other.locator(".items").scroll_into_view_if_needed()
    expect(rows(other)).to_have_count(5)
    expect(other.get_by_role("heading", name="What are your slots worth?")).to_be_hidden()


@pytest.mark.parametrize("misleading", [False, True])
def test_trust_in_scores_is_said(window: Opener, url: str, misleading: bool) -> None:
    page = window()

    def change(body: Any) -> None:
        body["score_trust"] = {"mean": 0.9, "low": 0.8, "high": 1.0, "misleading": misleading}

    altered(page, "**/report?*", change)
    page.goto(f"{url}/dashboard/#/ranker/shop")
    page.locator(".items").scroll_into_view_if_needed()
    said = "Your scores mislead: they are trusted at 0.900" if misleading else "Your scores are trusted at 0.900"
    expect(page.locator(".trust")).to_contain_text(said)


def test_items_and_slots_show_numbers_of_one_group(window: Opener, url: str) -> None:
    """Control's lists are all clicked at the top, a third of the policy's are."""
    page = ready(window("#/ranker/shop"))
    with Client(url) as client:
        items = {one["item"]: one for one in client.report("shop")["items"]}
        slots = {one["item"]: one for one in client.slot_counts("shop")}
    tea = items["tea"]
    row = rows(page).filter(has=page.get_by_role("rowheader", name="tea"))
    expect(row.locator("td").nth(1)).to_have_text(str(tea["shown"]))
    expect(row.locator("td").nth(2)).to_have_text(str(tea["clicked"]))
    expect(row.locator("td").nth(3)).to_contain_text(f"{100 * tea['clicked'] / tea['shown']:.1f}")
    control = f"{tea['control_clicked']} / {tea['control_shown']} (100.0"
    expect(row.locator("td").nth(4)).to_contain_text(control)
    heat = page.locator(".heat")
    expect(heat.locator("caption")).to_have_text("Treatment group: times shown by slot")
    for group in ("treatment", "control"):
        page.get_by_role("group", name="Group").get_by_role("radio", name=group.capitalize()).check(force=True)
        expect(heat.locator("caption")).to_have_text(f"{group.capitalize()} group: times shown by slot")
        shown = [one for one in slots.values() if sum(one[group]["shown"])]
        expect(heat.locator("tbody tr")).to_have_count(len(shown))
        first = max(shown, key=lambda one: one[group]["shown"][0])
        cells = heat.locator("tbody tr").filter(has=page.get_by_role("rowheader", name=first["item"])).locator("td")
        expect(cells.first).to_have_text(str(first[group]["shown"][0]))
        title = f"Slot 0: shown {first[group]['shown'][0]}, clicked {first[group]['clicked'][0]} "
        expect(cells.first).to_have_attribute("title", re.compile(re.escape(title)))


def test_slots_without_control_have_no_group_switch(window: Opener) -> None:
    page = ready(window("#/ranker/evil"))
    expect(page.locator(".heat caption")).to_have_text("Treatment group: times shown by slot")
    expect(page.get_by_role("group", name="Group")).to_be_hidden()


def altered(page: Page, path: str, change: Callable[[Any], None]) -> None:
    """Let the page see another answer than the service gave."""

    def fulfil(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        change(body)
        route.fulfill(response=answer, json=body)

    page.route(path, fulfil)


def test_changes_are_marked_in_charts_in_words_and_in_their_tables(window: Opener) -> None:
    page = window("#/none")

    def mark(body: Any) -> None:
        last = body["overview"]["times"][-1]
        middle = last["start"] + last["seconds"] / 2
        body["overview"]["changes"] = [
            {"time": middle, "label": f"gts was promoted {EVIL[0]}"},
            {"time": last["start"] - 1e9, "label": "long ago"},
        ]

    altered(page, "**/v1/rankers/shop/overview?*", mark)
    page.goto(page.url.replace("#/none", "#/ranker/shop"))
    ready(page)
    chart = page.locator(".figure").first
    expect(chart.locator("line.change")).to_have_count(1)
    words = re.compile(rf"\d+ \w+, \d\d:\d\d:\d\d: gts was promoted {re.escape(EVIL[0])}\.")
    expect(chart.locator("line.change title")).to_have_text(words)
    expect(chart.locator("svg[role=img] desc")).to_have_text(words)
    at = float(chart.locator("line.change").get_attribute("x1") or "nan")
    chart.locator(".over").hover(position={"x": at, "y": 60})
    expect(chart.locator(".tip")).to_contain_text("gts was promoted")
    chart.get_by_text("As a table").click()
    expect(chart.get_by_role("list", name="Changes").get_by_role("listitem")).to_have_text([words])
    expect(page.get_by_text("long ago")).to_have_count(0)
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        assert faults_of(page) == [], theme


@pytest.mark.parametrize("answers", [True, False], ids=["overview", "no-overview"])
def test_a_quarantined_ranker_is_marked(window: Opener, url: str, answers: bool) -> None:
    """In the list and on its page, also where the service has no overview of it; the others are as they were."""
    page, why = window("#/none"), {"position": 17, "reason": "entry 17 cannot be applied"}
    said = "Quarantined at log position 17: Entry 17 cannot be applied. Other rankers are not affected."

    def one(body: Any) -> None:
        body["quarantine"] = why

    def every(body: Any) -> None:
        for ranker in body["rankers"]:
            ranker["quarantine"] = why if ranker["name"] == "shop" else None

    altered(page, "**/v1/rankers", every)
    altered(page, "**/v1/rankers/shop", one)
    if not answers:
        page.route("**/v1/rankers/shop/overview?*", lambda route: route.fulfill(status=503, json={"detail": "no"}))
    page.goto(page.url.replace("#/none", "#/"))
    card = ready(page).locator(".ranker-card", has_text="shop")
    expect(card).to_contain_text(said)
    expect(card.locator(".badge")).to_have_text("Quarantined")
    expect(page.locator(".ranker-card", has_text="Other rankers are not affected.")).to_have_count(1)
    for theme in THEMES:
        page.emulate_media(color_scheme=theme)
        assert faults_of(page) == [], theme
    card.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop")
    expect(page.locator(".quarantine")).to_contain_text(said)
    expect(page.locator(".tile")).to_have_count(5 if answers else 0)
    assert no_overflow(page)
    assert faults_of(page) == []
    page.goto(f"{url}/dashboard/#/ranker/evil")
    expect(page.locator(".tile").first).to_be_visible()
    expect(page.locator(".quarantine")).to_be_hidden()


def test_the_span_of_time_is_chosen_with_the_keyboard_and_kept_in_the_address(window: Opener) -> None:
    page = ready(window("#/ranker/shop"))
    with page.expect_request(lambda request: "overview?hours=24&" in request.url):
        page.get_by_role("radio", name="1 h").focus()
        page.keyboard.press("ArrowRight")
    assert page.url.endswith("#/ranker/shop?span=24h")
    page.reload()
    expect(ready(page).get_by_role("radio", name="24 h")).to_be_checked()


def test_a_tripped_guardrail_is_explained(window: Opener) -> None:
    page = ready(window("#/ranker/guarded"))
    banner = page.locator(".guardrail")
    expect(banner).to_contain_text("Guardrail tripped: all visitors see the control ranking")
    expect(banner).to_contain_text("is credibly more than 0% below")
    expect(page.locator(".facts")).to_contain_text("Guardrail tripped")


def test_a_form_in_a_page_of_another_origin_changes_nothing(browser: Browser, url: str, tmp_path: Path) -> None:
    """The page belongs to another service, on another port; it posts a form as any page in the world could."""
    with serving(ServiceSettings(log=str(tmp_path / "log.db"))) as other, Client(url) as client:
        context = browser.new_context(bypass_csp=True)  # the service's own pages have no forms that are sent
        page = context.new_page()
        before = client.ranker("bare").position
        for path in ("guardrail/reset", "promote"):
            page.goto(f"{other}/dashboard/")
            with page.expect_navigation(timeout=PATIENCE) as sent:
                page.evaluate(
                    """address => {
                        const form = document.createElement("form");
                        form.method = "post";
                        form.action = address;
                        document.body.append(form);
                        form.submit();
                    }""",
                    f"{url}/v1/rankers/bare/{path}",
                )
            assert sent.value is not None
            assert sent.value.status == 403
            assert client.ranker("bare").position == before
        context.close()


@pytest.mark.slow
def test_ten_thousand_items_are_sorted_searched_and_paged_by_the_service(window: Opener) -> None:
    page = ready(window("#/ranker/large"))
    expect(rows(page)).to_have_count(25)
    expect(page.locator(".pager")).to_contain_text("1–25 of 10,000 items")
    head = page.locator(".items thead th").first
    name = page.locator(".items").get_by_role("button", name="Item")
    name.click()
    expect(rows(page).first).to_contain_text("item-00000")
    expect(head).to_have_attribute("aria-sort", "ascending")
    name.click()
    expect(rows(page).first).to_contain_text("item-09999")
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.locator("[aria-sort]")).to_have_count(1)
    page.get_by_role("button", name="Next").click()
    expect(rows(page).first).to_contain_text("item-09974")
    expect(page.locator(".pager")).to_contain_text("26–50 of 10,000 items")
    page.get_by_label("Search items").fill("ITEM-0123")
    expect(rows(page)).to_have_count(10)
    expect(rows(page).first).to_contain_text("item-01239")
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.get_by_label("Search items").fill("nothing of the kind")
    expect(page.get_by_text("No item id contains “nothing of the kind”.")).to_be_visible()
    page.get_by_label("Search items").fill("")
    page.get_by_role("button", name="Shown").click()
    column = page.locator(".items tbody td:nth-child(3)")
    expect(column.first).not_to_have_text("0")
    shown = [int(one) for one in column.all_inner_texts()]
    assert shown == sorted(shown, reverse=True)


def test_a_decision_is_looked_up_and_explained(window: Opener, url: str) -> None:
    with Client(url) as client:
        made = client.rank("quiet", k=2, pin={1: "water"})
        client.feedback("quiet", made.id, clicked=[1], event="click-1")
        answer = client.decision("quiet", made.id)
    page = ready(window("#/ranker/quiet"))
    page.get_by_label("Decision id").fill(f" {made.id} ")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text(answer["summary"])).to_be_visible()
    slots = page.locator(".slots li")
    expect(slots).to_have_count(2)
    expect(slots.nth(0)).to_contain_text(answer["slots"][0]["reason"])
    expect(slots.nth(1)).to_contain_text("The request pinned the item to this slot.")
    expect(slots.nth(1)).to_contain_text("clicked")
    expect(page.get_by_role("region", name="Event table")).to_contain_text("click-1")
    page.get_by_label("Decision id").fill("no such/decision")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_text("'no such/decision' is not one that this ranker made")).to_be_visible()


def test_an_open_decision_is_shown_again_when_its_feedback_comes(window: Opener, url: str) -> None:
    with Client(url) as client:
        made = client.rank("quiet", k=1)
        page = ready(window(f"#/ranker/quiet/decision/{made.id}"))
        expect(page.get_by_text("The decision is open: no feedback yet.")).to_be_visible()
        client.feedback("quiet", made.id, clicked=[])
        expect(page.get_by_text("the visitor clicked nothing.")).to_be_visible()


def test_names_that_look_like_scripts_are_only_text(window: Opener, url: str) -> None:
    page = ready(window("#/ranker/evil"))
    for name in EVIL:
        expect(page.locator(".items tbody th").get_by_text(name, exact=True)).to_be_visible()
        expect(page.locator(".heat tbody th").get_by_text(name, exact=True)).to_be_visible()
    page.get_by_label("Segment").select_option(EVIL[1])
    expect(rows(page)).to_have_count(4)
    page.get_by_label("Search items").fill(EVIL[0])
    expect(rows(page)).to_have_count(1)
    with Client(url) as client:
        made = client.rank("evil", visitor=EVIL[0], segment=EVIL[1])
        client.feedback("evil", made.id, clicked=[0], event=EVIL[1])
    page.goto(f"{url}/dashboard/#/ranker/evil/decision/{made.id}")
    expect(page.get_by_role("region", name="Event table")).to_contain_text(EVIL[1])
    page.goto(f"{url}/dashboard/#/ranker/{EVIL[1].replace(' ', '%20')}")
    expect(page.get_by_text("does not exist")).to_be_visible()
    assert page.locator("main img, main script, main b").count() == 0


def test_missing_rankers_and_pages_are_named(window: Opener, url: str) -> None:
    page = window("#/ranker/none")
    expect(page.get_by_text("Ranker 'none' does not exist.")).to_be_visible()
    with Client(url) as client:
        client.put_ranker("none", {"policy": "random", "slots": 1})
        expect(page.get_by_role("heading", name="No decisions yet")).to_be_visible()
        client.delete_ranker("none")
    page.goto(f"{url}/dashboard/#/nowhere/at/all")
    expect(page.get_by_text("Page not found")).to_be_visible()
    page.get_by_role("link", name="All rankers", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Rankers")


@pytest.mark.slow
def test_a_poll_is_one_request_and_a_hidden_tab_sends_none(window: Opener) -> None:
    page = ready(window("#/ranker/shop"))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    for _ in range(2):
        with page.expect_request("**/v1/**"):
            pass
    assert set(asked) == {"/v1/rankers/shop/overview"}
    hide = "hidden => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    expect(page.locator("#status")).to_have_text("Paused")
    page.wait_for_timeout(200)
    asked.clear()
    page.wait_for_timeout(2500)
    assert asked == []
    page.evaluate(hide, False)
    expect(page.locator("#status")).to_have_text("Live")


@pytest.mark.slow
def test_a_service_without_rankers_a_service_that_is_down_and_one_that_comes_back(
    window: Opener, tmp_path: Path
) -> None:
    settings = ServiceSettings(log=str(tmp_path / "log.db"))
    with serving(settings) as address:
        page = ready(window(at=address))
        expect(page.get_by_role("heading", name="No rankers yet")).to_be_visible()
        with Client(address) as client:
            client.put_ranker("first", {"policy": "random", "slots": 1})
        expect(page.locator(".ranker-card")).to_contain_text("first")
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("The service does not respond.")
    expect(notice).to_contain_text("Retrying.")
    expect(page.locator("#status")).to_have_text("Disconnected")
    expect(page.locator(".ranker-card")).to_contain_text("first")  # what was known stays
    with serving(settings, port=cast("int", urlsplit(address).port)):
        expect(page.locator("#status")).to_have_text("Live")
        expect(notice).to_be_hidden()


@pytest.mark.slow
def test_a_key_is_asked_for_and_kept_only_while_the_tab_is_open(window: Opener, tmp_path: Path) -> None:
    made = {role: make_key(role, [role]) for role in ("read", "rank")}
    keys = [kept for _, kept in made.values()]
    with serving(ServiceSettings.of({"log": str(tmp_path / "log.db"), "keys": keys})) as address:
        page = window(at=address)
        field = page.get_by_label("API key with the role read")
        expect(page.get_by_text("An API key is needed")).to_be_visible()
        page.get_by_role("button", name="Sign in").click()  # nothing given: nothing happens
        field.fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_text("The service rejected this key. An API key is needed")).to_be_visible()
        field.fill(made["rank"][0])
        page.keyboard.press("Enter")
        expect(page.get_by_text("the role read is needed")).to_be_visible()
        field.fill(made["read"][0])
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="No rankers yet")).to_be_visible()
        assert made["read"][0] not in page.url
        assert page.evaluate("Object.values(sessionStorage)") == [made["read"][0]]
        assert page.evaluate("localStorage.length") == 0
        page.reload()
        expect(page.get_by_role("heading", name="No rankers yet")).to_be_visible()
        page.get_by_role("button", name="Forget key").click()
        expect(field).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


def test_a_theme_is_the_systems_or_the_one_that_was_chosen(window: Opener) -> None:
    page = ready(window(theme="dark"))
    paint = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paint)
    button = page.get_by_role("button", name=re.compile("^Theme"))
    button.click()
    light = page.evaluate(paint)
    assert light != dark
    page.reload()
    assert page.evaluate(paint) == light
    expect(button).to_have_attribute("aria-label", "Theme: light. Change to dark")
    button.click()
    assert page.evaluate(paint) == dark
    button.click()  # as the system has it
    assert page.evaluate("localStorage.length") == 0
    page.emulate_media(color_scheme="light")
    assert page.evaluate(paint) == light


def test_the_keyboard_alone_is_enough(window: Opener) -> None:
    page = ready(window("#/ranker/shop"))
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to main content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    assert page.url.endswith("#/ranker/shop")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break  # after the last one
        reached.add(page.evaluate("(document.activeElement.textContent || document.activeElement.type).trim()"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none" or page.evaluate("document.activeElement.type") == "radio"
    assert {"Estimate", "Shown", "As a table", "Explain"} <= reached


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_view_fits_and_axe_finds_nothing_in_both_themes(window: Opener, url: str, size: ViewportSize) -> None:
    with Client(url) as client:
        made = client.rank("quiet", k=3)
        client.feedback("quiet", made.id, clicked=[0], event="e" * 100 + made.id)
    page = ready(window(size=size))
    for view in (
        "",
        "ranker/shop",
        "ranker/guarded",
        "ranker/earning",
        "ranker/choosing",
        "ranker/bare",
        "ranker/none",
        f"ranker/quiet/decision/{made.id}",
    ):
        page.goto(f"{url}/dashboard/#/{view}")
        expect(page.locator("#status")).to_have_text(re.compile("Live|Not found"))
        for summary in page.get_by_text("As a table").all():
            summary.click()
        assert no_overflow(page), view
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            assert faults_of(page) == [], f"{view} {theme}"
    page.goto(f"{url}/dashboard/#/ranker/large")
    expect(rows(page)).to_have_count(25)
    assert no_overflow(page)


def faults_of(page: Page) -> list[tuple[str, str]]:
    """What axe finds that is serious or critical."""
    found = Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


def no_overflow(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


CUT_OFF = """() => [...document.querySelectorAll("body *")].filter((node) => {
  if (!(node instanceof HTMLElement) || node.matches("input, select, .hidden, .table-region, #trail li")) return false;
  if (node.closest(".hidden") || getComputedStyle(node).display === "inline" || node.clientWidth === 0) return false;
  const inside = node.parentElement.closest(".table-region");
  if (!inside && node.getBoundingClientRect().right > window.innerWidth + 1) return true;
  return node.scrollWidth > node.clientWidth + 1;
}).map((node) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 60)}`)"""
"""Elements that reach beyond the page or whose content is wider than they are, except containers that scroll."""


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["1280", "390"])
def test_no_view_overflows_the_page_or_cuts_off_content(window: Opener, url: str, size: ViewportSize) -> None:
    with Client(url) as client:
        made = client.rank("quiet", k=3)
        client.feedback("quiet", made.id, clicked=[0], event="e" * 100 + made.id)
    page = ready(window(size=size))
    rankers = ("shop", "guarded", "bare", "evil", "large")
    for view in ("", *(f"ranker/{name}" for name in rankers), f"ranker/quiet/decision/{made.id}"):
        page.goto(f"{url}/dashboard/#/{view}")
        expect(page.locator("#status")).to_have_text("Live")
        for summary in page.get_by_text("As a table").all():
            summary.click()
        assert no_overflow(page), view
        assert page.evaluate(CUT_OFF) == [], view


@pytest.mark.slow
def test_the_key_form_and_a_notice_are_accessible(window: Opener, tmp_path: Path) -> None:
    _, kept = make_key("k", ["read"])

    def look(page: Page) -> None:
        assert no_overflow(page)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            assert faults_of(page) == [], theme

    with serving(ServiceSettings.of({"log": str(tmp_path / "log.db"), "keys": [kept]})) as address:
        page = window(at=address, size=PHONE)
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        look(page)
        page.route("**/v1/**", lambda route: route.abort())
        page.get_by_label("API key with the role read").fill("x")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("The service does not respond.")
        look(page)
