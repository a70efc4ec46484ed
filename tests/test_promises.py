"""What the service, the commands and the ranker promise; what poisons a log has tests of its own."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from promised import Answer, Site, command, listed, named, running, shared, site  # noqa: F401
from rankloop.belief import Gaussian
from rankloop.belief.gaussian import GaussianState
from rankloop.catalogue import registry
from rankloop.design import PerItem
from rankloop.eventlog import SqliteStore
from rankloop.explore import Thompson
from rankloop.feedback import Cascade
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.service.access.auth import make_key
from rankloop.serving import Ranker, RankerConfig
from rankloop.types import Decision, Evidence, Setting
from served import Served, until

Capture = pytest.CaptureFixture[str]
GTS = {"policy": "gts", "slots": 2}


# Settings that change


def rolled_out(site: Site, name: str) -> None:  # noqa: F811
    """A ranker with some of the traffic and a guard, that has learned from six lists."""
    site.create(name, GTS | {"traffic": 0.1, "guardrail": {"drop": 0.2}}, named("abc"))
    for n in range(6):
        ranking = site.rank(name, order=["a", "b"], visitor=f"visitor-{n}")
        assert site.tell(name, ranking["decision"], clicked=[n % 2]) == "learned"


@pytest.mark.slow
def test_settings_that_were_not_given_stay_and_so_does_what_was_learned(shared: Site) -> None:  # noqa: F811
    rolled_out(shared, "kept")
    before, believed = shared.ranker("kept"), shared.report("kept")
    shared.ranker("kept", "PUT", body=GTS | {"window": 7200})
    after = shared.ranker("kept")
    assert after["decisions"] == before["decisions"] == 6
    assert after["position"] >= before["position"]
    assert after["config"] == before["config"] | {"window": 7200}
    assert (after["config"]["traffic"], after["config"]["guardrail"]["drop"]) == (0.1, 0.2)
    assert shared.report("kept") == believed


@pytest.mark.slow
def test_only_a_reset_that_was_asked_for_forgets(shared: Site) -> None:  # noqa: F811
    rolled_out(shared, "asked")

    def state() -> list[Any]:
        shown = shared.ranker("asked")
        return [shown[name] for name in ("config", "decisions", "items", "position")]

    before = state()
    for method, body in (("PUT", GTS | {"slots": 3}), ("PATCH", {"slots": 3})):
        assert "reset" in shared.ranker("asked", method, body=body, status=409)["detail"]
        assert state() == before
    reset = shared.ranker("asked", "PATCH", body={"slots": 3, "reset": True})
    assert reset["config"] == before[0] | {"slots": 3}
    assert (reset["config"]["traffic"], reset["items"]) == (0.1, 3)
    assert [item["id"] for item in shared.ranker("asked", path="/items")["items"]] == list("abc")
    assert shared.ranker("asked", "PATCH", body={"traffic": 0.5})["config"]["traffic"] == 0.5


@pytest.mark.slow
def test_the_history_has_every_change_of_settings(shared: Site) -> None:  # noqa: F811
    rolled_out(shared, "changed")
    shared.ranker("changed", "PUT", body=GTS | {"window": 7200})
    shared.ranker("changed", "PUT", body=GTS | {"slots": 3}, status=409)
    shared.ranker("changed", "PATCH", body={"slots": 3, "reset": True})
    shared.ranker("changed", "PATCH", body={"traffic": 0.5})
    history = shared.ranker("changed", path="/history")
    assert history["ranker"] == "changed"
    events = [event for event in history["events"] if event["kind"] == "config"]
    assert len(events) == 4, "what was refused is no change"
    assert all(one["time"] <= other["time"] for one, other in pairwise(events))
    assert events[0]["version"] == 1
    assert all(one["version"] < other["version"] for one, other in pairwise(events))
    assert [event["by"] for event in events] == [None] * 4
    created, window, reset, traffic = (event["changed"] for event in events)
    assert created.items() >= (GTS | {"traffic": 0.1}).items()
    assert window == {"window": 7200}
    assert reset["slots"] == 3
    assert traffic == {"traffic": 0.5}


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[tuple[Site, str]]:
    """A service that asks for a key, and the key of its operator."""
    served, (key, entry) = Served(tmp_path), make_key("operator", ["admin"])
    settings = tmp_path / "settings.yaml"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"keys": [entry]}))
    for made in running(served):
        yield made, key


@pytest.mark.slow
def test_the_history_names_the_key_that_made_a_change(keyed: tuple[Site, str]) -> None:
    asks, key = keyed
    assert asks("PUT", "/v1/rankers/r", GTS, key).status_code == 201
    answer = asks("GET", "/v1/rankers/r/history", key=key)
    assert answer.status_code == 200, answer.text
    assert [event["by"] for event in answer.json()["events"]] == ["operator"]


# Replay


def visited(ranker: Ranker, threads: int, lists: int) -> None:
    """Threads that each ask for so many lists, and tell what happened to them."""

    def visit(n: int) -> None:
        for m in range(lists):
            clicked = [[], [0], [1]][(n + m) % 3]
            assert ranker.feedback(ranker.rank().id, clicked=clicked).status == "learned"

    visitors = [threading.Thread(target=visit, args=(n,)) for n in range(threads)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()


@dataclass(frozen=True)
class Fading(Gaussian):
    """Before each list, a tenth of what was believed is forgotten: lists do not commute."""

    def update(self, state: GaussianState, decision: Decision, evidence: Evidence) -> None:
        state.precision *= 0.9
        state.shift *= 0.9
        super().update(state, decision, evidence)


def fading(setting: Setting) -> Policy[GaussianState]:
    """GTS that forgets."""
    return Policy(PerItem(), Fading(setting.items), Thompson(), TopK(), Cascade())


def test_a_replay_believes_what_the_ranker_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    registry.policy("fading", paper="baseline", needs=("lasting",))(fading)
    config = RankerConfig.of({"policy": "fading", "slots": 2})
    with closing(Ranker.open(tmp_path / "log.db", config)) as ranker:
        ranker.put_items(named("abcde"))
        visited(ranker, threads=4, lists=20)
        believed = ranker.estimates().rows(sort="item")
    with closing(Ranker.open(tmp_path / "log.db", config)) as again:
        assert again.estimates().rows(sort="item") == believed


def test_every_list_is_decided_again_from_the_log_alone(tmp_path: Path, capsys: Capture) -> None:
    with closing(Ranker.open(tmp_path / "log.db", RankerConfig.of(GTS))) as ranker:
        ranker.put_items(named("abcde"))
        visited(ranker, threads=8, lists=100)
    status = command("log", "verify", tmp_path / "log.db")
    said = capsys.readouterr()
    assert status == 0, said.err
    assert "800 of 800 lists decided again" in said.out


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A log that has nothing wrong with it."""
    with closing(Ranker.open(tmp_path / "whole.db", RankerConfig.of(GTS))) as ranker:
        ranker.put_items(named("abc"))
        visited(ranker, threads=1, lists=3)
    return tmp_path / "whole.db"


