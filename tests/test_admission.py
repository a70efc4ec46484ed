"""Admission under load: who waits, who is refused, what is never executed, and what goes on meanwhile."""

from __future__ import annotations

import asyncio
import random
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from rankloop.errors import InvalidInput
from rankloop.eventlog.events import DecisionMade
from rankloop.schema.admission_settings import AdmissionSettings
from rankloop.schema.api_key import ApiKey
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service import endpoints, readiness
from rankloop.service.access.auth import make_key
from rankloop.service.admission import BURST_SECONDS, CALM_SECONDS, STARTS_PER_ITERATION, Admission
from rankloop.service.app import create_app
from rankloop.service.fair_queue import Waiting
from rankloop.service.refusals import DEADLINE, DETAILS, FAIR_SHARE, QUEUE_FULL
from rankloop.service.transport.admitting_http import refusal
from rankloop.serving import Ranker, RankerConfig, costs
from served import until

NEVER = 1e9
PATIENT = AdmissionSettings(deadline_ms=60_000.0)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Door:
    """Requests at an admission: which were started, and which were refused and why, in order."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.admission = Admission(AdmissionSettings(**settings), self.clock)
        self.started: list[str] = []
        self.refused: dict[str, str] = {}

    def close(self) -> None:
        """Let nothing start for now."""
        self.admission.running = self.admission.settings.running

    def open(self) -> None:
        """Let requests start again."""
        self.admission.running = 0
        self.admission.running += 1
        self.admission.finished()

    def offer(self, name: str, key: str = "", ranker: str = "r", deadline: float = NEVER) -> None:
        """Let a request arrive as the protocol does."""
        if self.admission.starts_now(ranker):
            self.started.append(name)
            return
        reason = self.admission.refuses(key, ranker)
        if reason is not None:
            self.admission.count_refusal(reason)
            self.refused[name] = reason
            return
        start, refuse = lambda: self.started.append(name), lambda reason: self.refused.update({name: reason})
        self.admission.wait(Waiting(key, ranker, self.clock.now, deadline, start, refuse))


async def settle(door: Door, until_started: int | None = None) -> None:
    """Let the event loop run until nothing waits, or until so many have started."""
    while door.admission.waiting and (until_started is None or len(door.started) < until_started):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(_await(scenario), 60.0))


async def _await(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()


# The queue


def test_requests_start_in_order_and_a_bounded_number_in_one_iteration_of_the_loop() -> None:
    async def scenario() -> None:
        door = Door(running=100)
        names = [str(n) for n in range(100)]
        for name in names:
            door.offer(name)
        assert door.started == names[:STARTS_PER_ITERATION]
        before = STARTS_PER_ITERATION
        while door.admission.waiting:
            await asyncio.sleep(0)
            assert len(door.started) - before <= STARTS_PER_ITERATION
            before = len(door.started)
        assert door.started == names
        assert door.admission.running == 100

    run(scenario)


def test_keys_take_turns_and_so_do_the_rankers_of_a_key() -> None:
    async def scenario() -> None:
        door = Door()
        door.close()
        for n in range(40):
            door.offer(f"flood-a{n}", key="flood", ranker="a")
        for n in range(5):
            door.offer(f"flood-b{n}", key="flood", ranker="b")
            door.offer(f"calm{n}", key="calm", ranker="a")
        door.open()
        await settle(door)
        first = door.started[:20]
        assert [name for name in first if name.startswith("calm")] == [f"calm{n}" for n in range(5)]
        assert all(name.startswith("calm") for name in first[1:10:2])  # every other turn while it has requests
        assert Counter(name[:7] for name in door.started[:10] if name.startswith("flood")) == {
            "flood-a": 3,
            "flood-b": 2,
        }
        assert len(door.started) == 50

    run(scenario)


@pytest.mark.parametrize("seed", range(20))
def test_every_request_starts_once_or_is_refused_once_and_only_the_longest_queue_is_refused(seed: int) -> None:
    async def scenario() -> None:
        rng, limit = random.Random(seed), 12
        door = Door(queue=limit, ranker_queue=limit, running=1000)
        door.close()
        waiting: list[tuple[str, str, str]] = []  # the model: name, key, ranker
        for n in range(200):
            name, key, ranker = str(n), rng.choice("aaab"), rng.choice("xxxy")
            refused = set(door.refused)
            door.offer(name, key, ranker)
            waiting.append((name, key, ranker))
            keys = Counter(one[1] for one in waiting)
            lost = next(iter(set(door.refused) - refused), None)
            assert (lost is not None) == (len(waiting) > limit)
            if lost is not None:
                _, of_key, of_ranker = next(one for one in waiting if one[0] == lost)
                rankers = Counter(one[2] for one in waiting if one[1] == of_key)
                assert keys[of_key] == max(keys.values())
                assert rankers[of_ranker] == max(rankers.values())
                waiting = [one for one in waiting if one[0] != lost]
            if rng.random() < 0.1:
                door.open()
                await settle(door, len(door.started) + 1)
                door.close()
                waiting = [one for one in waiting if one[0] not in door.started]
        door.open()
        await settle(door)
        assert sorted([*door.started, *door.refused], key=int) == [str(n) for n in range(200)]
        assert sum(door.admission.refused.values()) == len(door.refused)

    run(scenario)


def test_a_ranker_whose_queue_is_full_refuses_although_others_may_wait() -> None:
    async def scenario() -> None:
        door = Door(ranker_queue=2)
        door.close()
        for name in "abc":
            door.offer(name, ranker="busy")
        door.offer("d", ranker="other")
        assert door.refused == {"c": QUEUE_FULL}
        door.open()
        await settle(door)
        assert sorted(door.started) == ["a", "b", "d"]

    run(scenario)


def test_a_request_past_its_deadline_is_refused_and_never_starts() -> None:
    async def scenario() -> None:
        door = Door()
        door.close()
        door.offer("early", deadline=door.clock.now + 1.0)
        door.offer("late", deadline=door.clock.now + 3.0)
        door.clock.now += 2.0
        while not door.refused:  # the sweep finds it although nothing can start
            await asyncio.sleep(0.01)
        assert door.refused == {"early": DEADLINE}
        door.clock.now += 2.0
        door.open()
        await settle(door)
        assert door.refused == {"early": DEADLINE, "late": DEADLINE}
        assert door.started == []

    run(scenario)


def test_a_caller_may_set_an_earlier_deadline_and_never_a_later_one() -> None:
    admission = Admission(AdmissionSettings(deadline_ms=500.0))
    for header, seconds in (("200", 0.2), ("900", 0.5), ("", 0.5), ("-1", 0.5), ("soon", 0.5), ("9" * 400, 0.5)):
        assert admission.deadline(10.0, {b"request-deadline-ms": header.encode()}) == pytest.approx(10.0 + seconds)
    assert admission.deadline(10.0, {}) == pytest.approx(10.5)


def test_the_queue_is_short_once_requests_wait_without_a_pause_and_long_again_when_nothing_is_refused() -> None:
    async def scenario() -> None:
        door = Door(queue=100, ranker_queue=100, overload_ms=100.0, overload_queue=3)
        door.close()
        for n in range(10):
            door.offer(f"burst{n}")
        assert not door.refused
        door.clock.now += 0.2
        await asyncio.sleep(0)
        assert door.admission.overloaded
        door.offer("more")
        assert door.refused == {"more": QUEUE_FULL}
        door.open()
        await settle(door)
        assert len(door.started) == 3  # the rest of the burst was too long for a service that is overloaded
        assert len(door.refused) == 8
        for period, is_over in enumerate((False, True)):  # a period is judged at its end; the first had refusals
            door.clock.now += 1.1 * CALM_SECONDS
            door.offer(f"later{period}")
            await asyncio.sleep(0)
            assert door.admission.overloaded is not is_over
            assert door.started[-1] == f"later{period}"

    run(scenario)


def test_a_full_queue_is_an_overload_at_once_unless_its_ranker_is_held() -> None:
    async def scenario() -> None:
        for is_held in (False, True):
            door = Door(ranker_queue=5, overload_queue=2)
            door.close()
            if is_held:
                door.admission.hold("r")
            for n in range(6):
                door.offer(str(n))
            assert door.refused == {"5": QUEUE_FULL}
            assert door.admission.overloaded is not is_held

    run(scenario)


def test_an_overload_ends_although_callers_keep_its_short_queue_full() -> None:
    async def scenario() -> None:
        door = Door(overload_queue=2, overload_running=1, running=10, overload_ms=10.0)
        door.admission._set_overloaded(True, door.clock.now)
        for n in range(100):  # one of forty is refused: the load fits, only the short queue does not
            door.clock.now += 0.03
            door.offer(str(n))
            if n % 40 == 0:
                door.admission.count_refusal(QUEUE_FULL)
            await asyncio.sleep(0)
            door.admission.finished()
        assert not door.admission.overloaded

    run(scenario)


def test_requests_of_a_ranker_that_is_held_wait_and_others_overtake_them() -> None:
    async def scenario() -> None:
        door = Door(overload_ms=100.0)
        door.admission.hold("slow")
        for n in range(3):
            door.offer(f"slow{n}", ranker="slow", deadline=door.clock.now + (1.0 if n < 2 else NEVER))
            door.offer(f"fast{n}", ranker="fast")
        assert door.started == ["fast0", "fast1", "fast2"]
        door.clock.now += 0.5
        await asyncio.sleep(0.1)
        assert not door.admission.overloaded  # the service could do more
        door.clock.now += 1.0
        await asyncio.sleep(0.1)
        assert door.refused == {"slow0": DEADLINE, "slow1": DEADLINE}
        door.admission.release("slow")
        await settle(door)
        assert door.started[3:] == ["slow2"]

    run(scenario)


def test_the_newest_request_starts_first_once_requests_have_waited_without_a_pause() -> None:
    async def scenario() -> None:
        door = Door(running=1)
        for n in range(4):
            door.offer(str(n))
        door.admission.finished()
        await asyncio.sleep(0)
        door.clock.now += 2.0 * BURST_SECONDS
        for _ in range(2):
            door.admission.finished()
            await asyncio.sleep(0)
        assert door.started == ["0", "1", "3", "2"]

    run(scenario)


def test_fewer_requests_are_executed_at_a_time_while_the_service_is_overloaded() -> None:
    async def scenario() -> None:
        door = Door(running=20, overload_running=5, overload_queue=100)
        for n in range(30):
            door.offer(str(n))
        await asyncio.sleep(0)
        assert door.admission.running == 20
        door.clock.now += 1.0
        await asyncio.sleep(0.1)  # nothing can start, and the sweep notices how long requests have waited
        assert door.admission.overloaded
        for left in range(19, -1, -1):
            door.admission.finished()
            await asyncio.sleep(0)
            assert door.admission.running == max(left, 5) or not door.admission.waiting

    run(scenario)


def test_keys_that_were_never_accepted_share_one_share() -> None:
    admission = Admission(AdmissionSettings())
    assert admission.key_of(None) == admission.key_of(b"Bearer made-up") == admission.key_of(b"Bearer other")
    admission.learn_key(b"Bearer real", "shop")
    assert admission.key_of(b"Bearer real") == "shop"


# A service whose ranker is busy


def app_of(path: Path, **more: Any) -> Any:
    """A service with two rankers; the lists of one wait for their commit."""
    app = create_app(ServiceSettings(log=str(path / "log.db"), **more))
    for name in ("busy", "other"):
        app.state.service.rankers.put(
            name, {"policy": "cascade-lin-ts", "slots": 2, "dim": 2, "commit": "all" if name == "busy" else "feedback"}
        )
        items = [{"id": f"{n}", "features": [n / 5, 1.0]} for n in range(5)]
        app.state.service.rankers.put_items(name, items)
    return app


class Held:
    """A lock that another thread holds inside the block, as long work does."""

    def __init__(self, ranker: Ranker) -> None:
        self._lock, self._held, self.let_go = ranker._lock, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self) -> None:
        with self._lock:
            self._held.set()
            self.let_go.wait()

    def __enter__(self) -> Held:
        self._thread.start()
        self._held.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self.let_go.set()
        self._thread.join()


class Hanging:
    """A log that takes nothing inside the block: requests that wait for their commit are being executed."""

    def __init__(self, app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        store = app.state.service.rankers.store
        self._append, self._go_on = store.append, threading.Event()
        monkeypatch.setattr(store, "append", self._wait_and_append)

    def _wait_and_append(self, entries: Any, after: int | None = None) -> Any:
        self._go_on.wait()
        return self._append(entries, after)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self._go_on.set()


Ask = Callable[..., Awaitable[httpx.Response]]


@contextmanager
def closing(app: Any) -> Iterator[Any]:
    try:
        yield app
    finally:
        app.state.service.close()


def asked(app: Any, scenario: Callable[[Ask], Awaitable[None]]) -> None:
    """Send requests to an application on one event loop."""

    async def everything() -> None:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def ask(method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
                sent = {name.replace("_", "-"): value for name, value in headers.items()}
                return await client.request(method, path, json=body, headers=sent)

            await scenario(ask)

    with closing(app):
        asyncio.run(asyncio.wait_for(everything(), 60.0))


def decisions(app: Any, name: str) -> int:
    """The number of decisions in a ranker's log."""
    rankers = app.state.service.rankers
    rankers.ranker(name).flush()
    return sum(entry.kind == DecisionMade.kind for entry in rankers.store.read(rankers.find(name).log))


