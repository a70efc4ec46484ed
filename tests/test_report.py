"""Item tables page by page, time buckets, and the cache of dashboard responses."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest

from rankloop.analytics.overview import ConfigMarker
from rankloop.hosting.hosted_ranker import HostedRanker
from rankloop.service.response_cache import MAX_RESPONSE_BYTES, MAX_RESPONSES, MIN_REUSE_FACTOR, ResponseCache
from rankloop.serving import Ranker, RankerConfig

DAY = 86400.0


class Clock:
    """A clock that tests set."""

    def __init__(self, now: float = 1.7e9) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ranker(clock: Clock) -> Ranker:
    """Eight items; lists of two, of which half are the caller's own."""
    config = {"policy": "gts", "slots": 2, "seed": 3, "traffic": 0.5, "window": 3600.0}
    ranker = Ranker(RankerConfig.of(config), clock=clock)
    ranker.put_items([{"id": id} for id in ("Tea", "coffee", "cocoa", "water", "juice", "milk", "Ice tea", "gone")])
    rng = np.random.default_rng(5)
    for n in range(60):
        made = ranker.rank(order=["coffee", "cocoa"], exclude=["milk"], visitor=f"visitor-{n}")
        ranker.feedback(made.id, clicked=[slot for slot in range(2) if rng.random() < 0.3])
    ranker.remove_items(["gone"])
    return ranker


# Items, page by page


@pytest.mark.parametrize("sort", ["estimate", "item", "shown", "clicked", "click_through"])
@pytest.mark.parametrize("order", [None, "ascending", "descending"])
def test_pages_put_together_are_the_sorted_table(ranker: Ranker, sort: str, order: str | None) -> None:
    sheet = ranker.estimates()
    whole, total = sheet.rows(sort, order)
    assert total == len(whole) == 7
    pages = [sheet.rows(sort, order, limit=3, skip=skip)[0] for skip in (0, 3, 6, 9)]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [row for page in pages for row in page] == whole
    column = [getattr(row, sort) for row in whole]
    known = [value for value in column if value is not None]
    assert column[: len(known)] == known, "what is unknown comes last"
    up = order == "ascending" or (order is None and sort == "item")
    assert known == sorted(known, reverse=not up)


def test_a_search_ignores_case(ranker: Ranker) -> None:
    rows, total = ranker.estimates().rows("item", search="TEA", limit=1)
    assert (total, [row.item for row in rows]) == (2, ["Ice tea"])
    assert ranker.estimates().rows(search="gone") == ([], 0)
    with pytest.raises(ValueError, match="sort is 'colour'; accepted: item"):
        ranker.estimates().rows("colour")


def test_rows_have_the_counts_of_both_groups_and_the_estimates_of_the_segment(ranker: Ranker) -> None:
    rows = {row.item: row for row in ranker.estimates().rows()[0]}
    groups = ranker.overview().groups
    assert sum(row.shown for row in rows.values()) <= 2 * groups["treatment"].lists, "what was removed is not there"
    assert rows["coffee"].control_shown == groups["control"].lists
    for row in rows.values():
        assert row.click_through == (row.clicked / row.shown if row.shown else None)
        assert row.control_click_through == (row.control_clicked / row.control_shown if row.control_shown else None)
    assert rows["coffee"].click_through != rows["coffee"].control_click_through
    assert rows["milk"].click_through is None
    tea = rows["Tea"]
    assert tea.estimate is not None
    assert tea.low is not None
    assert tea.high is not None
    assert tea.estimate - tea.low == pytest.approx(tea.high - tea.estimate)
    ranker.rank(segment="de", order=["coffee"])
    ranker.flush()
    fresh = {row.item: row for row in ranker.estimates("de").rows()[0]}
    assert fresh["Tea"].low != tea.low
    assert fresh["Tea"].low == fresh["milk"].low, "this segment has learned nothing"


def test_an_estimate_table_is_a_copy(ranker: Ranker) -> None:
    sheet = ranker.estimates()
    before = sheet.rows()
    for _ in range(20):
        ranker.feedback(ranker.rank(order=["coffee", "cocoa"]).id, clicked=[0])
    ranker.put_items([{"id": "new"}])
    assert sheet.rows() == before
    assert ranker.estimates().rows() != before


def test_slot_counts_are_those_of_the_most_shown_items(ranker: Ranker) -> None:
    rows = {row.item: row for row in ranker.estimates().rows()[0]}
    found = ranker.slot_counts(3)
    often = [sum(one.treatment.shown) + sum(one.control.shown) for one in found]
    assert often == sorted(often, reverse=True)
    assert len(found) == 3
    for one in found:
        row = rows[one.item]
        assert (sum(one.treatment.shown), sum(one.treatment.clicked)) == (row.shown, row.clicked)
        assert (sum(one.control.shown), sum(one.control.clicked)) == (row.control_shown, row.control_clicked)
    (coffee,) = [one for one in found if one.item == "coffee"]
    assert coffee.control.shown == [ranker.overview().groups["control"].lists, 0], (
        "control shows it first in every list"
    )
    assert "milk" not in [one.item for one in ranker.slot_counts(100)], "it was never shown"


