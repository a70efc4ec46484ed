"""What clicks reveal, and which clicks are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import build, feed, make_log, snapshot
from rankloop.errors import InvalidInput
from rankloop.feedback import Cascade, Feedback, LastClick, PositionBased, SemiBandit
from rankloop.math.kernels import possible
from rankloop.policy import Policy, PolicyState
from rankloop.types import EMPTY, BetaPrior, Decision, FloatArray, IntArray, Rows

BIAS = np.array([0.9, 0.6, 0.3, 0.1])
EVERY: list[Feedback] = [Cascade(), LastClick(), SemiBandit(), PositionBased(BIAS)]


def exposure(feedback: Feedback, items: list[int], clicks: list[float]) -> list[float]:
    """Exposure of one list."""
    evidence = feedback.read(np.array([items]), np.array([clicks]))
    assert evidence.y.tolist() == [clicks]
    return [float(e) for e in evidence.exposure[0]]


# ---------------------------------------------------------------------------- by hand


def test_cascade_sees_down_to_the_click() -> None:
    assert exposure(Cascade(), [5, 2, 7, 0], [0, 1, 0, 0]) == [1, 1, 0, 0]
    assert exposure(Cascade(), [5, 2, 7, 0], [1, 0, 0, 0]) == [1, 0, 0, 0]
    assert exposure(Cascade(), [5, 2, 7, 0], [0, 0, 0, 1]) == [1, 1, 1, 1]


def test_cascade_without_a_click_sees_everything_that_is_there() -> None:
    assert exposure(Cascade(), [5, 2, 7, 0], [0, 0, 0, 0]) == [1, 1, 1, 1]
    assert exposure(Cascade(), [5, EMPTY, 7, EMPTY], [0, 0, 0, 0]) == [1, 0, 1, 0]


def test_cascade_passes_over_empty_slots() -> None:
    assert exposure(Cascade(), [EMPTY, 2, 7, 0], [0, 0, 1, 0]) == [0, 1, 1, 0]


def test_cascade_takes_any_number_for_a_click() -> None:
    assert exposure(Cascade(), [5, 2, 7, 0], [0, -2.5, 0, 0]) == [1, 1, 0, 0]


def test_last_click_sees_down_to_the_last_one() -> None:
    assert exposure(LastClick(), [5, 2, 7, 0], [1, 0, 1, 0]) == [1, 1, 1, 0]
    assert exposure(LastClick(), [5, 2, 7, 0], [1, 0, 0, 0]) == [1, 0, 0, 0]
    assert exposure(LastClick(), [5, 2, 7, 0], [0, 0, 0, 1]) == [1, 1, 1, 1]
    assert exposure(LastClick(), [5, EMPTY, 7, 0], [0, 0, 1, 0]) == [1, 0, 1, 0]


def test_last_click_without_a_click_sees_everything_that_is_there() -> None:
    assert exposure(LastClick(), [5, 2, EMPTY, EMPTY], [0, 0, 0, 0]) == [1, 1, 0, 0]


def test_semi_bandit_sees_every_item() -> None:
    assert exposure(SemiBandit(), [5, 2, 7, EMPTY], [0, 1, 1, 0]) == [1, 1, 1, 0]
    assert exposure(SemiBandit(), [5, 2, 7, EMPTY], [0, 0, 0, 0]) == [1, 1, 1, 0]


def test_position_based_sees_every_item_as_much_as_its_slot_is_looked_at() -> None:
    assert exposure(PositionBased(BIAS), [5, EMPTY, 7, 0], [0, 0, 1, 1]) == [0.9, 0, 0.3, 0.1]
    assert exposure(PositionBased(BIAS), [5, 2], [0, 1]) == [0.9, 0.6]  # a shorter list has the first slots


# ---------------------------------------------------------------------------- by a plain loop


def plain(name: str, items: list[int], clicks: list[int]) -> list[float]:
    """Exposures of one list, slot by slot."""
    last = max((k for k, c in enumerate(clicks) if c), default=len(items))
    first = min((k for k, c in enumerate(clicks) if c), default=len(items))
    looked_at: dict[str, Callable[[int], float]] = {
        "cascade": lambda k: float(k <= first),
        "last-click": lambda k: float(k <= last),
        "semi-bandit": lambda k: 1.0,
        "position-based": lambda k: float(BIAS[k]),
    }
    return [looked_at[name](k) if items[k] != EMPTY else 0.0 for k in range(len(items))]


@st.composite
def visits(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]]]:
    """Lists of distinct items with some empty slots, and clicks on what is there."""
    K = draw(st.integers(1, 4))
    lists, clicks = [], []
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.permutations(range(6)))[:K]
        row = [i if draw(st.booleans()) else EMPTY for i in order]
        lists.append(row)
        clicks.append([int(i != EMPTY and draw(st.booleans())) for i in row])
    return lists, clicks


@given(visits())
@settings(deadline=None)
def test_evidence_equals_a_plain_loop(visit: tuple[list[list[int]], list[list[int]]]) -> None:
    lists, clicks = visit
    for feedback in EVERY:
        items = np.array(lists)
        log = feedback.keep(np.array(clicks, dtype=float))
        kept = log.copy()
        evidence = feedback.read(items, log)
        assert (log == kept).all()
        for b in range(len(lists)):
            expected = plain(feedback.name, lists[b], log[b].astype(int).tolist())
            assert evidence.exposure[b].tolist() == expected
            assert evidence.y[b].tolist() == [y if e > 0 else 0.0 for y, e in zip(log[b], expected, strict=True)]


@given(visits())
@settings(deadline=None)
def test_what_is_kept_is_what_a_log_of_this_kind_can_hold(visit: tuple[list[list[int]], list[list[int]]]) -> None:
    clicks = np.array(visit[1], dtype=float)
    before = clicks.copy()
    for feedback in EVERY:
        kept = feedback.keep(clicks)
        assert (feedback.keep(kept) == kept).all()
        if feedback.single:
            for row, whole in zip(kept.tolist(), clicks.tolist(), strict=True):
                expected = [0.0] * len(whole)
                if 1.0 in whole:
                    expected[whole.index(1.0)] = 1.0
                assert row == expected
        else:
            assert (kept == clicks).all()
    assert (clicks == before).all()


def test_only_the_cascade_has_at_most_one_click() -> None:
    assert [(f.name, f.single) for f in EVERY] == [
        ("cascade", True),
        ("last-click", False),
        ("semi-bandit", False),
        ("position-based", False),
    ]


# ---------------------------------------------------------------------------- refusals

LISTS = np.array([[0, 3, EMPTY], [5, 1, 2]])
FINE = [[0, 1, 0], [0, 0, 0]]
PRIOR = BetaPrior(np.ones(6), np.ones(6))


def trained(id: str, **params: str) -> tuple[Policy[Any], PolicyState[Any], Decision]:
    """A policy, its state after some rounds, and a decision that waits for its clicks."""
    log = make_log(5, seed=1)
    policy = build(id, log.setting(prior=PRIOR, bias=BIAS[:3]), **params)
    return policy, feed(policy, log), policy.adopt(log.request, LISTS)


def assert_refused(act: Callable[[], object], state: PolicyState[Any], field: str, accepted: str) -> None:
    """One sentence that names the field and what is accepted, and a state without a changed bit."""
    before = snapshot(state)
    with pytest.raises(InvalidInput) as refusal:
        act()
    message = str(refusal.value)
    assert refusal.value.field == field
    assert message.startswith(f"{field} is ")
    assert message.endswith(".")
    assert "\n" not in message
    assert message.count("; accepted: ") == 1
    assert accepted in message
    assert snapshot(state) == before


POLICIES = ["cascade-ucb1", "ts-beta", "gts", "cascade-lin-ts", "ranked-lin-ts", "cascade-woful", "log-ts-ltr"]
BINARY = ["cascade-ucb1", "ts-beta", "cascade-woful", "log-ts-ltr", "log-ts-newton"]
ANY_NUMBER = ["gts", "cascade-lin-ts", "lin-ts-ltr", "ranked-lin-ts"]


@pytest.mark.parametrize("id", POLICIES)
@pytest.mark.parametrize(
    "clicks, accepted",
    [
        pytest.param([[0, 0, 1], [0, 0, 0]], "no click on an empty slot", id="click-on-an-empty-slot"),
        pytest.param([[0, 0, 0], [1, 0, 1]], "at most one click", id="two-clicks"),
        pytest.param([[1, 1, 0], [0, 0, 0]], "at most one click", id="two-clicks-in-the-first-list"),
        pytest.param([[0, 0], [0, 0]], "shape (2, 3)", id="too-short"),
        pytest.param([[0, 0, 0]], "shape (2, 3)", id="too-few-learners"),
        pytest.param([0, 0, 0], "shape (2, 3)", id="one-axis"),
        pytest.param([], "shape (2, 3)", id="nothing"),
        pytest.param(1, "shape (2, 3)", id="a-number"),
        pytest.param([[0, np.nan, 0], [0, 0, 0]], "", id="nan"),
        pytest.param([[0, np.inf, 0], [0, 0, 0]], "", id="infinite"),
        pytest.param([[None, 0, 0], [0, 0, 0]], "an array of numbers", id="none"),
        pytest.param([["a", 0, 0], [0, 0, 0]], "an array of numbers", id="a-word"),
        pytest.param([[0, 0, 0], [0, 0]], "an array of numbers", id="ragged"),
    ],
)
def test_impossible_clicks_are_refused(id: str, clicks: Any, accepted: str) -> None:
    policy, state, decision = trained(id)
    accepted = accepted or ("0 or 1" if policy.belief.binary else "finite numbers")
    assert_refused(lambda: policy.learn(state, decision, clicks), state, "clicks", accepted)


@pytest.mark.parametrize("id", BINARY)
@pytest.mark.parametrize("click", [0.5, 2.0, -1.0])
def test_a_belief_about_clicks_refuses_other_numbers(id: str, click: float) -> None:
    policy, state, decision = trained(id)
    clicks = np.array([[0.0, click, 0.0], [0.0, 0.0, 0.0]])
    assert_refused(lambda: policy.learn(state, decision, clicks), state, "clicks", "0 or 1")


@pytest.mark.parametrize("id", ANY_NUMBER)
def test_a_belief_about_numbers_takes_any(id: str) -> None:
    policy, state, decision = trained(id)
    before = snapshot(state)
    policy.learn(state, decision, np.array([[0.0, -2.5, 0.0], [0.0, 0.0, 0.0]]))
    assert snapshot(state) != before


@pytest.mark.parametrize("feedback", ["last-click", "semi-bandit", "position-based"])
def test_two_clicks_are_fine_where_a_visitor_goes_on(feedback: str) -> None:
    policy, state, decision = trained("gts", feedback=feedback)
    policy.learn(state, decision, [[1, 1, 0], [1, 0, 1]])
    assert state.t.tolist() == [7, 7]  # five rounds before this one, and the next is decided now
    clicks = [[1, 0, 1], [0, 0, 0]]
    assert_refused(lambda: policy.learn(state, decision, clicks), state, "clicks", "no click on an empty slot")


@pytest.mark.parametrize("clicks", [FINE, np.array(FINE, dtype=bool), np.array(FINE, dtype=np.int8)])
def test_clicks_of_every_numeric_type_teach_the_same(clicks: Any) -> None:
    policy, state, decision = trained("gts")
    expected = state.copy()
    policy.learn(expected, decision, np.array(FINE, dtype=float))
    policy.learn(state, decision, clicks)
    assert snapshot(state) == snapshot(expected)


@pytest.mark.parametrize("id", POLICIES)
@pytest.mark.parametrize(
    "lists, accepted",
    [
        pytest.param([[0, 3, 0], [5, 1, 2]], "distinct items", id="an-item-twice"),
        pytest.param([[0, 3, 6], [5, 1, 2]], "items 0 to 5", id="an-unknown-item"),
        pytest.param([[0, 3, -2], [5, 1, 2]], "items 0 to 5", id="a-negative-item"),
        pytest.param([[0, 3], [5, 1]], "(2, 3)", id="too-short"),
        pytest.param([[0, 3, 1]], "(2, 3)", id="too-few-learners"),
    ],
)
def test_impossible_lists_are_refused(id: str, lists: list[list[int]], accepted: str) -> None:
    policy, state, decision = trained(id)
    assert_refused(lambda: policy.adopt(decision.request, lists), state, "items", accepted)


def test_empty_slots_may_repeat() -> None:
    policy, state, decision = trained("gts")
    lists = [[EMPTY, EMPTY, EMPTY], [EMPTY, 1, EMPTY]]
    before = state.copy()
    policy.learn(state, policy.adopt(decision.request, lists), np.zeros((2, 3)))
    assert state.belief.view(slice(0, 1)).precision.tobytes() == before.belief.view(slice(0, 1)).precision.tobytes()
    assert (state.belief.precision[1] != before.belief.precision[1]).tolist() == [False, True] + [False] * 4


@pytest.mark.parametrize("id", POLICIES)
def test_a_decision_that_shows_an_item_twice_is_refused(id: str) -> None:
    policy, state, decision = trained(id)
    twice: IntArray = np.array([[0, 3, 0], [5, 1, 2]])
    x: FloatArray | None = decision.request.features
    rows = Rows(model=twice) if decision.rows.x is None or x is None else Rows(decision.rows.model, x[twice])
    forged = Decision(twice, rows, decision.request)
    assert_refused(lambda: policy.learn(state, forged, np.zeros((2, 3))), state, "items", "distinct items")


@given(st.data())
def test_the_compiled_check_is_the_plain_one(data: st.DataObject) -> None:
    """Clicks are possible exactly where none of the plain conditions is broken."""
    B, K = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 4))
    values = st.sampled_from([0.0, 1.0, 2.0, -1.0, np.nan, np.inf])
    items = np.array([[data.draw(st.integers(-1, 3)) for _ in range(K)] for _ in range(B)], dtype=np.int64)
    clicks = np.array([[data.draw(values) for _ in range(K)] for _ in range(B)], dtype=np.float64)
    items, clicks = items.reshape(B, K), clicks.reshape(B, K)
    single, binary = data.draw(st.booleans()), data.draw(st.booleans())
    clicked = clicks != 0
    lists = [row[row != EMPTY] for row in items]
    fine = (
        np.isfinite(clicks).all()
        and not (clicked & (items == EMPTY)).any()
        and not (single and (clicked.sum(axis=1) > 1).any())
        and not (binary and (clicks[clicked] != 1).any())
        and all(len(np.unique(shown)) == len(shown) for shown in lists)
    )
    assert possible(items, clicks, single, binary) == fine