def test_everything_else_is_answered_while_a_ranker_is_busy(tmp_path: Path) -> None:
    app = app_of(tmp_path, admission=PATIENT)

    async def scenario(ask: Ask) -> None:
        with Held(app.state.service.rankers.ranker("busy")) as held:
            waiting = [asyncio.ensure_future(ask("POST", "/v1/rankers/busy/rank", {})) for _ in range(20)]
            overview = asyncio.ensure_future(ask("GET", "/v1/rankers/busy/overview"))
            while len(app.state.service.lanes.busy) == 0 or app.state.service.lanes.busy["busy"].requests < 20:
                await asyncio.sleep(0)
            for _ in range(3):
                for method, path in (("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/v1/rankers/other/rank")):
                    assert (await ask(method, path, {} if method == "POST" else None)).status_code == 200
            assert not any(one.done() for one in [*waiting, overview])
            held.let_go.set()
            assert {(await one).status_code for one in [*waiting, overview]} == {200}

    asked(app, scenario)


def test_a_request_that_waits_for_a_busy_ranker_past_its_deadline_is_not_executed(tmp_path: Path) -> None:
    app = app_of(tmp_path)

    async def scenario(ask: Ask) -> None:
        with Held(app.state.service.rankers.ranker("busy")):
            ids = [{}, {"decision": "mine"}, {"propensity": 3}]
            answers = [ask("POST", "/v1/rankers/busy/rank", id, request_deadline_ms="20") for id in ids * 3]
            for answer in await asyncio.gather(*answers):
                assert answer.status_code == 503
                assert answer.json()["detail"] == DETAILS[DEADLINE]
                assert 1 <= int(answer.headers["retry-after"]) <= 3
        assert decisions(app, "busy") == 0
        assert app.state.service.admission.refused == {DEADLINE: 9}
        metrics = (await ask("GET", "/metrics")).text
        assert 'rankloop_refused_total{reason="deadline"} 9.0' in metrics

    asked(app, scenario)


