"""What paper `prior` claims about its synthetic settings, on smaller runs of them with fixed seeds.

Comparisons are paired: all policies of a run meet the same worlds and visitors. Each asserted margin is
several standard errors of the paired difference away from its edge. The full runs are in docs/explanation/results.md.
"""

from __future__ import annotations

from typing import Any

import pytest

from rankloop import Result, simulate

pytestmark = pytest.mark.slow


def run(attraction: dict[str, Any], policies: list[Any], rounds: int, **world: Any) -> Result:
    spec = {"kind": "cascade", "attraction": attraction, "k": 3, **world}
    return simulate(policies, spec, rounds=rounds, replications=64, seed=1)


def final(result: Result, label: str) -> float:
    return float(result[label].final.mean())


def test_noncontextual_gts_keeps_up_without_the_prior() -> None:
    attraction = {"beta": {"items": 30, "a": {"integers": [1, 10]}, "b": 10}}
    result = run(attraction, ["ts-beta", "gts", "ts-cascade", "cascade-ucb1", "toprank"], rounds=3000)
    informed = final(result, "ts-beta")
    assert final(result, "gts") < 1.4 * informed
    assert final(result, "ts-cascade") > 1.4 * informed
    assert final(result, "cascade-ucb1") > 2.0 * informed
    assert final(result, "toprank") > 3.0 * informed


def test_a_wrong_prior_hurts_those_who_trust_it() -> None:
    attraction = {"beta": {"items": 30, "a": 1, "b": 10}}
    policies = ["ts-beta", "gts", {"id": "gts", "prior": "mean", "label": "gts-pmean"}]
    right = run(attraction, policies, rounds=1000, prior={"a": 1, "b": 10})
    wrong = run(attraction, policies, rounds=1000, prior={"a": 9, "b": 2})
    assert final(right, "ts-beta") < 0.8 * final(right, "gts")
    assert final(wrong, "ts-beta") > 1.3 * final(wrong, "gts-pmean")
    assert final(wrong, "gts") == final(right, "gts")
    assert abs(final(wrong, "gts-pmean") / final(right, "gts-pmean") - 1.0) < 0.1


def test_linear_setting_rewards_features_and_practical_noise() -> None:
    attraction = {"linear": {"items": 30, "dim": 5}}
    result = run(attraction, ["lin-ts-ltr", "gts", "cascade-lin-ucb", "cascade-woful"], rounds=3000)
    best = final(result, "lin-ts-ltr")
    assert final(result, "gts") > 2.0 * best
    assert final(result, "cascade-lin-ucb") > 5.0 * best
    assert final(result, "cascade-woful") > 20.0 * best


def test_logistic_setting_rewards_the_right_model() -> None:
    attraction = {"logistic": {"items": 30, "dim": 5}}
    rivals = ["gts", "ts-beta", "ts-cascade", "cascade-ucb1", "cascade-kl-ucb", "cascade-lin-ucb", "toprank"]
    result = run(attraction, ["log-ts-ltr", *rivals], rounds=3000)
    for rival in rivals:
        assert final(result, rival) > 1.2 * final(result, "log-ts-ltr"), rival
