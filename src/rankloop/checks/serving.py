"""Laws of a policy in a service: what is accepted can be learned, items come while it runs, every list comes out again.

A ranker serves visitors who are late, report twice or report amounts, while items come and go and a second policy
stands by. Whatever it accepts, a replay of its log must accept as well, and give the same state.
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
"""Visits, reports and changes of items in one stream: more than sixteen items come, so that the state grows."""
VALUES = (0.0, 1.0, 2.0, 0.5, -1.0, MAX_MAGNITUDE, -MAX_MAGNITUDE)
OFFERED: dict[str, object] = {
    "dim": D,
    "context": D,
    "coverage": D,
    "bias": (1.0, 0.7, 0.4),
    "prior": (1.0, 3.0),
    "rounds": 1000,
}
BESIDE = ("cascade-ucb1", "gts")
"""Policies that stand by: one learns from clicks only, the other from amounts."""


class Clock:
    """A clock that the stream advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Now."""
        return self.now


def configured(make: Make, **settings: object) -> RankerConfig:
    """A ranker's configuration whose policy `make` builds, with all that a policy may need."""

    class Own(RankerConfig, frozen=True):
        """The settings of a ranker with a policy that is in no catalogue."""

        def check_consistency(self) -> None:
            """It need not be there."""

        def compose(self, setting: Setting) -> RankingPolicy[LearnerState]:
            return make(setting)

    return Own.of({"policy": "own", "slots": K, "window": 60.0, "seed": 7, **needed(make), **settings})


def needed(make: Make) -> dict[str, object]:
    """The settings that a policy reads, of all that it may."""
    _, read = composed(make, EVERYTHING)
    return {name: value for name, value in OFFERED.items() if name in read}


class Stream:
    """A ranker and what happens to it, drawn from a generator."""

    def __init__(self, config: RankerConfig, rng: np.random.Generator, beside: str | None = None) -> None:
        self.store, self._clock, self._rng = MemoryStore(), Clock(), rng
        self.ranker = Ranker(config, store=self.store, clock=self._clock)
        self._came, self._shown, self.refused = 0, list[str](), 0
        self._put(L)
        if beside is not None:
            other = ChallengerConfig.of({**_plain(config), "policy": beside}).adjusted_as(config.plain())
            self.ranker.add_challenger(Replica(other))

    def run(self, steps: int) -> None:
        """Take this number of random actions."""
        actions: list[Callable[[], object]] = [self._visit, self._visit, self._list, self._report, self._report]
        rare: list[Callable[[], object]] = [self._come, self._change, self._go, self._wait]
        for _ in range(steps):
            some = actions if self._rng.random() < 0.75 else rare
            some[int(self._rng.integers(len(some)))]()
        self.ranker.flush()

    def _put(self, many: int) -> None:
        n = self._came
        self.ranker.put_items([self._item(f"item-{i}") for i in range(n, n + many)])
        self._came += many

    def _item(self, id: str) -> dict[str, object]:
        """An item as it comes or changes, perhaps with the score of another ranker."""
        rng = self._rng
        features, coverage, config = rng.random(D).tolist(), rng.random(D).tolist(), self.ranker.config
        made: dict[str, object] = {"id": id}
        made |= {} if config.dim is None else {"features": features}
        made |= {} if config.coverage is None else {"coverage": coverage}
        if self.ranker.takes_priors and rng.random() < 0.3:
            made["prior"] = {"score": float(rng.random()), "strength": float(rng.integers(0, 20))}
        return made

    def _change(self) -> None:
        there = self.ranker.items()
        changed = self._item(there[int(self._rng.integers(len(there)))].id)
        if not self.ranker.replaces_priors:
            changed.pop("prior", None)
        self.ranker.put_items([changed])

    def _come(self) -> None:
        self._put(int(self._rng.integers(1, 4)))

    def _go(self) -> None:
        there = self.ranker.items()
        if len(there) > K + 1:
            self.ranker.remove_items([there[int(self._rng.integers(len(there)))].id])

    def _wait(self) -> None:
        self._clock.now += float(self._rng.exponential(30.0))
        self.ranker.tick()

    def _list(self) -> str:
        rng, there = self._rng, [item.id for item in self.ranker.items()]
        asked: dict[str, Any] = {"k": int(rng.integers(1, K + 1)), "segment": ("", "a", "b")[int(rng.integers(3))]}
        if rng.random() < 0.3:
            asked["candidates"] = [id for id in there if rng.random() < 0.7]
        context = rng.uniform(-0.5, 0.5, D).tolist()
        asked |= {} if self.ranker.config.context is None else {"context": context}
        self._shown.append(self.ranker.rank(**asked).id)
        return self._shown[-1]

    def _visit(self) -> None:
        self._tell(self._list())

    def _report(self) -> None:
        if self._shown:
            self._tell(self._shown[int(self._rng.integers(max(0, len(self._shown) - 8), len(self._shown)))])

    def _tell(self, decision: str) -> None:
        """Report clicks, items or amounts, perhaps twice, perhaps finally; what is refused is not in the log."""
        rng, shown = self._rng, self.ranker.history(decision)
        filled = [row.slot for row in shown.slots if row.item is not None]
        clicked = [slot for slot in filled if rng.random() < 0.4]
        told: dict[str, Any] = {"clicked": clicked}
        if rng.random() < 0.4:
            values = [float(rng.choice(VALUES)) if slot in filled else 0.0 for slot in range(len(shown.slots))]
            told = {"values": values}
        event = f"event-{int(rng.integers(200))}" if rng.random() < 0.5 else None
        self.ranker.flush()
        before = len(list(self.store.read(self.ranker.name)))
        try:
            self.ranker.feedback(decision, event=event, final=bool(rng.random() < 0.3), **told)
        except RankloopError:
            self.refused += 1
            assert len(list(self.store.read(self.ranker.name))) == before, "what was refused is in the log"


