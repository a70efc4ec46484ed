"""Cascades with rewards and losses by slot, variable list length, and items that may change each round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankloop.design import Coverage
from rankloop.math.columns import take
from rankloop.math.counter_rng import keys, uniforms
from rankloop.math.linear import dot, features_of
from rankloop.math.logistic import sigmoid
from rankloop.plan import BestLength, GreedyBySlot, TopK
from rankloop.plan.slots import values_by_length
from rankloop.types import EMPTY, FloatArray, IntArray, Request, Setting
from rankloop.worlds.attraction import AttractionSource
from rankloop.worlds.row_attraction import RowSource, RowTastes, row_setting


@dataclass(frozen=True, eq=False)
class Scenario:
    """The reward of a success in each slot, and the loss when all shown items fail."""

    rewards: FloatArray  # [K] r_1 …, not increasing
    losses: FloatArray  # [K + 1] ℓ_0 …, not positive

    def value(self, p: FloatArray, items: IntArray) -> FloatArray:
        """Return Σ r_i p_i ∏_{h<i}(1-p_h) + ℓ_s ∏(1-p) of lists [B, K] of s items, [B]."""
        won = values_by_length(p, self.rewards, np.zeros(p.shape[1] + 1))[:, -1]
        return np.asarray(won + self.losses[(items != EMPTY).sum(axis=1)] * np.prod(1.0 - p, axis=1))

    def reward(self, first: FloatArray, items: IntArray) -> FloatArray:
        """Return the reward of the clicked slot, or the loss of the list without a click, [B]."""
        lost = self.losses[(items != EMPTY).sum(axis=1)]
        return np.where(first.any(axis=1), first @ self.rewards[: first.shape[1]], lost)

    def by_round(self) -> Scenarios:
        """Return the same rewards and losses for every round."""
        return Scenarios((self.rewards,), (self.losses,))


@dataclass(frozen=True, eq=False)
class Scenarios:
    """Rewards and losses by round, each list cycled over the rounds: those of a transaction, for instance."""

    rewards: tuple[FloatArray, ...]  # of [K]
    losses: tuple[FloatArray, ...]  # of [K + 1]

    @property
    def changing(self) -> bool:
        """Return whether rounds differ, so that each request carries its own rewards and losses."""
        return len(self.rewards) > 1 or len(self.losses) > 1

    @property
    def expected(self) -> Scenario:
        """Return the means over the rounds, which policies know before the first one."""
        if not self.changing:
            return self.at(0)
        return Scenario(np.mean(self.rewards, axis=0), np.mean(self.losses, axis=0))

    def by_round(self) -> Scenarios:
        """Return these rewards and losses."""
        return self

    def at(self, t: int) -> Scenario:
        """Return the rewards and losses of round t = 0, 1, …."""
        return Scenario(self.rewards[t % len(self.rewards)], self.losses[t % len(self.losses)])


def scenario(name: str, slots: int) -> Scenario:
    """Return the scenario `vanilla` (r = 1, ℓ = 0) or `exponential` (r_j = 2^-(j-1), ℓ_j = 0.8·2^-j - 1)."""
    if name == "vanilla":
        return Scenario(np.ones(slots), np.zeros(slots + 1))
    return Scenario(2.0 ** -np.arange(float(slots)), 0.8 * 2.0 ** -np.arange(slots + 1.0) - 1.0)


def log_odds(p: FloatArray) -> FloatArray:
    """Return the logit of probabilities, clipped to stay finite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(p) - np.log1p(-p), -700.0, 700.0))


class Arms(Protocol):
    """The items of a round, and the success probability of each."""

    @property
    def setting(self) -> Setting:
        """Return what policies know; the world adds rewards and losses."""

    def next(self, rng: np.random.Generator) -> tuple[Request, Arms]:
        """Return the request of the next round, and the arms with its success probabilities."""

    def success(self, request: Request, items: IntArray) -> FloatArray:
        """Return the success probability [B, K] of each listed item after the items above it failed."""

    def score(self, request: Request, prefix: IntArray) -> FloatArray:
        """Return the true log-odds [B, L] of every item after a failed prefix [B, j]."""

    @property
    def dependent(self) -> bool:
        """Return whether success depends on the prefix."""


