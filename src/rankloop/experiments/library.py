"""All experiments, by id."""

from __future__ import annotations

from fnmatch import fnmatchcase

from rankloop.errors import InvalidInput
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.papers import beyond, cascade, choice, long_sequences, prior, select_rank

PAPERS = {
    "cascade": "Cascading Bandits for Large-Scale Recommendation Problems (Zong et al., 2016)",
    "prior": "Overcoming Prior Misspecification in Online Learning to Rank (Azizi et al., 2023)",
    "long-sequences": "On Learning to Rank Long Sequences with Contextual Bandits (Santara et al., 2021)",
    "select-rank": "Adaptively Learning to Select-Rank in Online Platforms (Wang et al., 2024)",
    "choice": "Learning to Rank under Multinomial Logit Choice (Grant and Leslie, 2023)",
}
ALL: tuple[Experiment, ...] = (
    *cascade.EXPERIMENTS,
    *prior.EXPERIMENTS,
    *beyond.PRIOR,
    *long_sequences.EXPERIMENTS,
    *beyond.LONG_SEQUENCES,
    *select_rank.EXPERIMENTS,
    *beyond.SELECT_RANK,
    *choice.EXPERIMENTS,
    *beyond.CHOICE,
)


def chosen(patterns: tuple[str, ...]) -> tuple[Experiment, ...]:
    """Return the experiments that match ids or patterns such as `choice/*`, in the order of the library."""
    for pattern in patterns:
        if not any(fnmatchcase(e.id, pattern) for e in ALL):
            near = ", ".join(e.id for e in ALL if e.paper == pattern.split("/")[0]) or ", ".join(PAPERS)
            raise InvalidInput("id", pattern, f"an id or a pattern such as choice/*; there are {near}")
    return tuple(e for e in ALL if any(fnmatchcase(e.id, pattern) for pattern in patterns))