def test_the_queue_of_a_busy_ranker_is_bounded(tmp_path: Path) -> None:
    app = app_of(tmp_path, admission=AdmissionSettings(ranker_queue=3, ranker_threads=1, deadline_ms=60_000.0))

    async def scenario(ask: Ask) -> None:
        with Held(app.state.service.rankers.ranker("busy")) as held:
            answers = [asyncio.ensure_future(ask("POST", "/v1/rankers/busy/rank", {})) for _ in range(10)]
            while sum(one.done() for one in answers) < 7:
                await asyncio.sleep(0.01)
            assert all(one.result().status_code == 503 for one in answers if one.done())
            held.let_go.set()
            statuses = Counter(answer.status_code for answer in await asyncio.gather(*answers))
        assert statuses == {200: 3, 503: 7}
        assert decisions(app, "busy") == 3

    asked(app, scenario)


def test_reports_about_a_busy_ranker_leave_threads_to_other_rankers(tmp_path: Path) -> None:
    app = app_of(tmp_path, admission=AdmissionSettings(ranker_others=2))

    async def scenario(ask: Ask) -> None:
        with Held(app.state.service.rankers.ranker("busy")) as held:
            waiting = [asyncio.ensure_future(ask("GET", "/v1/rankers/busy/items")) for _ in range(2)]
            while app.state.service.lanes._all_others < 2:
                await asyncio.sleep(0.01)
            refused = await ask("GET", "/v1/rankers/busy/diagnosis")
            assert (refused.status_code, refused.json()["detail"]) == (503, DETAILS[FAIR_SHARE])
            assert "retry-after" in refused.headers
            assert (await ask("GET", "/v1/rankers/other/items")).status_code == 200
            held.let_go.set()
            assert {(await one).status_code for one in waiting} == {200}
        assert (await ask("GET", "/v1/rankers/busy/diagnosis")).status_code == 200

    asked(app, scenario)


