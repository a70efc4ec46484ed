"""Every policy of the catalogue keeps every law."""

from __future__ import annotations

import pytest
from _pytest.mark import ParameterSet

from rankloop import catalogue
from rankloop.checks import Law, Make, laws

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


def all_laws() -> list[ParameterSet]:
    cases = []
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