def accepted_means_learnable(make: Make) -> None:
    """Whatever is accepted can be replayed, alone or beside a second policy, and gives the state that was live."""
    for aggregate in ("earliest", "sum"):
        for beside in BESIDE:
            replayed(make, np.random.default_rng(20), aggregate, beside)


def replayed(make: Make, rng: np.random.Generator, aggregate: str, beside: str) -> None:
    """A stream of any events, drawn from the generator, gives the same states live and in a replay."""
    config = configured(make, aggregate=aggregate)
    stream = Stream(config, rng, beside)
    stream.run(STEPS)
    live, other = (_bytes(one) for one in (stream.ranker._replica, stream.ranker._challenger))
    for made, expected in ((config, live), (_settings_of(stream.ranker), other)):
        again = Replica(made)
        again.follow(stream.store.read("ranker"))
        assert _bytes(again) == expected, f"a replay differs from live ({aggregate}, beside {beside})"


def catching_up_equals_updates(make: Make) -> None:
    """However many events are applied at once, the state is that of one event after the other, bit for bit."""
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
    assert all(state == _bytes(careful) for state in states), "events that are applied together teach something else"


def growing_changes_nothing(make: Make) -> None:
    """To learn, grow and learn on is to learn all and grow; what is believed of the items that were there stays."""
    trial = Trial()
    for dim in (D, None):  # without features some policies give each item one of its own
        settings = [_resized(trial.setting, items, dim) for items in (L, 2 * L)]
        try:
            small, large = (make(setting) for setting in settings)
        except Exception:
            if dim is None:  # it needs features
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
            assert after is not None, "a policy that has grown predicts no more"
            np.testing.assert_allclose(before, after, rtol=1e-9, atol=1e-9)


def every_list_is_decided_again(make: Make) -> None:
    """From the log alone, every list comes out again, bit for bit: also of other settings of the rollout."""
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
    """All that a replica knows."""
    assert replica is not None, "the policy that stood by could not follow"
    taken = take(replica)
    arrays = {name: np.asarray(array).tobytes() for name, array in taken.arrays.items()}
    waiting = {f"waiting.{shown.id}": b"" if y is None else y.tobytes() for shown, y, _ in taken.waiting}
    return arrays | waiting | {"head": repr(sorted(taken.head.items())).encode(), "at": str(taken.position).encode()}


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
    """The same setting with room for more items; the items that are present stay the same."""
    prior = setting.prior
    a, b = (np.resize(p, items) for p in (prior.a, prior.b)) if prior is not None else (None, None)
    made: dict[str, Any] = {name: getattr(setting, name) for name in ("slots", "rounds", "bias", "context", "coverage")}
    if a is not None and b is not None:
        made["prior"] = type(prior)(a, b)  # type: ignore[misc]
    return Setting(items, dim=dim, present=setting.items, used=setting.items, **made)


def _round(rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """A list of the first items, and at most one click on it."""
    clicks = np.zeros((1, K))
    if rng.random() < 0.6:
        clicks[0, int(rng.integers(K))] = 1.0
    return np.array([rng.permutation(L)[:K]]), clicks


def _learn(policy: RankingPolicy[S], state: S, request: Request, lists: IntArray, clicks: FloatArray) -> None:
    policy.learn(state, policy.adopt(request, lists), clicks)


def _request(trial: Trial, dim: int | None, items: int) -> Request:
    """A request for the trial's items and, where there are more, as many others."""
    features = None if dim is None else np.resize(trial.features, (items, D))
    return Request(1, items, K, features, trial.context[None, :], np.resize(trial.coverage, (items, D)))
