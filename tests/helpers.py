"""What several test files share: click logs, agreement of arrays, and tests of fit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import stats

from rankloop import catalogue
from rankloop.catalogue import plugins, registry
from rankloop.policy import Policy, PolicyState
from rankloop.ranking_policy import LearnerState
from rankloop.state import State
from rankloop.types import EMPTY, BetaPrior, FloatArray, IntArray, Request, Setting


@contextmanager
def loading_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Policies and modules of the current folder that are loaded inside the block are forgotten after it."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    monkeypatch.setattr(plugins, "_named", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(vars(module).get("__file__")).startswith(str(Path.cwd())):
            del sys.modules[name]


RARE = 1e-4
"""A test of fit fails below this p-value: one seed in ten thousand, and the seeds are fixed."""


def build(id: str, setting: Setting, **params: Any) -> Policy[Any]:
    """A policy of the catalogue that is a plain composition."""
    policy = catalogue.build(id, setting, **params)
    assert isinstance(policy, Policy)
    return policy


class Seen(NamedTuple):
    """One observation of the cascade."""

    item: int
    slot: int
    y: float


@dataclass(frozen=True)
class Log:
    """Lists and clicks of some rounds, made without asking a policy."""

    request: Request
    items: IntArray  # [T, B, K]
    clicks: FloatArray  # [T, B, K]

    @property
    def x(self) -> FloatArray:
        """The features, [L, d]."""
        assert self.request.features is not None
        return self.request.features

    def setting(self, *, prior: BetaPrior | None = None, bias: FloatArray | None = None) -> Setting:
        """The setting that a policy for this log is built for."""
        dim = None if self.request.features is None else self.x.shape[1]
        return Setting(self.request.items, self.request.k, len(self.items), dim, prior, bias)

    def rounds(self, learner: int) -> Iterator[list[Seen]]:
        """What the cascade reveals to a learner, round by round: down to the first click, that one included."""
        for items, clicks in zip(self.items[:, learner], self.clicks[:, learner], strict=True):
            seen = []
            for slot in range(len(items)):
                if items[slot] == EMPTY:
                    continue
                seen.append(Seen(int(items[slot]), slot, float(clicks[slot])))
                if clicks[slot] != 0:
                    break
            yield seen

    def seen(self, learner: int) -> list[Seen]:
        """All observations of a learner, in order."""
        return list(chain.from_iterable(self.rounds(learner)))

    def counts(self, learner: int) -> tuple[FloatArray, FloatArray]:
        """Clicks and observations of each item."""
        s, n = np.zeros(self.request.items), np.zeros(self.request.items)
        for item, _, y in self.seen(learner):
            s[item] += y
            n[item] += 1
        return s, n

    def shown(self, learner: int) -> list[Seen]:
        """Every slot that held an item, looked at or not."""
        T, _, K = self.items.shape
        return [
            Seen(int(self.items[t, learner, k]), k, float(self.clicks[t, learner, k]))
            for t in range(T)
            for k in range(K)
            if self.items[t, learner, k] != EMPTY
        ]

    def stacked(self) -> Log:
        """The same rounds twice."""
        return Log(self.request, np.concatenate([self.items] * 2), np.concatenate([self.clicks] * 2))


def make_log(
    rounds: int,
    *,
    seed: int,
    learners: int = 2,
    items: int = 6,
    slots: int = 3,
    dim: int = 3,
    attraction: ArrayLike = 0.35,
    empty: float = 0.1,
    single: bool = True,
) -> Log:
    """Random lists with some empty slots, and clicks: the first attractive item's, or every one's."""
    rng = np.random.default_rng(seed)
    order = np.broadcast_to(np.arange(items), (rounds, learners, items))
    lists = rng.permuted(order, axis=2)[:, :, :slots].copy()
    lists[rng.random(lists.shape) < empty] = EMPTY
    chance = np.broadcast_to(np.asarray(attraction, dtype=float), (items,))
    attractive = (rng.random(lists.shape) < chance[lists]) & (lists != EMPTY)
    if single:
        attractive &= np.cumsum(attractive, axis=2) == 1
    features = rng.standard_normal((items, dim)) / dim**0.5
    return Log(Request(learners, items, slots, features), lists, attractive.astype(float))


def feed(policy: Policy[Any], log: Log) -> PolicyState[Any]:
    """The state after learning the whole log."""
    state = policy.init(log.request.learners)
    for items, clicks in zip(log.items, log.clicks, strict=True):
        policy.learn(state, policy.adopt(log.request, items), clicks)
    return state


def inverse(F: FloatArray) -> FloatArray:
    """F Fᵀ, the inverse precision that a factor stands for."""
    return np.asarray(F @ F.swapaxes(-1, -2))


def agree(actual: ArrayLike, expected: ArrayLike, relative: float = 1e-9) -> None:
    """Equal shapes, and no entry off by more than `relative` of the largest expected one."""
    a, e = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert a.shape == e.shape
    size = np.abs(e).max(initial=0.0)
    assert np.abs(a - e).max(initial=0.0) <= relative * max(size, 1e-300), (a, e)


def snapshot(state: State | LearnerState) -> dict[str, bytes]:
    """Every array of a state as bytes."""
    return {name: array.tobytes() for name, array in state.arrays()}


def assert_uniform(counts: ArrayLike) -> None:
    """A chi-square test that all cells are equally likely; it fails for one seed in 10,000."""
    assert stats.chisquare(np.asarray(counts)).pvalue > RARE


def count_lists(lists: IntArray, items: int) -> list[int]:
    """How often each ordered list of distinct items occurs, for all L!/(L-K)! of them."""
    index = {ordered: i for i, ordered in enumerate(permutations(range(items), lists.shape[1]))}
    counts = [0] * len(index)
    for row in lists.tolist():
        counts[index[tuple(row)]] += 1
    return counts
