"""Requests that bring their own items: candidates by id, and features, scores, prices and rewards of one request."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postgres_server import Server, database, server  # noqa: F401
from rankloop import catalogue
from rankloop.belief import Ridge, RidgeState
from rankloop.cli.main import main
from rankloop.design import Shared
from rankloop.errors import InvalidInput, RankloopError, Unsupported
from rankloop.eventlog import MemoryStore, SqliteStore
from rankloop.eventlog.events import DecisionMade, decode
from rankloop.eventlog.events.decision import OF_REQUEST
from rankloop.eventlog.export import export, import_
from rankloop.eventlog.postgres import PostgresStore
from rankloop.eventlog.store import Store
from rankloop.explore import Greedy
from rankloop.feedback import SemiBandit
from rankloop.plan import TopK
from rankloop.plan.base import Plan
from rankloop.policy import Policy
from rankloop.schema import RankRequest
from rankloop.schema.service_settings import ServiceLimits
from rankloop.serving import ConflictingDecision, Ranker, RankerConfig
from rankloop.serving.config import LoggedConfig
from rankloop.serving.replica import Replica
from rankloop.serving.verification import decide_again
from rankloop.types import EMPTY, FloatArray, IntArray, Read, Request, Rows, Setting
from test_ranker import CONTEXT, IDS, config, contents, items

LISTS = 30


class FromScores(Shared):
    """Rows of two numbers: the caller's score, and 1/(1 + rank) of an item without one."""

    @property
    def reads(self) -> frozenset[Read]:
        return frozenset({"scores"})

    @property
    def row_features(self) -> int | None:
        return 2

    def rows(self, request: Request, prefix: IntArray, slot: int) -> Rows:
        return Rows(model=0, x=self._table(request))

    def pick(self, request: Request, items: IntArray) -> Rows:
        return Rows(model=0, x=self._table(request)[items])

    def _table(self, request: Request) -> FloatArray:
        x = np.zeros((request.items, 2))
        if request.ranks is not None:
            x[:, 1] = np.where(np.isnan(request.ranks), 0.0, 1.0 / (1.0 + request.ranks))
        if request.scores is not None:
            x[~np.isnan(request.scores)] = 0.0
            x[:, 0] = np.where(np.isnan(request.scores), 0.0, request.scores)
        return x


class OneRidge(Ridge):
    """A ridge regression that starts from θ = 1: it ranks as the caller does until it has learned."""

    def init(self, learners: int) -> RidgeState:
        state = super().init(learners)
        state.b[...] = 1.0
        return state


class CutByReward(TopK):
    """As many items as the request has rewards above 0; one without."""

    @property
    def reads(self) -> frozenset[Read]:
        return frozenset({"rewards"})

    def __call__(self, score: Any, request: Request, rng: np.random.Generator) -> Plan:
        plan = super().__call__(score, request, rng)
        length = 1 if request.rewards is None else int((request.rewards > 0.0).sum())
        plan.items[:, length:] = EMPTY
        return plan


class OwnPolicy(Policy[RidgeState]):
    """A policy that also reads what its planner reads."""

    @property
    def reads(self) -> frozenset[Read]:
        return self.design.reads | CutByReward().reads


class OwnConfig(RankerConfig, frozen=True):
    """The settings of a ranker whose policy reads scores and rewards."""

    def check_consistency(self) -> None:
        """Accept a policy that is not in the catalogue."""

    def compose(self, setting: Setting) -> Any:
        return OwnPolicy(FromScores(), OneRidge(2), Greedy(), CutByReward(), SemiBandit())


def own(**more: Any) -> Ranker:
    ranker = Ranker(OwnConfig.of({"policy": "own", "slots": 3, **more}))
    ranker.put_items([{"id": id} for id in "abcdef"])
    return ranker


ALL: dict[str, Any] = {"rewards": [1.0, 1.0, 1.0]}


