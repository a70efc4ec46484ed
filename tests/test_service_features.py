"""Features over HTTP: declared, inferred, changed at once and in the background, and the same after a restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rankloop
from rankloop.cli.main import main
from rankloop.errors import RankloopError
from rankloop.hosting import feature_change
from rankloop.hosting.scheduler import Scheduler
from rankloop.schema.feature_settings import FeatureSettings
from rankloop.schema.service_settings import ServiceSettings, SnapshotSettings
from rankloop.serving import Ranker
from rankloop.serving.feature_settings import FIRST_CONTEXTS, simplified
from served import Served, until
from test_service import Http

ITEMS: list[dict[str, Any]] = [
    {"id": f"i{n}", "fields": {"price": float(n), "category": f"c{n % 3}", "organic": n % 2 == 0}} for n in range(9)
]
DECLARED: dict[str, Any] = {
    "items": {"price": {"kind": "number", "center": 4.0, "scale": 3.0}, "category": "category"},
    "context": {"device": {"kind": "category", "categories": 2}},
}
SHOP: dict[str, Any] = {"slots": 2, "features": DECLARED}
URL = "/v1/rankers/shop"


@pytest.fixture
def http(tmp_path: Path) -> Iterator[Http]:
    service = Http(ServiceSettings(log=str(tmp_path / "log.db")))
    yield service
    service.close()


def visit(http: Http, n: int = 1) -> None:
    for _ in range(n):
        told = http("POST", f"{URL}/rank", {"context": {"device": "phone", "hour": n}}).json()
        http("POST", f"{URL}/feedback", {"decision": told["decision"], "clicked": [0], "final": True})


def features(http: Http) -> dict[str, Any]:
    told: dict[str, Any] = http("GET", URL).json()["features"]
    return told


def tick(http: Http) -> None:
    """One round of the scheduler, and the end of the change that it starts."""
    rankers = http.service.rankers
    Scheduler(rankers, SnapshotSettings(), lambda *_: None).run_once()
    until(lambda: (one := rankers.find("shop").feature_change) is None or not one.running, "the change of features")


def test_a_ranker_says_what_it_does_with_fields(http: Http) -> None:
    assert http("PUT", URL, SHOP).status_code == 201
    told = features(http)
    assert told["settings"]["items"]["price"] == {"kind": "number", "center": 4.0, "scale": 3.0}
    assert (told["covariance"], told["note"], told["rebuilding"]) == ("full", None, False)
    settings = FeatureSettings.of(DECLARED)
    assert told["context_width"] == settings.context["device"].columns
    assert told["width"] == 1 + sum(one.columns for one in settings.items.values())
    http("PUT", "/v1/rankers/plain", {"slots": 2})
    assert http("GET", "/v1/rankers/plain").json()["features"] is None


def test_a_field_is_added_while_the_ranker_serves(http: Http) -> None:
    http("PUT", URL, SHOP)
    http("PUT", f"{URL}/items", {"items": ITEMS})
    visit(http, 5)
    more = {**DECLARED, "items": {**DECLARED["items"], "organic": "boolean"}}
    told = http("PATCH", URL, {"features": more})
    assert told.status_code == 200, told.text
    assert (told.json()["version"], told.json()["decisions"]) == (2, 5)
    assert "organic" in features(http)["settings"]["items"]
    visit(http, 3)
    assert http("PATCH", URL, {"features": more}).json()["version"] == 2  # nothing changes
    assert http("PUT", URL, {"slots": 2, "features": more}).json()["version"] == 2
    refused = http("PATCH", URL, {"features": more, "policy": "gts"})
    assert (refused.status_code, "to keep what was learned" in refused.json()["detail"].lower()) == (409, True)
    bad = http("PATCH", URL, {"features": {"items": {"price": "money"}}})
    assert bad.status_code == 422
    assert "price" in bad.json()["detail"]
    assert http("GET", URL).json()["version"] == 2
    kinds = [event["kind"] for event in http("GET", f"{URL}/history").json()["events"]]
    assert kinds.count("config") == 2, kinds


def test_features_too_wide_for_the_policy_are_refused_in_one_sentence(http: Http) -> None:
    http("PUT", URL, SHOP)
    wide = {"items": {f"f{n}": "category" for n in range(30)}}
    told = http("PATCH", URL, {"features": wide})
    assert told.status_code == 422
    assert told.json()["detail"].endswith(".")
    assert http("GET", URL).json()["version"] == 1


def test_features_are_inferred_while_the_service_runs_and_kept_by_a_restart(tmp_path: Path) -> None:
    http = Http(ServiceSettings(log=str(tmp_path / "log.db")))
    http("PUT", URL, {"slots": 2, "features": "auto"})
    assert features(http)["settings"] is None
    assert features(http)["note"] == "the features will be inferred from the first items"
    http("PUT", f"{URL}/items", {"items": ITEMS})
    assert features(http)["settings"]["items"].keys() == {"price", "category", "organic"}
    visit(http, FIRST_CONTEXTS)
    tick(http)
    assert features(http)["settings"]["context"].keys() == {"device", "hour"}
    before = http("GET", URL).json()
    assert http("PUT", URL, {"slots": 2, "features": "auto"}).json()["version"] == before["version"]
    http.close()
    again = Http(ServiceSettings(log=str(tmp_path / "log.db")))
    after = again("GET", URL).json()
    assert (after["features"], after["version"]) == (before["features"], before["version"])
    visit(again, 2)
    again.close()
    assert main(["log", "verify", str(tmp_path / "log.db")]) == 0


def test_a_long_log_is_learned_in_the_background(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    http("PUT", URL, SHOP)
    http("PUT", f"{URL}/items", {"items": ITEMS})
    visit(http, 3)
    go, change = threading.Event(), Ranker.change_features

    def slow(self: Ranker, *args: Any) -> None:
        go.wait(30.0)
        change(self, *args)

    monkeypatch.setattr(feature_change, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(Ranker, "change_features", slow)
    more = {**DECLARED, "items": {**DECLARED["items"], "organic": "boolean"}}
    assert http("PATCH", URL, {"features": more}).json()["features"]["rebuilding"]
    assert http("PATCH", URL, {"features": more}).status_code == 409
    visit(http, 2)
    go.set()
    until(lambda: not features(http)["rebuilding"], "the change of features")
    assert "organic" in features(http)["settings"]["items"]
    assert http("GET", URL).json()["decisions"] == 5


def test_a_change_that_fails_says_why_and_changes_nothing(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    http("PUT", URL, SHOP)

    def failing(*args: Any) -> None:
        raise RankloopError("there is no room.")

    monkeypatch.setattr(Ranker, "change_features", failing)
    told = http("PATCH", URL, {"features": {"items": {"price": "number"}}})
    assert (told.status_code, told.json()["detail"]) == (422, "there is no room.")
    assert features(http)["problem"] == "there is no room."
    assert http("GET", URL).json()["version"] == 1


def test_a_challenger_and_a_change_of_features_keep_out_of_each_others_way(http: Http) -> None:
    http("PUT", URL, SHOP)
    http("PUT", f"{URL}/items", {"items": ITEMS})
    visit(http, 3)
    other = {**DECLARED, "items": {**DECLARED["items"], "organic": "boolean"}}
    assert http("PUT", f"{URL}/challenger", {"slots": 2, "features": other}).status_code < 300
    until(lambda: http("GET", f"{URL}/challenger").json()["state"] == "ready", "the challenger")
    refused = http("PATCH", URL, {"features": other})
    assert refused.status_code == 422
    assert "discard it first" in refused.json()["detail"]
    visit(http, 2)
    assert http("POST", f"{URL}/promote").status_code == 200
    assert "organic" in features(http)["settings"]["items"]
    visit(http, 2)


def test_a_reset_keeps_the_items_with_their_fields(http: Http) -> None:
    http("PUT", URL, SHOP)
    http("PUT", f"{URL}/items", {"items": ITEMS})
    visit(http, 3)
    assert http("PATCH", URL, {"reset": True, "features": {"items": {"organic": "boolean"}}}).status_code == 200
    assert http("GET", URL).json()["decisions"] == 0
    assert http("GET", f"{URL}/items").json()["items"][0]["fields"] == ITEMS[0]["fields"]
    visit(http, 1)


def test_a_connection_infers_features_too() -> None:
    with rankloop.connect(":memory:") as shop:
        shop.put_ranker("shop", slots=2, features="auto")
        shop.put_items("shop", ITEMS)
        told = shop.ranker("shop").features
        assert told is not None
        assert told.settings is not None
        assert shop.rank("shop", context={"hour": 3}).unknown_fields == ("context.hour",)
        answers = shop.rank_many("shop", [{"k": 1}, {"k": 2}])
        assert [one.status for one in answers] == ["ranked"] * 2


def test_the_command_line_changes_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    served = Served(tmp_path)
    served.start()
    try:
        shop = ["rankers", "--url", served.url]
        assert main([*shop, "create", "shop", "--slots", "2", "--set", "features={items: {price: number}}"]) == 0
        assert main([*shop, "set", "shop", "features={items: {price: number, size: boolean}}"]) == 0
        assert '"size": {' in capsys.readouterr().out
    finally:
        served.stop()


def test_simpler_features_are_tried_only_where_they_were_inferred() -> None:
    wide = FeatureSettings.of({"items": {"a": {"kind": "category", "categories": 30}}, "infer_items": True})
    assert len(list(simplified(wide, None))) == 3
    _, short, few = simplified(wide, wide)
    assert (short.cross, short.items) == ((), wide.items)
    assert few.items["a"].categories == 4
    declared = FeatureSettings.of({"items": {"a": "category"}, "cross": []})
    assert list(simplified(declared, declared)) == [declared]
