"""Reports: the right sentences for each situation, a self-contained page, and the command."""

from __future__ import annotations

import json
import re
import runpy
import socket
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop.analytics.intervals import NORMAL_95
from rankloop.cli.main import main
from rankloop.client import Client
from rankloop.reports import ReportData, Section, page, sections, text
from rankloop.reports import number_format as written
from rankloop.reports.ab_test_verdict import verdict
from rankloop.reports.svg import ticks, time_ticks
from rankloop.reports.text import sparkline
from rankloop.reports.time_buckets import first_and_last_third, merge_buckets
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import LoggedConfig
from test_client import served  # noqa: F401
from test_ranker import Clock

ROOT = Path(__file__).parents[1]
NASTY = "<script>alert('x')</script>&\"quoted\""
ORDER = ["a", "b", "c", NASTY]


def facts(ranker: Ranker, clock: Clock, hours: float = 200.0) -> ReportData:
    ranker.flush()
    return ReportData("shop", clock.now, ranker.config.as_mapping(), ranker.overview(hours), ranker.diagnosis())


def played(rate: float, control: float, lists: int, seed: int = 0, **more: Any) -> tuple[Ranker, Clock]:
    """A ranker of which each group is clicked with its own probability, whatever it shows; a list every minute."""
    clock, rng = Clock(), np.random.default_rng(seed)
    given: dict[str, Any] = {"policy": "ts-beta", "slots": 2, "prior": [1, 4], "traffic": 0.5}
    ranker = Ranker(LoggedConfig.of(given | more), clock=clock)
    features: dict[str, Any] = {"features": [1.0]} if "dim" in more else {}
    ranker.put_items([{"id": id, **features} for id in ORDER])
    visit(ranker, clock, rng, rate, control, lists)
    return ranker, clock


def visit(ranker: Ranker, clock: Clock, rng: np.random.Generator, policy: float, control: float, lists: int) -> None:
    for _ in range(lists):
        ranking = ranker.rank(order=ORDER, visitor=f"v{clock.now}")
        hit = rng.random() < (policy if ranking.group == "treatment" else control) and len(ranking.ids) == 2
        clock.now += 2.0
        ranker.feedback(ranking.id, clicked=[int(rng.integers(2))] if hit else [], regret=0.25)
        clock.now += 58.0


def first(ranker: Ranker, clock: Clock) -> Section:
    return sections(facts(ranker, clock))[0]


def said(ranker: Ranker, clock: Clock, key: str) -> str:
    (found,) = [section for section in sections(facts(ranker, clock)) if section.key == key]
    return " ".join([found.headline, *found.lines])


# Is it better?


def test_better() -> None:
    ranker, clock = played(0.3, 0.15, 1200)
    section = first(ranker, clock)
    assert section.headline.startswith("Better than control: ")
    assert section.tone == "good"
    lift = ranker.overview().lift
    assert lift is not None
    assert f"{100 * lift.low:+.1f} to {100 * lift.high:+.1f}" in section.lines[0]
    assert "more than 99.9 %" in section.lines[0]
    assert (
        "The result is also significant in a sequential test, so it holds however often you check it." in section.lines
    )


def test_worse() -> None:
    section = first(*played(0.1, 0.25, 1200))
    assert section.headline.startswith("Worse than control: ")
    assert section.tone == "bad"
    assert "less than 0.1 %" in section.lines[0]
    assert "−" in section.headline, "a proper minus"


def test_too_early_says_how_many_lists_it_would_take() -> None:
    """(1.96 + 0.84)² (p(1-p)/f + q(1-q)/(1-f))/(p-q)² lists, f the policy's share, to two figures."""
    ranker, clock = played(0.22, 0.2, 600, seed=8)
    policy, control = (ranker.overview().groups[name] for name in ("treatment", "control"))
    p, q, f = policy.clicked / policy.settled, control.clicked / control.settled, policy.settled / 600
    lists = (NORMAL_95 + 0.8416212) ** 2 * (p * (1 - p) / f + q * (1 - q) / (1 - f)) / (p - q) ** 2
    section = first(ranker, clock)
    assert section.headline.startswith("Too early to tell: ")
    assert section.tone == "open"
    (line,) = [line for line in section.lines if "would detect it" in line]
    assert f"about {written.rounded(lists)} lists" in line
    assert "(600 so far), in about" in line, "a list a minute: the pace is known"