def linear(**more: Any) -> Ranker:
    ranker = Ranker(RankerConfig.of({"policy": "cascade-lin-ts", "slots": 2, "dim": 2, **more}))
    ranker.put_items([{"id": id, "features": [n / 4.0, 1.0]} for n, id in enumerate("abcdef")])
    return ranker


def event_of(ranker: Ranker, id: str) -> DecisionMade:
    return ranker.find_decision(id)


# Refused, with nothing changed


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"items": [{"id": "a"}], "candidates": ["a"]}, r"^items is .*; accepted: only candidates\.$"),
        ({"items": ["a"]}, r"^items\[0\] is 'a'; accepted: a mapping with id, features, score, price, fields\.$"),
        ({"items": [{"id": "a", "feature": []}]}, r"^items\[0\]\.feature is .* Did you mean 'features'\?$"),
        ({"items": [{"features": [0.0, 1.0]}]}, r"^items\[0\]\.id is missing"),
        ({"items": [{"id": "a"}, {"id": "b"}, {"id": "a"}]}, r"^items\[2\]\.id is 'a'; accepted: every id once\.$"),
        ({"items": [{"id": "x"}, {"id": "x"}]}, r"^items\[1\]\.id is 'x'; accepted: every id once\.$"),
        (
            {"items": [{"id": "a", "features": [1.0]}]},
            r"^items\[0\]\.features is a list of 1; accepted: a list of 2\.$",
        ),
        (
            {"items": [{"id": "x", "features": [1.0]}]},
            r"^items\[0\]\.features is a list of 1; accepted: a list of 2\.$",
        ),
        ({"items": [{"id": "a", "features": [1.0, np.nan]}]}, r"^items\[0\]\.features\[1\] is nan; accepted: a number"),
        ({"items": [{"id": "a", "features": [np.inf, 0.0]}]}, r"^items\[0\]\.features\[0\] is inf; accepted: a number"),
        ({"items": [{"id": "a", "features": [2e6, 0.0]}]}, r"^items\[0\]\.features\[0\] is 2000000\.0; accepted: a"),
        ({"items": [{"id": "a", "score": 0.5}]}, r"^items\[0\]\.score is 0\.5; accepted: no score, since the policy"),
        ({"items": [{"id": "a", "price": 2.0}]}, r"^items\[0\]\.price is 2\.0; accepted: no price, since ranker"),
        (
            {"items": [{"id": "a", "price": -1.0}]},
            r"^items\[0\]\.price is -1\.0; accepted: a number in \[0, 1e\+09\]\.$",
        ),
        ({"items": [{"id": "x"}], "strict": True}, r"^items\[0\]\.id is 'x'; accepted: the id of an item of this"),
        ({"rewards": [1.0, 0.5]}, r"^rewards is \[1\.0, 0\.5\]; accepted: no rewards, since the policy reads none"),
        ({"losses": [0.0, 0.0, -1.0]}, r"^losses is .*; accepted: no losses, since the policy reads none"),
        ({"items": [{"id": "a"}], "pin": {0: "b"}}, r"^pin\.0 is 'b'; accepted: an enabled item that is not excluded"),
    ],
)
def test_a_value_that_the_ranker_cannot_use_is_refused_in_one_sentence(asked: dict[str, Any], said: str) -> None:
    ranker = linear()
    before = contents(ranker)
    with pytest.raises(InvalidInput, match=said) as told:
        ranker.rank(**asked)
    assert str(told.value).count(". ") <= 1
    assert contents(ranker) == before
    assert ranker._number == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rewards": [1.0, 0.5]}, r"^rewards is a list of 2; accepted: a list of 3\.$"),
        ({"losses": [0.0] * 3}, r"^losses is a list of 3; accepted: a list of 4\.$"),
        ({"rewards": [0.5, 1.0, 0.0]}, r"^rewards is .*; accepted: numbers of at least 0, none greater than the one"),
        ({"rewards": [1.0, 0.5, -0.5]}, r"^rewards is .*; accepted: numbers of at least 0, none greater"),
        ({"losses": [0.0, 0.5, -1.0, -1.0]}, r"^losses is .*; accepted: numbers of at most 0, none greater"),
        ({"losses": [-1.0, -0.5, -1.0, -1.0]}, r"^losses is .*; accepted: numbers of at most 0, none greater"),
        ({"rewards": [np.nan, 0.0, 0.0]}, r"^rewards\[0\] is nan; accepted: a number"),
        ({"rewards": [1e10, 0.0, 0.0]}, r"^rewards\[0\] is 10000000000\.0; accepted: a number"),
        (
            {"items": [{"id": "a", "features": [1.0]}]},
            r"^items\[0\]\.features is \[1\.0\]; accepted: no features, since",
        ),
    ],
)
def test_rewards_that_no_list_can_be_planned_for_are_refused(asked: dict[str, Any], said: str) -> None:
    ranker = own()
    with pytest.raises(InvalidInput, match=said):
        ranker.rank(**asked)
    assert ranker._number == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rewards": [0.5, 1.0]}, r"^ranker\.rewards is \[0\.5, 1\.0\]; accepted: numbers of at least 0, none greater"),
        ({"losses": [0.0, 1.0, -1.0]}, r"^ranker\.losses is .*; accepted: numbers of at most 0"),
        ({"losses": [0.0, 0.0]}, r"^ranker\.losses is a list of 2; accepted: a list of 3\.$"),
    ],
)
def test_settings_refuse_the_same_rewards_as_requests(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        RankerConfig.of({"policy": "ind", "slots": 2, "dim": 2, **given})


def test_a_score_of_an_item_is_refused_by_a_policy_that_reads_none() -> None:
    ranker = linear()
    with pytest.raises(
        InvalidInput, match=r"^items\[0\]\.score is 0\.5; accepted: no score, since .* policy hybrid\.$"
    ):
        ranker.put_items([{"id": "a", "features": [0.0, 1.0], "score": 0.5}])
    assert ranker.item("a").score is None


def test_features_and_context_are_crossed_up_to_a_stated_width() -> None:
    """2 + 170 + 340 = 512 features."""
    RankerConfig.of({"policy": "lin-ts-ltr", "slots": 2, "dim": 170, "context": 2})
    with pytest.raises(InvalidInput, match=r"^ranker\.context is 2; accepted: a context with which the 515 features"):
        RankerConfig.of({"policy": "lin-ts-ltr", "slots": 2, "dim": 171, "context": 2})
    RankerConfig.of({"policy": "lin-ts-ltr", "slots": 2, "dim": 2000})
    assert LoggedConfig.of({"policy": "feature-ucr", "slots": 2, "dim": 171, "context": 2}).dim == 171


# What a request means


def test_unknown_items_of_a_request_are_ignored_and_disabled_ones_left_out() -> None:
    ranker = linear()
    ranker.put_items([{"id": "b", "features": [0.0, 0.0], "enabled": False}])
    ranking = ranker.rank(items=[{"id": "x"}, {"id": "b"}, {"id": "c"}, {"id": "d"}], exclude=["d", "y"])
    assert ranking.ids == ("c",)
    assert ranking.ignored == ("x", "y")


def test_a_request_without_a_candidate_that_may_be_listed_gets_an_empty_list() -> None:
    nothing: list[dict[str, Any]] = [
        {"candidates": []},
        {"items": []},
        {"candidates": ["x"]},
        {"candidates": ["a"], "exclude": ["a"]},
    ]
    for ranker in (linear(), linear(mode="shadow")):
        for asked in nothing:
            ranking = ranker.rank(**asked)
            assert ranking.ids == ()
            ranker.feedback(ranking.id, clicked=[])
        found = decide_again(ranker.store, "ranker")
        assert found.different == 0


def test_features_of_a_request_replace_those_of_the_item_in_this_request_only() -> None:
    ranker = linear(params={"sigma": 1.0})
    for _ in range(40):  # the first feature is what visitors like
        ranking = ranker.rank(items=[{"id": "a", "features": [1.0, 0.0]}, {"id": "b", "features": [-1.0, 0.0]}])
        ranker.feedback(ranking.id, clicked=[ranking.ids.index("a")])
    swapped: list[dict[str, Any]] = [
        {"id": "a", "features": [-9.0, 0.0]},
        {"id": "b", "features": [9.0, 0.0]},
        {"id": "c"},
    ]
    event = event_of(ranker, ranker.rank(items=swapped, k=1).id)
    assert ranker._replica.items.ids[event.items[0]] == "b"
    assert event.rows is not None
    np.testing.assert_array_equal(event.rows, [[-9.0, 0.0], [9.0, 0.0], [0.5, 1.0]])  # c as it is stored
    assert event.x is not None
    np.testing.assert_array_equal(event.x, [[9.0, 0.0]])
    assert ranker.item("a").features == (0.0, 1.0)
    plain = event_of(ranker, ranker.rank(candidates=["a", "b"], k=1).id)
    assert plain.rows is None


def test_a_list_is_learned_with_the_features_that_it_was_ranked_with() -> None:
    """One ranker has the features in its items, the other gets them with each request: both learn the same."""
    stored, brought = linear(), linear()
    rng = np.random.default_rng(1)
    for _ in range(20):
        x = {id: rng.standard_normal(2).tolist() for id in "abc"}
        stored.put_items([{"id": id, "features": row} for id, row in x.items()])
        one = stored.rank(candidates=["a", "b", "c"])
        other = brought.rank(items=[{"id": id, "features": row} for id, row in reversed(x.items())])
        assert one.ids == other.ids
        clicked = [int(rng.integers(2))]
        stored.feedback(one.id, clicked=clicked)
        brought.feedback(other.id, clicked=clicked)
    states = [
        {name: array.tobytes() for name, array in r._replica.learners.arrays().items()} for r in (stored, brought)
    ]
    assert states[0] == states[1]


@pytest.mark.parametrize("id", IDS)
def test_an_empty_list_is_decided_and_learned_by_every_policy(id: str) -> None:
    for made in settings_of(id):
        ranker = Ranker(made)
        ranker.put_items(items(4, topics=made.coverage))
        context = None if made.context is None else [0.5] * made.context
        name = ranker.items()[0].id
        for candidates in (None, [name], []):
            empty = ranker.rank(k=0, context=context, candidates=candidates)
            assert empty.ids == ()
            assert ranker.feedback(empty.id, clicked=[], final=True).status == "learned"
        ranker.rank(context=context)


@pytest.mark.parametrize("id", IDS)
def test_naming_all_items_as_candidates_changes_nothing(id: str) -> None:
    """The lists are those without candidates, in any order of the names, where every draw is made item by item."""
    rankers = [Ranker(config(id)) for _ in range(2)]
    for ranker in rankers:
        ranker.put_items(items(16, topics=ranker.config.coverage))  # as many as the arrays have room for
    rng = np.random.default_rng(3)
    for _ in range(12):
        context = rng.standard_normal(CONTEXT).tolist() if rankers[0].config.context else None
        names = [f"item-{i}" for i in rng.permutation(16)]
        plain, named = rankers[0].rank(context=context), rankers[1].rank(context=context, candidates=names)
        assert plain.ids == named.ids
        clicked = [int(rng.integers(3))] if plain.ids and rng.random() < 0.7 else []
        for ranker, ranking in zip(rankers, (plain, named), strict=True):
            ranker.feedback(ranking.id, clicked=[slot for slot in clicked if slot < len(ranking.ids)])
    one, other = (
        {name: array.tobytes() for name, array in ranker._replica.learners.arrays().items()} for ranker in rankers
    )
    assert one == other


# The caller's own scores and order


def test_a_policy_starts_from_the_scores_of_items_of_the_request_or_from_an_order() -> None:
    ranker = own()
    ranker.put_items([{"id": id, "default_position": at} for id, at in (("e", 1), ("d", 2), ("c", 3))])
    assert ranker.rank(**ALL).ids == ("e", "d", "c"), "by default position"
    assert ranker.rank(**ALL, candidates=["a", "c", "d"]).ids[:2] == ("d", "c")
    assert ranker.rank(**ALL, order=["c", "x", "a", "b"]).ids == ("c", "a", "b")
    assert ranker.rank(**ALL, order=["c", "a", "b"], candidates=["f", "b", "a"]).ids == ("a", "b", "f")
    ranker.put_items([{"id": id, "score": score} for id, score in (("a", 0.1), ("b", 0.3), ("c", 0.2))])
    assert ranker.item("b").score == 0.3
    assert ranker.rank(**ALL).ids == ("b", "c", "a"), "by score"
    brought: list[dict[str, Any]] = [{"id": "a", "score": 0.9}, {"id": "b"}, {"id": "c", "score": 0.5}, {"id": "d"}]
    assert ranker.rank(**ALL, items=brought).ids == ("a", "c", "b")
    assert ranker.rank(**ALL, candidates=["a", "b"]).ids == ("b", "a"), "of this request only"
    ranker.flush()
    found = decide_again(ranker.store, "ranker", lambda settings: ranker.config.adjusted_as(settings))
    assert (found.equal, found.different) == (found.decided, 0)


def test_the_order_is_logged_only_where_the_policy_reads_it() -> None:
    ranker, other = own(), linear()
    event = event_of(ranker, ranker.rank(order=["c", "x", "a"]).id)
    assert event.order is not None
    assert event.order.tolist() == [2, 0]
    assert event_of(other, other.rank(order=["c", "x", "a"]).id).order is None


def test_scores_survive_a_replay_and_a_snapshot() -> None:
    ranker = own()
    ranker.put_items([{"id": "a", "score": 0.25}, {"id": "g", "score": -1.5}])
    ranker.put_items([{"id": f"more-{n}"} for n in range(20)])  # the arrays grow
    ranker.snapshot()
    ranker.put_items([{"id": "b", "score": 0.5}])
    for again in (Ranker(ranker.config, store=ranker.store), Replica(ranker.config)):
        table = again._replica.items if isinstance(again, Ranker) else again.items
        if isinstance(again, Replica):
            again.follow(ranker.store.read("ranker"))
        assert [table.get(id).score for id in ("a", "b", "c", "g", "more-3")] == [0.25, 0.5, None, -1.5, None]


def test_the_control_group_sees_falling_scores_where_no_item_has_a_position() -> None:
    ranker = own(mode="shadow")
    assert ranker.rank().ids == ("a", "b", "c"), "the order of arrival"
    ranker.put_items([{"id": id, "score": score} for id, score in (("b", 0.1), ("d", 0.3), ("e", 0.2))])
    assert ranker.rank().ids == ("d", "e", "b")
    assert ranker.rank(candidates=["f", "b", "a", "e"]).ids == ("e", "b", "a")
    assert ranker.rank(items=[{"id": "a", "score": 9.0}, {"id": "b"}, {"id": "e"}]).ids == ("a", "e", "b")
    assert ranker.rank(candidates=["b", "d", "e"], pin={0: "b"}).ids == ("b", "d", "e")
    ranker.put_items([{"id": "f", "default_position": 7}])
    assert ranker.rank(candidates=["b", "d", "f"]).ids == ("f", "b", "d")
    ranker.remove_items(["f"])
    assert ranker.rank().ids == ("d", "e", "b")


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_control_list_of_candidates_is_the_default_order_restricted_to_them(data: st.DataObject) -> None:
    ranker = linear(mode="shadow")
    places = data.draw(st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=6, max_size=6))
    ranker.put_items(
        [{"id": id, "features": [0.0, 0.0], "default_position": at} for id, at in zip("abcdef", places, strict=True)]
    )
    chosen = data.draw(st.lists(st.sampled_from("abcdef"), max_size=6))
    excluded = data.draw(st.lists(st.sampled_from("abcdef"), max_size=2))
    may = [id for id in "abcdef" if id in chosen and id not in excluded]
    place = dict(zip("abcdef", places, strict=True))
    expected = sorted(may, key=lambda one: (place[one] is None, place[one] or 0, one))
    assert list(ranker.rank(candidates=chosen, exclude=excluded).ids) == expected[:2]


