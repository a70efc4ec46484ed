"""Memory is estimated before it is allocated: equal to what is allocated, and refused where it does not fit."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop import catalogue
from rankloop.belief import choice
from rankloop.errors import InvalidInput, Quarantined, RankloopError, Unsupported
from rankloop.eventlog import MemoryStore, StoreUnavailable
from rankloop.eventlog.events import ConfigChanged
from rankloop.hosting.registry import RankerRegistry
from rankloop.propensity import Propensity
from rankloop.schema import RankRequest
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import MAX_TRIAL_BYTES
from rankloop.serving.decide import Draws
from rankloop.serving.memory.budget import DEFAULT_SHARE, MemoryBudget, Room, StateSize, StateTooLarge, in_words
from rankloop.serving.memory.machine import machine_memory
from rankloop.serving.memory.state_size import SNAPSHOT_COPIES, Extent, state_size
from rankloop.serving.replica import Replica
from rankloop.types import FloatArray, Request
from served import until
from test_quarantine import damage
from test_ranker import IDS, config
from test_service import Http

BOMB: dict[str, Any] = {"policy": "ranked-lin-ts", "slots": 1000, "dim": 1000}
LEARNER = 1000 * (1000**2 + 1000) * 8 + 8  # of the bomb: for each slot F [d, d] and b [d], and the round
DIM = 20
LINEAR: dict[str, Any] = {"policy": "ranked-lin-ts", "slots": 5, "dim": DIM, "commit": "all"}
"""A policy whose state is large: 5 matrices for each segment."""


@contextmanager
def opened(log: Path, memory: int | None = None) -> Iterator[RankerRegistry]:
    rankers = RankerRegistry.open(ServiceSettings(log=str(log), limits=ServiceLimits(memory=memory)))
    try:
        yield rankers
    finally:
        rankers.close()


def items(n: int, dim: int | None = DIM, topics: int | None = None) -> list[dict[str, Any]]:
    more: dict[str, Any] = {} if dim is None else {"features": [0.1] * dim}
    more |= {} if topics is None else {"coverage": [0.5] * topics}
    return [{"id": f"item-{i}"} | more for i in range(n)]


def bytes_of(replica: Replica) -> int:
    """All arrays that a replica has allocated by item and by segment."""
    states = [array.nbytes for state in (replica.learners.state, replica.learners.fresh) for _, array in state.arrays()]
    return sum(states) + replica.items.nbytes + replica.counters.nbytes


def needed(given: dict[str, Any], columns: int = 0, segments: int = 1) -> int:
    """What a ranker needs of `limits.memory`, alone."""
    size = state_size(RankerConfig.of(given), Extent.of(columns, segments, 0))
    return size.state + size.temporary


def peak(work: Callable[[], object]) -> int:
    """The most bytes that were allocated at once during some work, beyond those before it."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


# The estimate


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize(
    ("n", "segments", "slots", "dim", "more"),
    [
        (0, 0, 3, 3, {}),
        (16, 1, 1, 5, {}),
        (17, 3, 4, 2, {}),
        (40, 5, 12, 7, {}),
        (9, 2, 3, 3, {"params": {"every": 4}}),
        (9, 2, 3, 3, {"discount": 0.9}),
    ],
)
def test_the_estimate_equals_the_arrays_that_are_allocated(
    id: str, n: int, segments: int, slots: int, dim: int, more: dict[str, Any]
) -> None:
    needs = catalogue.find(id).needs
    bias = {"bias": np.linspace(1.0, 0.3, slots).tolist()} if "bias" in needs else {}
    try:
        made = config(id, slots=slots, dim=dim, **bias, **more)
    except RankloopError:
        assert more, "only some policies learn in batches or forget"
        return
    ranker = Ranker(made)
    ranker.put_items(items(n, dim, made.coverage))
    context = None if made.context is None else [0.5] * made.context
    for segment in range(segments):
        ranker.rank(segment=str(segment), context=context)
    ranker.flush()
    size = state_size(made, Extent.of(n, segments, 0))
    assert size.arrays == bytes_of(ranker._replica)
    assert ranker.state_bytes == size.state
    assert size.temporary >= SNAPSHOT_COPIES * size.state