def test_a_log_without_entries_is_not_verified(whole: Path, tmp_path: Path, capsys: Capture) -> None:
    assert command("log", "verify", whole) == 0, capsys.readouterr().err
    SqliteStore(tmp_path / "new.db").close()
    (tmp_path / "nothing.db").touch()
    for name in ("new.db", "nothing.db"):
        assert command("log", "verify", tmp_path / name) != 0, name


@pytest.mark.slow
def test_the_beginning_of_a_file_is_not_verified(shared: Site, whole: Path, capsys: Capture) -> None:  # noqa: F811
    assert command("log", "verify", whole) == 0, capsys.readouterr().err
    part = whole.with_name("part.db")
    part.write_bytes(Path(shared.served.log).read_bytes()[:4096])
    assert part.stat().st_size == 4096
    assert command("log", "verify", part) != 0


# Items


def test_room_for_more_items_changes_no_list() -> None:
    params = {"T0": 1, "bonus": 0.0}  # no random lists, no exploring
    ranker = Ranker(RankerConfig.of({"policy": "feature-ucr", "slots": 2, "context": 1, "params": params}))
    ranker.put_items([{"id": f"item-{i}"} for i in range(16)])
    liked = {"item-3": 1, "item-5": 2}  # item-5 in every second of its lists
    for n in range(64):
        pair = [f"item-{n % 16}", f"item-{(n + 7) % 16}"]
        ranking = ranker.rank(context=[0.5], candidates=pair)
        clicked = [slot for slot, id in enumerate(ranking.ids) if id in liked and n // 16 % liked[id] == 0]
        ranker.feedback(ranking.id, clicked=clicked)
    before, believed = ranker.rank(context=[0.5]), ranker.estimates().rows(sort="item")[0]
    assert set(before.ids) == set(liked)
    ranker.put_items([{"id": "item-16", "enabled": False}])
    after = ranker.rank(context=[0.5])
    assert after.ids == before.ids
    for one, other in zip(after.items, before.items, strict=True):
        assert one.estimate == pytest.approx(other.estimate, rel=1e-9)
    now = {row.item: row.estimate for row in ranker.estimates().rows(sort="item")[0]}
    for row in believed:
        assert now[row.item] == pytest.approx(row.estimate, rel=1e-9)


@pytest.mark.slow
def test_a_prior_of_an_item_that_is_there_replaces_the_one_before(shared: Site) -> None:  # noqa: F811
    shared.create("prior", GTS, named("ab"))
    shared.tell("prior", shared.rank("prior", pin={"0": "a"})["decision"], clicked=[0])
    learned = shared.report("prior")["a"]["estimate"]

    def believed(score: float, strength: float) -> float:
        prior = {"score": score, "strength": strength}
        shared.ranker("prior", "PUT", "/items", {"items": [{"id": "a", "prior": prior}]}, 204)
        assert shared.ranker("prior", path="/items/a").get("prior") == prior
        found: float = shared.report("prior")["a"]["estimate"]
        return found

    assert believed(0.9, 50) == pytest.approx(0.9, abs=0.05)
    assert believed(0.1, 50) == pytest.approx(0.1, abs=0.05)
    assert believed(0.1, 0) == pytest.approx(learned, abs=1e-9)


@pytest.mark.slow
def test_an_item_that_was_removed_may_come_back_and_starts_anew(shared: Site) -> None:  # noqa: F811
    shared.create("back", GTS, named("abc"))
    for _ in range(5):
        shared.tell("back", shared.rank("back", pin={"0": "a"})["decision"], clicked=[0])
    shared.ranker("back", "DELETE", "/items/a", status=204)
    shared.ranker("back", "PUT", "/items", {"items": named("an")}, 204)
    assert {item["id"] for item in shared.ranker("back", path="/items")["items"]} == set("abcn")
    assert listed(shared.rank("back", candidates=["a"])) == ["a"]
    report = shared.report("back")
    assert report["a"]["estimate"] == report["n"]["estimate"]


# Lists


@pytest.mark.slow
def test_control_sees_the_default_order_where_none_is_given(shared: Site) -> None:  # noqa: F811
    items: list[Answer] = [
        {"id": "x"},
        {"id": "b", "default_position": 2},
        {"id": "y"},
        {"id": "a", "default_position": 1.5},
    ]
    shared.create("lottery", {"policy": "gts", "slots": 4, "traffic": 0.5}, items)
    answers = [shared.rank("lottery", visitor=f"visitor-{n}") for n in range(40)]
    assert {answer["group"] for answer in answers} == {"treatment", "control"}
    for answer in answers:
        if answer["group"] == "control":
            assert listed(answer) == ["a", "b", "x", "y"]


@pytest.mark.slow
@pytest.mark.parametrize(("field", "shown"), [("candidates", "ab"), ("exclude", "cd"), ("order", "ab")])
def test_ids_that_are_not_there_are_ignored_and_named(shared: Site, field: str, shown: str) -> None:  # noqa: F811
    name = f"ignores-{field}"
    shared.create(name, GTS | {"traffic": 0.0 if field == "order" else 1.0}, [*named("abcd"), {"id": "gone"}])
    shared.ranker(name, "DELETE", "/items/gone", status=204)
    asked: Answer = {field: ["gone", "a", "never", "b"]}
    answer = shared.rank(name, **asked)
    assert answer["ignored"] == ["gone", "never"]
    assert set(listed(answer)) == set(shown)
    shared.ranker(name, "POST", "/rank", asked | {"strict": True}, 422)


@pytest.mark.slow
def test_a_list_has_the_id_that_its_caller_gave(shared: Site) -> None:  # noqa: F811
    shared.create("own", GTS, named("abcdefgh"))
    first = shared.rank("own", decision="my-id", k=2)
    assert first["decision"] == "my-id"
    for _ in range(3):
        again = shared.rank("own", decision="my-id", k=2)
        assert (again["decision"], listed(again)) == ("my-id", listed(first))
    shared.ranker("own", "POST", "/rank", {"decision": "my-id", "k": 1}, 409)
    assert shared.tell("own", "my-id", clicked=[0]) == "learned"


@pytest.mark.slow
def test_a_value_belongs_to_the_item_or_the_slot_that_was_said(shared: Site) -> None:  # noqa: F811
    shared.create("numbers", {"policy": "gts", "slots": 3}, named("012"))

    def asked() -> str:
        ranking = shared.rank("numbers", pin={"0": "2", "1": "1", "2": "0"})
        assert listed(ranking) == ["2", "1", "0"]
        return str(ranking["decision"])

    def outcome(decision: str) -> Any:
        return shared.ranker("numbers", path=f"/decisions/{decision}")["events"][0]["outcome"]

    by_item, by_slot = asked(), asked()
    shared.ranker("numbers", "POST", "/feedback", {"decision": by_item, "values": {"2": 9.99}}, 422)
    assert shared.tell("numbers", by_item, item_values={"2": 9.99}) == "learned"
    assert shared.tell("numbers", by_slot, values=[9.99, 0, 0]) == "learned"
    assert outcome(by_item) == outcome(by_slot) == [9.99, 0.0, 0.0]
    assert shared.report("numbers")["2"]["estimate"] > 5.0


# Numbers


@pytest.mark.slow
def test_click_through_of_an_item_is_that_of_one_arm(shared: Site) -> None:  # noqa: F811
    shared.create("rates", {"policy": "gts", "slots": 1, "traffic": 0.5}, named("a"))
    lists = {"treatment": 0, "control": 0}
    for n in range(40):
        ranking = shared.rank("rates", order=["a"], visitor=f"visitor-{n}")
        clicked = [0] if (ranking["group"] == "treatment") == (lists[ranking["group"]] > 0) else []
        shared.tell("rates", ranking["decision"], clicked=clicked)
        lists[ranking["group"]] += 1
    row = shared.report("rates")["a"]
    assert (row["shown"], row["control_shown"]) == (lists["treatment"], lists["control"])
    assert (row["clicked"], row["control_clicked"]) == (lists["treatment"] - 1, 1)  # all but the first, and the first
    assert row["click_through"] == pytest.approx(row["clicked"] / row["shown"])
    assert row["control_click_through"] == pytest.approx(1 / lists["control"])


def fields(answer: Any) -> set[str]:
    """Names of all fields of an answer, at any depth."""
    inner = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, list) else ()
    return set(answer if isinstance(answer, dict) else ()).union(*map(fields, inner))


