"""Laws of a policy in a service: accepted feedback can be replayed, the state can grow, and lists are reproducible.

A ranker serves visitors whose feedback is late, duplicated or an amount, while items are added and removed and a
challenger follows. A replay of its log must accept whatever the ranker accepted, and reach the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from rankloop.catalogue.setting_use import EVERYTHING, composed
from rankloop.checks.trial import ROUNDS, D, K, L, Make, Trial, assert_equal
from rankloop.errors import RankloopError
from rankloop.eventlog import MemoryStore
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema.limits import MAX_MAGNITUDE
from rankloop.serving import Ranker, RankerConfig
from rankloop.serving.config import ChallengerConfig
from rankloop.serving.replica import Replica
from rankloop.serving.snapshots import take
from rankloop.serving.verification import decide_again
from rankloop.types import FloatArray, IntArray, Request, Setting

S = TypeVar("S", bound=LearnerState)
STEPS = 80
"""Number of requests, feedback events and item changes in one stream: enough for the state to grow beyond 16 items."""
VALUES = (0.0, 1.0, 2.0, 0.5, -1.0, MAX_MAGNITUDE, -MAX_MAGNITUDE)
SETTING_VALUES: dict[str, object] = {
    "dim": D,
    "context": D,
    "coverage": D,
    "bias": (1.0, 0.7, 0.4),
    "prior": (1.0, 3.0),
    "rounds": 1000,
}
CHALLENGERS = ("cascade-ucb1", "gts")
"""Challenger policies: one learns from clicks only, the other from amounts."""


class Clock:
    """A clock that the stream advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the present time in seconds."""
        return self.now


def configured(make: Make, **settings: object) -> RankerConfig:
    """Return a ranker's configuration whose policy `make` builds, with all settings that the policy reads."""

    class ServingLawConfig(RankerConfig, frozen=True):
        """The settings of a ranker whose policy is not in the catalogue."""

        def check_consistency(self) -> None:
            """Accept a policy that is not in the catalogue."""

        def compose(self, setting: Setting) -> RankingPolicy[LearnerState]:
            return make(setting)

    return ServingLawConfig.of({"policy": "own", "slots": K, "window": 60.0, "seed": 7, **needed(make), **settings})


def needed(make: Make) -> dict[str, object]:
    """Return the settings that a policy reads, with values."""
    _, read = composed(make, EVERYTHING)
    return {name: value for name, value in SETTING_VALUES.items() if name in read}