def test_the_estimate_allocates_nothing_and_has_a_closed_form() -> None:
    made = RankerConfig.of(BOMB | {"explore_from": 1})
    sizes: list[StateSize] = []
    assert peak(lambda: sizes.append(state_size(made, Extent.of(0, 1, 0)))) < 10**6
    by_column = 8 * 1000 + 8 + 1 + 1 + 8 + 8 + 4 * 10 * 8  # features, price, flags, position, score; counts of 10 slots
    assert sizes[0].arrays == 2 * LEARNER + 16 * by_column


@pytest.mark.parametrize("more", [{"explore_from": 1}, {}])
def test_checking_a_configuration_allocates_little(more: dict[str, Any]) -> None:
    """Also where the policy keeps all rows of its horizon: 2²⁰ rounds, and no more."""
    rows: dict[str, Any] = {"policy": "ucr", "slots": 2, "context": 1000, "rounds": 2**20, "params": {"fit": "mle"}}
    for small in (LINEAR | more, rows | {"rounds": 10, "context": 2}):
        RankerConfig.of(small)  # imports and compiles
    assert peak(lambda: RankerConfig.of(BOMB | more)) < 10**7
    assert peak(lambda: RankerConfig.of(rows)) < MAX_TRIAL_BYTES
    with pytest.raises(StateTooLarge, match="ranker is a configuration that needs"):
        Ranker(RankerConfig.of(rows))
    with pytest.raises(Unsupported, match="stores at most 1,048,576 rows"):
        RankerConfig.of(rows | {"rounds": 2**20 + 1})


@pytest.mark.parametrize("given", [LINEAR | {"dim": 100}, {"policy": "toprank", "slots": 2, "rounds": 1000}])
def test_storing_a_snapshot_takes_no_more_than_the_estimate(given: dict[str, Any]) -> None:
    ranker = Ranker(RankerConfig.of(given))
    n = 300
    ranker.put_items(items(n, given.get("dim")))
    for segment in "abc":
        ranker.rank(segment=segment)
    ranker.flush()
    size = state_size(ranker.config, Extent.of(n, 3, 0))
    assert peak(ranker.snapshot) <= size.temporary
    assert peak(lambda: Ranker(ranker.config, store=ranker.store)) <= size.state + size.temporary


@pytest.mark.parametrize(
    "given",
    [
        {"policy": "dep", "slots": 30, "coverage": 3},
        {"policy": "feature-ucr", "slots": 20, "context": 30, "dim": 10},
        {"policy": "feature-ucr", "slots": 4, "context": 2},
        {"policy": "ucr", "slots": 20, "context": 3},
        {"policy": "gts", "slots": 50},
    ],
)
def test_deciding_takes_no_more_than_the_estimate(given: dict[str, Any]) -> None:
    """The rows of all items may be larger than the state, and so may scores of all pairs of item and slot."""
    made = RankerConfig.of(given)
    n = 64 if made.policy == "feature-ucr" and made.dim is None else 2048
    policy = made.build(n, np.zeros(n))
    features = None if made.dim is None else np.ones((n, made.dim))
    context = None if made.context is None else np.ones((1, made.context))
    coverage = None if made.coverage is None else np.full((n, made.coverage), 0.5)
    request, state = Request(1, n, made.slots, features, context, coverage), policy.init(1)
    policy.decide(state, request, np.random.default_rng(0))  # compiles
    size = state_size(made, Extent.of(n, 1, 0))
    assert peak(lambda: policy.decide(state, request, np.random.default_rng(0))) <= size.temporary


