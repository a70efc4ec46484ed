"""Rollout and challengers over HTTP: shadow mode, traffic share, guardrail, promotion, and restarts in between."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from rankloop.cli.main import main
from test_client import served  # noqa: F401
from test_service import COUNTS, LINEAR, Http, Start, http, problem, start  # noqa: F401

ORDER = ["item-2", "item-0", "item-3", "item-1"]


def visit(http: Http, n: int, name: str = "r", **asked: Any) -> list[dict[str, Any]]:  # noqa: F811
    """Lists with feedback: item-1 is what people like."""
    lists = []
    for _ in range(n):
        ranking = http("POST", f"/v1/rankers/{name}/rank", asked).json()
        lists.append(ranking)
        clicked = [i for i, one in enumerate(ranking["items"]) if one["item"] == "item-1"]
        told = http("POST", f"/v1/rankers/{name}/feedback", {"decision": ranking["decision"], "clicked": clicked})
        assert told.json()["status"] in ("learned", "ignored")
    return lists


def ready(http: Http, name: str = "r") -> dict[str, Any]:  # noqa: F811
    until = time.monotonic() + 30
    while True:
        standing: dict[str, Any] = http("GET", f"/v1/rankers/{name}/challenger").json()
        if standing["state"] != "rebuilding":
            return standing
        assert time.monotonic() < until
        time.sleep(0.01)


def test_mode_and_traffic_change_while_a_ranker_serves(http: Http) -> None:  # noqa: F811
    visit(http, 5)
    before = http("GET", "/v1/rankers/r/report").json()["items"]
    assert http("PUT", "/v1/rankers/r", LINEAR | {"mode": "shadow"}).json()["decisions"] == 5
    assert http("GET", "/v1/rankers/r/report").json()["items"] == before, "what was learned stays"
    http("PUT", "/v1/rankers/r/items/item-3", {"features": [1, 1, 1], "default_position": 0})
    for ranking in visit(http, 1):
        assert [one["item"] for one in ranking["items"]] == ["item-3", "item-0", "item-1"]
    for ranking in visit(http, 2, order=ORDER):
        assert [one["item"] for one in ranking["items"]] == ORDER[:3]
        assert ranking["group"] == "control"
    assert http("PUT", "/v1/rankers/r", LINEAR | {"traffic": 0.5, "mode": "live"}).json()["decisions"] == 8
    groups = {visit(http, 1, order=ORDER, visitor=f"v{v}")[0]["group"] for v in range(30)}
    assert groups == {"treatment", "control"}
    overview = http("GET", "/v1/rankers/r/report").json()["overview"]
    assert overview["traffic"] == 0.5
    assert overview["lift"]["low"] <= overview["lift"]["difference"] <= overview["lift"]["high"]


def test_a_challenger_is_rebuilt_compared_promoted_and_reverted(start: Start, http: Http) -> None:  # noqa: F811
    problem(http("GET", "/v1/rankers/r/challenger"), 404, "has no challenger")
    problem(http("POST", "/v1/rankers/r/promote"), 404)
    visit(http, 40)
    other = LINEAR | {"policy": "cascade-ucb1"}
    assert http("PUT", "/v1/rankers/r/challenger", other).status_code == 202
    standing = ready(http)
    assert standing["state"] == "ready"
    told = standing["comparison"]
    assert (told["active"], told["challenger"], told["lists"]) == ("cascade-lin-ts", "cascade-ucb1", 40)
    assert told["low"] <= told["difference"] <= told["high"]
    assert (told["verdict"], told["reason"]) == ("cannot tell", "Fewer than 100 lists could be compared.")
    assert http("POST", "/v1/rankers/r/promote").json()["config"]["policy"] == "cascade-ucb1"
    assert {ranking["policy"] for ranking in visit(http, 10)} == {"cascade-ucb1"}
    again = start()
    assert again("GET", "/v1/rankers/r").json()["config"]["policy"] == "cascade-ucb1"
    waiting = again("GET", "/v1/rankers/r/challenger").json()
    assert (waiting["config"]["policy"], waiting["comparison"]) == ("cascade-lin-ts", None)
    assert again("POST", "/v1/rankers/r/promote").json()["config"]["policy"] == "cascade-lin-ts"
    assert {ranking["policy"] for ranking in visit(again, 5)} == {"cascade-lin-ts"}
    overview = again("GET", "/v1/rankers/r/report").json()["overview"]
    assert overview["groups"]["treatment"]["settled"] == 55, "no event is lost on the way"
    assert again("DELETE", "/v1/rankers/r/challenger").status_code == 204
    problem(again("DELETE", "/v1/rankers/r/challenger"), 404)


def test_a_challenger_must_have_the_shape_of_the_ranker(http: Http) -> None:  # noqa: F811
    problem(http("PUT", "/v1/rankers/r/challenger", LINEAR | {"dim": 7}), 422, "dim, context, coverage and slots")
    problem(http("PUT", "/v1/rankers/r/challenger", {"policy": "no"}), 422)
    problem(http("PUT", "/v1/rankers/nobody/challenger", LINEAR), 404)


def test_a_tripped_guardrail_is_reported_and_reset(http: Http) -> None:  # noqa: F811
    guarded = {"policy": "random", "slots": 2, "traffic": 0.5, "guardrail": {"min_lists": 20, "error": 0.2}}
    http("PUT", "/v1/rankers/g", guarded)
    http("PUT", "/v1/rankers/g/items", {"items": [{"id": f"item-{i}"} for i in range(4)]})
    hosted = http.service.rankers.find("g").ranker
    for v in range(300):
        ranking = hosted.rank(order=ORDER[::-1], visitor=f"v{v}", k=1)
        hosted.feedback(ranking.id, clicked=[0] if ranking.group == "control" else [])
    http.service.scheduler.run_once()
    overview = http("GET", "/v1/rankers/g/report").json()["overview"]
    assert "below control" in overview["guardrail_tripped"]
    assert http("POST", "/v1/rankers/g/guardrail/reset").status_code == 200
    assert http("GET", "/v1/rankers/g/report").json()["overview"]["guardrail_tripped"] is None


def test_the_challenger_and_promote_commands(
    served: tuple[str, dict[str, str]],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, keys = served
    monkeypatch.setenv("RANKLOOP_URL", url)
    monkeypatch.setenv("RANKLOOP_KEY", keys["admin"])
    main(["rankers", "create", "shop", "--policy", "cascade-ucb1", "--slots", "2"])
    from rankloop.client import Client

    with Client(url, keys["admin"]) as service:
        service.put_items("shop", [{"id": f"i{i}"} for i in range(4)])
        for n in range(120):
            service.feedback("shop", service.rank("shop").id, clicked=[n % 2])
    capsys.readouterr()
    assert main(["rankers", "challenger", "shop", "--policy", "gts"]) in (None, 0)
    out = capsys.readouterr().out
    assert re.match(
        r"(Cannot tell whether t|T)he challenger gts predicts clicks \w+ than the active cascade-ucb1\.", out
    )
    sure = r"Difference of log-likelihood per list: [+-]\d\.\d{4} \(95 % interval [+-]\d\.\d{4} to [+-]\d\.\d{4}\)"
    assert re.search(sure + " over 120 lists\\.\n", out)
    assert "promote" in out
    main(["rankers", "challenger", "shop", "--policy", "random"])
    out = capsys.readouterr().out
    assert out.startswith(
        "Cannot tell whether the challenger random predicts clicks better than the active cascade-ucb1. "
        "Clicks cannot be predicted without estimates of random.\nThe challenger follows the log"
    )
    main(["rankers", "challenger", "shop", "--policy", "gts"])
    capsys.readouterr()
    main(["rankers", "promote", "shop"])
    assert "The active policy of shop is now gts" in capsys.readouterr().out
    main(["rankers", "challenger", "shop", "--policy", "ts-cascade", "--promote"])
    assert "The active policy of shop is now ts-cascade" in capsys.readouterr().out


def test_rollout_settings_belong_to_the_ranker_and_survive_a_promotion(start: Start, http: Http) -> None:  # noqa: F811
    """A challenger has no settings of the rollout of its own, and after a switch those of the ranker still hold."""
    http("PUT", "/v1/rankers/r", LINEAR | {"traffic": 0.5})
    visit(http, 10, order=ORDER)
    other = LINEAR | {"policy": "cascade-ucb1"}
    problem(
        http("PUT", "/v1/rankers/r/challenger", other | {"mode": "shadow"}),
        422,
        "PATCH the ranker",
        field="ranker.mode",
    )
    http("PUT", "/v1/rankers/r/challenger", other)
    ready(http)
    http("PUT", "/v1/rankers/r", LINEAR | {"traffic": 0.25})
    told = http("POST", "/v1/rankers/r/promote").json()["config"]
    assert (told["policy"], told["mode"], told["traffic"]) == ("cascade-ucb1", "live", 0.25)
    told = start()("GET", "/v1/rankers/r").json()["config"]
    assert (told["policy"], told["mode"], told["traffic"]) == ("cascade-ucb1", "live", 0.25)


@pytest.mark.parametrize("end", ["deleted", "replaced"])
def test_a_ranker_deleted_during_a_rebuild_stays_deleted(
    start: Start,  # noqa: F811
    http: Http,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    end: str,
) -> None:
    visit(http, 60)
    monkeypatch.setattr("rankloop.analytics.comparison.PAUSE_ENTRIES", 50)
    monkeypatch.setattr("rankloop.hosting.challenger_rebuild.PAUSE_SECONDS", 1.0)  # it is not ready before the end
    assert http("PUT", "/v1/rankers/r/challenger", LINEAR | {"policy": "cascade-ucb1"}).status_code == 202
    assert http("GET", "/v1/rankers/r/challenger").json()["state"] == "rebuilding"
    if end == "deleted":
        assert http("DELETE", "/v1/rankers/r").status_code == 204
    else:
        assert http("PATCH", "/v1/rankers/r", {"policy": "gts", "reset": True}).status_code == 200
        problem(http("GET", "/v1/rankers/r/challenger"), 404, "has no challenger")
    again = start()
    if end == "deleted":
        problem(again("GET", "/v1/rankers/r"), 404)
    else:
        found = again("GET", "/v1/rankers/r").json()
        assert (found["config"]["policy"], found["decisions"]) == ("gts", 0)
        problem(again("GET", "/v1/rankers/r/challenger"), 404, "has no challenger")


def test_a_reset_ranker_keeps_its_items_with_all_their_fields(start: Start) -> None:  # noqa: F811
    http = start()  # noqa: F811
    covers = {"policy": "dep", "slots": 2, "coverage": 3}
    given: list[dict[str, Any]] = [{"id": f"item-{i}", "coverage": [0.2, 0.1 * i, 0.9]} for i in range(4)]
    given[2]["default_position"] = -7.0
    assert http("PUT", "/v1/rankers/d", covers).status_code == 201
    assert http("PUT", "/v1/rankers/d/items", {"items": given}).status_code == 204
    there = http("GET", "/v1/rankers/d/items").json()
    assert http("PUT", "/v1/rankers/d", covers | {"seed": 9}).status_code == 200
    assert http("GET", "/v1/rankers/d/items").json() == there
    assert len(http("POST", "/v1/rankers/d/rank", {}).json()["items"]) == 2
