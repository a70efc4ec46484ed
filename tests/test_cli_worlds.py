"""Worlds and policies on the command line: errors and descriptions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rankloop import catalogue
from rankloop.cli.main import main
from rankloop.errors import InvalidInput
from rankloop.worlds import KINDS, from_spec

Capture = pytest.CaptureFixture[str]
ABSENT = "not given"
NAN, INF = float("nan"), float("inf")

X = [[0.6, 0.8], [-1.0, 0.0], [0.0, 1.0]]
CASCADE: dict[str, Any] = {"kind": "cascade-rewards", "attraction": [0.5, 0.4, 0.3], "budget": 2}
LINEAR: dict[str, Any] = {"kind": "cascade-rewards", "features": X, "weights": [1, -1], "budget": 2}
FRESH: dict[str, Any] = {"kind": "cascade-rewards", "fresh": {"items": 4, "dim": 2}, "weights": [1, -1], "budget": 2}
COVER: dict[str, Any] = {
    "kind": "coverage-rewards",
    "coverage": [[0.9, 0.1], [0.2, 0.7], [0.5, 0.5]],
    "weights": [1, -1],
    "budget": 2,
}
NEW_COVER: dict[str, Any] = FRESH | {"kind": "coverage-rewards"}
CHOICE: dict[str, Any] = {"kind": "choice", "attraction": [0.5, 0.4, 0.3], "bias": [1.0, 0.5]}
ITEM: dict[str, Any] = {"kind": "item-position", "alpha": [0.1, 0.2, 0.3], "beta": X, "k": 2}
SIZES: dict[str, Any] = {"kind": "item-position", "items": 3, "dim": 2, "k": 2}
PIVOT: dict[str, Any] = {"kind": "pivot", "pivot": 2, "chunk": 5, "budget": 2}  # and a file
OWN: dict[str, Any] = {"rewards": [1, 0.5], "losses": [0, -0.1, -0.2]}
ALL = (CASCADE, LINEAR, FRESH, COVER, NEW_COVER, CHOICE, ITEM, SIZES, PIVOT)


def without(spec: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in spec.items() if name not in names}


def labelled(folder: Path, **arrays: Any) -> str:
    rng = np.random.default_rng(1)
    content = {"x": rng.standard_normal((30, 2)), "label": np.arange(30) % 4} | arrays
    np.savez(folder / "labelled.npz", **{name: value for name, value in content.items() if value is not None})
    return str(folder / "labelled.npz")


def run(folder: Path, world: dict[str, Any], *policies: Any, rounds: int = 4, out: bool = False) -> int:
    if world.get("kind") == "pivot" and "file" not in world:
        world = world | {"file": labelled(folder)}
    spec = {"world": world, "policies": list(policies or ["random"]), "rounds": rounds, "replications": 2}
    (folder / "spec.yaml").write_text(yaml.safe_dump(spec))
    written = ["--out", str(folder / "out")] if out else []
    return main(["simulate", str(folder / "spec.yaml"), *written, "--jobs", "1", "--quiet"])


def refused(folder: Path, capsys: Capture, world: dict[str, Any], *policies: Any, rounds: int = 4) -> str:
    """The only line, on stderr; nothing printed, nothing written."""
    assert run(folder, world, *policies, rounds=rounds, out=True) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rankloop: ")
    assert err.endswith(".\n")
    assert err.count("\n") == 1
    assert not (folder / "out").exists()
    return err.removeprefix("rankloop: ").rstrip("\n")


def says(line: str, field: str, value: str, accepted: str) -> None:
    assert line.startswith(f"{field} is "), line
    given, _, wanted = line.removeprefix(f"{field} is ").partition("; accepted: ")
    assert given in ("missing", "None") if value is ABSENT else value in given, line
    assert accepted in wanted, line


@pytest.mark.parametrize("world", ALL, ids=lambda world: str(world["kind"]))
def test_the_worlds_used_below_are_valid(world: dict[str, Any], tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, world) == 0
    assert capsys.readouterr().err == ""


# Worlds


BUDGETED = (CASCADE, FRESH, COVER, PIVOT)

WRONG: list[tuple[dict[str, Any], str, str, str]] = [
    # the world, the field as reported, the value as reported, what is accepted
    *[(w | {"budget": -1}, "world.budget", "-1", "a whole number of at least 0") for w in BUDGETED],
    *[(w | {"budget": 1.5}, "world.budget", "1.5", "a whole number of at least 0") for w in BUDGETED],
    *[(w | {"budget": [2, -3, 1]}, "world.budget[1]", "-3", "a whole number of at least 0") for w in BUDGETED],
    (CASCADE | {"budget": [2, "two"]}, "world.budget[1]", "'two'", "a whole number of at least 0"),
    (CASCADE | {"budget": [2, 1.5]}, "world.budget[1]", "1.5", "a whole number of at least 0"),
    (CASCADE | {"budget": [2, [1]]}, "world.budget[1]", "[1]", "a whole number of at least 0"),
    (CASCADE | {"budget": []}, "world.budget", "[]", "a whole number of at least 0"),
    (CASCADE | {"budget": "two"}, "world.budget", "'two'", "a whole number of at least 0"),
    (CASCADE | {"budget": True}, "world.budget", "True", "a whole number of at least 0"),
    (CASCADE | {"budget": None}, "world.budget", "None", "a whole number of at least 0"),
    (without(CASCADE, "budget"), "world.budget", ABSENT, "world needs budget"),
    *[
        (w | OWN | {"rewards": [0.5, 1]}, "world.rewards", "[0.5, 1]", "rewards that do not increase down the list")
        for w in BUDGETED
    ],
    *[
        (w | OWN | {"losses": [0, 0.1, -0.2]}, "world.losses", "[0, 0.1, -0.2]", "losses that are not positive")
        for w in BUDGETED
    ],
    (CASCADE | OWN | {"rewards": [1]}, "world.rewards", "a list of 1", "a list of at least 2"),
    (CASCADE | OWN | {"losses": [0, -1]}, "world.losses", "a list of 2", "a list of at least 3"),
    (CASCADE | OWN | {"budget": [1, 3]}, "world.rewards", "a list of 2", "a list of at least 3"),
    (CASCADE | OWN | {"rewards": [1, "x"]}, "world.rewards[1]", "'x'", "a finite number of at least 0"),
    (CASCADE | OWN | {"rewards": [1, -1]}, "world.rewards[1]", "-1", "a finite number of at least 0"),
    (CASCADE | OWN | {"rewards": [1, NAN]}, "world.rewards[1]", "nan", "a finite number of at least 0"),
    (CASCADE | OWN | {"losses": [0, -INF, 0]}, "world.losses[1]", "-inf", "a finite number"),
    (CASCADE | OWN | {"losses": 0}, "world.losses", "0", "a list"),
    (CASCADE | without(OWN, "losses"), "world.losses", ABSENT, "a list"),
    (CASCADE | without(OWN, "rewards"), "world.rewards", ABSENT, "a list"),
    *[
        (w | OWN | {"scenario": "vanilla"}, "world.scenario", "'vanilla'", "either a scenario, or rewards and losses")
        for w in BUDGETED
    ],
    *[(w | {"scenario": "linear"}, "world.scenario", "'linear'", "one of vanilla, exponential") for w in BUDGETED],
    (CASCADE | {"scenario": 1}, "world.scenario", "1", "one of vanilla, exponential"),
    (CASCADE | {"k": 2}, "world.k", "2", "only the fields budget, attraction"),
    # cascade-rewards: where the arms come from
    (without(CASCADE, "attraction"), "world.attraction", ABSENT, "attraction, or features and weights, or fresh"),
    (CASCADE | {"attraction": [0.5, 1.5]}, "world.attraction[1]", "1.5", "a number in [0, 1]"),
    (CASCADE | {"features": X[:2]}, "world.features", "2 rows", "3 rows, one for each item"),
    (LINEAR | {"weights": [1]}, "world.weights", "a list of 1", "a list of 2"),
    (LINEAR | {"weights": "high"}, "world.weights", "'high'", "a list"),
    (LINEAR | {"features": [[1, 2], [3]]}, "world.features", "[[1, 2], [3]]", "rows of numbers, all of one length"),
    (without(LINEAR, "features"), "world.features", ABSENT, "rows of numbers"),
    (LINEAR | {"attraction": [0.5, 0.4, 0.3]}, "world.attraction", "[0.5, 0.4, 0.3]", "weights"),
    (FRESH | {"attraction": [0.5, 0.4, 0.3]}, "world.attraction", "[0.5, 0.4, 0.3]", "fresh"),
    (FRESH | {"features": X}, "world.features", "[[0.6, 0.8]", "fresh"),
    *[(without(w, "weights"), "world.weights", ABSENT, "") for w in (FRESH, NEW_COVER, COVER)],
    *[(w | {"weights": [1, 2, 3]}, "world.weights", "a list of 3", "a list of 2") for w in (FRESH, NEW_COVER, COVER)],
    *[(w | {"weights": [1, NAN]}, "world.weights[1]", "nan", "a finite number") for w in (FRESH, NEW_COVER, COVER)],
    (FRESH | {"fresh": 5}, "world.fresh", "5", "a mapping with items, dim"),
    (FRESH | {"fresh": {"items": 4}}, "world.fresh.dim", ABSENT, "world.fresh needs items, dim"),
    (FRESH | {"fresh": {"items": 0, "dim": 2}}, "world.fresh.items", "0", "a whole number of at least 1"),
    (FRESH | {"fresh": {"items": 4, "dim": 2.5}}, "world.fresh.dim", "2.5", "a whole number of at least 1"),
    (FRESH | {"fresh": {"items": 4, "dim": 2, "k": 1}}, "world.fresh.k", "1", "only the fields items, dim"),
    # coverage-rewards
    (COVER | {"coverage": [[0.9, 0.1], [0.2, 1.7]]}, "world.coverage[1][1]", "1.7", "a number in [0, 1]"),
    (COVER | {"coverage": [[0.9, -0.1], [0.2, 0.7]]}, "world.coverage[0][1]", "-0.1", "a number in [0, 1]"),
    (COVER | {"coverage": [[0.9, NAN], [0.2, 0.7]]}, "world.coverage[0][1]", "nan", ""),
    (COVER | {"coverage": [[0.9], [0.2, 0.7]]}, "world.coverage", "[[0.9], [0.2, 0.7]]", "all of one length"),
    (COVER | {"coverage": 0.5}, "world.coverage", "0.5", "rows of numbers"),
    (without(COVER, "coverage"), "world.coverage", ABSENT, ""),
    (COVER | {"fresh": {"items": 3, "dim": 2}}, "world.coverage", "[[0.9, 0.1]", "fresh"),
    # choice
    (CHOICE | {"bias": [1.0, 0.0]}, "world.bias[1]", "0.0", "a number in (0, 1]"),
    (CHOICE | {"bias": [1.2, 0.5]}, "world.bias[0]", "1.2", "a number in (0, 1]"),
    (CHOICE | {"bias": [1.0, -0.5]}, "world.bias[1]", "-0.5", "a number in (0, 1]"),
    (CHOICE | {"bias": [NAN]}, "world.bias[0]", "nan", "a number in (0, 1]"),
    (CHOICE | {"bias": 1.0}, "world.bias", "1.0", "a list, each entry a number in (0, 1]"),
    (CHOICE | {"bias": []}, "world.bias", "[]", "a list, each entry a number in (0, 1]"),
    (CHOICE | {"bias": [0.5] * 4}, "world.bias", "4", "3"),
    (CHOICE | {"attraction": [0.5, 0.0]}, "world.attraction[1]", "0.0", "a number in (0, 1]"),
    (CHOICE | {"attraction": [0.5, 1.01]}, "world.attraction[1]", "1.01", "a number in (0, 1]"),
    (CHOICE | {"attraction": [-0.5, 0.3]}, "world.attraction[0]", "-0.5", "a number in (0, 1]"),
    (CHOICE | {"features": X[:2]}, "world.features", "2 rows", "3 rows, one for each item"),
    (without(CHOICE, "bias"), "world.bias", ABSENT, "world needs attraction, bias"),
    (CHOICE | {"k": 2}, "world.k", "2", "only the fields attraction, bias"),
    # item-position
    (ITEM | {"objective": "revenue"}, "world.prices", ABSENT, "3 prices of at least 0"),
    (ITEM | {"objective": "revenue", "prices": [1, -2, 3]}, "world.prices[1]", "-2", "a finite number of at least 0"),
    (ITEM | {"objective": "revenue", "prices": [1, 2]}, "world.prices", "a list of 2", "a list of 3"),
    (ITEM | {"objective": "revenue", "prices": 3}, "world.prices", "3", "a list, each entry a finite number"),
    (ITEM | {"objective": "revenue", "prices": [1, "x", 3]}, "world.prices[1]", "'x'", "a finite number of at least 0"),
    (ITEM | {"prices": [1, 2, 3]}, "world.prices", "[1, 2, 3]", "prices only with the objective revenue"),
    (
        ITEM | {"objective": "clicks", "prices": [1, 2, 3]},
        "world.prices",
        "[1, 2, 3]",
        "only with the objective revenue",
    ),
    (ITEM | {"objective": "profit"}, "world.objective", "'profit'", "one of any-click, clicks, revenue"),
    (ITEM | {"objective": 1}, "world.objective", "1", "one of any-click, clicks, revenue"),
    (ITEM | {"alpha": [0.1, 0.2]}, "world.beta", "3 rows", "2 rows, one for each entry of alpha"),
    (ITEM | {"beta": X[:2]}, "world.beta", "2 rows", "3 rows, one for each entry of alpha"),
    (ITEM | {"beta": [[1, 2], [3], [4, 5]]}, "world.beta", "[[1, 2], [3], [4, 5]]", "all of one length"),
    (ITEM | {"alpha": [0.1, NAN, 0.3]}, "world.alpha[1]", "nan", "a finite number"),
    (ITEM | {"alpha": 0.1}, "world.alpha", "0.1", "a list"),
    (ITEM | {"items": 4}, "world.items", "4", "3, as alpha and beta have it"),
    (ITEM | {"dim": 3}, "world.dim", "3", "2, as alpha and beta have it"),
    (without(ITEM, "beta"), "world.beta", ABSENT, "both alpha and beta, or items and dim"),
    (without(ITEM, "alpha"), "world.alpha", ABSENT, "both alpha and beta, or items and dim"),
    (SIZES | {"alpha": [0.1, 0.2, 0.3]}, "world.beta", ABSENT, "both alpha and beta, or items and dim"),
    (SIZES | {"beta": X}, "world.alpha", ABSENT, "both alpha and beta, or items and dim"),
    (without(SIZES, "dim"), "world.dim", ABSENT, "a whole number of at least 1"),
    (without(SIZES, "items"), "world.items", ABSENT, "a whole number of at least 1"),
    (SIZES | {"items": 0}, "world.items", "0", "a whole number of at least 1"),
    (SIZES | {"dim": 1.5}, "world.dim", "1.5", "a whole number of at least 1"),
    *[(w | {"k": 4}, "world.k", "4", "a whole number from 1 to 3") for w in (ITEM, SIZES)],
    *[(w | {"k": 0}, "world.k", "0", "a whole number from 1 to 3") for w in (ITEM, SIZES)],
    (without(ITEM, "k"), "world.k", ABSENT, "world needs k"),
    (ITEM | {"features": X[:2]}, "world.features", "2 rows", "3 rows, one for each item"),
    (ITEM | {"intercept": "x"}, "world.intercept", "'x'", "a finite number"),
    (ITEM | {"intercept": [1, 2]}, "world.intercept", "a list of 2", "a list of 3"),
    (ITEM | {"intercept": [1, INF, 2]}, "world.intercept[1]", "inf", "a finite number"),
    # pivot
    (PIVOT | {"pivot": 9}, "world.pivot", "9", "one of the labels"),
    (PIVOT | {"pivot": "two"}, "world.pivot", "'two'", "one of the labels"),
    (PIVOT | {"pivot": None}, "world.pivot", "None", "one of the labels"),
    (PIVOT | {"pivot": [1, 2]}, "world.pivot", "[1, 2]", "one of the labels"),
    (PIVOT | {"pivot": [i % 4 for i in range(30)]}, "world.pivot", "[0, 1, 2", "one of the labels"),
    (PIVOT | {"pivot": {"label": 2}}, "world.pivot", "{'label': 2}", "one of the labels"),
    (PIVOT | {"pivot": NAN}, "world.pivot", "nan", "one of the labels"),
    (PIVOT | {"pivot": 10**400}, "world.pivot", "1000", "one of the labels"),
    (PIVOT | {"chunk": 0}, "world.chunk", "0", "a whole number from 1 to 30"),
    (PIVOT | {"chunk": 31}, "world.chunk", "31", "a whole number from 1 to 30"),
    (PIVOT | {"chunk": 2.5}, "world.chunk", "2.5", "a whole number from 1 to 30"),
    (PIVOT | {"file": "nowhere.npz"}, "world.file", "'nowhere.npz'", "the path of an .npz file with x"),
    (PIVOT | {"file": 5}, "world.file", "5", "the path of an .npz file with x"),
    (PIVOT | {"file": None}, "world.file", "None", "the path of an .npz file with x"),
]


@pytest.mark.parametrize(
    ("world", "field", "value", "accepted"), WRONG, ids=[f"{w['kind']}-{f}-{v}" for w, f, v, _ in WRONG]
)
def test_a_wrong_value_is_named(
    world: dict[str, Any], field: str, value: str, accepted: str, tmp_path: Path, capsys: Capture
) -> None:
    says(refused(tmp_path, capsys, world), field, value, accepted)


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": None},
        {"label": None},
        {"x": np.zeros(30)},
        {"x": np.zeros((29, 2))},
        {"x": np.full((30, 2), NAN)},
        {"x": np.array([["a", "b"]] * 30)},
        {"x": np.zeros((0, 2)), "label": np.zeros(0)},
        {"x": np.zeros((30, 0))},
        {"label": np.zeros((30, 2))},
        {"label": np.array(["2"] * 30)},
        {"coverage": np.zeros(30)},
        {"coverage": np.zeros((29, 3))},
        {"coverage": np.full((30, 3), NAN)},
        {"coverage": np.full((30, 3), 1.5)},
        {"coverage": np.full((30, 3), -0.5)},
    ],
    ids=lambda arrays: ", ".join(f"{n} {None if a is None else (a.shape, a.ravel()[:1])}" for n, a in arrays.items()),
)
def test_arrays_that_are_not_labelled_vectors_are_refused(
    arrays: dict[str, Any], tmp_path: Path, capsys: Capture
) -> None:
    line = refused(tmp_path, capsys, PIVOT | {"file": labelled(tmp_path, **arrays)})
    says(line, "world.file", "labelled.npz", "an .npz file with x (n x d), label (n) and, optionally, coverage")


def test_a_file_that_is_not_npz_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "text.npz").write_text("x, label\n")
    line = refused(tmp_path, capsys, PIVOT | {"file": str(tmp_path / "text.npz")})
    says(line, "world.file", "text.npz", "the path of an .npz file with x")


def test_more_rounds_than_chunks_are_refused(tmp_path: Path, capsys: Capture) -> None:
    """30 vectors make six chunks of 5."""
    assert run(tmp_path, PIVOT, rounds=6) == 0
    capsys.readouterr()
    (tmp_path / "again").mkdir()
    says(refused(tmp_path / "again", capsys, PIVOT, rounds=7), "rounds", "7", "at most 6")


@pytest.mark.parametrize("world", [CASCADE, FRESH, COVER, NEW_COVER, PIVOT], ids=lambda world: str(world["kind"]))
@pytest.mark.parametrize("budget", [0, [0], [2, 0, 1]], ids=str)
def test_a_budget_of_zero_is_legal(budget: Any, world: dict[str, Any], tmp_path: Path, capsys: Capture) -> None:
    assert run(tmp_path, world | {"budget": budget, "scenario": "exponential"}) == 0, capsys.readouterr().err
    capsys.readouterr()


# Policies


@pytest.mark.parametrize(
    ("world", "policy", "field", "value", "accepted"),
    [
        (FRESH, {"id": "ind", "alpha": "practice"}, "alpha", "'practice'", "a finite number of at least 0, or theory"),
        (FRESH, {"id": "ind", "alpha": -1}, "alpha", "-1", "a finite number of at least 0"),
        (FRESH, {"id": "ind", "alpha": True}, "alpha", "True", "a finite number of at least 0"),
        (FRESH, {"id": "ind", "alpha": [1]}, "alpha", "[1]", "a finite number of at least 0"),
        (FRESH, {"id": "ind", "alpha": None}, "alpha", "None", "a finite number of at least 0"),
        (NEW_COVER, {"id": "dep", "alpha": "Theory"}, "alpha", "'Theory'", "a finite number of at least 0, or theory"),
        (FRESH, {"id": "gl-cdcm", "alpha": "theory"}, "alpha", "'theory'", "a finite number of at least 0"),
        (FRESH, {"id": "gl-cdcm", "lam": 0}, "lam", "0", "a finite number above 0"),
        (FRESH, {"id": "ind", "rate": 0}, "rate", "0", "a finite number above 0"),
        (FRESH, {"id": "ind", "D": 0}, "D", "0", "a finite number above 0"),
        (FRESH, {"id": "c-ucb1", "c": -1}, "c", "-1", "a finite number of at least 0"),
        (FRESH, {"id": "eps-ind", "eps": -0.1}, "eps", "-0.1", "0"),
        (FRESH, {"id": "eps-ind", "eps": 1.5}, "eps", "1.5", "1"),
        (FRESH, {"id": "eps-ind", "alpha": 1}, "alpha", "1", "only the parameters eps, rate, D"),
        (SIZES, {"id": "ucr", "T0": 0}, "T0", "0", "a whole number of at least 1"),
        (SIZES, {"id": "ucr", "T0": 2.5}, "T0", "2.5", "a whole number of at least 1"),
        (SIZES, {"id": "ucr", "fit": "exact"}, "fit", "'exact'", "one of online, mle"),
        (SIZES, {"id": "g-mle", "fit": 1}, "fit", "1", "one of online, mle"),
        (SIZES, {"id": "feature-ucr", "fit": "MLE"}, "fit", "'MLE'", "one of online, mle"),
        (SIZES, {"id": "ucr", "xi": -1}, "xi", "-1", "a finite number of at least 0"),
        (SIZES, {"id": "ucr", "ridge": 0}, "ridge", "0", "a finite number above 0"),
        (SIZES, {"id": "g-mle", "xi": 1}, "xi", "1", "only the parameters T0, ridge, fit"),
        (CHOICE, {"id": "epoch-ucb-upb", "estimator": "map"}, "estimator", "'map'", "one of mle, exclude, printed"),
        (CHOICE, {"id": "epoch-ucb-upb-star", "estimator": 5}, "estimator", "5", "one of mle, exclude, printed"),
        (CHOICE, {"id": "pbm-ucb", "eps": -1}, "eps", "-1", "a finite number of at least 0"),
        (CHOICE, {"id": "epoch-ucb", "eps": 1}, "eps", "1", "no parameters at all"),
        (CHOICE, {"id": "mnl-bandit", "K": 1}, "K", "1", "no parameters at all"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_a_wrong_parameter_is_named(
    world: dict[str, Any],
    policy: dict[str, Any],
    field: str,
    value: str,
    accepted: str,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    says(refused(tmp_path, capsys, world, "random", policy), f"policies[1].{field}", value, accepted)


@pytest.mark.parametrize(
    ("world", "id", "words"),
    [
        (CASCADE, "ind", "needs item features, and this world offers none"),
        (LINEAR, "dep", "needs items that cover topics, and this world offers none"),
        (LINEAR, "ucr", "needs a context of each visitor, and this world offers none"),
        (LINEAR, "pbm-ucb", "needs known position biases, and this world offers none"),
        (ITEM, "epoch-ucb", "needs known position biases, and this world offers none"),
        (FRESH, "toprank", "learns about each item, and in this world no item returns"),
        (PIVOT, "gts", "learns about each item, and in this world no item returns"),
        (CHOICE, "feature-ucr", "needs a context of each visitor, and this world offers none"),
    ],
)
def test_an_error_names_what_a_policy_lacks(
    world: dict[str, Any], id: str, words: str, tmp_path: Path, capsys: Capture
) -> None:
    line = refused(tmp_path, capsys, world, "random", id)
    assert line.startswith(f"policies[1]: {id} {words}")


@pytest.mark.parametrize("id", ["epoch-ucb", "mnl-bandit", "ucr"])
def test_policies_around_policies_read_clicks_in_their_own_way(id: str, tmp_path: Path, capsys: Capture) -> None:
    world = SIZES if id == "ucr" else CHOICE
    line = refused(tmp_path, capsys, world, "random", {"id": id, "feedback": "cascade"})
    assert line.startswith(f"policies[1]: {id} reads clicks in its own way only")


def test_the_alpha_of_the_paper_is_accepted(tmp_path: Path, capsys: Capture) -> None:
    theory = [{"id": id, "alpha": "theory"} for id in ("ind", "dep")]
    assert run(tmp_path, NEW_COVER, *theory) == 0, capsys.readouterr().err
    assert "dep" in capsys.readouterr().out


# Listings


FIELDS = {
    "cascade-rewards": "attraction features weights fresh budget scenario rewards losses",
    "coverage-rewards": "coverage fresh weights budget scenario rewards losses",
    "choice": "attraction bias",
    "item-position": "alpha beta items dim k objective prices intercept",
    "pivot": "file pivot chunk budget scenario rewards losses",
}
NEW_IDS = [
    "ind",
    "dep",
    "eps-ind",
    "c-ucb1",
    "gl-cdcm",
    "ucr",
    "g-mle",
    "feature-ucr",
    "epoch-ucb",
    "epoch-ucb-w",
    "epoch-ucb-upb",
    "epoch-ucb-upb-star",
    "mnl-bandit",
    "pbm-ucb",
]


@pytest.mark.parametrize("kind", FIELDS)
def test_a_world_is_shown_with_every_field_that_it_takes(kind: str, capsys: Capture) -> None:
    with pytest.raises(InvalidInput) as unknown:
        from_spec({"kind": kind, "nonsense": 1})
    accepted = set(unknown.value.accepted.removeprefix("only the fields ").split(", "))
    assert set(FIELDS[kind].split()) <= accepted
    assert main(["worlds", kind]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{kind}\n")
    for field in accepted:
        assert re.search(rf"\b{field}\b[^:\n]*:", out), field


def test_every_kind_is_listed(capsys: Capture) -> None:
    assert main(["worlds"]) == 0
    out = capsys.readouterr().out
    assert [row.split()[0] for row in out.splitlines()[1:]] == list(KINDS)
    assert set(FIELDS) <= set(KINDS)


@pytest.mark.parametrize("id", NEW_IDS)
def test_a_policy_is_shown_with_formula_reference_parameters_and_needs(id: str, capsys: Capture) -> None:
    entry = catalogue.find(id)
    assert main(["policies", id]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{id}  (paper: {entry.paper}; feedback: {entry.feedback})\n")
    assert entry.paper in ("long-sequences", "select-rank", "choice")
    assert entry.doc in out
    assert "Reference: " in out
    for param in entry.params:
        assert re.search(rf"^  {param.name} = .+: .+$", out, re.MULTILINE)
    assert out.splitlines()[-1] == f"Requires of the world: {', '.join(entry.needs)}."


@pytest.mark.parametrize(
    ("id", "defaults"),
    [
        ("ind", {"alpha": 0.1, "rate": 4, "D": 5}),
        ("dep", {"alpha": 0.1, "rate": 4, "D": 5}),
        ("eps-ind", {"eps": 0.1}),
        ("c-ucb1", {"c": 1}),
        ("gl-cdcm", {"alpha": 0.1, "lam": 1}),
        ("ucr", {"xi": 1, "T0": 5, "ridge": 1, "v_ridge": 1, "bonus": 1}),
        ("feature-ucr", {"bonus": 3}),
        ("epoch-ucb-upb", {"estimator": "mle"}),
        ("epoch-ucb-upb-star", {"estimator": "mle"}),
        ("pbm-ucb", {"eps": 0}),
    ],
)
def test_parameters_default_to_the_contract(id: str, defaults: dict[str, Any]) -> None:
    resolved = catalogue.resolve(id, {})
    assert {name: resolved[name] for name in defaults} == defaults