# Prices and rewards


def test_the_log_has_what_a_click_on_each_listed_item_was_worth() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "g-mle", "slots": 3, "context": 1, "objective": "revenue"}))
    ranker.put_items([{"id": "a", "price": 3.0}, {"id": "b", "price": 2.0}])
    event = event_of(ranker, ranker.rank(context=[0.5]).id)
    worth = {0: 3.0, 1: 2.0, EMPTY: 0.0}
    assert event.prices is not None
    assert event.prices.tolist() == [worth[at] for at in event.items.tolist()]
    event = event_of(ranker, ranker.rank(context=[0.5], items=[{"id": "b", "price": 7.0}, {"id": "a"}]).id)
    assert event.prices is not None
    assert event.prices.tolist() == [{0: 3.0, 1: 7.0, EMPTY: 0.0}[at] for at in event.items.tolist()]
    assert event.given_prices is not None
    np.testing.assert_array_equal(event.given_prices, [np.nan, 7.0])


def test_rewards_of_a_request_reach_the_planner() -> None:
    ranker = own()
    assert len(ranker.rank().ids) == 1
    assert len(ranker.rank(rewards=[1.0, 0.5, 0.0]).ids) == 2
    event = event_of(ranker, ranker.rank(rewards=[1.0, 0.5, 0.5], losses=[0.0, 0.0, -1.0, -1.0]).id)
    assert event.rewards is not None
    assert event.losses is not None
    assert (event.rewards.tolist(), event.losses.tolist()) == ([1.0, 0.5, 0.5], [0.0, 0.0, -1.0, -1.0])