class Stream:
    """A ranker and a random stream of requests, feedback and item changes."""

    def __init__(self, config: RankerConfig, rng: np.random.Generator, challenger: str | None = None) -> None:
        self.store, self._clock, self._rng = MemoryStore(), Clock(), rng
        self.ranker = Ranker(config, store=self.store, clock=self._clock)
        self._items_added, self._decisions, self.refused = 0, list[str](), 0
        self._put(L)
        if challenger is not None:
            other = ChallengerConfig.of({**_plain(config), "policy": challenger}).adjusted_as(config.plain())
            self.ranker.add_challenger(Replica(other))

    def run(self, steps: int) -> None:
        """Take this number of random actions."""
        actions: list[Callable[[], object]] = [
            self._rank_and_report,
            self._rank_and_report,
            self._rank,
            self._report,
            self._report,
        ]
        rare: list[Callable[[], object]] = [self._add_items, self._change_item, self._remove_item, self._wait]
        if self.ranker.config.activation == "impression":
            actions.append(self._impression)
        for _ in range(steps):
            choices = actions if self._rng.random() < 0.75 else rare
            choices[int(self._rng.integers(len(choices)))]()
        self.ranker.flush()

    def _put(self, count: int) -> None:
        n = self._items_added
        self.ranker.put_items([self._item(f"item-{i}") for i in range(n, n + count)])
        self._items_added += count

    def _item(self, id: str) -> dict[str, object]:
        """Return a new or changed item, sometimes with another ranker's score as prior."""
        rng = self._rng
        features, coverage, config = rng.random(D).tolist(), rng.random(D).tolist(), self.ranker.config
        item: dict[str, object] = {"id": id}
        item |= {} if config.dim is None else {"features": features}
        item |= {} if config.coverage is None else {"coverage": coverage}
        if self.ranker.takes_priors and rng.random() < 0.3:
            item["prior"] = {"score": float(rng.random()), "strength": float(rng.integers(0, 20))}
        return item

    def _change_item(self) -> None:
        items = self.ranker.items()
        changed = self._item(items[int(self._rng.integers(len(items)))].id)
        if not self.ranker.replaces_priors:
            changed.pop("prior", None)
        self.ranker.put_items([changed])

    def _add_items(self) -> None:
        self._put(int(self._rng.integers(1, 4)))

    def _remove_item(self) -> None:
        items = self.ranker.items()
        if len(items) > K + 1:
            self.ranker.remove_items([items[int(self._rng.integers(len(items)))].id])

    def _wait(self) -> None:
        self._clock.now += float(self._rng.exponential(30.0))
        self.ranker.tick()

    def _rank(self) -> str:
        rng, ids = self._rng, [item.id for item in self.ranker.items()]
        request: dict[str, Any] = {"k": int(rng.integers(1, K + 1)), "segment": ("", "a", "b")[int(rng.integers(3))]}
        chosen, kind = [id for id in ids if rng.random() < 0.7], rng.random()
        if kind < 0.2:
            request["candidates"] = chosen
        elif kind < 0.4:
            request["items"] = [self._values_of_request(id) for id in chosen]
        elif kind < 0.5:
            request["exclude"] = chosen[:2]
        elif kind < 0.6:
            request["order"] = chosen
        if "rewards" in self.ranker._replica.learners.reads and rng.random() < 0.3:
            request["rewards"] = np.sort(rng.random(K))[::-1].tolist()
            request["losses"] = (-np.sort(rng.random(K + 1))).tolist()
        context = rng.uniform(-0.5, 0.5, D).tolist()
        request |= {} if self.ranker.config.context is None else {"context": context}
        self._decisions.append(self.ranker.rank(**request).id)
        return self._decisions[-1]

    def _values_of_request(self, id: str) -> dict[str, object]:
        """Return a candidate, sometimes with features or a score of one request."""
        rng, item = self._rng, dict[str, object](id=id)
        if self.ranker.config.dim is not None and rng.random() < 0.5:
            item["features"] = rng.random(D).tolist()
        if "scores" in self.ranker._replica.learners.reads and rng.random() < 0.5:
            item["score"] = float(rng.random())
        return item

    def _rank_and_report(self) -> None:
        self._send_feedback(self._rank())

    def _report(self) -> None:
        n = len(self._decisions)
        if n:
            self._send_feedback(self._decisions[int(self._rng.integers(max(0, n - 8), n))])

    def _send_feedback(self, decision: str) -> None:
        """Send clicks or amounts, sometimes repeated or final; refused feedback must not be in the log."""
        rng, shown = self._rng, self.ranker.history(decision)
        filled = [row.slot for row in shown.slots if row.item is not None]
        clicked = [slot for slot in filled if rng.random() < 0.4]
        payload: dict[str, Any] = {"clicked": clicked}
        if rng.random() < 0.4:
            values = [float(rng.choice(VALUES)) if slot in filled else 0.0 for slot in range(len(shown.slots))]
            payload = {"values": values}
        if rng.random() < 0.4:
            payload["seen"] = self._seen(clicked, len(shown.slots))
        payload |= self._kind()
        event = f"event-{int(rng.integers(200))}" if rng.random() < 0.5 else None
        self.ranker.flush()
        before = len(list(self.store.read(self.ranker.name)))
        try:
            self.ranker.feedback(decision, event=event, final=bool(rng.random() < 0.3), **payload)
        except RankloopError:
            self.refused += 1
            assert len(list(self.store.read(self.ranker.name))) == before, "refused feedback is in the log"

    def _kind(self) -> dict[str, object]:
        """Return the kind of an event, if the ranker takes several; sometimes one that it does not take."""
        reward = self.ranker.config.reward
        kinds = [] if reward is None else [*reward.kinds, *reward.kinds, "unknown"]
        return {"kind": kinds[int(self._rng.integers(len(kinds)))]} if kinds else {}

    def _impression(self) -> None:
        if self._decisions and self.ranker.config.activation == "impression":
            self.ranker.feedback(self._decisions[int(self._rng.integers(len(self._decisions)))], kind="impression")

    def _seen(self, clicked: list[int], slots: int) -> int | list[int]:
        """Return the last visible slot, or visible slots; sometimes without a clicked one, which is refused."""
        last = int(self._rng.integers(slots)) if slots else 0
        if self._rng.random() < 0.5:
            return max([last, *clicked]) if self._rng.random() < 0.9 else last
        return sorted({slot for slot in range(slots) if self._rng.random() < 0.5} | set(clicked))


