"""`rankloop reproduce` and `rankloop data`: output, files and errors."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from joblib.externals.loky import get_reusable_executor

import data_files
from helpers import loading_nothing
from rankloop import __version__
from rankloop.cli.main import main
from rankloop.datasets import SETS
from rankloop.experiments import library
from rankloop.experiments.claims import Claim, CloseTo, LowerRegret
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import Curves
from rankloop.experiments.outcome import Panel
from small_worlds import CASCADE

Capture = pytest.CaptureFixture[str]

PLAYERS = ({"id": "gts", "label": "GTS"}, {"id": "cascade-ucb1", "label": "UCB1"})
TINY = Experiment(
    "prior/tiny",
    "A tiny world",
    lambda quick: (Panel({"world": "given"}, "given", CASCADE, PLAYERS, 20 if quick else 40, 4, chunk=2),),
    Curves(),
    (
        Claim("GTS is better", "Section 1", "a tiny world", LowerRegret("GTS", ("UCB1",))),
        Claim("GTS is close", "Section 2", "a tiny world", CloseTo("GTS", "UCB1", 9.0)),
    ),
)
FILES = ["claims.json", "figure.png", "figure.svg", "spec.json", "table.csv", "table.md", "trace.parquet"]
OWN = """\
from rankloop import catalogue

def mine(setting):
    return catalogue.build("gts", setting, sigma=0.1)

def no_policy(setting):
    return 5

number = 3
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, without a folder of data; --data and --policy are forgotten afterwards."""
    monkeypatch.setenv("RANKLOOP_DATA", "")
    monkeypatch.delenv("RANKLOOP_DATA")
    monkeypatch.setenv("RANKLOOP_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with loading_nothing(monkeypatch):
        yield tmp_path


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of a tiny experiment, and of one whose data are missing."""
    monkeypatch.setattr(library, "ALL", (TINY, replace(TINY, id="prior/films", data=("movielens-1m",))))


def reproduce(*arguments: object) -> int:
    return main(["reproduce", *map(str, arguments)])