@pytest.mark.parametrize("name", list(choice.ESTIMATORS))
def test_the_sensitivity_of_choices_is_computed_in_pieces_bit_for_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    N, S = rng.integers(0, 5, (2, 3, 8)).astype(float), rng.integers(0, 4, (2, 3, 8)).astype(float)
    estimator = choice.ESTIMATORS[name]
    alpha, lam = estimator(N, S, np.full((2, 8), 0.1), np.ones((2, 3)))
    whole = choice.sensitivity(estimator, N, S, alpha, lam)
    for at_once in (1, 2, 5):
        monkeypatch.setattr(choice, "MAX_PERTURBED_BYTES", at_once * N[0].nbytes)
        assert choice.sensitivity(estimator, N, S, alpha, lam).tobytes() == whole.tobytes()


def test_the_sensitivity_of_many_items_takes_little_memory() -> None:
    """Each of 4,000 perturbed fits has its own copy of 4,000 counts: 128 MB if all of them were fitted at once."""
    N = np.random.default_rng(3).integers(0, 5, (1, 4, 1000)).astype(float)
    alpha, lam = np.full((1, 1000), 0.1), np.ones((1, 4))

    def at_once(n: FloatArray, s: FloatArray, a: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        return a, v

    assert peak(lambda: choice.sensitivity(at_once, N, np.ones_like(N), alpha, lam)) < 4 * choice.MAX_PERTURBED_BYTES


# The budget

sizes = st.builds(StateSize, st.integers(0, 50), st.integers(0, 5), st.integers(0, 200))


@given(st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), sizes)), max_size=20), st.integers(1, 400))
def test_what_is_reserved_never_exceeds_the_limit_and_a_refusal_changes_nothing(
    steps: list[tuple[int, StateSize | None]], limit: int
) -> None:
    budget = MemoryBudget(limit, "the limit")
    rooms = [budget.room() for _ in range(4)]
    former: set[Room] = set()
    held: dict[Room, StateSize] = {}

    def total(of: dict[Room, StateSize]) -> int:
        return sum(size.state for size in of.values()) + max((size.temporary for size in of.values()), default=0)

    for at, size in steps:
        room = rooms[at]
        if size is None:
            room.release()
            former.add(room)
            held.pop(room, None)
            continue
        if room in former:  # it holds nothing, whatever is asked
            room.reserve(size, "it")
            assert room.reserved == 0
            continue
        before = held.get(room)
        grows = before is None or size.state > before.state or size.temporary > before.temporary
        after = held | {room: size}
        if not grows or total(after) <= limit:
            room.reserve(size, "it")
            held = after if grows else held
        else:
            with pytest.raises(StateTooLarge) as error:
                room.reserve(size, "it")
            others = sum(size.state for other, size in held.items() if other is not room)
            accepted = f"at most {in_words(limit - others)}, "
            assert str(error.value).startswith(f"ranker is it needs {in_words(total(after) - others)} of memory; ")
            assert error.value.accepted.startswith(accepted)
        assert budget.needed == total(held) <= limit
        assert [room.reserved for room in rooms] == [held[room].state if room in held else 0 for room in rooms]


def test_several_states_are_reserved_together_or_not_at_all() -> None:
    budget = MemoryBudget(100, "the limit")
    one, other = budget.room(), budget.room()
    with pytest.raises(StateTooLarge):
        budget.require({one: StateSize(60, 0, 0), other: StateSize(60, 0, 0)}, "items", "both")
    assert budget.needed == 0
    budget.require({one: StateSize(60, 0, 0), other: StateSize(40, 0, 0)}, "items", "both")
    assert budget.needed == 100


def test_a_state_that_replaces_another_is_not_counted_with_it() -> None:
    budget = MemoryBudget(100, "the limit")
    old = budget.room()
    old.reserve(StateSize(80, 0, 0), "it")
    with pytest.raises(StateTooLarge):
        budget.room().reserve(StateSize(80, 0, 0), "it")
    budget.room(instead_of=[old]).reserve(StateSize(80, 0, 0), "it")


