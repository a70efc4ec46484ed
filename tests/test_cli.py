"""The command line: output, files and errors."""

from __future__ import annotations

import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from rankloop import Result, __version__, catalogue
from rankloop.cli.main import main
from rankloop.worlds import KINDS
from small_worlds import matrix_file

EXAMPLE = """\
world:    {kind: cascade, attraction: [0.5, 0.4, 0.3, 0.2, 0.1], k: 2}
policies:
  - cascade-ucb1
  - {id: gts, sigma: 0.5, label: GTS}
rounds: 60
replications: 6
seed: 7
"""
FILES = ["regret.png", "regret.svg", "result.json", "trace.parquet"]

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(EXAMPLE)
    return path


def simulate(*arguments: object) -> int:
    return main(["simulate", *map(str, arguments)])


def timeless(text: str) -> Any:
    """A result without what depends on the clock."""
    whole = json.loads(text)
    for policy in whole["policies"]:
        del policy["seconds"], policy["rounds_per_second"]
    return whole


# Simulate


def test_the_example_prints_a_table(example: Path, capsys: Capture) -> None:
    assert simulate(example, "--jobs", 1) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for word in ("policy", "final regret", "cascade-ucb1", "GTS", "±", "%", "≈ not credibly worse", "6 replications"):
        assert word in out
    assert list(example.parent.iterdir()) == [example]


def test_json_is_all_that_is_printed(example: Path, capsys: Capture) -> None:
    assert simulate(example, "--json", "--jobs", 1) == 0
    out, err = capsys.readouterr()
    assert err == ""
    whole = json.loads(out)
    assert list(whole) == ["spec", "version", "policies"]
    assert whole["spec"] == yaml.safe_load(EXAMPLE)
    assert whole["version"] == __version__
    assert [(p["id"], p["label"]) for p in whole["policies"]] == [("cascade-ucb1", "cascade-ucb1"), ("gts", "GTS")]
    for p in whole["policies"]:
        assert set(p) == {"id", "label", "params", "regret", "reward", "seconds", "rounds_per_second"}
        assert set(p["regret"]) == set(p["reward"]) == {"round", "mean", "sem"}
        assert len(p["regret"]["round"]) >= 20
        assert p["regret"]["round"][-1] == 60


def test_out_writes_four_files_and_nothing_else(example: Path, capsys: Capture) -> None:
    out = example.parent / "new" / "out"
    assert simulate(example, "--out", out, "--json", "--jobs", 1) == 0
    printed = capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert json.loads((out / "result.json").read_text()) == json.loads(printed)
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (out / "regret.svg").read_text()
    loaded = Result.load(out)
    assert [trace.label for trace in loaded] == ["cascade-ucb1", "GTS"]
    assert loaded["GTS"].regret.shape == (60, 6)


def test_out_may_be_a_folder_that_exists_and_is_named(example: Path, capsys: Capture) -> None:
    out = example.parent / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert simulate(example, "--out", out, "--jobs", 1) == 0
    assert str(out) in capsys.readouterr().out
    assert sorted(path.name for path in out.iterdir()) == sorted([*FILES, "notes.txt"])


def test_one_job_and_two_give_the_same_json(example: Path, capsys: Capture) -> None:
    printed = []
    for jobs in (1, 2):
        assert simulate(example, "--json", "--jobs", jobs) == 0
        printed.append(timeless(capsys.readouterr().out))
    assert printed[0] == printed[1]


def test_one_replication_prints_json_without_nan(example: Path, capsys: Capture) -> None:
    example.write_text(EXAMPLE.replace("replications: 6", "replications: 1"))
    assert simulate(example, "--json", "--jobs", 1) == 0
    out = capsys.readouterr().out
    assert "NaN" not in out
    assert set(json.loads(out)["policies"][0]["regret"]["sem"]) == {None}


