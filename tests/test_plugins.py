"""A policy of one's own, from a file or an installed package, goes through every command, worker and restart."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from helpers import loading_nothing
from rankloop import Ranker, RankerConfig, catalogue
from rankloop.catalogue import plugins, registry
from rankloop.cli.main import main
from rankloop.errors import InvalidInput, Unsupported
from rankloop.eventlog.address import open_existing
from rankloop.experiments import matrix
from rankloop.service.settings import load as load_settings
from rankloop.serving.verification import compare_snapshot
from rankloop.simulator.api import plays, prepare
from rankloop.simulator.parallel import Task
from rankloop.simulator.spec import Spec
from served import Served, serve, until

__all__ = ["serve"]
Capture = pytest.CaptureFixture[str]

OWN = '''\
"""Policies of a shop."""

from dataclasses import dataclass
from pathlib import Path

from rankloop import Policy, Setting, catalogue
from rankloop.belief import Gaussian, GaussianState
from rankloop.catalogue import policy
from rankloop.catalogue.params import Positive
from rankloop.design import PerItem
from rankloop.explore import Thompson
from rankloop.feedback import Cascade
from rankloop.plan import TopK
from rankloop.types import Decision, Evidence

with Path("imported").open("a") as seen:
    seen.write(".")


@dataclass(frozen=True)
class Fading(Gaussian):
    """Before each list, a tenth of what was believed is forgotten."""

    def update(self, state: GaussianState, decision: Decision, evidence: Evidence) -> None:
        state.precision *= 0.9
        state.shift *= 0.9
        super().update(state, decision, evidence)


def fading_gts(setting: Setting, *, sigma: Positive = 0.4) -> Policy[GaussianState]:
    """GTS that forgets."""
    return Policy(PerItem(), Fading(setting.items, sigma=sigma), Thompson(), TopK(), Cascade())


@policy("other-name", paper="own")
def another(setting: Setting) -> Policy[GaussianState]:
    """The same with much noise, by the id of the first."""
    return catalogue.build("fading-gts", setting, sigma=0.9)
'''
SPEC: dict[str, Any] = {
    "world": {"kind": "cascade", "attraction": [0.5, 0.4, 0.3, 0.2, 0.1], "k": 2},
    "policies": ["other-name", {"id": "fading-gts", "sigma": 0.2, "label": "mine"}, "gts"],
    "rounds": 40,
    "replications": 6,
    "chunk": 3,
    "seed": 7,
}
SOURCE = "shop_policies:fading_gts"


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def command(folder: Path, *arguments: object, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`rankloop` in a process of its own, which has the folder on its path only if rankloop puts it there."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKLOOP_")}
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), environment.get("PYTHONPATH")]))
    line = [sys.executable, "-P", "-m", "rankloop", *map(str, arguments)]
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def simulated(folder: Path, *arguments: object, path: Path | None = None) -> Any:
    """The numbers of the spec, without what depends on the clock."""
    put(folder, "spec.yaml", json.dumps(SPEC))
    done = command(folder, "simulate", "spec.yaml", "--json", *arguments, path=path)
    assert (done.returncode, done.stderr) == (0, "")
    return [{name: one[name] for name in ("id", "params", "regret")} for one in json.loads(done.stdout)["policies"]]


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with modules of one's own to work in; what a test loads is forgotten."""
    monkeypatch.chdir(tmp_path)
    with loading_nothing(monkeypatch):
        yield put(tmp_path, "shop_policies.py", OWN)


# Loading


def test_a_plain_function_gets_its_name_as_id_and_a_decorated_one_keeps_its_own(alone: Path) -> None:
    plain, decorated = (catalogue.load(f"shop_policies:{name}") for name in ("fading_gts", "another"))
    assert (plain.id, decorated.id) == ("fading-gts", "other-name")
    assert plain.own
    assert decorated.own
    assert plain.summary == "GTS that forgets."
    assert catalogue.resolve("fading-gts", {"sigma": 2}) == {"sigma": 2.0}
    assert catalogue.find("fading-gts") is plain
    assert catalogue.entries()[-2:] == (decorated, plain), "after those of the papers"