@pytest.mark.parametrize(
    ("group", "files", "limit"),
    [
        ("0::/a/b", {"a/b/memory.max": "max", "a/memory.max": "5000", "memory.max": "9000"}, 5000),
        ("0::/gone", {"memory.max": "7000"}, 7000),
        ("4:memory:/job\n3:cpu:/", {"memory/job/memory.limit_in_bytes": "3000"}, 3000),
        ("4:cpu,memory:/job", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("0::/", {}, None),
        ("", {}, None),
    ],
)
def test_the_memory_of_a_control_group_is_respected(
    group: str, files: dict[str, str], limit: int | None, tmp_path: Path
) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(group)
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    physical = machine_memory(tmp_path / "nothing")
    assert machine_memory(tmp_path) == (physical if limit is None else limit)
    assert machine_memory() <= physical


def test_by_default_a_service_takes_a_share_of_the_machine_and_a_ranker_without_one_all_of_it() -> None:
    assert MemoryBudget.of_service(None).limit == int(DEFAULT_SHARE * machine_memory())
    assert MemoryBudget.of_service(12345).limit == 12345
    assert MemoryBudget.of_machine().limit == machine_memory()


# Without a service


def test_a_configuration_that_cannot_fit_is_refused_in_one_sentence_before_it_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rankloop.serving.memory.budget.machine_memory", lambda: 16 * 10**9)
    store, made = MemoryStore(), RankerConfig.of(BOMB)

    def start() -> None:
        with pytest.raises(StateTooLarge) as error:
            Ranker(made, store=store)
        assert str(error.value) == (
            "ranker is a configuration that needs 80.1 GB of memory; accepted: at most 16.0 GB, the memory of this "
            "machine."
        )

    assert peak(start) < 10**7
    assert list(store.read("ranker")) == []


def test_a_new_segment_is_refused_before_its_commit_and_the_known_ones_are_served() -> None:
    made = RankerConfig.of(LINEAR)
    budget = MemoryBudget(needed(LINEAR, 4, segments=4), "the limit")
    store = MemoryStore()
    ranker = Ranker(made, store=store, room=budget.room())
    ranker.put_items(items(4))
    for segment in "abcd":  # rows double: 4 segments take as much as 3
        ranker.rank(segment=segment)
    before = list(store.read("ranker"))
    for _ in range(3):
        with pytest.raises(StateTooLarge, match=r"segment is a new one, with which the ranker needs .* of memory"):
            ranker.rank(segment="e")
    assert list(store.read("ranker")) == before
    assert ranker.counts()["segments"] == 4
    for segment in "abcd":
        ranker.rank(segment=segment)
    assert ranker.quarantine is None


def test_segments_under_way_to_the_log_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions that are not committed yet have room for their segments; those that fail give it back."""
    store = MemoryStore()
    ranker = Ranker(RankerConfig.of(LINEAR), store=store, limits=ServiceLimits(segments=2))
    ranker.put_items(items(4))
    ranker.rank(segment="a")
    with ranker._lock:  # nothing is applied meanwhile
        _, commit = ranker.submit_rank(RankRequest(segment="b"))
        with pytest.raises(InvalidInput, match="segment is 'c'; accepted: one of the 2 segments"):
            ranker.submit_rank(RankRequest(segment="c"))
        ranker.submit_rank(RankRequest(segment="b"))
    assert commit is not None
    commit.result()
    assert ranker.segments() == {"a", "b"}

    failing = Ranker(RankerConfig.of(LINEAR), limits=ServiceLimits(segments=1))
    with monkeypatch.context() as patch:
        patch.setattr(type(failing.store), "append", _unavailable)
        with pytest.raises(StoreUnavailable):
            failing.rank(segment="a")
    until(lambda: failing._coming_segments() == set(), "the failed decision gave its segment back")
    failing.rank(segment="b")
    assert failing.segments() == {"b"}


def test_a_segment_stays_under_way_while_one_of_its_lists_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another list of the same new segment may fail while the propensity of the first is estimated."""
    ranker = Ranker(RankerConfig.of(LINEAR))
    ranker.put_items(items(4))
    estimate, coming = Draws.estimate, list[set[str]]()

    def fail(draws: Draws) -> None:
        raise StoreUnavailable("stopped.")

    def first(draws: Draws) -> Propensity:
        monkeypatch.setattr(Draws, "estimate", fail)
        with pytest.raises(StoreUnavailable):
            ranker.rank(segment="new", propensity=10)
        coming.append(ranker._coming_segments())
        return estimate(draws)

    monkeypatch.setattr(Draws, "estimate", first)
    ranker.rank(segment="new", propensity=10)
    assert coming == [{"new"}]
    until(lambda: ranker._coming_segments() == set(), "the segment has its learner")


def _unavailable(*given: Any) -> None:
    raise StoreUnavailable("the log cannot be written.")


def test_items_are_refused_all_together_before_their_commit() -> None:
    budget = MemoryBudget(needed(LINEAR, 16), "the limit")
    store = MemoryStore()
    ranker = Ranker(RankerConfig.of(LINEAR), store=store, room=budget.room())
    ranker.put_items(items(16))
    before = list(store.read("ranker"))
    with pytest.raises(StateTooLarge) as error:
        ranker.put_items(items(17))
    assert error.value.field == "items"
    assert "17 items in all, with which the ranker needs" in str(error.value)
    assert list(store.read("ranker")) == before
    assert ranker.counts()["items"] == 16
    ranker.put_items(items(16))  # the same items again
    ranker.rank()


def test_scores_of_priors_count() -> None:
    given = {"policy": "gts", "slots": 2}
    ranker = Ranker(RankerConfig.of(given), room=MemoryBudget(needed(given) + 10**6, "the limit").room())
    some = {"score": 0.5, "strength": 1.0, "segments": {f"s{i}": {"score": 0.1, "strength": 1.0} for i in range(5)}}
    many = some | {"segments": {f"s{i}": {"score": 0.1, "strength": 1.0} for i in range(999)}}
    ranker.put_items([{"id": "a", "prior": some}])
    with pytest.raises(StateTooLarge, match="items is 2 items in all"):
        ranker.put_items([{"id": "a", "prior": many}, {"id": "b", "prior": many}])
    table = ranker._replica.items
    assert table.prior_scores == 6
    ranker.put_items([{"id": "a", "prior": some}, {"id": "b", "prior": some}])
    assert table.prior_scores == 12
    ranker.remove_items(["a"])
    assert table.prior_scores == 6
    again = Ranker(ranker.config, store=ranker.store)
    ranker.snapshot()
    restored = Ranker(ranker.config, store=ranker.store)
    assert again._replica.items.prior_scores == restored._replica.items.prior_scores == 6


# In a service


def test_a_configuration_that_is_too_large_is_refused_over_http_and_nothing_is_logged(tmp_path: Path) -> None:
    settings = ServiceSettings(log=str(tmp_path / "log.db"), limits=ServiceLimits(memory=10**9))
    http = Http(settings)
    try:
        assert http("PUT", "/v1/rankers/small", LINEAR).status_code == 201
        kept = http.service.rankers.memory.needed
        for _ in range(2):
            answer = http("PUT", "/v1/rankers/bomb", BOMB)
            assert (answer.status_code, answer.json()["field"]) == (422, "ranker")
            assert "a configuration that needs 80.1 GB of memory" in answer.json()["detail"]
            assert (
                "which the service's limits.memory (1.0 GB) leaves beside the other rankers" in answer.json()["detail"]
            )
        assert http("GET", "/v1/rankers/bomb").status_code == 404
        assert http.service.rankers.store.rankers() == ["", "small"]
        assert http.service.rankers.memory.needed == kept
        size = http("GET", "/v1/rankers/small").json()["state_bytes"]
        assert size == state_size(RankerConfig.of(LINEAR), Extent.of(0, 1, 0)).state
        metrics = http("GET", "/metrics").text
        assert f'rankloop_state_bytes{{ranker="small"}} {float(size)}' in metrics
        assert "rankloop_memory_limit_bytes 1e+09" in metrics
        assert f"rankloop_memory_needed_bytes {float(kept)}" in metrics
    finally:
        http.close()


def test_a_reset_that_is_too_large_changes_nothing_and_one_that_fits_needs_no_room_for_both(tmp_path: Path) -> None:
    with opened(tmp_path / "log.db", memory=needed(LINEAR, 20) + 1000) as rankers:
        rankers.put("r", LINEAR)
        rankers.put_items("r", items(20))
        logs, needed_before = rankers.store.rankers(), rankers.memory.needed
        with pytest.raises(StateTooLarge, match="ranker is a configuration that needs"):
            rankers.patch("r", {"slots": 9, "reset": True})
        with pytest.raises(StateTooLarge):  # it would fit without the items
            rankers.patch("r", {"slots": 6, "reset": True})
        assert (rankers.store.rankers(), rankers.memory.needed) == (logs, needed_before)
        assert len(rankers.find("r").ranker.rank().items) == 5
        rankers.patch("r", {"reset": True})
        assert len(rankers.find("r").ranker.items()) == 20
        assert rankers.memory.needed == needed_before
        with pytest.raises(StateTooLarge):
            rankers.put("another", LINEAR)
        rankers.delete("r")
        assert rankers.memory.needed == 0
        rankers.put("another", LINEAR)


def test_a_ranker_that_could_not_be_registered_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "log.db", memory=needed(LINEAR) + 1000) as rankers:
        with monkeypatch.context() as patch:
            patch.setattr(RankerRegistry, "_register", _unavailable)
            with pytest.raises(StoreUnavailable):
                rankers.put("r", LINEAR)
        assert rankers.memory.needed == 0
        rankers.put("r", LINEAR)