def test_a_ranker_goes_on_while_a_propensity_is_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rankloop import propensity

    app, estimate = app_of(tmp_path, admission=PATIENT), propensity.estimate
    begun, go_on = threading.Event(), threading.Event()

    def slow(*given: Any) -> Any:
        begun.set()
        go_on.wait()
        return estimate(*given)

    monkeypatch.setattr(propensity, "estimate", slow)

    async def scenario(ask: Ask) -> None:
        drawing = asyncio.ensure_future(ask("POST", "/v1/rankers/busy/rank", {"propensity": 5}))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        other = (await ask("POST", "/v1/rankers/busy/rank", {})).json()["decision"]
        feedback = await ask("POST", "/v1/rankers/busy/feedback", {"decision": other, "clicked": [0]})
        assert feedback.json()["status"] == "learned"
        assert decisions(app, "busy") == 1
        go_on.set()
        assert (await drawing).json()["propensity"]["draws"] == 5
        assert decisions(app, "busy") == 2

    asked(app, scenario)


def test_a_list_that_takes_long_is_decided_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, threads = app_of(tmp_path, admission=PATIENT), list[str]()
    ranker, loop = app.state.service.rankers.ranker("other"), threading.current_thread().name
    decide = ranker._rank

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return decide(*given)

    monkeypatch.setattr(ranker, "_rank", noted)

    async def scenario(ask: Ask) -> None:
        assert (await ask("POST", "/v1/rankers/other/rank", {})).status_code == 200
        monkeypatch.setattr(endpoints, "MAX_COST_ON_LOOP", ranker.list_cost(_request()) - 1)
        assert (await ask("POST", "/v1/rankers/other/rank", {})).status_code == 200
        assert threads[0] == loop != threads[1]

    asked(app, scenario)