def test_no_difference_says_how_many_lists_a_small_one_would_take() -> None:
    """Equal groups: a difference that takes many times the lists so far is no reason to wait."""
    ranker, clock = played(0.2, 0.2, 800, seed=1)
    section = first(ranker, clock)
    assert abs(verdict(facts(ranker, clock)).difference) < 0.01
    assert "A lift of 5 % would take about" in " ".join(section.lines)


def test_equivalent_if_any_lift_is_below_the_margin() -> None:
    section = first(*played(0.97, 0.97, 3000, seed=1))
    assert section.headline.startswith("Equivalent to control: ")


def test_no_control_group_says_how_to_get_one() -> None:
    ranker, clock = played(0.3, 0.0, 200, traffic=1.0)
    section = first(ranker, clock)
    assert "No control group" in section.headline
    assert "traffic: 0.9" in section.lines[0]
    assert "order" in section.lines[0]
    assert verdict(facts(ranker, clock)).state == "no-control"


def test_shadow_mode_has_no_comparison() -> None:
    section = first(*played(0.0, 0.3, 100, mode="shadow"))
    assert "shadow mode" in section.headline
    assert "traffic: 0.1" in section.lines[0]


def test_nothing_is_settled_yet() -> None:
    clock = Clock()
    ranker = Ranker(RankerConfig.of({"policy": "gts", "slots": 2, "traffic": 0.5}), clock=clock)
    ranker.put_items([{"id": id} for id in ORDER])
    for n in range(20):
        ranker.rank(order=ORDER, visitor=f"v{n}")
    assert "no feedback for both groups yet" in first(ranker, clock).headline
    assert "20 open decisions" in first(ranker, clock).lines[0]


def test_a_ranker_without_decisions_has_a_report() -> None:
    clock = Clock()
    ranker = Ranker(RankerConfig.of({"policy": "gts", "slots": 2}), clock=clock)
    output = text(facts(ranker, clock))
    assert "No control group" in output
    assert "No item has been shown yet." in output
    ET.fromstring(page(facts(ranker, clock)))


def test_traffic_that_changed_is_compared_hour_by_hour() -> None:
    """Quiet hours almost all of control's, busy ones almost all of the policy's: the same within each, and said so."""
    clock, rng = Clock(), np.random.default_rng(5)
    ranker = Ranker(RankerConfig.of({"policy": "random", "slots": 2, "traffic": 0.1}), clock=clock)
    ranker.put_items([{"id": id} for id in ORDER])
    visit(ranker, clock, rng, 0.1, 0.1, 900)
    ranker.adjust(RankerConfig.of({"policy": "random", "slots": 2, "traffic": 0.9}))
    visit(ranker, clock, rng, 0.4, 0.4, 900)
    found = verdict(facts(ranker, clock))
    lift = ranker.overview().lift
    assert lift is not None
    assert lift.low > 0.1, "all hours together the policy seems far better"
    assert found.hourly
    assert found.state == "inconclusive"
    assert "compared hour by hour" in " ".join(first(ranker, clock).lines)


def test_a_report_is_in_the_objective_and_says_the_unit() -> None:
    """Treatment is clicked less and earns more: the verdict is about revenue, click-through stands beside it."""
    clock, rng = Clock(), np.random.default_rng(2)
    given = {"policy": "ucr", "slots": 1, "context": 1, "traffic": 0.5, "objective": "revenue", "guardrail": True}
    ranker = Ranker(RankerConfig.of(given), clock=clock)
    ranker.put_items([{"id": "cheap", "price": 1.0}, {"id": "dear", "price": 20.0}])
    for n in range(1200):
        made = ranker.rank(order=["cheap"], visitor=f"v{n}", context=[1.0])
        rate = 0.2 if made.ids == ("dear",) else 0.4
        ranker.feedback(made.id, clicked=[0] if rng.random() < rate else [])
        clock.now += 60.0
    section = first(ranker, clock)
    assert section.headline.startswith("Better than control: revenue per list ")
    assert section.lines[0].startswith("Difference in revenue per list: +")
    assert " revenue (95 % confidence interval +" in section.lines[0]
    group = ranker.overview().groups["treatment"]
    assert f"Total revenue: {group.value:,.0f} over {group.settled} lists in treatment" in " ".join(section.lines)
    assert "rose from" in said(ranker, clock, "time") or "revenue per list went from" in said(ranker, clock, "time")
    assert "Click-through rate, which the objective does not count: " in said(ranker, clock, "time")
    assert "it trips if the revenue per list is significantly more than 10 %" in said(ranker, clock, "rollout")
    tree = ET.fromstring(page(facts(ranker, clock)))
    titles = [svg.findtext("title") for svg in tree.iter("svg")]
    assert "Revenue per list over time, with 95 % confidence bands" in titles
    assert "Difference in revenue per list with its 95 % confidence interval" in titles
    assert "revenue per list, treatment" in words_of(tree)
    assert re.search(r"treatment +[▁▂▃▄▅▆▇█ ]{3,}", text(facts(ranker, clock)))