def test_a_reset_and_a_challenger_that_fail_at_once_give_their_memory_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "log.db") as rankers:
        rankers.put("r", LINEAR)
        before = rankers.memory.needed
        with monkeypatch.context() as patch:
            patch.setattr("rankloop.hosting.registry.settings_in_log", _unavailable)
            with pytest.raises(StoreUnavailable):
                rankers.patch("r", {"reset": True})
        assert rankers.memory.needed == before
        with monkeypatch.context() as patch:
            patch.setattr(
                "rankloop.hosting.challenger_rebuild.threading.Thread.start", _unavailable
            )  # no thread is left
            with pytest.raises(StoreUnavailable):
                rankers.put_challenger("r", {"policy": "cascade-lin-ts", "slots": 5})
        assert rankers.memory.needed == before


def test_a_challenger_that_is_too_large_is_refused_and_the_earlier_one_stays(tmp_path: Path) -> None:
    """A rebuild replays the active policy too; afterwards its memory is free again."""
    base = RankerConfig.of({"policy": "cascade-lin-ts", "slots": 5, "dim": DIM, "commit": "all"})
    one = state_size(base, Extent.of(0, 1, 0))
    challenger = state_size(RankerConfig.of(LINEAR), Extent.of(0, 1, 0))
    room = 2 * one.state + challenger.state + challenger.temporary
    with opened(tmp_path / "log.db", memory=room) as rankers:
        rankers.put("r", base.as_mapping())
        rankers.put_challenger("r", {"policy": "ranked-lin-ts", "slots": 5})
        until(lambda: rankers.challenger_status("r").state == "ready", "the challenger is there")
        until(lambda: rankers.memory.needed == room - one.state, "the rebuild is over")
        with pytest.raises(StateTooLarge, match="ranker is a challenger that needs"):
            rankers.put_challenger("r", {"policy": "ranked-lin-ts", "slots": 5, "params": {"every": 100}})
        assert rankers.challenger_status("r").config["policy"] == "ranked-lin-ts"
        ranker = rankers.find("r").ranker
        assert ranker.state_bytes == one.state + challenger.state
        ranker.put_items(items(16))
        ranker.rank(segment="a")
        with pytest.raises(StateTooLarge, match="segment is"):  # the challenger's learner would not fit
            ranker.rank(segment="b")
        assert ranker.challenger is not None
        rankers.put_challenger("r", {"policy": "ranked-lin-ts", "slots": 5})  # instead of the present one
        until(lambda: rankers.challenger_status("r").state != "rebuilding", "the rebuild is over")
        rankers.promote("r")
        rankers.discard_challenger("r")
        assert rankers.memory.needed == ranker.state_bytes + SNAPSHOT_COPIES * ranker.state_bytes
        rankers.delete("r")
        assert rankers.memory.needed == 0


