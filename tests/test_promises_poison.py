"""Nothing that the service accepts keeps it from starting again, or a ranker from ranking."""

from __future__ import annotations

from typing import Any

import pytest

from promised import Answer, Site, listed, named, site  # noqa: F401
from served import until

pytestmark = pytest.mark.slow

BESIDE = "beside"
"""A ranker that has nothing to do with what goes wrong."""
FEATURED = [{"id": id, "features": [1.0, 0.1 * i]} for i, id in enumerate("abcd")]


def begin(site: Site, name: str, items: list[Answer] | None = None, **config: Any) -> Answer:  # noqa: F811
    """Create a ranker of two slots, and one beside it; what its lists are asked with.

    Lists are answered only when they are in the log: a kill loses none of them.
    """
    if site("GET", f"/v1/rankers/{BESIDE}").status_code == 404:
        site.create(BESIDE, {"policy": "gts", "slots": 2}, named("xyz"))
    site.create(name, {"slots": 2, "commit": "all"} | config, named("abcd") if items is None else items)
    return {"context": [1.0]} if "context" in config else {}


def survives(site: Site, name: str, asked: Answer) -> None:  # noqa: F811
    """Killed and started again, the service is ready, and all its rankers serve and learn."""
    site.served.kill()
    site.served.start()
    assert site("GET", "/readyz").status_code == 200
    rankers = site("GET", "/v1/rankers").json()["rankers"]
    assert {BESIDE, name} <= {one["name"] for one in rankers}
    assert [one["name"] for one in rankers if one.get("quarantine") is not None] == []
    for one, body in ((BESIDE, {}), (name, asked)):
        ranking = site.rank(one, **body)
        assert site.tell(one, ranking["decision"], clicked=[0], final=True) == "learned"
        site.rank(one, **body)


@pytest.mark.parametrize(
    "config",
    [
        {"policy": "epoch-ucb", "bias": [1.0, 0.5]},
        {"policy": "epoch-ucb-upb-star"},
        {"policy": "mnl-bandit"},
    ],
    ids=lambda config: str(config["policy"]),
)
def test_values_for_a_policy_of_clicks_are_refused_and_not_kept(site: Site, config: Answer) -> None:  # noqa: F811
    begin(site, "clicks", **config)
    decision = site.rank("clicks")["decision"]
    body = {"decision": decision, "values": [2, 0]}
    refused = site("POST", "/v1/rankers/clicks/feedback", body)
    assert refused.status_code == 422, refused.text
    assert site.ranker("clicks", path=f"/decisions/{decision}")["events"] == []
    survives(site, "clicks", {})
    assert site.tell("clicks", decision, clicked=[0]) == "learned"


@pytest.mark.parametrize(
    ("closes", "config"),
    [
        ("final", {"policy": "ucr", "context": 1}),
        ("final", {"policy": "g-mle", "context": 1}),
        ("final", {"policy": "feature-ucr", "context": 1}),
        ("final", {"policy": "eps-ind", "dim": 2, "params": {"eps": 0.0}}),
        ("final", {"policy": "epoch-ucb", "bias": [1.0, 0.5]}),
        ("final", {"policy": "cascade-ucb1", "params": {"every": 2}}),
        ("final", {"policy": "ts-beta", "prior": [1, 1]}),
        ("window", {"policy": "ucr", "context": 1}),
        ("window", {"policy": "epoch-ucb", "bias": [1.0, 0.5]}),
        ("window", {"policy": "ts-beta", "prior": [1, 1]}),
    ],
    ids=lambda given: given if isinstance(given, str) else str(given["policy"]),
)
def test_a_slot_clicked_in_two_events_was_clicked_once(site: Site, closes: str, config: Answer) -> None:  # noqa: F811
    """A ranker that is told of every click twice, beside one that is told once: they believe the same."""
    window: dict[str, Any] = {"window": 2.0} if closes == "window" else {}
    told = {"once": ["first"], "twice": ["first", "second"]}
    for name, events in told.items():
        items = FEATURED if "dim" in config else None
        asked = begin(site, name, items, aggregate="sum", **config, **window)
        for n in range(4):
            decision = site.rank(name, **asked)["decision"]
            for event in events:
                final = closes == "final" and event == events[-1]
                status = site.tell(name, decision, clicked=[0], event=f"{n} {event}", final=final)
                assert status == ("learned" if final else "pending")
        site.settled(name)
    once, twice = (site.report(name) for name in told)
    for id, row in once.items():
        assert twice[id]["estimate"] == pytest.approx(row["estimate"], rel=1e-9)
        assert (twice[id]["shown"], twice[id]["clicked"]) == (row["shown"], row["clicked"])
    site.rank("twice", **asked)
    survives(site, "twice", asked)


def test_a_list_that_is_open_while_items_come_is_learned_from(site: Site) -> None:  # noqa: F811
    asked = begin(site, "wide", [{"id": f"item-{i}"} for i in range(16)], policy="feature-ucr", context=1)
    decision = site.rank("wide", **asked)["decision"]
    site.ranker("wide", "PUT", "/items", {"items": [{"id": "item-16"}]}, 204)
    assert site.tell("wide", decision, clicked=[0]) == "learned"
    survives(site, "wide", asked)


@pytest.mark.parametrize("closes", ["feedback", "window"])
def test_more_lists_than_rounds_are_learned_from(site: Site, closes: str) -> None:  # noqa: F811
    window: dict[str, Any] = {"window": 0.5} if closes == "window" else {}
    asked = begin(site, "short", policy="ucr", context=1, rounds=3, params={"fit": "mle"}, **window)
    for _ in range(6):
        decision = site.rank("short", **asked)["decision"]
        if closes == "feedback":
            assert site.tell("short", decision, clicked=[0]) == "learned"
    site.settled("short")
    assert site.ranker("short")["groups"]["treatment"]["settled"] == 6
    survives(site, "short", asked)


def test_values_do_not_harm_a_policy_of_clicks_that_stands_by(site: Site) -> None:  # noqa: F811
    begin(site, "pair", policy="gts")
    site.ranker("pair", "PUT", "/challenger", {"policy": "cascade-ucb1", "slots": 2}, 202)
    until(lambda: site.ranker("pair", path="/challenger")["state"] == "ready", "the other policy stands by")
    for _ in range(3):
        assert site.tell("pair", site.rank("pair")["decision"], values=[2.5, 0]) == "learned"
    survives(site, "pair", {})
    assert site.ranker("pair")["config"]["policy"] == "gts"
    other = site.ranker("pair", path="/challenger")
    assert (other["state"], other["config"]["policy"]) == ("ready", "cascade-ucb1")
    assert site.ranker("pair", "POST", "/promote")["config"]["policy"] == "cascade-ucb1"
    assert len(listed(site.rank("pair"))) == 2