@pytest.mark.parametrize("losses", [[0.0, -1.0, -3.0], [-1.0, -1.5, -2.0]])
def test_a_report_of_a_negative_value_is_drawn_and_written(losses: list[float]) -> None:
    ranker, clock = played(0.3, 0.2, 150, policy="ind", prior=None, dim=1, rewards=[1.0, 0.5], losses=losses)
    data = facts(ranker, clock)
    assert (data.overview.objective, data.overview.unit) == ("net-reward", "net reward")
    assert ", control −" in first(ranker, clock).headline
    tree = ET.fromstring(page(data))
    for element in tree.iter("path"):
        assert "nan" not in element.attrib["d"]


# Other sections


def test_a_rise_is_called_one_and_noise_is_not() -> None:
    ranker, clock = played(0.1, 0.1, 400, traffic=1.0)
    assert said(ranker, clock, "time").startswith("No significant trend.")
    visit(ranker, clock, np.random.default_rng(9), 0.4, 0.1, 400)
    assert said(ranker, clock, "time").startswith("The click-through rate rose from ")
    visit(ranker, clock, np.random.default_rng(9), 0.02, 0.1, 1200)
    assert said(ranker, clock, "time").startswith("The click-through rate fell from ")


def test_regret_is_reported_where_feedback_has_it() -> None:
    ranker, clock = played(0.3, 0.2, 100)
    assert "Regret per list: 0.25 in treatment, 0.25 in control." in said(ranker, clock, "regret")
    silent = Ranker(RankerConfig.of({"policy": "gts", "slots": 2}), clock=clock)
    assert "regret" not in {section.key for section in sections(facts(silent, clock))}


def test_items_and_exploration() -> None:
    ranker, clock = played(0.3, 0.2, 600)
    output = said(ranker, clock, "exploration")
    assert output.startswith("Exploration made up ")
    assert "explore_daily" in output
    assert "By current estimates" in output
    ranker.put_items([{"id": "unseen"}])
    assert "Never shown: 1 item (unseen)." in said(ranker, clock, "items")
    frugal, clock = played(0.3, 0.2, 400, explore_daily=60)
    assert re.search(
        r"Exploration changed \d+ of \d+ lists. Their click-through rate is [\d.]+ %",
        said(frugal, clock, "exploration"),
    )
    blind, clock = played(0.3, 0.2, 60, policy="toprank", prior=None, rounds=100)
    assert "is unknown" in said(blind, clock, "exploration")


def test_a_wrong_click_model_comes_first_with_the_command_that_fixes_it() -> None:
    clock, rng = Clock(), np.random.default_rng(1)
    ranker = Ranker(RankerConfig.of({"policy": "cascade-ucb1", "slots": 3}), clock=clock)
    ranker.put_items([{"id": id} for id in ORDER])
    for _ in range(800):
        ranker.feedback(ranker.rank().id, clicked=[slot for slot in range(3) if rng.random() < 0.3])
        clock.now += 10.0
    found = sections(facts(ranker, clock))[1]
    assert (found.key, found.tone) == ("click_model", "bad")
    assert "have several clicks" in " ".join(found.lines)
    assert found.commands == ['rankloop rankers challenger shop --set \'params={"feedback": "semi-bandit"}\'']
    assert "rankloop rankers challenger shop" in text(facts(ranker, clock))