def test_an_amount_is_refused_by_a_policy_that_learns_from_clicks() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "cascade-ucb1", "slots": 2}))
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    ranking = ranker.rank()
    with pytest.raises(Unsupported, match=r"^this ranker's policy learns from clicks, not values"):
        ranker.feedback(ranking.id, values=[2.5, 0.0])


# Retries


def test_a_retry_with_another_value_of_an_item_conflicts() -> None:
    ranker = linear()
    asked: dict[str, Any] = {"items": [{"id": "a", "features": [0.1, 0.2]}, {"id": "b"}], "decision": "d"}
    first = ranker.rank(**asked)
    again = ranker.rank(**asked)
    assert (again.ids, again.repeated) == (first.ids, True)
    others: list[list[dict[str, Any]]] = [
        [{"id": "a", "features": [0.1, 0.3]}, {"id": "b"}],
        [{"id": "a"}, {"id": "b"}],
    ]
    for other in others:
        with pytest.raises(ConflictingDecision):
            ranker.rank(items=other, decision="d")


# The log


def brought(ranker: Ranker, rng: np.random.Generator) -> dict[str, Any]:
    """A random request with everything that the ranker's policy reads."""
    config, reads = ranker.config, ranker._replica.learners.reads
    ids = [item.id for item in ranker.items()]
    asked: dict[str, Any] = {"k": int(rng.integers(1, config.slots + 1)), "segment": ("", "de")[int(rng.integers(2))]}
    asked |= {"context": rng.standard_normal(config.context).tolist()} if config.context else {}
    chosen = [id for id in ids if rng.random() < 0.7]
    kind = int(rng.integers(4))
    if kind == 0:
        asked["candidates"] = chosen
    elif kind == 1:
        asked["exclude"] = chosen[:3]
    elif kind == 2:
        asked["items"] = [_brought_item(config, reads, id, rng) for id in rng.permutation(chosen).tolist()]
    if rng.random() < 0.3:
        asked["order"] = rng.permutation(ids).tolist()
    if rng.random() < 0.3 and kind == 0 and chosen:
        asked["pin"] = {0: chosen[0]}
    if "rewards" in reads and rng.random() < 0.5:
        asked["rewards"] = sorted(rng.random(config.slots).tolist(), reverse=True)
        asked["losses"] = sorted((-rng.random(config.slots + 1)).tolist(), reverse=True)
    return asked


