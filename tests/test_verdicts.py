"""Verdicts of the reproduction: a run that is smaller than the paper's decides nothing, and constants are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankloop.experiments import library, page, report, runner, sensitivity, verdicts
from rankloop.experiments.claims import Claim, ClaimVerdict, CloseTo, LowerRegret
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import Curves
from rankloop.experiments.outcome import Key, Outcome, Panel
from rankloop.experiments.sensitivity import Sensitivity
from rankloop.simulator import PolicySpec
from small_worlds import CASCADE

TOO_SMALL = ClaimVerdict.SMALL
PLAYERS: tuple[dict[str, Any], ...] = ({"id": "gts", "label": "GTS"}, {"id": "cascade-ucb1", "label": "UCB1"})
PANEL = Panel({"world": "given"}, "given", CASCADE, PLAYERS, 40, 6, chunk=6)


def experiment(quick: Panel, full: Panel = PANEL, **fields: Any) -> Experiment:
    """An experiment of one panel whose two claims are decided by any run of several replications."""
    return Experiment(
        "prior/verdicts",
        "One world",
        lambda small: (quick if small else full,),
        Curves(),
        (
            Claim("Never far", "Section 1", "given", CloseTo("GTS", "UCB1", 99.0)),
            Claim("Always far", "Section 2", "given", LowerRegret("GTS", ("UCB1",), times=99.0)),
        ),
        **fields,
    )


def run(of: Experiment, folder: Path, *, quick: bool = True, extra: tuple[PolicySpec, ...] = ()) -> Outcome:
    outcome = runner.run(of, folder, quick=quick, extra=extra)
    assert [claim.test.judge(outcome).verdict for claim in of.claims] == [ClaimVerdict.HOLDS, ClaimVerdict.FAILS]
    return outcome


def found(of: Experiment, outcome: Outcome) -> list[ClaimVerdict]:
    return [finding.verdict for _, finding in verdicts.judge(of, outcome)]


@pytest.mark.parametrize(
    "smaller",
    [
        replace(PANEL, rounds=30),
        replace(PANEL, policies=(*PLAYERS, {"id": "ts-cascade", "label": "TS"})),
        replace(PANEL, policies=({**PLAYERS[0], "sigma": 0.4}, PLAYERS[1])),
        replace(PANEL, world=CASCADE | {"k": 3}),
        replace(PANEL, key={"world": "another"}),
    ],
    ids=["rounds", "policies", "parameters", "world", "panel"],
)
def test_a_run_that_differs_from_the_papers_decides_nothing(tmp_path: Path, smaller: Panel) -> None:
    """The tests are decided, the verdicts are not; the full version of the same experiment is decided."""
    of = experiment(smaller)
    assert found(of, run(of, tmp_path)) == [TOO_SMALL, TOO_SMALL]
    assert found(of, run(of, tmp_path, quick=False)) == [ClaimVerdict.HOLDS, ClaimVerdict.FAILS]


def test_fewer_replications_may_decide(tmp_path: Path) -> None:
    of = experiment(replace(PANEL, replications=4, chunk=2))
    assert found(of, run(of, tmp_path)) == [ClaimVerdict.HOLDS, ClaimVerdict.FAILS]


def test_a_full_run_that_is_shorter_than_the_papers_decides_nothing(tmp_path: Path) -> None:
    """Where the data set at hand is smaller than the paper's, even the full version ends early."""
    of = experiment(PANEL, horizon=41)
    assert found(of, run(of, tmp_path, quick=False)) == [TOO_SMALL, TOO_SMALL]
    enough = experiment(PANEL, horizon=40)
    assert TOO_SMALL not in found(enough, run(enough, tmp_path, quick=False))


def test_a_policy_of_ones_own_does_not_make_a_run_smaller(tmp_path: Path) -> None:
    def own(setting: Any) -> Any:
        from rankloop import catalogue

        return catalogue.build("gts", setting)

    of = experiment(PANEL)
    mine = PolicySpec(id="own", label="Mine", function=own)
    assert TOO_SMALL not in found(of, run(of, tmp_path, quick=False, extra=(mine,)))