def test_loading_again_changes_nothing(alone: Path) -> None:
    assert catalogue.load(SOURCE) is catalogue.load(SOURCE)
    assert (alone / "imported").read_text() == "."


def test_a_function_of_the_package_is_the_one_that_is_there(alone: Path) -> None:
    assert catalogue.load("rankloop.catalogue.prior:gts") is catalogue.find("gts")
    assert plugins.named_modules() == ()


def test_a_function_with_arguments_filled_in_is_one(alone: Path) -> None:
    filled = (
        "from functools import partial\nimport shop_policies\nnoisy = partial(shop_policies.fading_gts, sigma=3.0)\n"
    )
    put(alone, "filled.py", filled)
    entry = catalogue.load("filled:noisy")
    assert (entry.id, entry.own, catalogue.resolve("noisy", {})) == ("noisy", True, {"sigma": 3.0})


WRONG = '''\
from rankloop.catalogue import policy

number = 3

def gts(setting):
    """Has the name of another."""

def two(setting, more):
    """Wants more than a setting."""

def bare(setting, *, sigma=1.0):
    """Does not say what sigma may be."""

def rough(setting, *, sigma: float = 1.0):
    """Says too little of what sigma may be."""

def open_ended(setting, *, sigma: "Positive"):
    """Has no default."""
'''


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("wrong", "a module, a colon and a name are needed"),
        (":gts", "a module, a colon and a name are needed"),
        ("wrong:", "a module, a colon and a name are needed"),
        ("nowhere:gts", "ModuleNotFoundError: No module named 'nowhere'"),
        ("..:gts", "TypeError: "),
        ("wrong:nothing", "AttributeError: "),
        ("wrong:number", "it is of type int, which cannot be called"),
        ("wrong:gts", "another policy has the id gts; give it one of its own with @policy(id)"),
        ("wrong:two", "it cannot be called with a Setting alone"),
        ("wrong:bare", "TypeError: the hyper-parameter sigma is not annotated; use an alias of "),
        ("wrong:rough", "TypeError: the hyper-parameter sigma is annotated <class 'float'>; use an alias of "),
        ("wrong:open_ended", "it cannot be called with a Setting alone"),
        ("leaves:gts", "SystemExit: 3"),
        ("fails:mine", "RuntimeError: on two lines"),
        ("clashes:mine", "id is 'gts'; accepted: an id that no other policy has"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_sentence(
    source: str, reason: str, alone: Path, capsys: Capture
) -> None:
    put(alone, "wrong.py", WRONG)
    put(alone, "leaves.py", "raise SystemExit(3)\n")
    entering = "from rankloop.catalogue import policy\n@policy({!r})\ndef mine(setting): ...\n"
    put(alone, "fails.py", entering.format("half") + "raise RuntimeError('on\\ntwo lines')\n")
    put(alone, "clashes.py", entering.format("gts"))
    before = dict(registry._ENTRIES)
    assert main(["policies", "--policy", source]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(
        f"rankloop: --policy is {source!r}; accepted: module:name of a function from a Setting to a policy ({reason}"
    )
    assert err.endswith(").\n")
    assert err.count("\n") == 1
    assert before == registry._ENTRIES, "nothing is entered by halves"


def test_the_settings_of_a_service_name_what_they_cannot_load(alone: Path) -> None:
    from rankloop.hosting.registry import RankerRegistry

    settings = load_settings(overrides={"policies": [SOURCE, "nowhere:mine"], "log": str(alone / "log.db")})
    with pytest.raises(InvalidInput, match=r"^policies\[1\] is 'nowhere:mine'; accepted: module:name of a function"):
        RankerRegistry.open(settings)
    assert not (alone / "log.db").exists()


def test_what_is_no_policy_is_refused_by_a_ranker_too(alone: Path) -> None:
    put(alone, "nothing.py", "def five(setting):\n    return 5\n")
    catalogue.load("nothing:five")
    with pytest.raises(Unsupported, match=r"^five gives a int; accepted: a rankloop.RankingPolicy"):
        RankerConfig.of({"policy": "five", "slots": 2})


def test_an_unknown_id_says_how_a_policy_is_loaded(alone: Path) -> None:
    with pytest.raises(InvalidInput, match="a policy of your own is loaded with --policy module:name"):
        catalogue.find("fading-gts")


def test_a_snapshot_of_other_code_is_not_used(alone: Path) -> None:
    """The log is replayed by the code that is there, as if it had always been."""
    config = RankerConfig.of({"policy": catalogue.load(SOURCE).id, "slots": 2})
    with closing(Ranker.open(alone / "log.db", config)) as ranker:
        ranker.put_items([{"id": id} for id in "abc"])
        for _ in range(5):
            ranker.feedback(ranker.rank().id, clicked=[0])
        ranker.snapshot()
    entry = catalogue.find("fading-gts")
    with closing(open_existing(str(alone / "log.db"))) as store:
        (name,) = store.rankers()
        assert compare_snapshot(store, name, config).usable
        catalogue.adopt([dataclasses.replace(entry, code="another")])
        assert not compare_snapshot(store, name, config).usable


# Simulations


def test_a_file_is_simulated_by_one_process_and_by_two(tmp_path: Path) -> None:
    """New workers know all policies that were loaded: one of them builds on the other by its id."""
    put(tmp_path, "shop_policies.py", OWN)
    one, two = (simulated(tmp_path, "--jobs", jobs, "--policy", SOURCE) for jobs in (1, 2))
    assert one == two
    assert [policy["id"] for policy in one] == ["other-name", "fading-gts", "gts"]
    assert one[1]["params"] == {"sigma": 0.2}


FRONT = """\
import shop_policies

def fading_gts(setting, *, sigma: "shop_policies.Positive" = 1.0):
    return shop_policies.fading_gts(setting, sigma=sigma)
"""


def test_workers_find_what_a_file_imports_from_its_folder(tmp_path: Path) -> None:
    put(tmp_path, "shop_policies.py", OWN)
    put(tmp_path, "front.py", FRONT)
    one, two = (simulated(tmp_path, "--jobs", jobs, "--policy", "front:fading_gts") for jobs in (1, 2))
    assert one == two


def test_a_task_carries_the_code_that_it_needs(alone: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whichever pickler sends it, to an interpreter that cannot import the module."""
    catalogue.load(SOURCE)
    spec = Spec.of(SPEC)
    world = prepare(spec)
    tasks = [Task(world, policy, chunk, spec.rounds, spec.seed) for policy, chunk in plays(spec)]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "tasks").write_bytes(pickle.dumps(tasks))
    program = """\
import json, pathlib, pickle
tasks = pickle.loads(pathlib.Path("tasks").read_bytes())
print(json.dumps([task.run(lambda t: None).regret.tolist() for task in tasks]))
"""
    line = [sys.executable, "-P", "-c", program]
    done = subprocess.run(line, cwd=elsewhere, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [task.run(lambda t: None).regret.tolist() for task in tasks]


def test_a_spec_that_names_what_is_not_loaded_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "shop_policies.py", OWN)
    put(tmp_path, "spec.yaml", json.dumps(SPEC))
    done = command(tmp_path, "simulate", "spec.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("rankloop: policies[0].id is 'other-name'; accepted: one of random, ")
    assert done.stderr.endswith("; a policy of your own is loaded with --policy module:name.\n")
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_is_a_row_of_the_matrix_and_played_again_each_time(
    jobs: int, alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    few = {"cascade": matrix.worlds()["cascade"]}
    monkeypatch.setattr(matrix, "worlds", lambda: few)
    monkeypatch.setattr(matrix, "QUICK", matrix.MatrixSize(20, 2))
    known = dict(list(registry._ENTRIES.items())[:3])
    monkeypatch.setattr(registry, "_ENTRIES", known | {"gts": registry._ENTRIES["gts"]})
    asked = ["matrix", "--quick", "--out", "out", "--jobs", str(jobs), "--policy", SOURCE]
    assert main(asked) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("|")[1].strip() for row in rows if row.startswith("| ")][-2:] == ["other-name", "fading-gts"]
    kept = list((alone / "out" / "chunks").rglob("*.npz"))
    assert len(kept) == 4, "of the package's policies only: nothing says when those of one's own change"


def test_policies_shows_it(alone: Path, capsys: Capture) -> None:
    assert main(["policies", "fading-gts", "--policy", SOURCE]) == 0
    assert capsys.readouterr().out.startswith("fading-gts  (paper: own; feedback: its own)\n\nGTS that forgets.\n")


# The service


def visited(url: str, ranker: str, lists: int = 30) -> None:
    for n in range(lists):
        shown = httpx.post(f"{url}/v1/rankers/{ranker}/rank", json={}, timeout=60.0)
        assert shown.status_code == 200, shown.text
        told = {"decision": shown.json()["decision"], "clicked": [n % 2] if n % 3 else []}
        assert httpx.post(f"{url}/v1/rankers/{ranker}/feedback", json=told, timeout=60.0).json()["status"] == "learned"


def believed(url: str, ranker: str) -> Any:
    return httpx.get(f"{url}/v1/rankers/{ranker}/report", params={"sort": "item"}, timeout=60.0).json()["items"]


def quarantine(url: str, ranker: str) -> Any:
    told = httpx.get(f"{url}/v1/rankers", timeout=60.0).json()["rankers"]
    return next(one["quarantine"] for one in told if one["name"] == ranker)


def test_the_service_replays_it_and_quarantines_a_policy_that_is_not_loaded(serve: Callable[..., Served]) -> None:
    served = serve()
    put(served.folder, "shop_policies.py", OWN)
    served.arguments = ["--policy", SOURCE]
    served.start()
    own, other = f"{served.url}/v1/rankers/own", f"{served.url}/v1/rankers/counts"
    assert httpx.put(own, json={"policy": "fading-gts", "slots": 2, "params": {"sigma": 0.3}}).status_code == 201
    for url in (own, other):
        items = [{"id": f"item-{i}"} for i in range(5)]
        assert httpx.put(f"{url}/items", json={"items": items}).status_code == 204
    assert "fading-gts" in httpx.get(f"{served.url}/openapi.json").text
    visited(served.url, "own")
    live = believed(served.url, "own")
    served.kill()

    served.start()
    assert quarantine(served.url, "own") is None
    assert believed(served.url, "own") == live
    visited(served.url, "own", 3)
    served.stop()
    done = command(served.folder, "log", "verify", served.log, "--ranker", "own", "--policy", SOURCE)
    assert done.returncode == 0, done.stderr
    assert "own: 33 of 33 lists decided again, bit for bit" in done.stdout

    imports = (served.folder / "imported").read_text()
    served.arguments = []
    served.start()
    told = quarantine(served.url, "own")
    assert told["reason"].startswith(
        "its policy 'fading-gts' is not loaded; start the service with --policy module:name"
    )
    refused = httpx.post(f"{served.url}/v1/rankers/own/rank", json={})
    assert refused.status_code == 503
    assert "--policy module:name" in refused.json()["detail"]
    visited(served.url, "counts", 3)
    served.stop()
    done = command(served.folder, "log", "verify", served.log)
    assert done.returncode == 2
    assert "own: its policy 'fading-gts' is not loaded; load it with --policy MODULE:NAME." in done.stdout
    assert "counts: 3 of 3 lists decided again" in done.stdout
    assert (served.folder / "imported").read_text() == imports, "a log does not decide what is imported"

    served.environment = {"RANKLOOP_POLICIES": f"[{SOURCE}]"}
    served.start()
    assert quarantine(served.url, "own") is None
    visited(served.url, "own", 3)


def test_a_request_never_decides_what_is_imported(serve: Callable[..., Served]) -> None:
    served = serve()
    put(served.folder, "shop_policies.py", OWN)
    served.start()
    for policy in (SOURCE, "shop_policies", "fading-gts"):
        refused = httpx.put(f"{served.url}/v1/rankers/own", json={"policy": policy, "slots": 2})
        assert refused.status_code == 422
        assert refused.json()["detail"].startswith(f"ranker.policy is '{policy}'; accepted: one of random, ")
    assert not (served.folder / "imported").exists()


def test_visitors_create_a_ranker_with_it(serve: Callable[..., Served]) -> None:
    served = serve()
    put(served.folder, "shop_policies.py", OWN)
    served.arguments = ["--policy", SOURCE]
    served.start()
    create = ("--create", "fading-gts", "--policy", SOURCE)
    asked = ("visitors", "--ranker", "own", "--url", served.url, "--rounds", 20, "--quiet", "--json", *create)
    done = command(served.folder, *asked)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["feedback_sent"] == 20
    config = httpx.get(f"{served.url}/v1/rankers/own").json()["config"]
    assert config["policy"] == "fading-gts"
    assert "rounds" not in config, "it was built here, and needs no horizon"
    until(lambda: len(believed(served.url, "own")) == 40, "all items are there")


# Installed packages


def installed(folder: Path, *points: str, name: str = "shop") -> Path:
    """A folder as an installer leaves it: a module, and metadata with entry points."""
    put(folder, "shop_policies.py", OWN)
    put(folder / f"{name}-1.0.dist-info", "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    put(folder / f"{name}-1.0.dist-info", "entry_points.txt", "[rankloop.policies]\n" + "\n".join(points) + "\n")
    return folder


def test_an_installed_policy_needs_no_option(tmp_path: Path) -> None:
    site = installed(tmp_path / "site", f"anything = {SOURCE}")
    put(tmp_path / "here", "spec.yaml", "")
    one, two = (simulated(tmp_path / "here", "--jobs", jobs, path=site) for jobs in (1, 2))
    assert one == two
    assert [policy["id"] for policy in one] == ["other-name", "fading-gts", "gts"]
    listed = command(tmp_path / "here", "policies", path=site)
    assert listed.stderr == ""
    assert [line.split()[0] for line in listed.stdout.splitlines()[-2:]] == ["other-name", "fading-gts"]


def test_installed_policies_are_loaded_at_their_first_use(tmp_path: Path) -> None:
    site = installed(tmp_path / "site", f"anything = {SOURCE}")
    program = """\
import sys, rankloop
from rankloop.types import Setting
rankloop.build("gts", Setting(items=5, slots=2))
print("shop_policies" in sys.modules)
rankloop.build("fading-gts", Setting(items=5, slots=2))
print(sum(entry.id == "fading-gts" for entry in rankloop.entries()))
"""
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    line = [sys.executable, "-c", program]
    done = subprocess.run(
        line, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "1"]
    assert (tmp_path / "imported").read_text() == "."


def test_an_installed_policy_that_cannot_be_loaded_is_left_out_with_a_warning(tmp_path: Path) -> None:
    points = ("broken = nowhere:mine", "clash = clashing:gts", f"good = {SOURCE}", "module = shop_policies")
    site = installed(tmp_path / "site", *points)
    put(site, "clashing.py", "def gts(setting): ...\n")
    listed = command(tmp_path, "policies", "fading-gts", path=site)
    assert listed.returncode == 0
    said = listed.stderr.splitlines()
    assert len(said) == 3
    for line, point, reason in zip(
        said,
        ("broken of rankloop.policies is 'nowhere:mine'", "clash of rankloop.policies is 'clashing:gts'", "module"),
        ("No module named 'nowhere'", "another policy has the id gts", "a module, a colon and a name are needed"),
        strict=True,
    ):
        assert line.startswith(f"a policy is left out: entry point {point}")
        assert reason in line


def test_an_installed_policy_serves(serve: Callable[..., Served]) -> None:
    served = serve()
    site = installed(served.folder / "site", f"anything = {SOURCE}")
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    served.environment = {"PYTHONPATH": path}
    served.start()
    own = f"{served.url}/v1/rankers/own"
    assert httpx.put(own, json={"policy": "fading-gts", "slots": 2}).status_code == 201
    assert httpx.put(f"{own}/items", json={"items": [{"id": id} for id in "abcd"]}).status_code == 204
    visited(served.url, "own", 5)
    live = believed(served.url, "own")
    served.kill()
    served.start()
    assert believed(served.url, "own") == live