def _brought_item(config: RankerConfig, reads: frozenset[Read], id: str, rng: np.random.Generator) -> dict[str, Any]:
    item: dict[str, Any] = {"id": id}
    if config.dim and rng.random() < 0.7:
        item["features"] = rng.standard_normal(config.dim).tolist()
    if "scores" in reads and rng.random() < 0.5:
        item["score"] = float(rng.random())
    if config.objective == "revenue" and rng.random() < 0.5:
        item["price"] = float(rng.integers(0, 9))
    return item


def visited(ranker: Ranker, seed: int = 5) -> None:
    """Visitors with requests of all kinds, while items come, change and go."""
    rng = np.random.default_rng(seed)
    topics, single = ranker.config.coverage, ranker._replica.learners.policy.feedback.single
    for n in range(LISTS):
        ranking = ranker.rank(**brought(ranker, rng))
        clicked = [slot for slot in range(len(ranking.ids)) if rng.random() < 0.4]
        ranker.feedback(ranking.id, clicked=clicked[:1] if single else clicked)
        if n % 6 == 0:
            more = items(8, seed=n, topics=topics)[n % 8] | {"id": f"new-{n}"}
            ranker.put_items([more, items(8, seed=n, topics=topics)[(n + 1) % 8]])
    ranker.flush()