def test_a_long_body_is_decoded_off_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, threads = app_of(tmp_path), list[str]()
    loop, decode = threading.current_thread().name, endpoints.decode

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return decode(*given)

    monkeypatch.setattr(endpoints, "decode", noted)

    async def scenario(ask: Ask) -> None:
        for items in (1, 2000):
            body = {"items": [{"id": f"new{n}", "features": [0.0, 1.0]} for n in range(items)]}
            assert (await ask("PUT", "/v1/rankers/other/items", body)).status_code == 204
        assert threads[0] == loop != threads[1]

    asked(app, scenario)


# Costs


def test_a_refused_cost_says_what_would_be_accepted_and_that_much_is() -> None:
    rng = random.Random(0)
    for _ in range(200):
        limit, each = rng.uniform(1.0, 1e6), rng.uniform(0.5, 1e3)
        cost = costs.Cost("propensity", rng.randrange(1, 10_000), each)
        if cost.total <= limit:
            cost.require(limit)
            continue
        with pytest.raises(InvalidInput, match="propensity is") as refused:
            cost.require(limit)
        most = int(str(refused.value.accepted).split()[2])
        costs.Cost("propensity", most, each).require(limit)
        with pytest.raises(InvalidInput):
            costs.Cost("propensity", most + 1, each).require(limit)


def test_draws_cost_in_proportion_to_items_and_priors_to_segments() -> None:
    ranker = Ranker(RankerConfig.of({"policy": "cascade-lin-ts", "slots": 2, "dim": 3}))
    ranker.put_items([{"id": f"{n}", "features": [1.0, 0.0, n]} for n in range(7)])
    for segment in ("a", "b"):
        ranker.rank(segment=segment)
    ranker.flush()
    request = ranker.draws_cost(_request(propensity=5))
    assert (request.field, request.total) == ("propensity", 5 * (7 * 3 + 3 * 3))
    items = [_item("x", prior={"score": 0.5, "strength": 1.0}), _item("y", prior=None)]
    assert ranker.priors_cost(items).total == 1 * (costs.PER_PRIOR + (2 + 1) * 3 * 3)
    ranker.close()


def _request(**fields: Any) -> Any:
    from rankloop.schema import RankRequest

    return RankRequest(**fields)


def _item(id: str, **fields: Any) -> Any:
    from rankloop.schema import Item

    return Item.of({"id": id, "features": [1.0, 0.0, 0.0], **fields}, "item")