def test_the_state_of_the_rollout() -> None:
    ranker, clock = played(0.3, 0.2, 100, guardrail=True)
    output = said(ranker, clock, "rollout")
    assert "50 % of visitors" in output
    assert "more than 10 % below control" in output
    assert (
        "Feedback received for 100 of 100 lists (delay: median at most 10 seconds, 90th percentile at most 10 seconds, "
        "mean 2 seconds)." in output
    )
    assert f"position {ranker.position:,}" in output
    ranker.feedback(ranker.rank(order=ORDER).id, clicked=[0])
    late = ranker.rank(order=ORDER).id
    for event in ("one", "two"):
        ranker.feedback(late, clicked=[0], event=event)
    assert "1 feedback event arrived too late" in said(ranker, clock, "rollout")
    plain, clock = played(0.3, 0.2, 10, traffic=1.0)
    assert "all visitors" in said(plain, clock, "rollout")
    assert "No guardrail" in said(plain, clock, "rollout")


def test_a_tripped_guardrail_comes_first() -> None:
    ranker, clock = played(0.02, 0.5, 600, guardrail={"min_lists": 50})
    ranker.tick()
    found = sections(facts(ranker, clock))[1]
    assert (found.key, found.tone) == ("rollout", "bad")
    assert "below control's" in found.lines[0]
    assert found.commands == ["rankloop rankers reset-guardrail shop"]


# The page