def test_a_separate_process_gives_the_same_json(example: Path, capsys: Capture) -> None:
    """And prints nothing on standard error."""
    assert simulate(example, "--json", "--jobs", 1) == 0
    command = [sys.executable, "-m", "rankloop", "simulate", example.name, "--json", "--jobs", "1"]
    run = subprocess.run(command, cwd=example.parent, capture_output=True, text=True, check=True)
    assert timeless(run.stdout) == timeless(capsys.readouterr().out)
    assert run.stderr == ""


def test_a_matrix_world_is_read_from_its_file(tmp_path: Path, capsys: Capture) -> None:
    W = np.random.default_rng(1).random((40, 6)) < 0.3
    world = {"kind": "matrix", "file": matrix_file(tmp_path, W), "dim": 2, "k": 2}
    spec = {"world": world, "policies": ["cascade-lin-ts"], "rounds": 20, "replications": 2}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    assert simulate(tmp_path / "spec.yaml", "--jobs", 1) == 0
    assert "cascade-lin-ts" in capsys.readouterr().out


def test_a_parameter_may_be_a_list_by_item(tmp_path: Path, capsys: Capture) -> None:
    """`policies ts-beta` says that a and b may be lists of one for each item."""
    given = EXAMPLE.replace("  - cascade-ucb1\n", "  - {id: ts-beta, a: [5, 4, 3, 2, 1], b: 5}\n")
    (tmp_path / "spec.yaml").write_text(given)
    assert simulate(tmp_path / "spec.yaml", "--jobs", 1) == 0, capsys.readouterr().err


# Listings


def test_policies_lists_every_id_with_its_sentence(capsys: Capture) -> None:
    assert main(["policies"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["id", "paper", "feedback", "what", "it", "does"]
    assert [row.split()[0] for row in rows] == [entry.id for entry in catalogue.entries()]
    for row, entry in zip(rows, catalogue.entries(), strict=True):
        assert row.endswith(f"{entry.summary} {entry.advice}".strip())


@pytest.mark.parametrize("entry", catalogue.entries(), ids=lambda entry: str(entry.id))
def test_a_policy_is_shown_with_formula_and_parameters(entry: catalogue.PolicyEntry, capsys: Capture) -> None:
    assert main(["policies", entry.id]) == 0
    out = capsys.readouterr().out
    assert out.startswith(entry.id)
    assert entry.doc in out
    assert len(entry.doc.split("\n\n")) >= 2, "a sentence, then the rule"
    for param in entry.params:
        assert re.search(rf"^  {param.name} = .+: .+$", out, re.MULTILINE)
    for need in entry.needs:
        assert need in out.splitlines()[-1]


def test_worlds_lists_every_kind(capsys: Capture) -> None:
    assert main(["worlds"]) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == list(KINDS)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("cascade", ["attraction", "k", "features", "prior"]),
        ("dependent-click", ["attraction", "termination", "k", "features", "prior"]),
        ("position-based", ["attraction", "bias", "k", "features", "prior"]),
        ("matrix", ["file", "items", "dim", "k"]),
    ],
)
def test_a_world_is_shown_with_its_fields(kind: str, fields: list[str], capsys: Capture) -> None:
    assert main(["worlds", kind]) == 0
    out = capsys.readouterr().out
    assert out.startswith(kind)
    for name in fields:
        assert re.search(rf"\b{name}\b.*:", out)