def test_the_cost_of_a_request_is_limited_by_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, made = {}, []
    for role in ("rank", "admin"):
        keys[role], fields = make_key(role, [role])
        made.append(ApiKey.of(fields))
    monkeypatch.setattr(costs, "PER_PRIOR", 0.0)
    # A draw of a list from 5 items with 2 features computes 14 numbers.
    admission = AdmissionSettings(rank_cost=14.0 * 3, admin_cost=14.0 * 5, deadline_ms=60_000.0)
    app = app_of(tmp_path, keys=tuple(made), admission=admission)

    async def scenario(ask: Ask) -> None:
        async def status(role: str, draws: int) -> tuple[int, str]:
            path, authorization = "/v1/rankers/other/rank", f"Bearer {keys[role]}"
            answer = await ask("POST", path, {"propensity": draws}, authorization=authorization)
            return answer.status_code, answer.json().get("detail", "")

        assert (await status("rank", 3))[0] == (await status("admin", 5))[0] == 200
        code, words = await status("rank", 4)
        assert code == 422
        assert words.startswith("propensity is 4; accepted: at most 3 with the items")
        assert "for a key without the role admin" in words
        code, words = await status("admin", 6)
        assert code == 422
        assert words.startswith("propensity is 6; accepted: at most 5 with the items")
        prior = {"score": 0.5, "strength": 1.0}
        for count, expected in ((17, 204), (18, 422)):  # one learner for segments to come, with 4 numbers: 70 / 4
            items = [{"id": f"new{n}", "features": [0.0, 1.0], "prior": prior} for n in range(count)]
            authorization = f"Bearer {keys['admin']}"
            answer = await ask("PUT", "/v1/rankers/busy/items", {"items": items}, authorization=authorization)
            assert answer.status_code == expected
        assert answer.json()["detail"].startswith("items is 18 with a prior; accepted: at most 17 with the items")
        assert decisions(app, "other") == 2

    asked(app, scenario)


def prior(score: float, strength: float, **segments: tuple[float, float]) -> dict[str, Any]:
    """The prior of an item, with other scores in some segments."""
    own = {name: {"score": one, "strength": weight} for name, (one, weight) in segments.items()}
    return {"score": score, "strength": strength} | ({"segments": own} if own else {})


@pytest.mark.parametrize("policy", ["cascade-lin-ts", "ranked-lin-ts", "lin-ts-ltr", "log-ts-ltr", "gts"])
def test_a_prior_changes_all_segments_as_it_would_change_each_alone(policy: str) -> None:
    dims = {} if policy == "gts" else {"dim": 3}
    config = RankerConfig.of({"policy": policy, "slots": 2, **dims})
    features = [{"features": [0.3 * n, 1.0, -0.1 * n]} if dims else {} for n in range(6)]
    start = [{"id": f"{n}", **features[n]} for n in range(6)]
    priors = [prior(0.3, 4.0), prior(0.8, 2.0, b=(0.1, 3.0), d=(0.1, 3.0)), prior(0.5, 1.0, c=(0.9, 5.0))]
    changed = [{**start[n], "prior": one} for n, one in enumerate(priors)]

    def learned(segments: str, order: list[list[dict[str, Any]]]) -> dict[str, list[bytes]]:
        """The state of each segment after a visit to each and the puts of items in this order."""
        ranker = Ranker(config)
        ranker.put_items(start)
        for segment in segments:
            ranking = ranker.rank(segment=segment, k=2, order=None, visitor="v", candidates=["4", "5"])
            ranker.feedback(ranking.id, clicked=[0], final=True)
        for items in order:
            ranker.put_items(items)
        learners = ranker._replica.learners
        states = {
            one: [array.tobytes() for _, array in learners.view(row).arrays()] for one, row in learners.segments.items()
        }
        ranker.close()
        return states

    together = learned("a", [changed, [start[0] | {"prior": prior(0.6, 1.0)}]])
    assert set(together) == {"a"}
    everyone = learned("abcde", [changed, [start[0] | {"prior": prior(0.6, 1.0)}]])
    assert everyone["a"] == together["a"]
    assert everyone["e"] != everyone["b"] != everyone["c"]


# The protocol


def exchange(address: tuple[str, int], request: bytes) -> bytes:
    """Send bytes and return the response."""
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(request)
        return response_on(connection)


def response_on(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536) or pytest.fail(f"closed after {received!r}")
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def post(path: str, *headers: str, body: str = "{}") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode()


@contextmanager
def listening(app: Any) -> Iterator[tuple[str, int]]:
    """Serve an application in a thread, and give its address."""
    import uvicorn

    from rankloop.service.transport.answer_transport import BufferedHttp

    config = uvicorn.Config(app, http=BufferedHttp, log_level="error", access_log=False, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([listener])))
        thread.start()
        until(lambda: server.started, "the service listens")
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def in_background(work: Callable[[], bytes]) -> tuple[threading.Thread, list[bytes]]:
    answers: list[bytes] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