def words_of(element: ET.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


@pytest.fixture(scope="module")
def data() -> ReportData:
    return facts(*played(0.3, 0.15, 900))


def test_the_page_needs_nothing_else_and_runs_nothing(data: ReportData) -> None:
    made = page(data)
    assert "http" not in made
    for forbidden in (
        "<script",
        "<link",
        "<iframe",
        "<img",
        "<object",
        "src=",
        "href=",
        "url(",
        "@import",
        "javascript:",
    ):
        assert forbidden not in made.lower(), forbidden
    assert not re.search(r"\son[a-z]+=", made), "no handlers"


def test_the_page_is_well_formed_and_has_all_the_words(data: ReportData) -> None:
    tree = ET.fromstring(page(data))
    words = words_of(tree).replace("\u00a0", " ")
    for section in sections(data):
        for line in (section.title, section.headline, *section.lines):
            assert " ".join(line.split()) in words
        for table in section.tables:
            for row in table.rows:
                assert all(cell in words for cell in row)
    assert len(list(tree.iter("svg"))) >= 3
    assert all(svg.find("title") is not None for svg in tree.iter("svg"))
    assert {"prefers-color-scheme: dark", "@media print"} <= {
        query
        for query in ("prefers-color-scheme: dark", "@media print")
        if query in (tree.findtext("head/style") or "")
    }


def test_what_others_wrote_is_text_and_nothing_else(data: ReportData) -> None:
    made = page(data)
    assert NASTY in words_of(ET.fromstring(made))
    assert "alert('x')</script>" not in made
    named = ReportData("<b>&\"'", data.time, data.config, data.overview, data.diagnosis)
    tree = ET.fromstring(page(named))
    assert tree.findtext("body/main/header/h1") == "<b>&\"'"
    assert not any(words_of(b).startswith("&") for b in tree.iter("b"))


def test_every_number_of_a_chart_is_one(data: ReportData) -> None:
    tree = ET.fromstring(page(data))
    for svg in tree.iter("svg"):
        for element in svg.iter():
            for name, value in element.attrib.items():
                if name in ("x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height"):
                    assert np.isfinite(float(value))
                if name == "d":
                    assert "nan" not in value
                    assert "inf" not in value


def test_the_terminal_has_all_the_words_too(data: ReportData) -> None:
    made = text(data, 80)
    flat = " ".join(made.split())
    for section in sections(data):
        for line in (section.title, section.headline, *section.lines):
            assert " ".join(line.split()) in flat
    assert re.search(r"treatment +[▁▂▃▄▅▆▇█ ]{3,}", made)


# Parts


def test_merged_buckets_keep_every_list() -> None:
    ranker, clock = played(0.3, 0.2, 500)
    times = facts(ranker, clock).overview.times
    for most in (1, 7, 40):
        found = merge_buckets(times, most)
        assert len(found) <= most
        assert sum(one.treatment.settled + one.control.settled for one in found) == 500
        assert all(a.start + a.seconds == b.start for a, b in pairwise(found))
    assert merge_buckets([], 5) == []
    parts = first_and_last_third(times)
    assert parts is not None
    assert all(0.2 < part.settled / facts(ranker, clock).treatment.settled < 0.45 for part in parts)


def test_numbers_as_people_read_them() -> None:
    assert written.percent(0.1234) == "12.3 %"
    assert written.percent(0.01234) == "1.23 %"
    assert written.percent(None) == "–"
    assert [written.rounded(n) for n in (7.4, 123.0, 98765.0)] == ["7", "120", "99,000"]
    assert [written.duration(s) for s in (0.5, 1.0, 90.0, 7200.0, 86400 * 3.5)] == [
        "0.5 seconds", "1 second", "1.5 minutes", "2 hours", "3.5 days",
    ]  # fmt: skip
    assert written.count(1, "list") == "1 list"
    assert written.moment(0.0) == "1970-01-01 00:00 UTC"
    assert ticks(0.0, 0.43) == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert len(time_ticks(0.0, 86400.0 * 80)) <= 7
    assert sparkline([0.0, None, 1.0], 0.0, 1.0) == "▁ █"


# The command


@pytest.fixture
def shop(served: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: F811
    """A service with a ranker that was visited; where it is."""
    url, keys = served
    monkeypatch.setenv("RANKLOOP_URL", url)
    monkeypatch.setenv("RANKLOOP_KEY", keys["admin"])
    with Client(url, keys["admin"]) as service:
        service.put_ranker("shop", {"policy": "cascade-ucb1", "slots": 2, "traffic": 0.5})
        service.put_items("shop", [{"id": id} for id in ORDER])
        for n in range(60):
            ranking = service.rank("shop", order=ORDER, visitor=f"v{n}")
            service.feedback("shop", ranking.id, clicked=[n % 2] if n % 3 else [])
    return url


def test_a_report_by_command(shop: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    assert main(["report", "shop", "--html", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("shop · cascade-ucb1 · ")
    for title in (
        "Is it better than control?",
        "Items",
        "Exploration",
        "Does the click model fit?",
        "Rollout and feedback",
    ):
        assert f"\n{title}\n" in out
    ET.fromstring(path.read_text(encoding="utf-8"))
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    assert main(["report", "shop", "--json", "--hours", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ranker"] == "shop"
    assert found["overview"]["groups"]["treatment"]["lists"] + found["overview"]["groups"]["control"]["lists"] == 60
    assert {section["key"] for section in found["sections"]} >= {"comparison", "items", "click_model", "rollout"}


def sentence(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said on stderr: one line, and nothing on stdout."""
    assert main(["report", *words]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("rankloop: ")
    assert output.err.count("\n") == 1
    return output.err


def test_what_can_be_wrong_is_said_in_one_sentence(
    shop: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "ranker 'missing' does not exist" in sentence(capsys, "missing")
    assert "--hours is 0.0" in sentence(capsys, "shop", "--hours", "0")
    assert "--html" in sentence(capsys, "shop", "--html", str(tmp_path))
    (tmp_path / "file").write_text("")
    assert "--html" in sentence(capsys, "shop", "--html", str(tmp_path / "file" / "report.html"))
    monkeypatch.setenv("RANKLOOP_KEY", "rl_wrong")
    assert "key" in sentence(capsys, "shop")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert f"no answer from 127.0.0.1:{port}" in sentence(capsys, "shop", "--url", f"http://127.0.0.1:{port}")


def test_the_example_of_the_documentation_runs_as_written(
    served: tuple[str, dict[str, str]],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With fewer visitors, and where this service is."""
    url, keys = served
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "report.md").read_text(encoding="utf-8"), re.DOTALL
    )
    for what, instead in (("3000", "150"), ('Client("http://127.0.0.1:8080")', f"Client({url!r}, {keys['admin']!r})")):
        assert what in code
        code = code.replace(what, instead)
    exec(compile(code, "report.md", "exec"), {"__name__": "page"})
    monkeypatch.setenv("RANKLOOP_KEY", keys["admin"])
    assert main(["report", "cafe", "--url", url]) == 0
    assert "Is it better than control?" in capsys.readouterr().out


def test_the_example_of_a_page_runs(tmp_path: Path) -> None:
    run = runpy.run_path(str(ROOT / "examples" / "report.py"))
    run["main"](tmp_path / "report.html", lists=150)
    ET.fromstring((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_a_service_of_another_version_is_named(data: ReportData) -> None:
    from rankloop.errors import RankloopError

    with pytest.raises(RankloopError, match="another version"):
        ReportData.of("shop", 0.0, {}, {"policy": "gts"}, {})