def test_version(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rankloop {__version__}\n"


# Refusals: exit code 2, one line that says what was wrong, nothing printed or written


def one_line(capsys: Capture) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("rankloop: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err.removeprefix("rankloop: ").rstrip()


def refused(folder: Path, capsys: Capture, content: str | bytes, *arguments: object) -> str:
    """The one line with which this spec is refused."""
    path = folder / "spec.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    before = sorted(folder.rglob("*"))
    assert simulate(path, "--out", folder / "out", "--jobs", 1, *arguments) == 2
    assert sorted(folder.rglob("*")) == before, "nothing written"
    return one_line(capsys)


def spec_with(path: str, value: Any) -> dict[str, Any]:
    """The example with another value in one place, such as `world.k` or `policies.1.sigma`."""
    spec: Any = copy.deepcopy(yaml.safe_load(EXAMPLE))
    *way, last = path.split(".")
    at = spec
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[int(last) if last.isdigit() else last] = value
    return dict(spec)


NAN, INF = float("nan"), float("inf")
BETA = {"items": 5, "a": 1, "b": 10}
PBM = {"kind": "position-based", "attraction": [0.5, 0.4, 0.3], "bias": [0.9, 0.8]}
DCM = {"kind": "dependent-click", "attraction": [0.5, 0.4, 0.3], "termination": [0.9, 0.8]}
ROWS = "a list of rows of numbers, all of one length"

WRONG: list[tuple[str, Any, str, str, str]] = [
    # where, what is given there, the field as reported, the value as reported, what is accepted
    ("policies.0", "cascade-ucb2", "policies[0].id", "'cascade-ucb2'", "one of random, cascade-ucb1"),
    ("policies.1.id", "GTS", "policies[1].id", "'GTS'", "one of random, cascade-ucb1"),
    ("policies.1.id", 5, "policies[1].id", "5", "one of random"),
    ("policies.1.id", None, "policies[1].id", "None", "one of random"),
    ("policies.1.id", ["gts"], "policies[1].id", "['gts']", "one of random"),
    ("policies.1.id", {"gts": 1}, "policies[1].id", "{'gts': 1}", "one of random"),
    ("policies.0", 5, "policies[0]", "5", "a policy id, a mapping with 'id', or a function"),
    ("policies.0", None, "policies[0]", "None", "a policy id, a mapping with 'id', or a function"),
    ("policies.0", {"sigma": 1}, "policies[0]", "{'sigma': 1}", "a policy id, a mapping with 'id', or a function"),
    ("policies", "gts", "policies", "'gts'", "a list of policy ids"),
    ("policies", [], "policies", "[]", "a list of policy ids"),
    ("policies", {"id": "gts"}, "policies", "{'id': 'gts'}", "a list of policy ids"),
    ("policies", None, "policies", "None", "a list of policy ids"),
    ("policies.1.sigma", "0.5", "policies[1].sigma", "'0.5'", "a finite number above 0"),
    ("policies.1.sigma", True, "policies[1].sigma", "True", "a finite number above 0"),
    ("policies.1.sigma", [0.5], "policies[1].sigma", "[0.5]", "a finite number above 0"),
    ("policies.1.sigma", None, "policies[1].sigma", "None", "a finite number above 0"),
    ("policies.1.sigma", 0, "policies[1].sigma", "0", "a finite number above 0"),
    ("policies.1.sigma", NAN, "policies[1].sigma", "nan", "a finite number above 0"),
    ("policies.1.mu0", INF, "policies[1].mu0", "inf", "a finite number"),
    ("policies.1.mu0", 10**400, "policies[1].mu0", "1000", "a finite number"),
    ("policies.1.prior", "half", "policies[1].prior", "'half'", "one of none, mean, full"),
    ("policies.1.prior", 1, "policies[1].prior", "1", "one of none, mean, full"),
    ("policies.1.feedback", "clicks", "policies[1].feedback", "'clicks'", "one of cascade, last-click"),
    ("policies.1.feedback", ["cascade"], "policies[1].feedback", "['cascade']", "one of cascade, last-click"),
    ("policies.1.colour", "red", "policies[1].colour", "'red'", "only the parameters mu0, sigma0, sigma, prior"),
    ("policies.0", {"id": "random", "a": 1}, "policies[0].a", "1", "no parameters at all"),
    ("policies.0", {"id": "ts-beta", "a": [1, 2], "b": 1}, "policies[0].a", "a list of 2", "a list of 5"),
    ("policies.0", {"id": "ts-beta", "a": [1, "x"], "b": 1}, "policies[0].a[1]", "'x'", "a finite number above 0"),
    ("policies.1.label", 5, "policies[1].label", "5", "a text"),
    ("policies.1.label", " ", "policies[1].label", "' '", "a text"),
    ("policies.1.label", "cascade-ucb1", "policies[1].label", "'cascade-ucb1'", "no other policy"),
    ("colour", "red", "colour", "'red'", "only the fields world, policies, rounds, replications, seed"),
    ("world.colour", "red", "world.colour", "'red'", "only the fields attraction, k, features, prior"),
    ("world.bias", [0.5, 0.5], "world.bias", "[0.5, 0.5]", "only the fields attraction, k"),
    ("world", 5, "world", "5", "a mapping with"),
    ("world", "cascade", "world", "'cascade'", "a mapping with"),
    ("world", None, "world", "None", "a mapping with"),
    ("world", ["cascade"], "world", "['cascade']", "a mapping with"),
    ("world", {"k": 2}, "world", "{'k': 2}", "'kind', one of cascade"),
    ("world.kind", "waterfall", "world.kind", "'waterfall'", "one of cascade, dependent-click"),
    ("world.kind", 5, "world.kind", "5", "one of cascade, dependent-click"),
    ("world.kind", ["cascade"], "world.kind", "['cascade']", "one of cascade, dependent-click"),
    ("world", {"kind": "cascade", "k": 2}, "world.attraction", "missing", "world needs attraction, k"),
    ("world.attraction", "high", "world.attraction", "'high'", "a list, each entry a number in [0, 1]"),
    ("world.attraction", 0.5, "world.attraction", "0.5", "a list, each entry a number in [0, 1]"),
    ("world.attraction", [], "world.attraction", "[]", "a list, each entry a number in [0, 1]"),
    ("world.attraction.1", "0.4", "world.attraction[1]", "'0.4'", "a number in [0, 1]"),
    ("world.attraction.1", 1.2, "world.attraction[1]", "1.2", "a number in [0, 1]"),
    ("world.attraction.1", -0.1, "world.attraction[1]", "-0.1", "a number in [0, 1]"),
    ("world.attraction.1", NAN, "world.attraction[1]", "nan", "a number in [0, 1]"),
    ("world.attraction.1", True, "world.attraction[1]", "True", "a number in [0, 1]"),
    ("world.attraction.1", None, "world.attraction[1]", "None", "a number in [0, 1]"),
    ("world.attraction.1", 10**400, "world.attraction[1]", "1000", "a number in [0, 1]"),
    ("world.attraction", {}, "world.attraction", "{}", "one generator: beta, linear, logistic or judged"),
    ("world.attraction", {"gamma": BETA}, "world.attraction", "'gamma'", "one of beta, linear, logistic"),
    ("world.attraction", {"beta": 5}, "world.attraction.beta", "5", "a mapping with items, a, b"),
    ("world.attraction", {"beta": BETA | {"c": 1}}, "world.attraction.beta.c", "1", "only the fields items, a, b"),
    ("world.attraction", {"beta": BETA | {"a": 0}}, "world.attraction.beta.a", "0", "a finite number above 0"),
    ("world.attraction", {"beta": BETA | {"a": "x"}}, "world.attraction.beta.a", "'x'", "a finite number above 0"),
    ("world.attraction", {"beta": BETA | {"a": [1, 2]}}, "world.attraction.beta.a", "a list of 2", "a list of 5"),
    (
        "world.attraction",
        {"beta": BETA | {"b": {"integers": [3, 2]}}},
        "world.attraction.beta.b.integers[1]",
        "2",
        "a whole number of at least 3",
    ),
    (
        "world.attraction",
        {"beta": BETA | {"b": {"integers": 3}}},
        "world.attraction.beta.b.integers",
        "3",
        "two whole numbers, lowest and highest",
    ),
    (
        "world.attraction",
        {"linear": {"items": 5, "dim": 0}},
        "world.attraction.linear.dim",
        "0",
        "a whole number of at least 1",
    ),
    (
        "world.attraction",
        {"logistic": {"items": 2.5, "dim": 2}},
        "world.attraction.logistic.items",
        "2.5",
        "a whole number of at least 1",
    ),
    ("world.k", 6, "world.k", "6", "a whole number from 1 to 5"),
    ("world.k", 0, "world.k", "0", "a whole number from 1 to 5"),
    ("world.k", 2.0, "world.k", "2.0", "a whole number from 1 to 5"),
    ("world.k", "2", "world.k", "'2'", "a whole number from 1 to 5"),
    ("world.k", True, "world.k", "True", "a whole number from 1 to 5"),
    ("world", PBM | {"bias": [0.9, 1.1]}, "world.bias[1]", "1.1", "a number in [0, 1]"),
    ("world", PBM | {"bias": 0.9}, "world.bias", "0.9", "a list, each entry a number in [0, 1]"),
    ("world", PBM | {"bias": [0.5] * 4}, "world.k", "4", "a whole number from 1 to 3"),
    ("world", PBM | {"k": 3}, "world.k", "3", "2, the length of world.bias"),
    ("world", PBM | {"k": 2.0}, "world.k", "2.0", "a whole number"),
    ("world", PBM | {"k": True, "bias": [0.9]}, "world.k", "True", "a whole number"),
    ("world", DCM | {"termination": [0.9, -0.1]}, "world.termination[1]", "-0.1", "a number in [0, 1]"),
    ("world", DCM | {"termination": "0.9"}, "world.termination", "'0.9'", "a list, each entry a number in [0, 1]"),
    ("world", DCM | {"k": 1}, "world.k", "1", "2, the length of world.termination"),
    ("world.features", [[1.0], [2.0], [NAN], [4.0], [5.0]], "world.features[2][0]", "nan", "a finite number"),
    ("world.features", [[1.0], [2.0], [3.0], [INF], [5.0]], "world.features[3][0]", "inf", "a finite number"),
    ("world.features", [[1.0], [2.0]], "world.features", "2 rows", "5 rows, one for each item"),
    ("world.features", [[1.0], [2.0], [3.0, 3.0], [4.0], [5.0]], "world.features", "[[1.0], [2.0]", ROWS),
    ("world.features", [1, 2, 3, 4, 5], "world.features[0]", "1", "a list, each entry a finite number"),
    ("world.features", "x", "world.features", "'x'", ROWS),
    ("world.features", [["1"], ["2"], ["3"], ["4"], ["5"]], "world.features", "'1'", "number"),
    ("world.features", [[True], [False], [True], [True], [True]], "world.features", "True", "number"),
    ("world.features", [[10**400], [2], [3], [4], [5]], "world.features", "1000", "number"),
    ("world.prior", 5, "world.prior", "5", "a mapping with a, b"),
    ("world.prior", {"a": 1}, "world.prior.b", "missing", "world.prior needs a, b"),
    ("world.prior", {"a": 1, "b": -1}, "world.prior.b", "-1", "a finite number above 0"),
    ("world.prior", {"a": 1, "b": [1, 2]}, "world.prior.b", "a list of 2", "a list of 5"),
    ("world.prior", {"a": {"integers": [1, 2]}, "b": 1}, "world.prior.a", "integers", "a number or a list"),
    ("rounds", 0, "rounds", "0", "a whole number of at least 1"),
    ("rounds", 10.0, "rounds", "10.0", "a whole number of at least 1"),
    ("rounds", "many", "rounds", "'many'", "a whole number of at least 1"),
    ("rounds", True, "rounds", "True", "a whole number of at least 1"),
    ("rounds", 10**30, "rounds", "1000", "a whole number"),
    ("replications", 0, "replications", "0", "a whole number of at least 1"),
    ("replications", None, "replications", "None", "a whole number of at least 1"),
    ("replications", [5], "replications", "[5]", "a whole number of at least 1"),
    ("seed", -1, "seed", "-1", "a whole number of at least 0"),
    ("seed", "x", "seed", "'x'", "a whole number of at least 0"),
    ("chunk", 0, "chunk", "0", "a whole number of at least 1"),
]


@pytest.mark.parametrize(
    ("where", "given", "field", "value", "accepted"),
    WRONG,
    ids=[f"{where}={str(given)[:24]}->{field}" for where, given, field, _, _ in WRONG],
)
def test_a_wrong_value_is_named(
    where: str, given: Any, field: str, value: str, accepted: str, tmp_path: Path, capsys: Capture
) -> None:
    line = refused(tmp_path, capsys, yaml.safe_dump(spec_with(where, given)))
    said, _, offered = line.partition("; accepted: ")
    assert said.startswith(field)
    assert re.match(r"(\[\d+\])* is ", said.removeprefix(field)), "the field, or an entry of it"
    assert value in said.removeprefix(field)
    assert accepted in offered


@pytest.mark.parametrize("name", ["world", "policies", "rounds", "replications"])
def test_a_missing_field_is_named(name: str, tmp_path: Path, capsys: Capture) -> None:
    spec = yaml.safe_load(EXAMPLE)
    del spec[name]
    assert refused(tmp_path, capsys, yaml.safe_dump(spec)).startswith(f"{name} is missing; accepted: a value")


@pytest.mark.parametrize("where", ["world.a\nb", "a\nb", "policies.1.a\nb"])
def test_a_name_of_two_lines_is_reported_on_one(where: str, tmp_path: Path, capsys: Capture) -> None:
    refused(tmp_path, capsys, yaml.safe_dump(spec_with(where, 1)))


@pytest.mark.parametrize(
    ("id", "needs"),
    [
        *[(entry.id, "item features") for entry in catalogue.entries() if "features" in entry.needs],
        *[(entry.id, "a Beta prior") for entry in catalogue.entries() if "prior" in entry.needs],
    ],
)
def test_an_error_names_what_a_policy_requires_of_the_world(
    id: str, needs: str, tmp_path: Path, capsys: Capture
) -> None:
    line = refused(tmp_path, capsys, yaml.safe_dump(spec_with("policies", ["random", id])))
    assert line.startswith(f"policies[1]: {id} needs {needs}, and this world offers none")


@pytest.mark.parametrize("prior", ["mean", "full"])
def test_a_parameter_that_needs_a_prior_says_so(prior: str, tmp_path: Path, capsys: Capture) -> None:
    line = refused(tmp_path, capsys, yaml.safe_dump(spec_with("policies.1.prior", prior)))
    assert line.startswith("policies[1]: gts")
    assert "prior" in line


def test_position_based_feedback_needs_biases(tmp_path: Path, capsys: Capture) -> None:
    line = refused(tmp_path, capsys, yaml.safe_dump(spec_with("policies.1.feedback", "position-based")))
    assert line.startswith("policies[1]: gts with feedback 'position-based' needs known position biases")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("- cascade\n- gts\n", "spec is ['cascade', 'gts']; accepted: a mapping with world, policies"),
        ("", "spec is missing; accepted: a mapping with world, policies"),
        ("just words\n", "spec is 'just words'; accepted: a mapping with world, policies"),
        ("world: [1, 2\n", "valid YAML (line 2: "),
        ("a: 1\n\tb: 2\n", "valid YAML (line 2: "),
        ("a: 1\n---\nb: 2\n", "valid YAML (line 2: "),
        ("a: !python/object:os.system 1\n", "valid YAML (line 1: "),
        ("a: \x00\n", "valid YAML"),
        (bytes(range(256)), "not UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not UTF-8 text"),
        ('seed: !!int "abc"\n', "valid YAML"),
        ("[" * 3000, "valid YAML"),
    ],
    ids=lambda x: repr(x)[:20],
)
def test_a_file_that_is_not_a_spec_is_refused(
    content: str | bytes, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    line = refused(tmp_path, capsys, content)
    assert line.startswith("spec is ")
    assert reason in line


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path, capsys: Capture) -> None:
    for path, reason in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "directory")):
        assert simulate(path, "--out", tmp_path / "out") == 2
        line = one_line(capsys)
        assert line.startswith("spec is ")
        assert path.name in line
        assert reason in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("jobs", [0, -1])