def test_a_service_that_is_busy_queues_refuses_and_still_answers_health_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = AdmissionSettings(running=1, queue=2, ranker_queue=2, deadline_ms=60_000.0)
    app = app_of(tmp_path, admission=admission, cors_origins=("https://shop.example",))
    service = app.state.service
    with listening(app) as address:
        with Hanging(app, monkeypatch):
            rank = post("/v1/rankers/busy/rank")
            first = in_background(lambda: exchange(address, rank))
            until(lambda: service.admission.running == 1, "one request is executed")
            second = in_background(lambda: exchange(address, rank))
            third = in_background(lambda: exchange(address, rank))
            until(lambda: service.admission.waiting == 2, "two requests wait")
            with socket.create_connection(address, timeout=60) as connection:
                for request, more in (
                    (rank, b""),  # refused without being parsed
                    (post("/v1/rankers/busy/feedback", body='{"decision": "x", "clicked": []}'), b""),
                    (post("/v1/rankers/busy/rank", "Origin: https://shop.example"), b"https://shop.example"),
                    (post("/v1/rankers/busy/rank", "Connection: keep-alive"), b""),
                ):
                    connection.sendall(request)
                    answer = response_on(connection)
                    assert answer.startswith(b"HTTP/1.1 503 ")
                    assert DETAILS[QUEUE_FULL].encode() in answer
                    assert b"retry-after: " in answer
                    assert more in answer
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert response_on(connection).startswith(b"HTTP/1.1 200 ")
                pieces = [rank[:30], rank[30:-1], rank[-1:]]
                for piece in pieces:
                    connection.sendall(piece)
                assert response_on(connection).startswith(b"HTTP/1.1 503 ")
            closed = exchange(address, post("/v1/rankers/busy/rank", "Connection: close"))
            assert closed.startswith(b"HTTP/1.1 503 ")
            assert b"connection: close" in closed
        for thread, answers in (first, second, third):
            thread.join()
            assert answers[0].startswith(b"HTTP/1.1 200 ")
        assert decisions(app, "busy") == 3
        until(lambda: service.admission.running == 0, "everything is answered")


def test_answers_keep_their_order_while_an_overloaded_service_holds_back_refusals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = AdmissionSettings(running=1, queue=2, ranker_queue=2, deadline_ms=60_000.0)
    app = app_of(tmp_path, admission=admission)
    service, rank = app.state.service, post("/v1/rankers/busy/rank")
    with listening(app) as address:
        with Hanging(app, monkeypatch):
            waiting = [in_background(lambda: exchange(address, rank)) for _ in range(3)]
            until(lambda: service.admission.waiting == 2 and service.admission.overloaded, "the service is overloaded")
            with socket.create_connection(address, timeout=60) as connection:
                connection.sendall(rank)
                until(lambda: service.admission.refused[QUEUE_FULL] == 1, "the request is refused")
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                received = b""
                while received.count(b"HTTP/1.1 ") < 2:
                    received += connection.recv(65536) or pytest.fail("closed")
                assert received.startswith(b"HTTP/1.1 503 ")
                assert received.rindex(b"HTTP/1.1 200 ") > 0
        for thread, answers in waiting:
            thread.join()
            assert answers[0].startswith(b"HTTP/1.1 200 ")
        assert decisions(app, "busy") == 3


def test_requests_that_wait_for_a_busy_ranker_do_not_count_as_executed(tmp_path: Path) -> None:
    app = app_of(tmp_path, admission=AdmissionSettings(running=1, deadline_ms=60_000.0))
    service = app.state.service
    with listening(app) as address:
        with Held(service.rankers.ranker("busy")):
            waiting = [in_background(lambda: exchange(address, post("/v1/rankers/busy/rank"))) for _ in range(3)]
            until(lambda: "busy" in service.lanes.blocked and service.admission.waiting == 2, "one waits in a thread")
            assert exchange(address, post("/v1/rankers/other/rank")).startswith(b"HTTP/1.1 200 ")
        for thread, answers in waiting:
            thread.join()
            assert answers[0].startswith(b"HTTP/1.1 200 ")
        until(lambda: service.admission.running == 0, "everything is answered")


def test_a_request_in_the_queue_is_refused_at_its_deadline_and_dropped_if_its_caller_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = AdmissionSettings(running=1, deadline_ms=60_000.0)
    app = app_of(tmp_path, admission=admission)
    service = app.state.service
    with listening(app) as address:
        with Hanging(app, monkeypatch):
            first = in_background(lambda: exchange(address, post("/v1/rankers/busy/rank")))
            until(lambda: service.admission.running == 1, "one request is executed")
            refused = exchange(address, post("/v1/rankers/other/rank", "Request-Deadline-Ms: 1"))
            assert refused.startswith(b"HTTP/1.1 503 ")
            assert DETAILS[DEADLINE].encode() in refused
            with socket.create_connection(address, timeout=60) as gone:
                gone.sendall(post("/v1/rankers/other/rank"))
                until(lambda: service.admission.waiting == 1, "one request waits")
            health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            assert exchange(address, health).startswith(b"HTTP/1.1 200 ")  # the loop has seen that it is gone
        first[0].join()
        until(lambda: service.admission.running == 0 and not service.admission.waiting, "nothing waits")
        assert (decisions(app, "busy"), decisions(app, "other")) == (1, 0)