# At the start


def test_a_log_with_a_bomb_is_quarantined_unallocated_and_the_others_serve(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    with opened(log) as rankers:
        for name in ("bomb", "two"):
            rankers.put(name, BOMB | {"slots": 2, "dim": DIM})
            rankers.put_items(name, items(3))
            rankers.find(name).ranker.rank()  # compiles
    plain = RankerConfig.of(BOMB).plain()
    entry = json.dumps({"log": "bomb", "config": plain, "challenger": None, "by": None}).encode()
    damage(log, "UPDATE log SET body = ? WHERE kind = 'ranker-put' AND subject = 'bomb'", entry)
    body = ConfigChanged(0.0, 1, plain, {}).entry().body
    damage(log, "UPDATE log SET body = ? WHERE kind = 'config-changed' AND ranker = 'bomb'", body)

    def start() -> None:
        for _ in range(2):
            with opened(log, memory=10**9) as rankers:
                assert list(rankers.quarantined) == ["bomb"]
                assert "its state is too large (ranker is a configuration that needs 80.1 GB" in _reason(
                    rankers, "bomb"
                )
                assert len(rankers.find("two").ranker.rank().items) == 2

    assert peak(start) < 10**8
    with opened(log, memory=10**9) as rankers:
        with pytest.raises(Quarantined):
            rankers.patch("bomb", {"dim": DIM})
        with pytest.raises(StateTooLarge):
            rankers.patch("bomb", {"slots": 999, "reset": True})
        rankers.patch("bomb", {"dim": DIM, "slots": 2, "reset": True})
        rankers.put_items("bomb", items(3))
        assert len(rankers.find("bomb").ranker.rank().items) == 2
    with opened(log, memory=10**9) as rankers:
        assert rankers.quarantined == {}


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("grown", ["segments", "items"])
def test_a_state_that_no_longer_fits_is_quarantined_where_it_became_too_large(
    snapshots: bool, grown: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.db"
    columns, segments = (4, 9) if grown == "segments" else (100, 1)
    with opened(log) as rankers:
        rankers.put("large", LINEAR)
        rankers.put("small", LINEAR)
        for name in ("large", "small"):
            rankers.put_items(name, items(4))
        rankers.put_items("large", items(columns))
        for segment in range(segments):
            rankers.find("large").ranker.rank(segment=str(segment))
    if not snapshots:
        damage(log, "DELETE FROM snapshot")
    less = needed(LINEAR, 4) + state_size(RankerConfig.of(LINEAR), Extent.of(4, 1, 0)).state
    with opened(log, memory=less) as rankers:
        assert list(rankers.quarantined) == ["large"]
        assert "its state is too large (ranker is a state for" in _reason(rankers, "large")
        assert rankers.quarantined["large"].position > 0
        assert rankers.memory.needed == needed(LINEAR, 4)
        rankers.find("small").ranker.rank()
    with opened(log) as rankers:  # nothing was lost
        assert rankers.quarantined == {}
        counts = rankers.find("large").ranker.counts()
        assert (counts["items"], counts["segments"]) == (columns, segments)
    with opened(log, memory=less) as rankers:
        rankers.delete("large")
        rankers.find("small").ranker.rank()
    with opened(log, memory=less) as rankers:
        assert rankers.quarantined == {}


def _reason(rankers: RankerRegistry, name: str) -> str:
    return rankers.quarantined[name].reason