def accepted_feedback_replays_to_the_same_state(make: Make) -> None:
    """A replay of everything that was accepted, with and without a challenger, reaches the live state."""
    for aggregate in ("earliest", "sum"):
        for challenger in CHALLENGERS:
            replayed(make, np.random.default_rng(20), challenger, aggregate=aggregate)


def several_kinds_of_feedback_replay_to_the_same_state(make: Make) -> None:
    """A replay reaches the live state also where events amend what was learned, and where only shown lists count."""
    kinds = {"kinds": {"click": {}, "purchase": {"window": 40.0}, "dwell": {"weight": 0.0}}}
    for learn in ("at-once", "at-close"):
        try:
            configured(make, reward={**kinds, "learn": learn}).check()
        except RankloopError:
            assert learn == "at-once", "every policy can learn a list once, at its close"
            continue
        replayed(make, np.random.default_rng(25), CHALLENGERS[0], reward={**kinds, "learn": learn})
    replayed(make, np.random.default_rng(26), None, activation="impression")


def replayed(make: Make, rng: np.random.Generator, challenger: str | None, **settings: object) -> None:
    """Assert that a random stream of events gives the same states live and in a replay."""
    config = configured(make, **settings)
    stream = Stream(config, rng, challenger)
    stream.run(STEPS)
    followed = [(config, _bytes(stream.ranker._replica))]
    if challenger is not None:
        followed.append((_settings_of(stream.ranker), _bytes(stream.ranker._challenger)))
    for made, expected in followed:
        again = Replica(made)
        again.follow(stream.store.read("ranker"))
        assert _bytes(again) == expected, (
            f"the replayed state differs from the live one ({settings}, challenger {challenger})"
        )


def catching_up_equals_single_updates(make: Make) -> None:
    """The state does not depend on how many events are applied at once, bit for bit."""
    config = configured(make)
    stream = Stream(config, np.random.default_rng(21))
    stream.run(STEPS)
    states = []
    for page in (1, 7, 2000):
        replica = Replica(config)
        replica.follow(stream.store.read("ranker"), page=page)
        states.append(_bytes(replica))
    careful = Replica(config)
    careful.apply_carefully(stream.store.read("ranker"))
    assert all(state == _bytes(careful) for state in states), (
        "events applied in batches give another state than single ones"
    )


