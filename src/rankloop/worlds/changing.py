"""Click worlds whose attractions change from round to round, by the visitor's context or by the items' features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rankloop.types import BetaPrior, Request, Setting
from rankloop.worlds.click_models import ClickModel
from rankloop.worlds.click_world import ClickInstance, ClickVisit, click_instance
from rankloop.worlds.goals import Goal
from rankloop.worlds.row_attraction import RowSource, RowTastes, row_setting


@dataclass(frozen=True)
class ChangingInstance:
    """B replications; each round is a stationary `ClickInstance` with its own features, contexts and attractions."""

    start: ClickInstance  # everything that stays; its attractions are not used
    tastes: RowTastes

    @property
    def setting(self) -> Setting:
        """Return what policies know."""
        return self.start.setting

    def visit(self, rng: np.random.Generator) -> ClickVisit:
        """Draw what changes with the round, then the visitors, as in a stationary world."""
        now = self.tastes.next(rng)
        request = replace(self.start.request, features=now.features, context=now.context)
        return replace(self.start, nu=now.nu, request=request).visit(rng)


@dataclass(frozen=True)
class ChangingWorld:
    """A click model with attractions that are functions of each round's rows."""

    model: ClickModel
    source: RowSource
    k: int
    prior: BetaPrior | None = None  # given to policies
    goal: Goal | None = None  # None: the click model's own value

    def prepare(self, rng: np.random.Generator) -> Self:
        """Return the world itself: nothing shared is random."""
        return self

    def draw(self, streams: Sequence[np.random.Generator], rounds: int | None) -> ChangingInstance:
        """Draw the weights and lasting features of each replication from its own stream."""
        B, L = len(streams), self.source.items
        tastes = self.source.draw(streams)
        setting = row_setting(self.source, Setting(L, self.k, rounds, prior=self.prior))
        request = Request(B, L, self.k)
        nothing = np.broadcast_to(0.0, (B, L))
        return ChangingInstance(click_instance(self.model, self.goal, nothing, request, setting, streams), tastes)