def test_jobs_must_be_at_least_one(jobs: int, tmp_path: Path, capsys: Capture) -> None:
    line = refused(tmp_path, capsys, EXAMPLE, f"--jobs={jobs}")
    assert re.fullmatch(rf"(--)?jobs is {jobs}; accepted: a whole number of at least 1\.", line)


def test_out_must_be_a_folder(example: Path, capsys: Capture) -> None:
    taken = example.parent / "taken"
    taken.write_text("mine")
    for out in (taken, taken / "below"):
        assert simulate(example, "--out", out, "--jobs", 1) == 2
        line = one_line(capsys)
        assert line.startswith("--out is ")
        assert out.name in line
        assert "a folder that can be written" in line
    assert taken.read_text() == "mine"
    assert len(list(example.parent.iterdir())) == 2


def bad_files(folder: Path) -> dict[str, str]:
    """Files that are no matrix of users and items, each for a reason of its own."""
    matrix_file(folder, np.array([[2, 1], [0, 1], [1, 1], [1, 0]]), "twos.npz")
    matrix_file(folder, np.array([[np.nan, 1], [0, 1], [1, 1], [1, 0]]), "nan.npz")
    matrix_file(folder, np.array([["a", "b"]] * 4), "words.npz")
    matrix_file(folder, np.ones(8), "vector.npz")
    matrix_file(folder, np.ones((1, 8)), "one-user.npz")
    matrix_file(folder, np.zeros((4, 4), dtype=[("x", np.int64)]), "records.npz")
    np.savez(folder / "unnamed.npz", X=np.ones((4, 4)))
    np.save(folder / "array.npy", np.ones((4, 4)))
    (folder / "empty.npz").write_bytes(b"")
    (folder / "text.npz").write_text("hello")
    (folder / "cut.npz").write_bytes((folder / "unnamed.npz").read_bytes()[:100])
    for name in ("W", "W.npy"):
        with zipfile.ZipFile(folder / f"raw-{name}.npz", "w") as archive:
            archive.writestr(name, b"hello")
    np.savez_compressed(folder / "spoiled.npz", W=np.random.default_rng(0).integers(0, 2, (200, 80)))
    spoiled = bytearray((folder / "spoiled.npz").read_bytes())
    spoiled[200:400] = b"\xff" * 200
    (folder / "spoiled.npz").write_bytes(spoiled)
    return {path.name: str(path) for path in folder.iterdir()} | {"missing.npz": str(folder / "missing.npz")}