def growing_preserves_what_was_learned(make: Make) -> None:
    """Growing before or after learning gives the same state, and predictions for the old items stay the same."""
    trial = Trial()
    for dim in (D, None):  # without features some policies use a one-hot feature for each item
        settings = [_resized(trial.setting, items, dim) for items in (L, 2 * L)]
        try:
            small, large = (make(setting) for setting in settings)
        except Exception:
            if dim is None:  # the policy needs features
                continue
            raise
        early, late = small.init(1), small.init(1)
        few, many = (_request(trial, dim, items) for items in (L, 2 * L))
        rng = np.random.default_rng(22)
        rounds = [_round(rng) for _ in range(ROUNDS)]
        for n, one in enumerate(rounds):
            _learn(small, late, few, *one)
            if n < ROUNDS // 2:
                _learn(small, early, few, *one)
        grown = large.grow(early)
        for one in rounds[ROUNDS // 2 :]:
            _learn(large, grown, many, *one)
        assert_equal(grown, large.grow(late), tolerance=1e-9)
        lists = np.array([rng.permutation(L)[:K]])
        before = small.predict(late, small.adopt(few, lists))
        after = large.predict(grown, large.adopt(many, lists))
        if before is not None:
            assert after is not None, "the policy makes no predictions after growing"
            np.testing.assert_allclose(before, after, rtol=1e-9, atol=1e-9)


def every_logged_list_is_reproduced(make: Make) -> None:
    """Every list can be decided again from the log alone, bit for bit, even after changes of the rollout settings."""
    config = configured(make)
    stream = Stream(config, np.random.default_rng(23))
    stream.run(STEPS)
    stream.ranker.adjust(config.adjusted_as(config.plain() | {"traffic": 0.5, "seed": 9}))
    stream.run(STEPS // 2)

    def configure(settings: Mapping[str, object]) -> RankerConfig:
        return config.adjusted_as(settings)

    found = decide_again(stream.store, "ranker", configure)
    assert found.equal == found.decided > 0, f"{found.equal} of {found.decided} lists: {found.differences[:3]}"
    assert found.control > 0


def _bytes(replica: Replica | None) -> dict[str, bytes]:
    """Return the complete state of a replica as bytes."""
    assert replica is not None, "the challenger could not follow"
    taken = take(replica)
    arrays = {name: np.asarray(array).tobytes() for name, array in taken.arrays.items()}
    waiting = {f"waiting.{name}": array.tobytes() for name, array in taken.open_decisions.arrays().items()}
    return arrays | waiting | {"head": repr(sorted(taken.header.items())).encode(), "at": str(taken.position).encode()}


def _settings_of(ranker: Ranker) -> RankerConfig:
    other = ranker.challenger
    assert other is not None
    return other


def _plain(config: RankerConfig) -> dict[str, object]:
    return {
        name: value
        for name, value in config.plain().items()
        if name not in ("policy", "params", "prior", "bias", "rounds")
    }


def _resized(setting: Setting, items: int, dim: int | None) -> Setting:
    """Return the same setting with capacity for more items; the present items stay the same."""
    prior = setting.prior
    a, b = (np.resize(p, items) for p in (prior.a, prior.b)) if prior is not None else (None, None)
    made: dict[str, Any] = {name: getattr(setting, name) for name in ("slots", "rounds", "bias", "context", "coverage")}
    if a is not None and b is not None:
        made["prior"] = type(prior)(a, b)  # type: ignore[misc]
    return Setting(items, dim=dim, present=setting.items, used=setting.items, **made)


def _round(rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Return a list of the first items, and at most one click on it."""
    clicks = np.zeros((1, K))
    if rng.random() < 0.6:
        clicks[0, int(rng.integers(K))] = 1.0
    return np.array([rng.permutation(L)[:K]]), clicks


def _learn(policy: RankingPolicy[S], state: S, request: Request, lists: IntArray, clicks: FloatArray) -> None:
    policy.learn(state, policy.adopt(request, lists), clicks)


def _request(trial: Trial, dim: int | None, items: int) -> Request:
    """Return a request for the trial's items and, where there are more, as many others."""
    features = None if dim is None else np.resize(trial.features, (items, D))
    return Request(1, items, K, features, trial.context[None, :], np.resize(trial.coverage, (items, D)))