def settings_of(id: str) -> list[RankerConfig]:
    """A policy with its settings, and those of its objectives that use prices or a context beside features."""
    made = [config(id)]
    for more in ({"objective": "revenue"}, {"context": CONTEXT}):
        try:
            made.append(RankerConfig.of({**config(id).plain(), **more}))
        except RankloopError:
            continue
    return made


@pytest.mark.parametrize("id", IDS)
def test_a_replay_of_such_requests_is_the_live_state_and_every_list_comes_out_again(id: str) -> None:
    for made in settings_of(id):
        store = MemoryStore()
        ranker = Ranker(made, store=store)
        ranker.put_items(items(8, topics=made.coverage))
        visited(ranker)
        again = Ranker(made, store=store)
        assert contents(again) == contents(ranker)
        found = decide_again(store, "ranker")
        assert (found.equal, found.different) == (found.decided, 0), found.differences[:2]
        assert found.decided == LISTS


def played(store: Store, ids: Sequence[str]) -> None:
    for id in ids:
        ranker = Ranker(config(id), store=store, name=f"of-{id}")
        ranker.put_items(items(8, topics=ranker.config.coverage))
        visited(ranker)


def test_log_verify_decides_such_lists_again_on_sqlite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SqliteStore(tmp_path / "log.db")
    played(store, IDS)
    store.close()
    assert main(["log", "verify", str(tmp_path / "log.db")]) == 0
    assert capsys.readouterr().out.count(f"{LISTS} of {LISTS} lists decided again, bit for bit") == len(IDS)