BAD_FILES = [
    *("twos.npz", "nan.npz", "words.npz", "vector.npz", "one-user.npz", "records.npz", "unnamed.npz", "array.npy"),
    *("empty.npz", "text.npz", "cut.npz", "raw-W.npz", "raw-W.npy.npz", "spoiled.npz", "missing.npz"),
]


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_matrix_file_is_named(name: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "data").mkdir()
    world = {"kind": "matrix", "file": bad_files(tmp_path / "data")[name], "dim": 1, "k": 1}
    line = refused(tmp_path, capsys, yaml.safe_dump(spec_with("world", world)))
    assert line.startswith("world.file is ")
    assert "an .npz file with a binary array W" in line


@pytest.mark.parametrize("file", [5, None, True, ["a.npz"], {"a": 1}, "a\0b", "."])
def test_a_file_that_is_no_path_is_named(file: Any, tmp_path: Path, capsys: Capture) -> None:
    world = {"kind": "matrix", "file": file, "dim": 1, "k": 1}
    assert refused(tmp_path, capsys, yaml.safe_dump(spec_with("world", world))).startswith("world.file is ")


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("k", 7, "a whole number from 1 to 6"),
        ("dim", 7, "a whole number from 1 to 6"),
        ("dim", 0, "a whole number from 1 to 6"),
        ("items", 7, "a whole number from 1 to 6"),
        ("items", "all", "a whole number from 1 to 6"),
    ],
)
def test_sizes_of_a_matrix_world_are_checked(
    field: str, value: Any, accepted: str, tmp_path: Path, capsys: Capture
) -> None:
    world = {"kind": "matrix", "file": matrix_file(tmp_path, np.eye(20, 6)), "dim": 1, "k": 1, field: value}
    line = refused(tmp_path, capsys, yaml.safe_dump(spec_with("world", world)))
    assert line == f"world.{field} is {value!r}; accepted: {accepted}."


