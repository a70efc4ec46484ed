"""Simulated visitors: who comes and what they tell; and against a real service, what it has learned and counted."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tools.serving import serving

from rankloop.cli.main import main, parser
from rankloop.client import Calls, Client, NotAllowed, TooMany, Unavailable
from rankloop.client.errors import refusal
from rankloop.errors import InvalidInput, RankloopError, Unsupported
from rankloop.eventlog import SqliteStore
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.access.auth import make_key
from rankloop.service.problems import RequestRefused, response
from rankloop.types import EMPTY, BetaPrior, Setting
from rankloop.visitors import Audience, Run, VisitorBehaviour, VisitPlan, fit, load_world, visit_requests
from rankloop.visitors.audience import Visitor
from rankloop.visitors.ranker_fit import check_ranker, settings_for, values_for
from rankloop.visitors.retry import RetriesExhausted, Retry, RunStopped
from rankloop.visitors.schedule import Schedule
from rankloop.visitors.statistics import LatencyHistogram
from rankloop.worlds import ClickWorld, from_spec
from rankloop.worlds.attraction import JudgedAttraction
from rankloop.worlds.click_models import CascadeClicks
from small_worlds import CASCADE, DEPENDENT, POSITION

ROOT = Path(__file__).parents[1]
EASY: dict[str, Any] = {"kind": "cascade", "attraction": [0.9, 0.8] + [0.02] * 8, "k": 2}
"""A random list is clicked by 35 % of visitors, the best by 98 %."""
CONTEXT: dict[str, Any] = {"kind": "item-position", "items": 5, "dim": 3, "k": 2}
PRICES: dict[str, Any] = CONTEXT | {"objective": "revenue", "prices": [1, 2, 3, 4, 5]}
REWARDS: dict[str, Any] = {"kind": "cascade-rewards", "attraction": [0.5, 0.2, 0.1], "budget": [1, 3]}
COVERAGE: dict[str, Any] = {
    "kind": "coverage-rewards",
    "coverage": [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]],
    "weights": [1.0, -1.0],
    "budget": 2,
}
CHOICE: dict[str, Any] = {"kind": "choice", "attraction": {"beta": {"items": 6, "a": 1, "b": 2}}, "bias": [1.0, 0.5]}
FRESH: dict[str, Any] = {
    "kind": "cascade-rewards",
    "fresh": {"items": 4, "dim": 2},
    "weights": [1.0, 1.0],
    "budget": 2,
}
FOUR_SIGMA = 4.0
"""A share of independent draws is farther from its probability for one seed in 15,000; the seeds are fixed."""


def audience(world: Any = None, *, seed: int = 3, run: str = "a", **behaviour: Any) -> Audience:
    made = load_world()[0] if world is None else from_spec(world)
    return Audience(made, seed=seed, run=run, behaviour=VisitorBehaviour(**behaviour))


# Who comes


def test_events_are_named_after_run_and_round_and_the_same_run_brings_the_same_visitors() -> None:
    one, same, other = (audience(run=run, late=0.3, lost=0.2) for run in ("a", "a", "b"))
    shown = one.columns(one.fixed_order()[:4], 4)
    first, again, different = ([who.next() for _ in range(300)] for who in (one, same, other))
    assert [visitor.event for visitor in first] == [f"a-{i}" for i in range(300)]
    assert {visitor.event for visitor in first}.isdisjoint(visitor.event for visitor in different)

    def behaviour(visitors: list[Any]) -> list[Any]:
        return [(v.person, v.delay, v.click(shown)) for v in visitors]

    assert behaviour(first) == behaviour(again)
    assert [v.click(shown) for v in first] != [v.click(shown) for v in different]


def test_late_and_lost_are_shares_and_the_delay_is_a_mean() -> None:
    n = 20_000
    who = audience(CASCADE, late=0.25, lost=0.1, delay=3.0, people=50)
    visitors = [who.next() for _ in range(n)]
    delays = [visitor.delay for visitor in visitors]
    late = [delay for delay in delays if delay]
    for found, share in ((delays.count(None), 0.1), (len(late), 0.25), (delays.count(0.0), 0.65)):
        assert abs(found - n * share) < FOUR_SIGMA * (n * share * (1 - share)) ** 0.5
    # The standard deviation of an exponential time is its mean.
    assert abs(np.mean(late) - 3.0) < FOUR_SIGMA * 3.0 / len(late) ** 0.5
    assert {visitor.person for visitor in visitors} == {f"v{i}" for i in range(50)}


def test_clicks_do_not_depend_on_when_feedback_is_sent() -> None:
    one, other = audience(CASCADE), audience(CASCADE, late=0.5, lost=0.5)
    shown = one.columns(["item-1", "item-3"], 2)
    assert [one.next().click(shown) for _ in range(200)] == [other.next().click(shown) for _ in range(200)]


@pytest.mark.parametrize(
    "world", [CASCADE, DEPENDENT, POSITION, CONTEXT, PRICES, REWARDS, COVERAGE, CHOICE], ids=lambda w: w["kind"]
)
def test_any_world_with_lasting_items_can_be_visited(world: Any) -> None:
    who = audience(world)
    setting = who.setting
    assert [item.id for item in who.items] == [f"item-{i}" for i in range(setting.items)]
    assert all((item.features is None) == (setting.dim is None) for item in who.items)
    asked = set()
    for _ in range(20):
        visitor = who.next()
        asked.add(visitor.k)
        order = who.fixed_order()[: visitor.k]
        clicked, regret = visitor.click(who.columns(order, visitor.k))
        assert all(0 <= slot < len(order) for slot in clicked)
        assert regret >= -1e-12
        assert len(visitor.context or ()) == (setting.context or 0)
    assert max(asked) == setting.slots
    assert who.columns(["item-0"], 2).tolist() == [[0, EMPTY]]
    with pytest.raises(RankloopError, match="'tea', which is none"):
        who.columns(["tea"], 2)


def test_prices_are_the_worlds() -> None:
    assert [item.price for item in audience(PRICES).items] == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_only_items_that_may_be_listed_are_the_rankers() -> None:
    """A query of judged documents: the longest has four, this one has three, and so its items keep their places."""
    prior = BetaPrior(np.array([[1.0, 2.0, 3.0, 1.0]]), np.full((1, 4), 10.0))
    x = np.arange(8.0).reshape(1, 4, 2)
    query = JudgedAttraction(np.array([[0.5, 0.0, 0.1, 0.2]]), x, np.array([[True, False, True, True]]), prior)
    who = Audience(ClickWorld(CascadeClicks(), query, 2), seed=0, run="a")
    assert [(item.id, item.features) for item in who.items] == [
        ("item-0", (0.0, 1.0)),
        ("item-2", (4.0, 5.0)),
        ("item-3", (6.0, 7.0)),
    ]
    assert who.columns(["item-3", "item-0"], 2).tolist() == [[3, 0]]


def test_items_that_do_not_return_are_refused() -> None:
    with pytest.raises(Unsupported, match="no item returns"):
        audience(FRESH)


def test_the_order_of_a_control_group_depends_on_the_seed_alone() -> None:
    orders = [audience(seed=seed, run=run).fixed_order() for seed, run in ((1, "a"), (1, "b"), (2, "a"))]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(item.id for item in audience().items)


# What is sent


def test_a_list_is_asked_for_with_what_the_visitor_brings() -> None:
    visitor = audience(CONTEXT).next()
    assert visit_requests.rank("r", visitor).body == {"k": 2, "context": visitor.context}
    assert visit_requests.rank("r", visitor, candidates=["item-1"]).body == {
        "k": 2,
        "context": visitor.context,
        "candidates": ["item-1"],
    }
    controlled = visit_requests.rank("r", visitor, order=["item-1", "item-0"]).body
    assert controlled == {"k": 2, "context": visitor.context, "order": ["item-1", "item-0"], "visitor": visitor.person}


ROWS: dict[str, Any] = {
    "kind": "cascade",
    "attraction": {"linear": {"items": 5, "dim": 2, "fresh_features": True}},
    "context": {"dim": 3},
    "objective": "revenue",
    "prices": {"fresh": [1, 2]},
    "k": 2,
}
AMOUNTS: dict[str, Any] = {"kind": "amounts", "amount": [1, 3, 2, 0.5], "bias": [1, 0.5]}
ROUTES: dict[str, Any] = {
    "kind": "cascade-rewards",
    "attraction": [0.5, 0.4, 0.3],
    "budget": 2,
    "rewards": [[1, 1], [2, 1]],
    "losses": [0, -0.1, -0.2],
}


def sent(visitor: Visitor, **options: Any) -> Any:
    """The body of a rank request, as the service reads it."""
    content = visit_requests.rank("r", visitor, **options).content
    assert content is not None
    return json.loads(content)


def test_a_visit_brings_the_features_and_prices_of_its_round() -> None:
    who = audience(ROWS)
    first, second = who.next(), who.next()
    for visitor in (first, second):
        request = visitor.visit.request
        assert request.features is not None
        assert request.prices is not None
        items = [
            {"id": f"item-{i}", "features": request.features[0, i].tolist(), "price": float(request.prices[0, i])}
            for i in range(5)
        ]
        body = sent(visitor, candidates=["item-1"])
        assert body == {"k": 2, "context": visitor.context, "items": items}
        only = sent(visitor, values={"price"})
        assert only == {
            "k": 2,
            "context": visitor.context,
            "items": [{"id": i["id"], "price": i["price"]} for i in items],
        }
        plain = sent(visitor, candidates=["item-1"], values=())
        assert plain == {"k": 2, "context": visitor.context, "candidates": ["item-1"]}
    assert first.items != second.items


def test_fixed_features_are_not_sent_again() -> None:
    assert audience(ROWS | {"attraction": {"linear": {"items": 5, "dim": 2}}, "prices": [1] * 5}).next().items is None
    assert audience(COVERAGE).next().items is None


def test_a_visit_brings_the_rewards_and_losses_of_its_round() -> None:
    who = audience(ROUTES)
    rewards = [visit_requests.rank("r", who.next()).body for _ in range(2)]
    assert rewards == [{"k": 2, "rewards": [a, 1.0], "losses": [0.0, -0.1, -0.2]} for a in (1.0, 2.0)]
    assert visit_requests.rank("r", who.next(), values=()).body == {"k": 2}


def test_amounts_are_sent_as_values() -> None:
    visitor = audience(AMOUNTS).next()
    shown = np.array([[1, 2]])
    values = visitor.values(shown)
    assert values == visitor.visit.click(shown)[0][0].tolist()
    sent = visit_requests.feedback("r", visit_requests.VisitFeedback("a-0", "d", [0], 0.5, values)).body
    assert sent == {"decision": "d", "values": values, "event": "a-0", "final": True, "regret": 0.5}
    assert audience(CASCADE).next().values(shown) is None


@pytest.mark.parametrize(
    ("config", "values"),
    [
        ({"policy": "gts", "slots": 2}, set()),
        ({"policy": "lin-ts-ltr", "slots": 2, "dim": 3}, {"features"}),
        ({"policy": "ucr", "slots": 2, "objective": "revenue"}, {"price"}),
        ({"policy": "ind", "slots": 2, "dim": 2, "params": {"alpha": 0.2}}, {"features", "rewards"}),
    ],
)
def test_a_ranker_is_sent_what_it_takes(config: dict[str, Any], values: set[str]) -> None:
    assert values_for(config) == values


def test_feedback_says_nothing_was_clicked_and_what_was_lost() -> None:
    sent_feedback = visit_requests.VisitFeedback("a-0", "d", [], -0.1)
    sent = {"decision": "d", "clicked": [], "event": "a-0", "final": True, "regret": 0.0}
    assert visit_requests.feedback("r", sent_feedback).body == sent
    assert visit_requests.feedback("r", replace(sent_feedback, regret=0.2)).body == sent | {"regret": 0.2}


# Which world


def test_a_world_by_name_by_file_and_within_a_spec(tmp_path: Path) -> None:
    def written(text: Any) -> str:
        (tmp_path / "w.yaml").write_text(yaml.safe_dump(text))
        return str(tmp_path / "w.yaml")

    cafe, seed = load_world()
    assert (audience().setting.items, audience().setting.dim, seed) == (40, 5, 0)
    assert type(cafe) is type(load_world("cafe")[0])
    assert load_world(written(CASCADE))[1] == 0
    assert load_world(written({"world": CASCADE, "seed": 5}))[1] == 5
    assert load_world(str(ROOT / "examples" / "visitors.yaml"))
    for wrong, words in (({"rounds": 3}, "--world"), ([1], "--world"), ({"world": CASCADE, "colour": 1}, "colour")):
        with pytest.raises(InvalidInput, match=words):
            load_world(written(wrong))
    with pytest.raises(InvalidInput, match="readable YAML"):
        load_world(str(tmp_path / "none.yaml"))


# Whether a ranker fits


def test_a_created_ranker_has_what_the_world_knows_and_a_horizon_only_if_needed() -> None:
    assert settings_for(audience(POSITION).setting, "pbm-ucb", 3, 100) == {
        "policy": "pbm-ucb",
        "slots": 3,
        "bias": [0.4, 1.0, 0.7],
    }
    assert "bias" not in settings_for(audience(POSITION).setting, "gts", 5, 100)  # unknown for more slots
    assert settings_for(audience(PRICES).setting, "ucr", 2, 0)["context"] == 3
    assert settings_for(audience(PRICES).setting, "ucr", 2, 0)["objective"] == "revenue"
    assert settings_for(audience().setting, "cascade-lin-ts", 4, 100)["dim"] == 5
    assert "rounds" not in settings_for(audience().setting, "cascade-lin-ts", 4, 100)
    assert settings_for(audience().setting, "cascade-lin-ucb", 4, 100)["rounds"] == 100
    assert settings_for(audience(CHOICE).setting, "ts-beta", 2, 0)["prior"] == [1.0, 2.0]
    uneven = Setting(2, 1, prior=BetaPrior(np.array([1.0, 2.0]), np.ones(2)))
    assert "prior" not in settings_for(uneven, "gts", 1, 0)
    assert settings_for(audience(AMOUNTS).setting, "gts", 2, 0) == {
        "policy": "gts",
        "slots": 2,
        "bias": [1.0, 0.5],
        "objective": "amount",
        "params": {"feedback": "position-based"},
    }


@pytest.mark.parametrize(
    ("config", "world", "words"),
    [
        ({"slots": 1}, CASCADE, "has 1 slot, and this world's lists have 2"),
        ({"slots": 2}, CONTEXT, "takes no context, and visitors of this world have a context of 3 numbers"),
        ({"slots": 2, "context": 4}, CONTEXT, "takes a context of 4 numbers, and"),
        ({"slots": 2, "context": 4}, CASCADE, "visitors of this world have no context"),
        ({"slots": 4, "dim": 3}, None, "needs items of 3 features, and items of this world have 5 features"),
        ({"slots": 4, "dim": 3}, CASCADE, "items of this world have none"),
    ],
)
def test_what_a_ranker_lacks_is_named(config: Any, world: Any, words: str) -> None:
    with pytest.raises(RankloopError, match=words):
        check_ranker(config, "shop", audience(world).setting)


def test_more_slots_and_no_features_fit() -> None:
    check_ranker({"slots": 9}, "shop", audience().setting)


# Patience, the agenda, times


class Answers:
    """A service that gives these answers, errors raised, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.asked, self._answers = 0, answers

    def ask(self, call: Any) -> Any:
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer


