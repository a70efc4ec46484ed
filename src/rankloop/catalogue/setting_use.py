"""Used or refused: a configuration is valid only if some part of the composed policy reads every setting in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np

from rankloop import catalogue
from rankloop.errors import RankloopError, Unsupported
from rankloop.objective import Amount, AnyClick, Clicks, Objective, Revenue, Satisfied
from rankloop.ranking_policy import LearnerState, RankingPolicy
from rankloop.schema import RankerSettings
from rankloop.types import BetaPrior, Setting

NAMES = frozenset(field.name for field in fields(Setting))
OF_POLICY = (
    *("dim", "context", "bias", "prior", "rounds", "coverage"),
    *("rewards", "losses", "termination", "slot_weights", "pooled", "features"),
)
"""Settings of a ranker that only its policy can use; they are None or False unless given."""
NAMED_OTHERWISE = {"pooled": "segments", "features": "dim"}
"""Fields of `Setting` that have another name than the setting of a ranker they follow from."""

OF_LOG = ("dim", "context", "coverage", "features")
"""Settings that define the fields of items and requests: all policies of a log share them, read or not."""


class ObservedSetting(Setting):
    """A setting that records which of its fields were read."""

    __slots__ = ("read",)
    read: set[str]

    @classmethod
    def of(cls, setting: Setting) -> ObservedSetting:
        """Return the same setting with no field read."""
        observed = object.__new__(cls)
        for name in NAMES:
            object.__setattr__(observed, name, object.__getattribute__(setting, name))
        object.__setattr__(observed, "read", set())
        return observed

    def read_as(self, feedback: str) -> ObservedSetting:
        """Return the setting with another feedback model; both record what is read."""
        other = ObservedSetting.of(self)
        object.__setattr__(other, "feedback", feedback)
        object.__setattr__(other, "read", object.__getattribute__(self, "read"))
        return other

    def __getattribute__(self, name: str) -> object:
        """Return an attribute, and record it if it is a field."""
        if name in NAMES:
            object.__getattribute__(self, "read").add(name)
        return object.__getattribute__(self, name)


EVERYTHING = Setting(
    items=5,
    slots=3,
    rounds=1000,
    dim=2,
    prior=BetaPrior(np.ones(5), np.ones(5)),
    bias=np.array([1.0, 0.7, 0.4]),
    context=2,
    coverage=2,
    rewards=np.ones(3),
    losses=np.zeros(4),
    termination=np.array([0.9, 0.6, 0.3]),
    slot_weights=np.array([1.0, 0.7, 0.4]),
    segments=2,
)
"""A setting with everything that a policy may read."""
OBJECTIVES: tuple[Objective, ...] = (
    *(AnyClick(), Clicks(), Amount()),
    *(Satisfied(np.array([0.9, 0.6, 0.3])), Revenue(np.ones(5))),
)
"""Every objective, for the items and slots of that setting."""

Compose = Callable[[Setting], RankingPolicy[LearnerState]]


def composed(compose: Compose, setting: Setting) -> tuple[RankingPolicy[LearnerState], frozenset[str]]:
    """Return the composed policy, and the fields of its setting that the composition has read."""
    observed = ObservedSetting.of(setting)
    policy = compose(observed)
    return policy, frozenset(object.__getattribute__(observed, "read"))


def refuse_unread(settings: RankerSettings, read: frozenset[str], inherited: Collection[str] = ()) -> None:
    """Refuse settings that no part of the policy has read.

    Args:
        settings: of the ranker.
        read: the fields of its setting that the composition has read.
        inherited: settings that belong to the log, which need not be read.
    """
    name = settings.policy
    for setting in OF_POLICY:
        unused = NAMED_OTHERWISE.get(setting, setting) not in read and setting not in inherited
        if getattr(settings, setting) not in (None, False) and unused:
            raise Unsupported(f"{name} does not use ranker.{setting}; leave it out, or choose {_choose(setting)}.")
    features = settings.feature_settings
    if features is not None and features.context and "context" not in (*read, *inherited):
        raise Unsupported(f"{name} does not use ranker.features.context; leave it out, or choose {_choose('context')}.")
    objective = settings.objective
    if objective not in ("any-click", "amount") and "objective" not in (*read, *inherited):
        instead = _choose("objective")
        raise Unsupported(f"{name} does not use ranker.objective '{objective}'; leave it out, or choose {instead}.")


def refuse_unable(settings: RankerSettings, policy: RankingPolicy[LearnerState]) -> None:
    """Refuse settings that require a capability which the policy lacks."""
    name = settings.policy
    if settings.objective == "amount" and not policy.takes_amounts:
        raise Unsupported(
            f"{name} cannot learn amounts (ranker.objective is 'amount'): its belief must be about numbers, and every "
            "slot observed; choose gts or lin-ts-ltr with params.feedback 'semi-bandit' or 'position-based'."
        )
    reward = settings.reward
    if reward is not None and reward.learn == "at-once" and not policy.amends:
        discounted = " with ranker.discount" if settings.discount != 1.0 else ""
        raise Unsupported(
            f"{name}{discounted} cannot add a later event to what it has learned from a list (ranker.reward.learn is"
            " 'at-once'); set ranker.reward.learn to 'at-close', which learns each list once, when its window closes."
        )
    if settings.caps is not None and not policy.keeps_caps:
        raise Unsupported(f"{name} has a planner that keeps no caps; leave out ranker.caps.")
    if settings.explore_from or settings.explore_daily is not None:
        limit = "explore_from" if settings.explore_from else "explore_daily"
        if not policy.explores:
            raise Unsupported(f"{name} never explores; leave out ranker.{limit}.")
        if policy.greedy() is None:
            raise Unsupported(
                f"{name} has no estimates, and so no list that it believes best; leave out ranker.{limit}."
            )


def _choose(setting: str) -> str:
    """Return the policies of the catalogue that use a setting, as text."""
    users = [entry.id for entry in catalogue.entries() if NAMED_OTHERWISE.get(setting, setting) in read_by(entry.id)]
    return f"one of {', '.join(users)}" if users else "another policy"


def unread_by(policy: str, params: Mapping[str, object], settings: Iterable[str]) -> list[str]:
    """Return those of a ranker's settings that another policy of the catalogue would refuse as unread."""
    read = read_by(policy, **params)
    used = {*read, *OF_LOG}
    named = (name for name in settings if name in (*OF_POLICY, "objective"))
    return [name for name in named if NAMED_OTHERWISE.get(name, name) not in used]


def read_by(id: str, **params: object) -> frozenset[str]:
    """Return the fields of a setting that a policy of the catalogue reads, given all of them, for some objective."""
    read: set[str] = set()
    for objective in OBJECTIVES:
        with suppress(RankloopError):  # an objective that the policy refuses
            setting = replace(EVERYTHING, objective=objective)
            read |= composed(lambda setting: catalogue.build(id, setting, **params), setting)[1]
    return frozenset(read)