@pytest.mark.parametrize(("command", "field"), [("policies", "id"), ("worlds", "kind")])
def test_an_unknown_name_is_refused_by_the_listings(command: str, field: str, capsys: Capture) -> None:
    assert main([command, "nonsense"]) == 2
    line = one_line(capsys)
    assert line.startswith(f"{field} is 'nonsense'; accepted: one of ")


def test_a_refusal_by_the_module_has_code_two_and_one_line(example: Path) -> None:
    example.write_text(EXAMPLE.replace("k: 2", "k: 9"))
    command = [sys.executable, "-m", "rankloop", "simulate", example.name, "--out", "out"]
    run = subprocess.run(command, cwd=example.parent, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == "rankloop: world.k is 9; accepted: a whole number from 1 to 5.\n"
    assert list(example.parent.iterdir()) == [example]


# Ctrl-C


def children(parent: int) -> dict[int, str]:
    """Process ids and commands of all that descend from this process and are not yet dead."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(maxsplit=3) for line in listing.splitlines()]
    family = {parent}
    found: dict[int, str] = {}
    for _ in range(4):
        for pid, above, stat, *command in rows:
            if int(above) in family and int(pid) != parent and not stat.startswith("Z"):
                found[int(pid)] = " ".join(command)
        family |= set(found)
    return found


def alive(pids: set[int]) -> set[int]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {int(pid) for pid, stat in rows if not stat.startswith("Z")} & pids


def wait_for(condition: Any, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def _may_be_interrupted() -> None:
    """A shell that starts tests in the background has them ignore Ctrl-C, and their children too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "whole_group"),
    [(signal.SIGINT, False), (signal.SIGINT, True), (signal.SIGTERM, False)],
    ids=["the-command", "as-a-terminal-does", "terminated"],
)
def test_ctrl_c_ends_everything_quietly(sent: signal.Signals, whole_group: bool, tmp_path: Path) -> None:
    """Interrupted while two workers play; a terminal sends the signal to the workers too."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    spec = tmp_path / "long.yaml"
    spec.write_text(EXAMPLE.replace("rounds: 60", "rounds: 500000").replace("seed: 7", "seed: 7\nchunk: 1"))
    process = subprocess.Popen(
        [sys.executable, "-m", "rankloop", "simulate", str(spec), "--jobs", "2", "--out", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch), "JOBLIB_TEMP_FOLDER": str(scratch)},
        start_new_session=True,
        preexec_fn=_may_be_interrupted,
    )
    workers: dict[int, str] = {}
    try:

        def playing() -> bool:
            counters = [np.fromfile(path, dtype=np.int64) for path in scratch.glob("*/progress")]
            return process.poll() is not None or any((c > 0).sum() >= 2 for c in counters)

        assert wait_for(playing, 60)
        assert process.poll() is None, process.communicate()
        workers = children(process.pid)
        assert len(workers) >= 2
        if whole_group:
            os.killpg(process.pid, sent)
        else:
            process.send_signal(sent)
        out, err = process.communicate(timeout=120)
        assert process.returncode == 130
        assert out == ""
        assert err == "rankloop: interrupted, nothing was written.\n"
        assert wait_for(lambda: not alive(set(workers)), 10), "no worker is left"
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["long.yaml", "scratch"]
    finally:
        for pid in alive({process.pid, *workers}):
            os.kill(pid, signal.SIGKILL)
        process.wait()