def ask(service: Any, seconds: float, **more: Any) -> Any:
    return Retry(seconds, **more).ask(service, Calls.rankers())


def test_temporary_failures_are_retried_and_reported() -> None:
    noted: list[RankloopError] = []
    away = [Unavailable("away"), TooMany("busy"), refusal(500, b"broken"), Unavailable("full")]
    assert ask(Answers(*away, "fine"), 60.0, on_failure=noted.append) == "fine"
    assert noted == away


def test_retries_end_and_permanent_errors_are_not_retried() -> None:
    service = Answers(Unavailable("no answer from here."))
    with pytest.raises(RetriesExhausted, match=r"^gave up after 0.2 seconds: no answer from here\.$"):
        ask(service, 0.2)
    assert service.asked > 2
    for refused in (NotAllowed("no"), refusal(418, b"teapot")):
        service = Answers(refused)
        with pytest.raises(type(refused)):
            ask(service, 60.0)
        assert service.asked == 1
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(RunStopped):
        ask(Answers(Unavailable("away")), 60.0, stopped=stopped)


def test_jobs_are_done_once_and_never_before_their_time() -> None:
    begin = time.monotonic()
    visits = ((begin + 0.0005 * i, i) for i in range(200))
    agenda: Schedule[int | str] = Schedule(visits, threading.Event())
    taken: list[tuple[int | str, float]] = []

    def caller() -> None:
        while (job := agenda.take()) is not None:
            due, what = job
            taken.append((what, time.monotonic() - due))
            if isinstance(what, int) and what % 2:
                agenda.later(time.monotonic() + 0.001 * (what % 50), f"late {what}")
            agenda.done()

    threads = [threading.Thread(target=caller) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(what for what, _ in taken) == Counter([*range(200), *(f"late {i}" for i in range(1, 200, 2))])
    assert min(after for _, after in taken) >= 0.0


def test_a_stopped_agenda_lets_everybody_go() -> None:
    agenda = Schedule(iter([(time.monotonic() + 3600.0, "never")]), threading.Event())
    threads = [threading.Thread(target=agenda.take) for _ in range(3)]
    for thread in threads:
        thread.start()
    agenda.stop()
    for thread in threads:
        thread.join(10.0)
    assert not any(thread.is_alive() for thread in threads)


def test_percentiles_are_at_most_a_twentieth_too_large() -> None:
    seconds = np.random.default_rng(0).exponential(0.01, 5000)
    times = LatencyHistogram()
    assert times.percentile(0.5) is None
    for one in seconds:
        times.add(float(one))
    for share in (0.5, 0.9, 0.99):
        exact, found = np.quantile(seconds, share, method="inverted_cdf"), times.percentile(share)
        assert exact <= (found or 0.0) * (1 + 1e-12) <= 1.05 * exact * (1 + 1e-9)
    assert times.as_json()["longest"] == round(1e3 * seconds.max(), 3)


# Against a service


@contextmanager
def over(log: Path, *, port: int = 0, around: Callable[[ASGIApp], ASGIApp] | None = None, **more: Any) -> Iterator[str]:
    """Where a service over this log listens, until the end of the block."""
    with serving(ServiceSettings.of({"log": str(log), **more}), port=port, around=around) as url:
        yield url


def kept(log: Path, ranker: str = "shop") -> dict[str, list[Any]]:
    """Entries of a log by their kind, after the service has ended."""
    store = SqliteStore(log)
    found: dict[str, list[Any]] = {"decision": [], "feedback": [], "withdrawn": []}
    for entry in store.read(ranker):
        found.setdefault(entry.kind, []).append(entry)
    store.close()
    return found


def world_file(folder: Path, world: Any = EASY) -> str:
    (folder / "world.yaml").write_text(yaml.safe_dump(world))
    return str(folder / "world.yaml")


class Command:
    """`rankloop visitors` against a service, and what it printed."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url, self._capsys = url, capsys

    def __call__(self, *options: object, ranker: str = "shop") -> Any:
        """The summary of a run that goes well."""
        code = main(["visitors", "--url", self.url, "--ranker", ranker, "--json", *map(str, options)])
        out, self.err = self._capsys.readouterr()
        assert code == 0, self.err
        return json.loads(out)

    def refused(self, *options: object, ranker: str = "shop") -> str:
        """The one sentence of a run that does not even start."""
        assert main(["visitors", "--url", self.url, "--ranker", ranker, *map(str, options)]) == 2
        out, err = self._capsys.readouterr()
        assert out == ""
        assert err.startswith("rankloop: ")
        assert err.count("\n") == 1
        assert err.endswith(".\n")
        return err


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def test_a_ranker_is_created_filled_visited_and_learns(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one caller and named runs all is settled by the seeds: no chance is left in what is compared."""
    options = ("--world", world_file(tmp_path), "--rounds", 60, "--callers", 1, "--seed", 7)
    with over(log) as url:
        visit = Command(url, capsys)
        summary = [visit(*options, "--create", "cascade-ucb1", "--run", "part-0")]
        assert "created, 10 items put" in visit.err
        for part in (1, 2):
            summary.append(visit(*options, "--run", f"part-{part}", "--rate", 400))
            assert ": 0 items put" in visit.err
        with Client(url) as service:
            assert service.ranker("shop").decisions == 180
            assert service.ranker("shop").open_decisions == 0
    assert summary[-1]["click_through"] > summary[0]["click_through"] + 0.1
    assert summary[-1]["mean_regret"] < 0.5 * summary[0]["mean_regret"]
    for one in summary:
        assert (one["lists"], one["feedback_sent"], one["receipts"], one["errors"]) == (60, 60, {"learned": 60}, {})
        assert one["rank_ms"]["p50"] <= one["rank_ms"]["p99"] <= one["rank_ms"]["longest"]
    assert summary[-1]["behind_ms"]["longest"] > 0.0


@pytest.mark.parametrize(
    ("world", "policy"),
    [
        ({name: value for name, value in ROWS.items() if name not in ("objective", "prices")}, "lin-ts-ltr"),
        (ROWS | {"attraction": {"logistic": {"items": 6, "dim": 2}}}, "cascade-lin-ts"),
        (AMOUNTS, "gts"),
        (
            {"kind": "amounts", "amount": {"linear": {"items": 6, "dim": 2, "fresh_features": True}}, "k": 2},
            "lin-ts-ltr",
        ),
    ],
    ids=["features", "contexts", "amounts", "changing-amounts"],
)
def test_visits_with_values_of_their_own_are_learned(
    world: Any, policy: str, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Contexts, features, prices and amounts: all feedback is learned, nothing is refused."""
    with over(log) as url:
        file = world_file(tmp_path, world)
        summary = Command(url, capsys)("--world", file, "--create", policy, "--rounds", 30, "--callers", 1)
    assert (summary["lists"], summary["feedback_sent"], summary["errors"]) == (30, 30, {})
    assert summary["receipts"] == {"learned": 30}


def test_late_feedback_arrives_after_its_delay_and_lost_feedback_never(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--rounds", 120, "--late", 0.3, "--lost", 0.2, "--delay", 0.2, "--run", "r", "--seed", 1)
    with over(log) as url:
        summary = Command(url, capsys)("--world", world_file(tmp_path), "--create", "gts", *options)
    expected = audience(EASY, seed=1, run="r", late=0.3, lost=0.2, delay=0.2)
    delays = {visitor.event: visitor.delay for visitor in (expected.next() for _ in range(120))}
    assert summary["lost"] == sum(delay is None for delay in delays.values())
    assert summary["late"] == summary["feedback_sent_late"] == sum(bool(delay) for delay in delays.values())
    assert summary["feedback_sent"] + summary["lost"] == 120
    entries = kept(log)
    shown = {entry.subject: entry.time for entry in entries["decision"]}
    after = {entry.key: entry.time - shown[entry.subject] for entry in entries["feedback"]}
    assert after.keys() == {event for event, delay in delays.items() if delay is not None}
    # The clock of the log is not the one by which visitors wait; they agree to a hundredth of a second.
    assert all(after[event] >= (delays[event] or 0.0) - 0.01 for event in after)


def test_two_runs_at_once_visit_one_ranker(log: Path) -> None:
    with over(log) as url:
        runs = []
        for name in ("left", "right"):
            who = audience(EASY, run=name, late=0.2, delay=0.1)
            with Client(url) as service:
                fit(service, "shop", who, create="gts", retry=Retry(60.0))
            runs.append(Run(VisitPlan("shop", rounds=80, callers=2), who, url))
        for run in runs:
            run.start()
        assert all(run.wait(300.0) for run in runs)
        assert [run.error for run in runs] == [None, None]
    entries = kept(log)
    assert len(entries["decision"]) == 160
    assert sorted(entry.key for entry in entries["feedback"]) == sorted(
        f"{name}-{i}" for name in ("left", "right") for i in range(80)
    )


class LosesAnswers:
    """Lets a service do what it is asked and then, in one of three cases, says that it could not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._luck = app, np.random.default_rng(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or self._luck.random() < 2 / 3:
            await self._app(scope, receive, send)
            return

        async def nowhere(message: Message) -> None:
            pass

        await self._app(scope, receive, nowhere)
        await response(RequestRefused(503, "try again."))(scope, receive, send)


def test_answers_that_were_lost_count_once(log: Path) -> None:
    with over(log, around=LosesAnswers) as url:
        who = audience(EASY)
        with Client(url) as service:
            fit(service, "shop", who, create="gts", retry=Retry(60.0))
        run = Run(VisitPlan("shop", rounds=60, callers=3), who, url)
        run.start()
        assert run.wait(300.0)
    assert run.error is None
    summary = run.statistics.summary()
    assert summary["feedback_sent"] == summary["lists"] == 60
    assert summary["receipts"]["duplicate"] > 0
    assert summary["errors"] == {"Unavailable 503": summary["retries"]}
    entries = kept(log)
    assert sorted(entry.key for entry in entries["feedback"]) == sorted(f"a-{i}" for i in range(60))
    assert set(Counter(entry.subject for entry in entries["feedback"]).values()) == {1}
    assert entries["withdrawn"] == []
    assert len(entries["decision"]) > 60  # lists whose answer was lost


def test_a_service_that_goes_and_comes_back_counts_everything_once(log: Path) -> None:
    who = audience(EASY, late=0.5, delay=0.2)
    with over(log) as url:
        with Client(url) as service:
            fit(service, "shop", who, create="gts", retry=Retry(60.0))
        run = Run(VisitPlan("shop", rounds=300, callers=4, rate=300.0, retry_seconds=60.0), who, url)
        run.start()
        while run.statistics.all.lists < 60:
            time.sleep(0.005)
    while not run.statistics.retries:  # the service is down
        time.sleep(0.005)
    with over(log, port=int(url.rpartition(":")[2])):
        assert run.wait(300.0)
    assert run.error is None
    summary = run.statistics.summary()
    assert (summary["lists"], summary["feedback_sent"], summary["feedback_missing"]) == (300, 300, 0)
    assert sum(summary["errors"].values()) == summary["retries"] > 0
    assert sorted(entry.key for entry in kept(log)["feedback"]) == sorted(f"a-{i}" for i in range(300))


def test_a_service_that_stays_away_is_given_up_in_one_sentence(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said = Command(f"http://127.0.0.1:{port}", capsys).refused("--retry-seconds", 0.2, "--quiet")
    assert f"gave up after 0.2 seconds: no answer from 127.0.0.1:{port}" in said
    with over(log) as url:
        who = audience(EASY)
        with Client(url) as service:
            fit(service, "shop", who, create="gts", retry=Retry(60.0))
        run = Run(VisitPlan("shop", callers=3, retry_seconds=0.3), who, url)
        run.start()
        while run.statistics.all.lists < 20:
            time.sleep(0.005)
    assert run.wait(300.0)
    assert isinstance(run.error, RetriesExhausted)
    entries, summary = kept(log), run.statistics.summary()
    assert (
        summary["feedback_sent"] <= len(entries["feedback"]) <= summary["feedback_sent"] + summary["feedback_missing"]
    )
    assert summary["lists"] == summary["feedback_sent"] + summary["feedback_missing"]


def test_the_same_run_again_counts_nothing_twice(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--world", world_file(tmp_path), "--create", "gts", "--callers", 2, "--run", "same")
    with over(log) as url:
        visit = Command(url, capsys)
        assert visit(*options, "--rounds", 20)["feedback_sent"] == 20
        again = visit(*options, "--rounds", 30)
    assert (again["lists"], again["repeated"], again["feedback_sent"], again["feedback_missing"]) == (30, 20, 10, 0)
    entries = kept(log)
    assert sorted(entry.key for entry in entries["feedback"]) == sorted(f"same-{i}" for i in range(30))
    assert len(entries["withdrawn"]) == 20


def test_keys(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    roles = {"admin": ["admin"], "visitor": ["rank", "feedback", "read"], "rank": ["rank"]}
    made = {name: make_key(name, some) for name, some in roles.items()}
    options = ("--world", world_file(tmp_path), "--rounds", 5)
    with over(log, keys=[settings for _, settings in made.values()]) as url:
        visit = Command(url, capsys)
        monkeypatch.delenv("RANKLOOP_KEY", raising=False)
        assert "requires an API key; RANKLOOP_KEY is not set" in visit.refused(*options)
        monkeypatch.setenv("RANKLOOP_KEY", "rl_wrong")
        assert "it does not accept the key in RANKLOOP_KEY" in visit.refused(*options)
        monkeypatch.setenv("RANKLOOP_KEY", made["rank"][0])
        assert "the role read is needed" in visit.refused(*options)
        with Client(url, made["admin"][0]) as service:
            service.put_ranker("shop", {"policy": "gts", "slots": 2})
        monkeypatch.setenv("RANKLOOP_KEY", made["visitor"][0])
        said = visit.refused(*options)
        assert "lacks 10 of this world's items, and they cannot be put: this key may not do that" in said
        monkeypatch.setenv("RANKLOOP_KEY", made["admin"][0])
        assert visit(*options)["feedback_sent"] == 5
        monkeypatch.setenv("RANKLOOP_KEY", made["visitor"][0])
        assert visit(*options)["feedback_sent"] == 5


def test_what_does_not_fit_is_refused_and_nothing_is_changed(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with over(log) as url, Client(url) as service:
        visit = Command(url, capsys)
        service.put_ranker("shop", {"policy": "gts", "slots": 3})
        service.put_ranker("linear", {"policy": "cascade-lin-ts", "slots": 4, "dim": 5})
        service.put_items("linear", [{"id": "item-3", "features": [0.0] * 5}])
        before = service.rankers()
        assert "there is no ranker 'x'" in visit.refused(ranker="x")
        assert "has 3 slots, and this world's lists have 4" in visit.refused()
        assert "needs items of 5 features" in visit.refused("--world", world_file(tmp_path), ranker="linear")
        assert "takes no context" in visit.refused("--world", world_file(tmp_path, CONTEXT))
        assert "item-3 of ranker 'linear' has other features" in visit.refused(ranker="linear")
        assert "no item returns" in visit.refused("--world", world_file(tmp_path, FRESH))
        assert "--slots is 3; accepted: at least 4" in visit.refused("--create", "gts", "--slots", 3, ranker="x")
        assert "one of random" in visit.refused("--create", "best", ranker="x")
        assert "ts-beta needs a Beta prior" in visit.refused("--create", "ts-beta", ranker="x")
        assert service.rankers() == before


@pytest.mark.parametrize(
    "options",
    [("--late", 0.6, "--lost", 0.6), ("--late", -1), ("--rate", "nan"), ("--callers", 0), ("--run", ""),
     ("--seconds", 0), ("--rounds", -1), ("--delay", 0), ("--people", 0), ("--url", "localhost")],
)  # fmt: skip
def test_options_that_make_no_sense(options: tuple[object, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{options[0]} is " in Command("http://127.0.0.1:9", capsys).refused(*options)


def test_visitors_look_only_at_their_worlds_items(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with over(log) as url, Client(url) as service:
        service.put_ranker("shop", {"policy": "random", "slots": 5})
        service.put_items("shop", [{"id": id} for id in ("tea", "item-0", "coffee")])
        assert (
            Command(url, capsys)("--world", world_file(tmp_path), "--rounds", 40, "--seconds", 60)["feedback_sent"]
            == 40
        )
        assert len(service.items("shop")) == 12


def test_feedback_for_a_ranker_that_was_replaced_is_counted_as_refused(log: Path) -> None:
    with over(log) as url, Client(url) as service:
        who = audience(EASY, late=1.0, delay=1.0)
        fit(service, "shop", who, create="gts", retry=Retry(60.0))
        run = Run(VisitPlan("shop", rounds=10, callers=2), who, url)
        run.start()
        while run.statistics.all.lists < 10:
            time.sleep(0.005)
        service.patch_ranker("shop", {"policy": "random"}, reset=True)
        assert run.wait(300.0)
    summary = run.statistics.summary()
    assert run.error is None
    assert summary["refused"] == summary["errors"]["UnknownDecision 404"] > 0
    assert summary["feedback_sent"] + summary["refused"] == 10


def test_a_refusal_ends_a_run_and_is_counted(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with over(log) as url, Client(url) as service:
        who = audience(EASY)
        fit(service, "shop", who, create="gts", retry=Retry(60.0))
        command = ["visitors", "--url", url, "--ranker", "shop", "--world", world_file(tmp_path), "--json"]
        run = Run(VisitPlan("shop", rounds=10**6, callers=2), who, url)
        run.start()
        while run.statistics.all.lists < 10:
            time.sleep(0.005)
        service.delete_ranker("shop")
        assert run.wait(300.0)
        assert main(command) == 2
    assert "there is no ranker 'shop'" in capsys.readouterr().err
    assert str(run.error) == "ranker 'shop' does not exist."
    assert run.statistics.errors["NotFound 404"] >= 1


def test_seconds_bound_a_run_without_end(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with over(log) as url:
        options = ("--world", world_file(tmp_path), "--create", "random", "--seconds", 0.5)
        summary = Command(url, capsys)(*options)
    assert summary["lists"] == summary["feedback_sent"] > 0


def test_an_interrupted_run_reports_lists_and_feedback(log: Path, tmp_path: Path) -> None:
    options = [
        "--rounds",
        "0",
        "--callers",
        "8",
        "--create",
        "gts",
        "--late",
        "0.5",
        "--delay",
        "60",
        "--run",
        "r",
        "--json",
        "--quiet",
    ]
    with over(log) as url, Client(url) as service:
        command = [sys.executable, "-m", "rankloop", "visitors", "--url", url, "--ranker", "shop", *options]
        command += ["--world", world_file(tmp_path)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # A shell that runs the tests in the background may make them ignore it.
        heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with subprocess.Popen(command, preexec_fn=heeds, **pipes) as child:
            try:
                until = time.monotonic() + 300.0
                while time.monotonic() < until and not (service.rankers() and service.ranker("shop").decisions > 30):
                    time.sleep(0.05)
                child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=300.0)
            finally:
                child.kill()
        assert child.returncode == 130, err
    summary = json.loads(out)
    shown = f"{summary['lists']:,} lists were shown and {summary['feedback_sent']:,} feedback events sent"
    assert err == f"rankloop: interrupted, {shown}.\n"
    entries = kept(log)
    assert summary["lists"] <= len(entries["decision"]) <= summary["lists"] + 8  # those under way, one for each caller
    assert summary["feedback_sent"] <= len(entries["feedback"]) <= summary["feedback_sent"] + 8
    assert summary["lists"] == summary["feedback_sent"] + summary["feedback_missing"]
    assert summary["feedback_missing"] > 0


@pytest.mark.slow
def test_a_service_that_is_killed_and_started_again_counts_everything_once(log: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "rankloop", "serve", "--log", str(log), "--port", str(port)]
    url, who = f"http://127.0.0.1:{port}", audience(EASY, late=0.3, delay=0.2)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as first:
        try:
            with Client(url) as service:
                fit(service, "shop", who, create="gts", retry=Retry(300.0))
            run = Run(VisitPlan("shop", rounds=600, callers=8, retry_seconds=300.0), who, url)
            run.start()
            while run.statistics.all.lists < 200:
                time.sleep(0.005)
        finally:
            first.kill()
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as second:
        try:
            assert run.wait(300.0)
        finally:
            second.terminate()
    assert run.error is None
    assert run.statistics.retries > 0
    # A list that was answered in the moment before the end may not be known after it: its feedback is refused.
    refused = run.statistics.all.lists - run.statistics.feedback_sent
    assert run.statistics.all.lists == 600
    assert 0 <= refused <= 8
    events = [entry.key for entry in kept(log)["feedback"]]
    assert len(set(events)) == len(events) == 600 - refused
    assert set(events) <= {f"a-{i}" for i in range(600)}


PAGE = (ROOT / "docs" / "how-to" / "simulate-visitors.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(ROOT)
    with over(log) as url:
        exec(compile(code.replace("http://127.0.0.1:8080", url), "visitors.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == "200\n"


def test_the_commands_of_the_page_are_commands() -> None:
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ")
    lines = [line for line in shell.splitlines() if line.startswith("rankloop visitors")]
    assert len(lines) >= 3
    for line in lines:
        assert parser().parse_args(shlex.split(line, comments=True)[1:]).command == "visitors"
