"""A rule, a belief and a planner of one's own, each in one file, have everything that the package's parts have."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import catalogue, checks, connect
from rankloop.catalogue import registry
from rankloop.errors import Unsupported
from rankloop.explore import Greedy
from rankloop.propensity import DETERMINISTIC, MONTE_CARLO, of
from rankloop.types import BetaPrior, Request, Setting

PARTS = ("own-rule", "own-belief", "own-planner")
SETTING = Setting(items=5, slots=3, prior=BetaPrior(np.ones(5), np.ones(5)))


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policies of the three files, in a catalogue of this test's own."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    for part in PARTS:
        name = part.replace("-", "_")
        catalogue.load(f"tests.own_parts.{name.removeprefix('own_')}:{name}")


@pytest.mark.parametrize("id", PARTS)
def test_all_laws_hold(id: str) -> None:
    """Replay, growth, propensities, priors, forgetting, settings: whatever is asked of the catalogue."""
    held = []
    for law in checks.laws(partial(catalogue.build, id)):
        law.check()
        held.append(law.name)
    assert {
        "propensities-match-sampled-frequencies",
        "forgetting-keeps-the-prior",
        "priors-order-the-first-lists",
    } <= set(held)


@pytest.mark.parametrize("id", PARTS)
def test_it_can_forget_and_takes_priors(id: str) -> None:
    policy = catalogue.build(id, SETTING)
    assert (policy.forgets, policy.takes_priors, policy.replaces_priors) == (True, True, True)
    assert catalogue.build(id, SETTING, discount=0.9).init(1).t.tolist() == [1]


def test_its_propensities_are_those_of_its_parts() -> None:
    kinds = {id: catalogue.build(id, SETTING).list_distribution().kind for id in PARTS}
    assert kinds == {"own-rule": DETERMINISTIC, "own-belief": MONTE_CARLO, "own-planner": MONTE_CARLO}
    greedy = catalogue.build("own-planner", SETTING).greedy()
    assert greedy is not None
    state: Any = catalogue.build("own-planner", SETTING).init(1)
    state.belief.shift[0] = [1.0, 5.0, 3.0, 2.0, 4.0]
    decision = greedy.decide(state, Request(1, 5, 3), np.random.default_rng(0))
    assert decision.items.tolist() == [[4, 1, 2]]
    assert greedy.list_distribution().kind == DETERMINISTIC
    likely = of(greedy, state, decision)
    assert likely is not None
    assert likely.kind == DETERMINISTIC


@pytest.mark.parametrize("id", PARTS)
def test_it_serves_learns_and_comes_back(id: str, tmp_path: Path) -> None:
    """With scores of another ranker, forgetting and propensities, through a file that is opened again."""
    settings: dict[str, Any] = {"discount": 0.9} | ({"prior": (1.0, 2.0)} if id == "own-rule" else {})
    items = [{"id": f"item-{i}", "prior": {"score": 0.1 + 0.2 * i, "strength": 300.0}} for i in range(4)]
    with connect(str(tmp_path / "log.db")) as shop:
        shop.put_ranker("shop", policy=id, slots=3, **settings)
        shop.put_items("shop", items)
        first = shop.rank("shop", propensity=200)
        assert set(first.ids) == {"item-3", "item-2", "item-1"}
        assert first.propensity is not None
        for n in range(12):
            ranking = shop.rank("shop")
            assert shop.feedback("shop", ranking.id, clicked=[n % 3]).status == "learned"
        overview = shop.ranker("shop")
    with connect(str(tmp_path / "log.db")) as shop:
        assert shop.ranker("shop") == overview
        assert overview.decisions == 13
        assert shop.feedback("shop", shop.rank("shop").id, clicked=[0]).status == "learned"


def test_parts_that_do_not_fit_are_refused_with_a_sentence() -> None:
    from rankloop.belief import Counts, Ridge
    from rankloop.design import Coverage, PerItem, PerSlot, Shared
    from rankloop.explore import Bound, Thompson, ucb1
    from rankloop.feedback import Cascade
    from rankloop.objective import AnyClick
    from rankloop.plan import Assignment, TopK
    from rankloop.policy import Policy

    with pytest.raises(Unsupported, match="Shared makes rows of 3 features, and the belief Ridge takes rows of 4"):
        Policy(Shared(3), Ridge(4), Thompson(), TopK(), Cascade())
    with pytest.raises(Unsupported, match="PerItem makes rows of 0 features, and the belief Ridge takes rows of 4"):
        Policy(PerItem(), Ridge(4), Thompson(), TopK(), Cascade())
    with pytest.raises(Unsupported, match="Shared makes rows of 3 features, and the belief Counts takes rows of 0"):
        Policy(Shared(3), Counts(5), Bound(ucb1), TopK(), Cascade())
    with pytest.raises(Unsupported, match="PerSlot scores items by the slot, and the planner TopK uses one score"):
        Policy(PerSlot(3), Ridge(3, models=2), Thompson(), TopK(), Cascade())
    with pytest.raises(Unsupported, match="Coverage scores items by the items above, and the planner Assignment"):
        Policy(Coverage(3), Ridge(3), Greedy(), Assignment(AnyClick()), Cascade())