def test_what_does_not_simulate_is_never_too_small(tmp_path: Path) -> None:
    (densities,) = library.chosen(("prior/fig7",))
    assert TOO_SMALL not in found(densities, runner.run(densities, tmp_path, quick=True))


@pytest.mark.parametrize("of", library.ALL, ids=lambda of: str(of.id))
def test_a_quick_version_decides_only_with_the_full_versions_panels(of: Experiment) -> None:
    """For every experiment of the library: its quick version decides if and only if all but replications is equal."""
    full = {str(sorted(p.key.items())): p for p in of.panels(False)}

    def same(panel: Panel) -> bool:
        twin = full.get(str(sorted(panel.key.items())))
        return twin is not None and (panel.world, panel.policies) == (twin.world, twin.policies)

    decides = all(
        same(p) and p.rounds >= max(of.horizon or 0, full[str(sorted(p.key.items()))].rounds) for p in of.panels(True)
    )
    played = Outcome(of.id, True, tuple((p, None) for p in of.panels(True)))  # type: ignore[misc]
    assert verdicts.too_small(of, played) is not decides


# Constants that a paper does not print


def test_the_table_of_constants_shows_every_value_beside_another_policy(tmp_path: Path) -> None:
    wide = replace(PANEL, policies=(*PLAYERS, {"id": "gts", "sigma": 1.0, "label": "GTS, σ = 1"}))
    key: Key = {"world": "given"}
    constant = Sensitivity("σ of GTS", (("0.5", "GTS", key), ("1", "GTS, σ = 1", {})), "UCB1")
    of = experiment(wide, wide, sensitivity=(constant,))
    outcome = run(of, tmp_path)
    rows = sensitivity.table(of.sensitivity, outcome).rows
    assert [row[:2] for row in rows] == [("σ of GTS", "0.5"), ("σ of GTS", "1")]
    assert rows[1][4].startswith("UCB1 / GTS, σ = 1 = ")
    report.write(of, outcome, tmp_path / of.id)
    kept = report.read(tmp_path / of.id)
    assert kept is not None
    assert kept.sensitivity == sensitivity.table(of.sensitivity, outcome).markdown() + "\n"


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_constants_of_the_library_are_policies_of_its_panels(quick: bool) -> None:
    for of in library.ALL:
        for constant in of.sensitivity:
            for _, label, key in constant.values:
                (panel,) = (p for p in of.panels(quick) if all(p.key.get(name) == x for name, x in key.items()))
                there = {spec["label"] for spec in panel.policies if not isinstance(spec, PolicySpec)}
                assert {label, constant.beside} <= there, of.id


# What a full run costs


def test_the_cost_of_a_full_run_follows_from_the_rates_of_the_quick_one(tmp_path: Path) -> None:
    """Each policy took 9 s for 30 rounds of 6 replications: 40 rounds of 60 replications take 3 * 9 * 40/30 * 10."""
    of = experiment(replace(PANEL, rounds=30), replace(PANEL, replications=60))
    outcome = runner.run(of, tmp_path, quick=True)
    ((panel, result),) = outcome.parts
    nine = replace(
        result,
        traces=tuple(replace(trace, seconds=9.0) for trace in result),
        random=replace(result.random, seconds=9.0),
    )
    slow = replace(outcome, parts=((panel, nine),))
    assert report.full_cost(of, slow) == "a full run takes about 6 minutes of one process at these rates"
    assert report.full_cost(of, replace(slow, quick=False)) == ""


def test_the_page_says_which_runs_are_quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = experiment(replace(PANEL, rounds=30))
    monkeypatch.setattr(library, "ALL", (of,))

    def written(quick: bool) -> str:
        outcome = runner.run(of, tmp_path, quick=quick)
        report.write(of, outcome, tmp_path / of.id)
        page.write(tmp_path, tmp_path / "page.md")
        return (tmp_path / "page.md").read_text()

    small, full = written(True), written(False)
    assert "| prior | 1 of 1 | 1 | 0 | 0 | 2 | 0 |" in small
    assert "Quick versions: prior/verdicts." in small
    assert "| prior | 1 of 1 | 0 | 1 | 0 | 0 | 1 |" in full
    assert "Quick versions" not in full