@pytest.mark.slow
def test_the_comparison_says_which_policy_is_better_or_that_it_cannot_tell(shared: Site) -> None:  # noqa: F811
    shared.create("compared", GTS, named("abcd"))
    for n in range(60):
        ranking = shared.rank("compared")
        clicked = [slot for slot, id in enumerate(listed(ranking)) if id == "a" and n % 3]
        shared.tell("compared", ranking["decision"], clicked=clicked)
    shared.ranker("compared", "PUT", "/challenger", {"policy": "cascade-ucb1", "slots": 2}, 202)
    until(lambda: shared.ranker("compared", path="/challenger")["state"] == "ready", "the other policy stands by")
    answer = shared.ranker("compared", path="/challenger")
    assert not fields(answer) & {"order", "pairs"}
    comparison = answer["comparison"]
    assert 0 < comparison["lists"] <= 60
    assert comparison["low"] <= comparison["difference"] <= comparison["high"]
    assert comparison["verdict"] in ("better", "worse", "cannot tell")


# A log that is copied, and one that is damaged


@pytest.mark.slow
def test_a_backup_of_a_running_service_is_a_whole_log(site: Site, tmp_path: Path, capsys: Capture) -> None:  # noqa: F811
    site.create("r", GTS, named("abc"))
    for _ in range(20):
        site.tell("r", site.rank("r")["decision"], clicked=[0])
    backup = tmp_path / "backup.db"
    assert command("log", "backup", site.served.log, backup) == 0, capsys.readouterr().err
    assert command("log", "verify", backup) == 0, capsys.readouterr().err
    assert site.tell("r", site.rank("r")["decision"], clicked=[0]) == "learned"


