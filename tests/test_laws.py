"""Every policy of the catalogue keeps every law, and policies that break one are found."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop import catalogue
from rankloop.belief import Gaussian, GaussianState
from rankloop.belief.pooled import PooledHybrid
from rankloop.checks import Law, Make, laws, serving
from rankloop.design import Interaction, PerItem
from rankloop.explore import Thompson
from rankloop.feedback import Cascade
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.ranking_policy import RankingPolicy
from rankloop.types import Decision, Evidence, Setting

VARIANTS: list[tuple[str, dict[str, str]]] = [
    *[(entry.id, {}) for entry in catalogue.entries()],
    ("gts", {"prior": "mean"}),
    ("gts", {"prior": "full"}),
    ("lin-ts-ltr", {"mode": "paper"}),
    ("log-ts-ltr", {"mode": "paper"}),
    ("cascade-ucb1", {"feedback": "last-click"}),
    ("cascade-lin-ts", {"feedback": "position-based"}),
    ("gts", {"feedback": "semi-bandit"}),
]


def make(id: str, params: dict[str, str]) -> Make:
    return lambda setting: catalogue.build(id, setting, **params)


def pooled(setting: Setting) -> RankingPolicy[Any]:
    """The hybrid policy with room for more segments than the streams of the laws have."""
    policy: Any = catalogue.build("hybrid", setting)
    own = {field.name: getattr(policy.belief, field.name) for field in fields(policy.belief)}
    pools: RankingPolicy[Any] = replace(policy, belief=PooledHybrid(**{"segments": 4, **own}))
    return pools


def all_laws() -> list[ParameterSet]:
    cases = [pytest.param(law, id=f"hybrid-pooled:{law.name}") for law in laws(pooled, learns=True)]
    for id, params in VARIANTS:
        # A law about learning is about the policy as it is run, not about every way to read clicks.
        learns = catalogue.find(id).learns and "feedback" not in params
        for law in laws(make(id, params), learns=learns):
            name = "-".join([id, *map(str, params.values())])
            cases.append(pytest.param(law, id=f"{name}:{law.name}"))
    return cases


@pytest.mark.parametrize("law", all_laws())
def test_law(law: Law) -> None:
    law.check()


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    id=st.sampled_from([entry.id for entry in catalogue.entries()]),
    every=st.sampled_from([1, 3]),
    aggregate=st.sampled_from(["earliest", "sum"]),
    challenger=st.sampled_from(serving.CHALLENGERS),
)
def test_whatever_is_accepted_can_be_replayed(seed: int, id: str, every: int, aggregate: str, challenger: str) -> None:
    """Any policy, any stream of events, any challenger."""
    params: dict[str, Any] = {"every": every} if every > 1 and catalogue.find(id).feedback != "choice" else {}
    serving.replayed(make(id, params), np.random.default_rng(seed), challenger, aggregate=aggregate)


# Policies that break a law


def gts(belief: Gaussian) -> Policy[GaussianState]:
    return Policy(PerItem(), belief, Thompson(), TopK(), Cascade())


@dataclass(frozen=True)
class CatchesUpInItsOwnWay(Gaussian):
    """Defines both, and they differ: lists that are applied together count twice."""

    def update(self, state: Any, decision: Decision, evidence: Evidence) -> None:
        super().update(state, decision, evidence)

    def catch_up(self, state: Any, decisions: Decision, evidence: Evidence) -> bool:
        super().catch_up(state, decisions, evidence)
        return super().catch_up(state, decisions, evidence)


@dataclass(frozen=True)
class RefusesLate(Gaussian):
    """Refuses in `update` what `check` has let pass: then it is in the log already."""

    def update(self, state: Any, decision: Decision, evidence: Evidence) -> None:
        if (evidence.y > 1.0).any():
            raise ValueError("too much")
        super().update(state, decision, evidence)


@dataclass(frozen=True)
class Remembers(Gaussian):
    """Learns from something that is not in the state, and so in no log."""

    def update(self, state: Any, decision: Decision, evidence: Evidence) -> None:
        state.shift += float(np.random.default_rng().random())
        super().update(state, decision, evidence)


class Scrambles(Interaction):
    """One feature for each item, and no word about where they go when there are more items."""

    def layout(self, width: int) -> None:
        return None


def scrambled(setting: Setting) -> Any:
    whole = catalogue.build("feature-ucr", setting)
    inner: Any = whole.policy  # type: ignore[attr-defined]
    design = Scrambles(inner.design.context, inner.design.one_hot)
    return replace(whole, policy=replace(inner, design=design))  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("policy", "law"),
    [
        (lambda setting: gts(CatchesUpInItsOwnWay(setting.items)), serving.catching_up_equals_single_updates),
        (lambda setting: gts(RefusesLate(setting.items)), serving.accepted_feedback_replays_to_the_same_state),
        (lambda setting: gts(Remembers(setting.items)), serving.accepted_feedback_replays_to_the_same_state),
        (lambda setting: gts(Remembers(setting.items)), serving.every_logged_list_is_reproduced),
        (scrambled, serving.growing_preserves_what_was_learned),
    ],
    ids=["another catch-up", "refused after the commit", "chance of its own", "not decided again", "scrambled"],
)
def test_a_policy_that_breaks_a_law_is_found(policy: Make, law: Any) -> None:
    with pytest.raises((AssertionError, ValueError)):
        law(policy)