def refused(capsys: Capture, *arguments: object) -> str:
    """What is said, in one line, and nothing else."""
    assert reproduce(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("rankloop: ")
    assert err.endswith(".\n")
    return err.removeprefix("rankloop: ").removesuffix("\n")


# Listing


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_without_an_id_every_experiment_is_listed(quick: bool, capsys: Capture, place: Path) -> None:
    assert reproduce(*["--quick"] * quick) == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = out.split("\n\n")[0].splitlines()[1:]
    assert [row.split()[0] for row in rows] == [experiment.id for experiment in library.ALL]
    for row, experiment in zip(rows, library.ALL, strict=True):
        assert row.endswith(experiment.title)
        assert all(id in row for id in experiment.data)
        assert f" {experiment.cost(quick) / 1e6:,.1f}  " in row
    assert list(place.iterdir()) == [], "nothing is written"


# What is refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prior/fig99"], "id is 'prior/fig99'; accepted: an id or a pattern such as choice/*; there are prior/fig1,"),
        (["prior/fig7", "nonsense/*"], "id is 'nonsense/*'; accepted: an id or a pattern"),
        (["prior/fig7", "--jobs", "0"], "--jobs is 0; accepted: a whole number of at least 1."),
        (["prior/fig7", "--jobs", "-2"], "--jobs is -2; accepted: a whole number of at least 1."),
        (
            ["prior/fig5"],
            "prior/fig5 did not run: the folder of the data sets is unknown; give --data DIR or set RANKLOOP_DATA.",
        ),
        (["prior/fig7", "--policy", "nowhere:mine"], "--policy is 'nowhere:mine'; accepted: module:name of a function"),
        (["prior/fig7", "--policy", "own:theirs"], "--policy is 'own:theirs'; accepted: module:name of a function"),
        (["prior/fig7", "--policy", "own"], "--policy is 'own'; accepted: module:name of a function"),
        (["prior/fig7", "--policy", ":mine"], "--policy is ':mine'; accepted: module:name of a function"),
        (["prior/fig7", "--policy", "own:number"], "--policy is 'own:number'; accepted: module:name of a function"),
        (["prior/fig7", "--out", "own.py"], "--out is 'own.py'; accepted: a folder that can be written."),
    ],
)
def test_an_error_is_one_sentence(arguments: list[str], words: str, capsys: Capture, place: Path) -> None:
    data_files.write(place / "own.py", OWN)
    assert refused(capsys, *arguments, "--quick").startswith(words)
    assert not (place / "results").exists()


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--jobs", "two"], "--jobs"), (["--engine", "spark"], "--engine"), (["--fast"], "--fast")]
)
def test_options_are_checked(arguments: list[str], words: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        reproduce("prior/fig7", *arguments)
    assert left.value.code == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("named", ["option", "environment"])
def test_a_missing_data_set_says_how_to_get_it(
    named: str, capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "empty").mkdir()
    if named == "environment":
        monkeypatch.setenv("RANKLOOP_DATA", str(place / "empty"))
    options = ["--data", place / "empty"] if named == "option" else []
    said = refused(capsys, "prior/fig5", "--quick", *options)
    assert said.startswith(
        f"prior/fig5 did not run: data set mslr-web is not in {place / 'empty'}: get MSLR-WEB30K.zip from "
    )
    assert not (place / "results").exists()


@pytest.mark.parametrize("id", ["prior/fig5", "prior/fig7"])
def test_a_folder_of_data_that_is_not_there_is_refused(id: str, capsys: Capture) -> None:
    assert refused(capsys, id, "--data", "nowhere").startswith("--data is 'nowhere'; accepted: an existing folder.")


@pytest.mark.parametrize(
    ("name", "text"), [("broken", "def mine(:\n"), ("raises", "raise RuntimeError('no')\n")], ids=["syntax", "error"]
)
def test_a_module_that_cannot_be_imported_is_refused(name: str, text: str, capsys: Capture, place: Path) -> None:
    data_files.write(place / f"{name}.py", text)
    assert refused(capsys, "prior/fig7", "--policy", f"{name}:mine").startswith(f"--policy is '{name}:mine'; accepted")


def test_a_function_that_makes_no_policy_is_refused(capsys: Capture, place: Path, tiny: None) -> None:
    data_files.write(place / "own.py", OWN)
    assert "no-policy, which gives a int" in refused(
        capsys, "prior/tiny", "--quick", "--jobs", 1, "--policy", "own:no_policy"
    )


# A run


def test_a_run_writes_its_folder_and_prints_its_claims(capsys: Capture, place: Path, tiny: None) -> None:
    assert reproduce("prior/tiny", "--quick", "--jobs", 1) == 0
    out, err = capsys.readouterr()
    assert err == "", "no progress without a terminal"
    folder = place / "results" / "prior" / "tiny"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    claims = json.loads((folder / "claims.json").read_text())
    assert out.splitlines()[0] == "prior/tiny: A tiny world (quick version: 20 rounds, 4 replications)"
    assert [f"  {c['verdict']}: {c['claim']} ({c['numbers']})" for c in claims] == out.splitlines()[1:3]
    assert out.splitlines()[-1] == f"  written to {Path('results') / 'prior' / 'tiny'}"
    head = json.loads((folder / "spec.json").read_text())
    assert (head["quick"], head["version"], head["panels"][0]["rounds"]) == (True, __version__, 20)


def test_a_second_run_uses_stored_chunks(capsys: Capture, place: Path, tiny: None) -> None:
    printed = []
    for _ in range(2):
        assert reproduce("prior/tiny", "--quick", "--jobs", 1, "--out", "kept", "--quiet") == 0
        printed.append(capsys.readouterr().out)
        files = {path: path.stat().st_mtime_ns for path in (place / "kept" / "chunks").rglob("*.npz")}
    assert len(files) == 6
    assert max(files.values()) < (place / "kept" / "prior" / "tiny" / "spec.json").stat().st_mtime_ns
    assert printed[0] == printed[1], "the speed too, which is that of the first run"


def test_the_full_version_is_the_default(place: Path, tiny: None) -> None:
    assert reproduce("prior/tiny", "--jobs", 1) == 0
    head = json.loads((place / "results" / "prior" / "tiny" / "spec.json").read_text())
    assert (head["quick"], head["panels"][0]["rounds"]) == (False, 40)


def test_a_folder_of_another_version_is_refused_and_left_alone(capsys: Capture, place: Path, tiny: None) -> None:
    head = data_files.write(place / "results" / "prior" / "tiny" / "spec.json", '{"version": "99"}')
    said = refused(capsys, "prior/tiny", "--quick", "--jobs", 1)
    assert "was written by rankloop 99, and this is " in said
    assert "--out" in said
    assert [path for path in (place / "results").rglob("*") if path.is_file()] == [head]


def test_a_pattern_leaves_out_what_has_no_data(capsys: Capture, place: Path, tiny: None) -> None:
    (place / "empty").mkdir()
    assert reproduce("prior/*", "--quick", "--jobs", 1, "--data", place / "empty") == 0
    out = capsys.readouterr().out
    assert out.startswith("prior/tiny: A tiny world (quick version: 20 rounds, 4 replications)\n")
    assert "prior/films: left out, since data set movielens-1m is not in " in out
    assert [path.name for path in (place / "results" / "prior").iterdir()] == ["tiny"]
    assert reproduce("prior/f*", "--quick", "--jobs", 1) == 2
    assert capsys.readouterr().err == "rankloop: nothing ran: the data of every selected experiment is missing.\n"


def test_data_are_part_of_a_result(place: Path, tiny: None) -> None:
    data_files.movielens_dat(place / "data" / "ml-1m")
    assert reproduce("prior/films", "--quick", "--jobs", 1, "--data", place / "data") == 0
    head = json.loads((place / "results" / "prior" / "films" / "spec.json").read_text())
    sizes = [(place / "data" / "ml-1m" / name).stat().st_size for name in ("movies.dat", "ratings.dat")]
    assert list(head["data"]) == ["movielens-1m"]
    assert head["data"]["movielens-1m"].startswith(f"{sum(sizes)}-")


def own_rows(place: Path) -> list[dict[str, str]]:
    with (place / "results" / "prior" / "tiny" / "table.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["policy"] == "mine"]


def test_a_custom_policy_is_added(place: Path, tiny: None) -> None:
    """From a module of the folder one is in."""
    data_files.write(place / "own.py", OWN)
    assert reproduce("prior/tiny", "--quick", "--jobs", 1, "--policy", "own:mine") == 0
    assert len(own_rows(place)) == 1
    head = json.loads((place / "results" / "prior" / "tiny" / "spec.json").read_text())
    assert [policy["label"] for policy in head["panels"][0]["policies"]] == ["GTS", "UCB1", "mine"]


def test_a_custom_policy_runs_on_two_processes(place: Path, tiny: None) -> None:
    """As many as there are cores is the default. The processes are new ones."""
    get_reusable_executor().shutdown(wait=True)
    data_files.write(place / "own.py", OWN)
    assert reproduce("prior/tiny", "--quick", "--jobs", 2, "--policy", "own:mine") == 0
    assert len(own_rows(place)) == 1


def test_the_same_label_twice_is_refused(capsys: Capture, place: Path, tiny: None) -> None:
    data_files.write(place / "own.py", OWN)
    said = refused(capsys, "prior/tiny", "--quick", "--policy", "own:mine", "--policy", "own:mine")
    assert said.startswith("policies[3].label is 'mine'; accepted: a label that no other policy of the spec has.")


# The page


def test_the_page_is_written_from_saved_results(capsys: Capture, place: Path, tiny: None) -> None:
    assert reproduce("--page", "docs/page.md") == 0
    assert capsys.readouterr().out == "Written to docs/page.md.\n"
    assert (place / "docs" / "page.md").read_text().count("Not run here.") == 2
    assert reproduce("prior/tiny", "--quick", "--jobs", 1, "--page", "docs/page.md") == 0
    text = (place / "docs" / "page.md").read_text()
    assert text.count("Not run here. It needs movielens-1m.") == text.count("Not run here.") == 1
    assert "![A tiny world](images/reproduction/prior-tiny.png)" in text
    assert (place / "docs" / "images" / "reproduction" / "prior-tiny.png").exists()


# Data


def test_data_lists_the_data_sets_of_a_folder(capsys: Capture, place: Path) -> None:
    data_files.mnist(place / "data" / "digits")
    assert main(["data", "--data", str(place / "data")]) == 0
    lines = capsys.readouterr().out.splitlines()
    said = dict(line.split(maxsplit=1) for line in lines[: len(SETS)])
    assert list(said) == list(SETS)
    assert said["mnist"] == "found    8 images, 5 train images: digits"
    assert said["yelp"].startswith("missing  get ")
    assert lines[-1].startswith(f"1 of {len(SETS)} data sets are in ")


def test_data_may_be_json(capsys: Capture, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_files.mnist(place / "data" / "digits")
    monkeypatch.setenv("RANKLOOP_DATA", str(place / "data"))
    assert main(["data", "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert {row["id"]: row["state"] for row in rows} == dict.fromkeys(SETS, "missing") | {"mnist": "found"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the folder of the data sets is unknown; give --data DIR or set RANKLOOP_DATA."),
        (["--data", "nowhere"], "--data is 'nowhere'; accepted: an existing folder."),
    ],
)
def test_data_needs_an_existing_folder(arguments: list[str], words: str, capsys: Capture) -> None:
    assert main(["data", *arguments]) == 2
    assert capsys.readouterr().err == f"rankloop: {words}\n"