@dataclass(frozen=True)
class RewardVisit:
    """One visitor for each replication."""

    request: Request
    best: FloatArray  # [B]
    arms: Arms
    scenario: Scenario
    key: NDArray[np.uint64]  # [B], key of the counter-based RNG

    def value(self, items: IntArray) -> FloatArray:
        """Return the exact expected reward, [B]."""
        return self.scenario.value(self.arms.success(self.request, items), items)

    def click(self, items: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the click on the first success, and the reward."""
        succeeds = uniforms(self.key, items) < self.arms.success(self.request, items)
        first = (succeeds & (np.cumsum(succeeds, axis=1) == 1)).astype(np.float64)
        return first, self.scenario.reward(first, items)


@dataclass
class RewardInstance:
    """B replications; scenarios and budgets are cycled over the rounds."""

    arms: Arms
    scenarios: Scenarios
    budgets: tuple[int, ...]
    setting: Setting
    played: int = field(default=0)

    def visit(self, rng: np.random.Generator) -> RewardVisit:
        """Draw the visitors of the next round, with its items, its budget, and its rewards and losses."""
        offered, arms = self.arms.next(rng)
        budget = self.budgets[self.played % len(self.budgets)]
        now = self.scenarios.at(self.played)
        self.played += 1
        request = replace(offered, k=min(budget, offered.items))
        if self.scenarios.changing:
            K = self.setting.slots
            request = replace(request, rewards=now.rewards[:K], losses=now.losses[: K + 1])
        return RewardVisit(request, _best(now, request, arms), arms, now, keys(request.learners, rng))


def _best(scenario: Scenario, request: Request, arms: Arms) -> FloatArray:
    """Return the value of the best list: sorted and cut (Lemma 1), or greedy if success depends on the prefix."""
    inner = GreedyBySlot() if arms.dependent else TopK()
    plan = BestLength(inner, scenario.rewards, scenario.losses)
    items = plan(lambda prefix, slot: arms.score(request, prefix), request, np.random.default_rng(0)).items
    return scenario.value(arms.success(request, items), items)


def instance(arms: Arms, chosen: Scenario | Scenarios, budgets: tuple[int, ...]) -> RewardInstance:
    """Return B replications of a world with these arms."""
    scenarios = chosen.by_round()
    known = scenarios.expected
    # A policy needs at least one slot; with a budget of 0 it is never asked for an item.
    setting = replace(arms.setting, slots=max(*budgets, 1), rewards=known.rewards, losses=known.losses)
    return RewardInstance(arms, scenarios, budgets, setting)


@dataclass(frozen=True)
class FixedArms:
    """The same items in every round, each with its attraction."""

    request: Request
    setting: Setting
    nu: FloatArray  # [B, L]
    dependent = False

    def next(self, rng: np.random.Generator) -> tuple[Request, Arms]:
        """Return the same request in every round."""
        return self.request, self

    def success(self, request: Request, items: IntArray) -> FloatArray:
        """Return ν of each listed item."""
        return np.where(items != EMPTY, take(self.nu, items), 0.0)

    def score(self, request: Request, prefix: IntArray) -> FloatArray:
        """Return logit ν."""
        return log_odds(self.nu)


@dataclass(frozen=True)
class RowArms:
    """The same items in every round, whose attraction follows from the round's context and features."""

    request: Request
    setting: Setting
    tastes: RowTastes
    nu: FloatArray  # [B, L], of one round
    dependent = False

    def next(self, rng: np.random.Generator) -> tuple[Request, Arms]:
        """Draw what changes with the round."""
        now = self.tastes.next(rng)
        return replace(self.request, features=now.features, context=now.context), replace(self, nu=now.nu)

    def success(self, request: Request, items: IntArray) -> FloatArray:
        """Return ν of each listed item."""
        return np.where(items != EMPTY, take(self.nu, items), 0.0)

    def score(self, request: Request, prefix: IntArray) -> FloatArray:
        """Return logit ν."""
        return log_odds(self.nu)


@dataclass(frozen=True)
class FreshArms:
    """New items each round, unit-norm features, success σ(xᵀu)."""

    learners: int
    items: int
    weights: FloatArray  # [d]
    setting: Setting
    dependent = False

    def next(self, rng: np.random.Generator) -> tuple[Request, Arms]:
        """Draw features with uniform directions."""
        x = rng.standard_normal((self.learners, self.items, len(self.weights)))
        x /= np.linalg.vector_norm(x, axis=-1, keepdims=True)
        return Request(self.learners, self.items, self.setting.slots, x), self

    def success(self, request: Request, items: IntArray) -> FloatArray:
        """Return σ(xᵀu) of each listed item."""
        return np.where(items != EMPTY, take(sigmoid(self.score(request, items)), items), 0.0)

    def score(self, request: Request, prefix: IntArray) -> FloatArray:
        """Return xᵀu of every item."""
        if request.features is None:
            raise TypeError("fresh arms have features")
        return np.asarray(request.features @ self.weights)


@dataclass(frozen=True)
class CoverageArms:
    """Items that cover topics, the same in every round or fresh ones (Dirichlet(½) rows)."""

    learners: int
    items: int
    weights: FloatArray  # [topics]
    setting: Setting
    coverage: FloatArray | None = None  # [L, topics]
    dependent = True

    def next(self, rng: np.random.Generator) -> tuple[Request, Arms]:
        """Return the items with their coverage; features are the coverage gain in the first slot."""
        topics = len(self.weights)
        c = self.coverage
        if c is None:
            c = rng.dirichlet(np.full(topics, 0.5), size=(self.learners, self.items))
        x = (2.0 * c - 1.0) / np.sqrt(topics)
        return Request(self.learners, self.items, self.setting.slots, features=x, coverage=c), self

    def success(self, request: Request, items: IntArray) -> FloatArray:
        """Return σ(c̄ᵀu) of each listed item after the items above it."""
        x = features_of(Coverage().pick(request, items))
        return np.where(items != EMPTY, sigmoid(x @ self.weights), 0.0)

    def score(self, request: Request, prefix: IntArray) -> FloatArray:
        """Return c̄ᵀu of every item after the prefix."""
        x = features_of(Coverage().rows(request, prefix, prefix.shape[1]))
        return dot(x, np.broadcast_to(self.weights, (request.learners, len(self.weights))))


@dataclass(frozen=True)
class RewardWorld:
    """A cascade with rewards over fixed arms (from a source of attraction), fresh arms, or arms that cover topics."""

    scenario: Scenario | Scenarios
    budgets: tuple[int, ...]
    items: int
    source: AttractionSource | RowSource | None = None
    weights: FloatArray | None = None  # of fresh arms, or of topics
    coverage: FloatArray | None = None
    covers: bool = False

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world itself: nothing shared is random."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> RewardInstance:
        """Return B replications."""
        return instance(self._arms(streams, rounds), self.scenario, self.budgets)

    def _arms(self, streams: Sequence[np.random.Generator], rounds: int | None) -> Arms:
        B, K = len(streams), max(self.budgets)
        if isinstance(self.source, RowSource):
            setting = row_setting(self.source, Setting(self.items, K, rounds))
            nothing = np.broadcast_to(0.0, (B, self.items))
            return RowArms(Request(B, self.items, K), setting, self.source.draw(streams), nothing)
        if self.source is not None:
            drawn = self.source.draw(streams)
            dim = None if drawn.features is None else drawn.features.shape[-1]
            setting = Setting(self.items, K, rounds, dim, drawn.prior)
            request = Request(B, self.items, K, drawn.features, allowed=drawn.allowed)
            return FixedArms(request, setting, drawn.nu)
        if self.weights is None:
            raise TypeError("fresh arms need weights")
        d = len(self.weights)
        if self.covers:
            setting = Setting(self.items, K, rounds, d, coverage=d, lasting=self.coverage is not None)
            return CoverageArms(B, self.items, self.weights, setting, self.coverage)
        return FreshArms(B, self.items, self.weights, Setting(self.items, K, rounds, d, lasting=False))