def test_a_rate_is_that_of_one_group_where_the_groups_differ() -> None:
    """Control's lists are always clicked at the top, the policy's never: neither shows in the other's numbers."""
    ranker = Ranker(RankerConfig.of({"policy": "gts", "slots": 2, "traffic": 0.5, "seed": 1}))
    ranker.put_items([{"id": id} for id in ("a", "b")])
    for n in range(80):
        made = ranker.rank(order=["a", "b"], visitor=f"v{n}")
        ranker.feedback(made.id, clicked=[0] if made.group == "control" else [])
    rows, _ = ranker.estimates().rows("click_through")
    assert {(row.item, row.click_through, row.control_click_through) for row in rows} == {
        ("a", 0.0, 1.0),
        ("b", 0.0, 0.0),
    }
    for item in ranker.diagnosis().most_shown:
        assert (item.click_through, item.clicked) == (0.0, 0)
        assert item.control_click_through == (1.0 if item.item == "a" else 0.0)
    for one in ranker.slot_counts():
        assert sum(one.treatment.clicked) == 0
        assert one.control.clicked == ([one.control.shown[0], 0] if one.item == "a" else [0, 0])


# Spans of time


@pytest.mark.parametrize("days", [0.01, 0.5, 1.7, 5.0, 40.0])
def test_time_buckets_hold_every_list_and_divide_the_day(clock: Clock, days: float) -> None:
    ranker = Ranker(RankerConfig.of({"policy": "random", "slots": 1, "window": 60.0}), clock=clock)
    ranker.put_items([{"id": "a"}])
    begin, lists = clock.now, 300
    for i in range(lists):
        clock.now = begin + days * DAY * i / lists
        ranker.feedback(ranker.rank().id, clicked=[0] if i % 3 == 0 else [], regret=0.5)
    overview = ranker.overview(hours=24 * 90)
    times = overview.times
    assert sum(one.treatment.lists for one in times) == lists
    assert sum(one.treatment.regret or 0.0 for one in times) == pytest.approx(overview.groups["treatment"].regret)
    seconds = {one.seconds for one in times}
    assert len(seconds) == 1
    assert DAY % seconds.pop() == 0
    assert len(times) <= 121
    assert len(ranker.overview(hours=24 * 90, points=20).times) <= 21
    assert len(times) >= 20 or days < 0.1, "spans are not longer than they must be"
    starts = [one.start for one in times]
    assert starts == sorted(set(starts))
    assert starts[0] <= begin
    last = ranker.overview(hours=1).times
    assert sum(one.treatment.lists for one in last) <= lists
    assert last[-1].start + last[-1].seconds > clock.now - 60
    assert ranker.overview(hours=0).times == []


def test_changes_are_those_within_the_time_buckets(ranker: Ranker, clock: Clock) -> None:
    begin = clock.now
    clock.now += 3 * 3600.0
    ranker.rank(order=["coffee", "cocoa"])
    ranker.flush()
    assert ranker.overview().changes == []
    changes = [(clock.now, "second"), (begin, "first"), (begin - DAY, "before"), (clock.now + DAY, "after")]
    ranker._replica.changes += changes
    assert [one.label for one in ranker.overview(hours=24).changes] == ["first", "second"]
    assert ranker.overview(hours=1).changes == [ConfigMarker(clock.now, "second")]
    assert ranker.overview(hours=0).changes == []


def test_a_ranker_without_lists_has_no_times(clock: Clock) -> None:
    ranker = Ranker(RankerConfig.of({"policy": "random", "slots": 1}), clock=clock)
    assert ranker.overview(hours=24).times == []
    assert ranker.estimates().rows() == ([], 0)
    assert ranker.slot_counts() == []


# The response cache


def test_viewers_share_one_computation(ranker: Ranker) -> None:
    looks: list[str] = []
    clock = Clock(0.0)

    def slow(asked: str = "a") -> Any:
        looks.append(asked)
        clock.now += 0.1
        return ranker.overview()

    watched, hosted = ResponseCache(clock), HostedRanker("r", "r", {}, ranker)
    first = watched.answer(hosted, "a", 1.0, slow)
    assert json.loads(first.plain)["decisions"] == 60
    assert gzip.decompress(first.compressed) == first.plain
    assert all(watched.answer(hosted, "a", 1.0, slow) is first for _ in range(10))
    assert looks == ["a"]
    assert watched.answer(hosted, "b", 1.0, lambda: slow("b")) is not first
    clock.now = first.made_at + MIN_REUSE_FACTOR * 0.1 - 0.01  # it took long to make, and is good for longer
    assert watched.answer(hosted, "a", 1.0, slow) is first
    clock.now += 0.02
    assert watched.answer(hosted, "a", 60.0, slow) is first, "a request that accepts an older response"
    second = watched.answer(hosted, "a", 1.0, slow)
    assert second is not first
    assert looks == ["a", "b", "a"]
    again = HostedRanker("r", "r", {}, ranker)  # another ranker under the same name
    assert watched.answer(again, "a", 1.0, slow).hosted is again


def test_cached_responses_are_few_and_small(ranker: Ranker) -> None:
    watched, hosted = ResponseCache(), HostedRanker("r", "r", {}, ranker)
    for asked in range(2 * MAX_RESPONSES):
        watched.answer(hosted, asked, 60.0, lambda: "small")
    assert len(watched._responses) <= MAX_RESPONSES
    large = watched.answer(hosted, "large", 60.0, lambda: "x" * MAX_RESPONSE_BYTES)
    assert watched.answer(hosted, "large", 60.0, lambda: "x" * MAX_RESPONSE_BYTES) is not large