def test_a_body_that_comes_in_pieces_holds_nobody_up_and_is_answered(tmp_path: Path) -> None:
    app = app_of(tmp_path, admission=AdmissionSettings(running=1, deadline_ms=60_000.0))
    with listening(app) as address, socket.create_connection(address, timeout=60) as slow:
        request = post("/v1/rankers/other/rank", body='{"k": 2}' + " " * 200_000)
        slow.sendall(request[:150])
        assert exchange(address, post("/v1/rankers/busy/rank")).startswith(b"HTTP/1.1 200 ")
        slow.sendall(request[150:])
        assert response_on(slow).startswith(b"HTTP/1.1 200 ")
        slow.sendall(2 * post("/v1/rankers/other/rank"))  # pipelined
        first = slow.recv(65536)
        while first.count(b"HTTP/1.1 200 ") < 2:
            first += slow.recv(65536) or pytest.fail("closed")
    assert decisions_after_close(tmp_path, "other") == 3


def decisions_after_close(path: Path, name: str) -> int:
    from rankloop.eventlog import SqliteStore

    store = SqliteStore(path / "log.db")
    try:
        return sum(entry.kind == DecisionMade.kind for entry in store.read(name))
    finally:
        store.close()


def test_refusals_spread_their_callers_over_several_seconds() -> None:
    seconds = Counter(refusal(QUEUE_FULL).split(b"retry-after: ")[1][:1] for _ in range(300))
    assert set(seconds) == {b"1", b"2", b"3"}


# Warming up


def test_the_service_is_ready_when_its_rankers_are_warmed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rankloop.service import warm_up

    app_of(tmp_path).state.service.close()
    go_on, warmed = threading.Event(), list[str]()

    def slow(config: RankerConfig) -> None:
        go_on.wait()
        warmed.append(config.policy)

    monkeypatch.setattr(warm_up, "warm_up", slow)
    monkeypatch.setattr(readiness, "READ_TIMEOUT_SECONDS", 0.0)
    app = create_app(ServiceSettings(log=str(tmp_path / "log.db")))

    async def scenario(ask: Ask) -> None:
        starting = await ask("GET", "/readyz")
        assert (starting.status_code, starting.headers["retry-after"]) == (503, "1")
        assert "starting" in starting.json()["detail"]
        assert (await ask("GET", "/healthz")).status_code == 200
        go_on.set()
        monkeypatch.setattr(readiness, "READ_TIMEOUT_SECONDS", 60.0)
        assert (await ask("GET", "/readyz")).status_code == 200
        assert len(warmed) == 2

    asked(app, scenario)


FIRST_VISIT = """
from numba.core.dispatcher import Dispatcher
import gc
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.warm_up import warm_up

def compiled():
    return sum(len(one.signatures) for one in gc.get_objects() if isinstance(one, Dispatcher))

config = RankerConfig.of({"policy": "cascade-lin-ts", "slots": 12, "dim": 7})
warm_up(config)
before = compiled()
ranker = Ranker(config)
ranker.put_items([{"id": f"{n}", "features": [n / 50, *[1.0] * 6]} for n in range(50)])
for segment in ("", "other"):
    ranker.feedback(ranker.rank(segment=segment, propensity=2).id, clicked=[3])
ranker.close()
assert before > 0
assert compiled() == before, (before, compiled())
"""


def test_the_first_visit_of_a_ranker_that_was_warmed_up_compiles_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", FIRST_VISIT], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr


def test_a_new_ranker_and_a_challenger_are_warmed_up_before_they_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rankloop.hosting import challenger_rebuild, registry

    warmed: list[str] = []
    for module in (registry, challenger_rebuild):
        monkeypatch.setattr(module, "warm_up", lambda config: warmed.append(config.policy))
    with closing(app_of(tmp_path)) as app:
        rankers = app.state.service.rankers
        assert warmed == ["cascade-lin-ts"] * 2
        rankers.put_challenger("other", {"policy": "ranked-lin-ts", "slots": 2})
        until(lambda: rankers.challenger_status("other").state == "ready", "the challenger is ready")
        assert warmed[2:] == ["ranked-lin-ts"]