@pytest.mark.slow
def test_log_verify_decides_such_lists_again_on_postgresql(
    database: str,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = PostgresStore(database)
    played(store, IDS)
    store.close()
    assert main(["log", "verify", database]) == 0
    assert capsys.readouterr().out.count(f"{LISTS} of {LISTS} lists decided again, bit for bit") == len(IDS)


def test_a_challenger_learns_from_the_features_of_requests() -> None:
    """It scores the lists of another policy with the rows that the requests brought: as if it had decided them."""
    store = MemoryStore()
    ranker = Ranker(config("random"), store=store)
    ranker.put_items(items(8))
    visited(ranker)
    challenger = Replica(config("lin-ts-ltr"))
    challenger.follow(store.read("ranker"))
    events = [event for entry in store.read("ranker") if isinstance(event := decode(entry), DecisionMade)]
    brought = [event for event in events if event.rows is not None]
    assert len(brought) > 3
    for event in brought:
        x, shown = challenger.learners.scored(event).x, event.items != EMPTY
        assert x is not None
        assert event.rows is not None
        assert event.candidates is not None
        np.testing.assert_array_equal(x[shown], event.rows[np.searchsorted(event.candidates, event.items[shown])])


def test_what_a_request_costs_in_the_log_depends_on_its_candidates_only() -> None:
    small, large = (Ranker(RankerConfig.of({"policy": "gts", "slots": 2})) for _ in range(2))
    small.put_items([{"id": str(n)} for n in range(50)])
    large.put_items([{"id": str(n)} for n in range(5000)])
    sizes = []
    for ranker in (small, large):
        ranking = ranker.rank(candidates=[str(n) for n in range(40)])
        ranker.flush()
        entry = ranker.store.find("ranker", "decision", ranking.id)
        assert entry is not None
        sizes.append(len(entry.body))
    assert abs(sizes[0] - sizes[1]) <= 16  # the position in the header may have more digits


def test_an_exported_log_has_what_requests_brought(tmp_path: Path) -> None:
    store, other = MemoryStore(), MemoryStore()
    ranker = Ranker(config("g-mle", objective="revenue", dim=None), store=store)
    ranker.put_items([{key: one[key] for key in ("id", "price")} for one in items(8)])
    visited_plainly(ranker)
    linear_ranker = Ranker(config("lin-ts-ltr"), store=store, name="linear")
    linear_ranker.put_items(items(8))
    visited(linear_ranker)
    for one in (ranker, linear_ranker):
        assert export(store, one.name, one.config, tmp_path / "log.parquet") > 0
        import_(tmp_path / "log.parquet", other, one.name)
        events, again = (
            {e.id: e for entry in log.read(one.name) if isinstance(e := decode(entry), DecisionMade)}
            for log in (store, other)
        )
        kinds = set()
        for id, event in events.items():
            for name in (*OF_REQUEST, "prices"):
                before, after = getattr(event, name), getattr(again[id], name)
                kinds |= {name} if before is not None else set()
                np.testing.assert_array_equal(before, after) if before is not None else None
                assert (before is None) == (after is None)
        assert {"candidates", "excluded"} <= kinds
        assert kinds & {"rows", "given_prices"}


def visited_plainly(ranker: Ranker) -> None:
    """Visitors of a ranker whose items are never changed."""
    rng = np.random.default_rng(2)
    for _ in range(LISTS):
        ranker.feedback(ranker.rank(**brought(ranker, rng)).id, clicked=[])
    ranker.flush()


def test_the_service_limits_the_items_of_a_request() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "gts", "slots": 2}), limits=ServiceLimits(list=3))
    ranker.put_items([{"id": id} for id in "abcd"])
    assert len(ranker.rank(items=[{"id": id} for id in "abc"]).ids) == 2
    with pytest.raises(InvalidInput, match=r"^items is a list of 4; accepted: a list of at most 3\.$"):
        ranker.rank(items=[{"id": id} for id in "abcd"])


def test_the_cost_of_a_request_is_that_of_its_candidates() -> None:
    ranker = linear(context=1)
    row = (1 + 2) * (1 + 1)
    named = RankRequest(items=[{"id": "a"}, {"id": "b"}], propensity=4)
    assert ranker.list_cost(RankRequest()) == (16 + row) * row
    assert ranker.list_cost(named) == (2 + row) * row
    assert ranker.draws_cost(named).total == 4 * (2 * 5 + 5 * 5)  # rows of 1 + 2 + 2 numbers


def test_every_policy_of_the_catalogue_is_visited() -> None:
    assert set(IDS) == {entry.id for entry in catalogue.entries()}