def damaged(log: str, ranker: str) -> int:
    """Make the first feedback of a ranker unreadable, and take its snapshots away; where that is."""
    with closing(sqlite3.connect(log)) as file, file:
        found = file.execute("SELECT min(position) FROM log WHERE ranker = ? AND kind = 'feedback'", (ranker,))
        position = int(found.fetchone()[0])
        file.execute("UPDATE log SET body = x'00' WHERE ranker = ? AND position = ?", (ranker, position))
        file.execute("DELETE FROM snapshot WHERE ranker = ?", (ranker,))
    return position


@pytest.mark.slow
def test_a_ranker_whose_log_is_damaged_waits_in_quarantine_alone(site: Site, capsys: Capture) -> None:  # noqa: F811
    for name in ("hurt", "well"):
        site.create(name, GTS, named("abc"))
        for _ in range(5):
            site.tell(name, site.rank(name)["decision"], clicked=[0])
    site.served.stop()
    position = damaged(site.served.log, "hurt")
    site.served.start()

    def quarantines() -> dict[str, Any]:
        found = {one["name"]: one["quarantine"] for one in site("GET", "/v1/rankers").json()["rankers"]}
        return {name: why for name, why in found.items() if why is not None}

    ready = site("GET", "/readyz")
    assert ready.status_code == 200, ready.text
    (told,) = ready.json()["quarantined"]
    assert (told["ranker"], told["position"]) == ("hurt", position)
    assert told["reason"]
    assert quarantines() == {"hurt": {"position": position, "reason": told["reason"]}}
    site.ranker("hurt", "POST", "/rank", {}, 503)
    assert site.tell("well", site.rank("well")["decision"], clicked=[0]) == "learned"
    assert 'rankloop_quarantined{ranker="hurt"} 1.0' in site("GET", "/metrics").text

    site.served.stop()
    reason = "damaged by hand"
    status = command("log", "skip", "hurt", position, "--reason", reason, "--log", site.served.log)
    assert status == 0, capsys.readouterr().err
    site.served.start()
    assert quarantines() == {}
    assert site.tell("hurt", site.rank("hurt")["decision"], clicked=[0]) == "learned"
    (skip,) = (event for event in site.ranker("hurt", path="/history")["events"] if event["kind"] == "skip")
    assert skip["reason"] == reason
