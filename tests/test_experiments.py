"""Experiments: played chunks are stored and reused, claims are decided by the numbers, the library is consistent."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import ArrayLike

from rankloop import catalogue
from rankloop.datasets import SETS, MissingData
from rankloop.errors import InvalidInput, RankloopError
from rankloop.experiments import claims, library, matrix, page, report, runner
from rankloop.experiments.claims import (
    Claim,
    ClaimFinding,
    ClaimVerdict,
    CloseTo,
    ForEachConstant,
    LinearGrowth,
    LowerRegret,
    LowestRegret,
    SimilarRegret,
    combine,
    interval_above,
    interval_inside,
)
from rankloop.experiments.experiment import Arrangement, Experiment
from rankloop.experiments.figures import Curves, CurvesAndFinals, FinalRegret, OverlaidCurves, values
from rankloop.experiments.ncr import (
    MixtureSpaceEffect,
    NcrTable,
    RewardRates,
    best_parameters,
)
from rankloop.experiments.ncr_claims import (
    NcrAtLeast,
    NcrNearPrinted,
    RewardFollowsSpace,
    SpaceHurts,
    printed_winners,
    rank_correlation,
)
from rankloop.experiments.outcome import Key, Outcome, Panel
from rankloop.experiments.panel_claims import GapGrows, LowestPanel, MonotoneTrend, PanelRatio, RegretSpread
from rankloop.experiments.posteriors import BetaPosteriorWider, PosteriorDensities
from rankloop.experiments.published import COLUMNS, TABLES, published
from rankloop.experiments.runner import ChunkStore
from rankloop.experiments.tables import ResultTable, finals, number
from rankloop.policy import SupportsRanking
from rankloop.simulator import PolicySpec
from rankloop.simulator.api import plays
from rankloop.simulator.chunk import Tick
from rankloop.simulator.parallel import Task
from rankloop.simulator.result import Result
from rankloop.simulator.spec import policy_specs
from rankloop.simulator.trace import Trace
from rankloop.types import FloatArray, Setting
from small_worlds import CASCADE

HOLDS, UNSURE, TOO_SMALL, FAILS = ClaimVerdict
DRAWN: dict[str, Any] = {"kind": "cascade", "attraction": {"beta": {"items": 6, "a": 1, "b": 3}}, "k": 2}
PLAYERS: tuple[Mapping[str, Any], ...] = ({"id": "gts", "label": "GTS"}, {"id": "cascade-ucb1", "label": "UCB1"})


def small_panels(quick: bool) -> tuple[Panel, ...]:
    """Five replications in chunks of three and two; the baseline is played too: twelve plays."""
    rounds = 30 if quick else 40
    worlds = (("given", CASCADE), ("drawn", DRAWN))
    return tuple(Panel({"world": name}, name, world, PLAYERS, rounds, 5, chunk=3) for name, world in worlds)


SMALL_WORLDS = Experiment(
    "prior/small",
    "Two small worlds",
    small_panels,
    Curves(),
    (
        Claim("GTS is better than UCB1", "Section 1", "both worlds", LowerRegret("GTS", ("UCB1",))),
        Claim("GTS is close", "Section 2", "drawn world", CloseTo("GTS", "UCB1", 99.0, where={"world": "drawn"})),
    ),
    differs="It is small.",
)
PLAYS = 12


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every play of this process."""
    names: list[str] = []
    run = Task.run

    def noted(task: Task, tick: Tick) -> Any:
        names.append(f"{task.policy.label} {task.chunk.index}")
        return run(task, tick)

    monkeypatch.setattr(Task, "run", noted)
    return names


@pytest.fixture(scope="module")
def through(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A run without interruption, on one process, written to its folder."""
    folder = tmp_path_factory.mktemp("through")
    outcome = runner.run(SMALL_WORLDS, folder, quick=True)
    report.write(SMALL_WORLDS, outcome, report.result_folder(folder, SMALL_WORLDS, quick=True))
    return folder, outcome


def chunk_files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (folder / "chunks").rglob("*.npz")}


def same_numbers(one: Outcome, other: Outcome) -> None:
    assert len(one.parts) == len(other.parts) > 0
    for (panel, result), (twin, again) in zip(one.parts, other.parts, strict=True):
        assert panel == twin
        for a, b in zip((*result, result.random), (*again, again.random), strict=True):
            assert (a.label, a.id, a.params) == (b.label, b.id, b.params)
            np.testing.assert_array_equal(a.regret, b.regret)
            np.testing.assert_array_equal(a.reward, b.reward)
            np.testing.assert_array_equal(a.rounds, b.rounds)


# Stored chunks are not played again


def test_an_experiment_is_what_simulate_gives(through: tuple[Path, Outcome]) -> None:
    """Panel by panel, the numbers of `simulate` with the same spec."""
    from rankloop.simulator.api import run as simulate

    for panel, result in through[1].parts:
        expected = simulate(panel.spec())
        for trace in (*expected, expected.random):
            kept = claims.trace(result, trace.label)
            np.testing.assert_array_equal(kept.regret, trace.regret)
            np.testing.assert_array_equal(kept.reward, trace.reward)


def test_a_stored_chunk_is_not_played_again(tmp_path: Path, played: list[str]) -> None:
    first = runner.run(SMALL_WORLDS, tmp_path, quick=True)
    assert len(played) == len(chunk_files(tmp_path)) == PLAYS
    before = chunk_files(tmp_path)
    second = runner.run(SMALL_WORLDS, tmp_path, quick=True)
    assert len(played) == PLAYS
    assert chunk_files(tmp_path) == before
    same_numbers(first, second)
    seconds = [[trace.seconds for _, trace in outcome.traces()] for outcome in (first, second)]
    assert seconds[0] == seconds[1], "the time that it took is kept too"


def test_another_experiment_reuses_shared_chunks(tmp_path: Path, played: list[str]) -> None:
    """One policy more, and one panel less: only the new policy is played, in two chunks."""
    runner.run(SMALL_WORLDS, tmp_path, quick=True)
    played.clear()

    def panels(quick: bool) -> tuple[Panel, ...]:
        (panel, _) = small_panels(quick)
        more = ({"id": "cascade-ucb1", "label": "another label"}, {"id": "ts-cascade", "label": "TS"}, PLAYERS[0])
        return (replace(panel, title="another title", key={}, policies=more),)

    outcome = runner.run(replace(SMALL_WORLDS, id="prior/other", panels=panels, claims=()), tmp_path, quick=True)
    assert played == ["TS 0", "TS 1"]
    assert [trace.label for _, trace in outcome.traces()] == ["another label", "TS", "GTS"]


def test_more_replications_are_added(tmp_path: Path, played: list[str]) -> None:
    """Of nine replications in chunks of three, three were played before."""

    def of(replications: int) -> Experiment:
        return replace(SMALL_WORLDS, panels=lambda quick: (replace(small_panels(quick)[0], replications=replications),))

    few = runner.run(of(3), tmp_path, quick=True)
    played.clear()
    many = runner.run(of(9), tmp_path, quick=True)
    assert played == [f"{label} {chunk}" for label in ("GTS", "UCB1", "random") for chunk in (1, 2)]
    for (_, a), (_, b) in zip(few.traces(), many.traces(), strict=True):
        np.testing.assert_array_equal(a.regret, b.regret[:, :3])


def test_quick_and_full_versions_are_stored_separately(tmp_path: Path, played: list[str]) -> None:
    for quick in (True, False, True, False):
        outcome = runner.run(SMALL_WORLDS, tmp_path, quick=quick)
        assert outcome.parts[0][0].rounds == (30 if quick else 40)
    assert len(played) == 2 * PLAYS


def test_progress_is_reported_in_replication_rounds(tmp_path: Path) -> None:
    """Two worlds, three policies, five replications of 30 rounds: 900; the second time all are done at once."""
    progress: list[tuple[str, int, int]] = []
    for _ in range(2):
        runner.run(SMALL_WORLDS, tmp_path, quick=True, progress=lambda *said: progress.append(said))
    assert [said[0] for said in progress] == ["prior/small"] * len(progress)
    assert {said[2] for said in progress} == {900}
    assert [said[1] for said in progress] == [*np.cumsum([0, *[90, 60] * 6]), 900]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda raw: b"", id="empty"),
        pytest.param(lambda raw: raw[:100], id="cut"),
        pytest.param(lambda raw: raw[:-1], id="one byte less"),
        pytest.param(lambda raw: b"no zip", id="another file"),
    ],
)
def test_a_damaged_chunk_is_played_again(tmp_path: Path, played: list[str], damage: Callable[[bytes], bytes]) -> None:
    first = runner.run(SMALL_WORLDS, tmp_path, quick=True)
    path = sorted(chunk_files(tmp_path))[0]
    path.write_bytes(damage(path.read_bytes()))
    played.clear()
    same_numbers(first, runner.run(SMALL_WORLDS, tmp_path, quick=True))
    assert len(played) == 1
    assert ChunkStore(tmp_path / "chunks").load(path) is not None


def test_no_damage_of_a_chunk_gets_through(tmp_path: Path) -> None:
    """Any byte of the file changed, or a single array in its place: the numbers as they were, or none."""
    runner.run(SMALL_WORLDS, tmp_path, quick=True)
    store, path = ChunkStore(tmp_path / "chunks"), sorted(chunk_files(tmp_path))[0]
    raw, whole = path.read_bytes(), store.load(path)
    assert whole is not None
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    assert store.load(path) is None
    for i in range(len(raw)):
        changed = bytearray(raw)
        changed[i] ^= 0x21
        path.write_bytes(changed)
        found = store.load(path)
        assert found is None or (found.regret.tobytes() == whole.regret.tobytes() and found.seconds == whole.seconds)


# What the file name of a stored chunk depends on


def path_of(panel: Panel, inputs: Mapping[str, str] | None = None, play: int = 0) -> Path:
    policy, chunk = plays(panel.spec())[play]
    return ChunkStore(Path("kept")).path(panel, inputs or {}, policy, chunk)


PANEL = small_panels(True)[0]


@pytest.mark.parametrize(
    "other",
    [
        replace(PANEL, world=CASCADE | {"k": 3}),
        replace(PANEL, world=CASCADE | {"prior": {"a": 1, "b": 1}}),
        replace(PANEL, policies=({"id": "gts", "label": "GTS", "sigma": 0.25},)),
        replace(PANEL, policies=({"id": "ts-cascade", "label": "GTS"},)),
        replace(PANEL, rounds=31),
        replace(PANEL, chunk=2),
    ],
    ids=["world", "prior", "parameter", "policy", "rounds", "chunk"],
)
def test_inputs_that_change_a_result_change_its_file(other: Panel) -> None:
    assert path_of(other) != path_of(PANEL)


def test_the_file_of_a_chunk_depends_on_data_code_and_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    songs = replace(PANEL, world={"kind": "rated", "data": "songs", "budget": 1})
    policy, chunk = plays(PANEL.spec())[0]
    inputs: list[dict[str, str]] = [{}, {"songs": "1-a"}, {"songs": "1-b"}, {"songs": "1-b", "yelp": "1-a"}]
    places = {ChunkStore(Path("kept")).path(songs, given, policy, chunk) for given in inputs}
    assert len(places) == 3, "a data set that the panel is not made of does not matter"
    places |= {path_of(PANEL, play=i) for i in range(6)}
    monkeypatch.setattr(runner, "code_hash", lambda: "other code")
    places.add(path_of(PANEL))
    assert len(places) == 3 + 6 + 1


def test_inputs_that_do_not_change_a_result_do_not_change_its_file() -> None:
    same = (
        replace(PANEL, title="another", key={"x": 1}),
        replace(PANEL, world=dict(reversed(CASCADE.items()))),
        replace(PANEL, policies=({"id": "gts", "label": "another"},)),
        replace(PANEL, policies=(*PLAYERS, {"id": "random", "label": "Rand"})),
        replace(PANEL, replications=50),
    )
    assert {path_of(panel) for panel in same} == {path_of(PANEL)}


def test_a_chunk_has_the_same_file_in_every_experiment() -> None:
    """Figure 2 of long-sequences shows policies that tables 1, 2, 3 and 4 have played in the same worlds."""

    def places(id: str) -> Iterator[tuple[str, str]]:
        (experiment,) = library.chosen((id,))
        inputs = dict.fromkeys(experiment.data, "1-a")
        for panel in experiment.panels(True):
            policies = policy_specs([PolicySpec("ind", "ind")])
            chunk = plays(replace(PANEL, replications=panel.replications).spec())[0][1]
            world = json.dumps(panel.world, sort_keys=True)
            yield world, str(ChunkStore(Path("kept")).path(panel, inputs, policies[0], chunk))

    figure = dict(places("long-sequences/fig2"))
    table = dict(places("long-sequences/table1"))
    shared = figure.keys() & table.keys()
    assert len(shared) == 4, "without topics and with twenty of them, in two scenarios"
    assert all(figure[world] == table[world] for world in shared)


# Interrupted, and on several processes


def interrupted(folder: Path, after: int, **options: Any) -> None:
    """A run that is stopped after a number of chunks."""
    times = 0

    def stop(id: str, done: int, total: int) -> None:
        nonlocal times
        if times == after:
            raise KeyboardInterrupt
        times += 1

    with pytest.raises(KeyboardInterrupt):
        runner.run(SMALL_WORLDS, folder, quick=True, progress=stop, **options)


def columns(text: str, without: str) -> list[list[str]]:
    """A csv table without one of its columns."""
    rows = list(csv.reader(io.StringIO(text)))
    left_out = rows[0].index(without) if without in rows[0] else -1
    return [[cell for c, cell in enumerate(row) if c != left_out] for row in rows]


def head(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "spec.json").read_text())
    assert found.pop("speed")
    return found


def same_files(one: Path, other: Path) -> None:
    """Byte by byte, but for what says how fast it was."""
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in other.iterdir())
    for name in ("claims.json", "figure.svg", "figure.png"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    a, b = (columns((folder / "table.csv").read_text(), without="rounds/s") for folder in (one, other))
    assert a == b
    assert pq.read_table(one / "trace.parquet").to_pydict() == pq.read_table(other / "trace.parquet").to_pydict()
    assert head(one) == head(other)


@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_run_goes_on_where_it_was_stopped(
    tmp_path: Path, through: tuple[Path, Outcome], played: list[str], after: int
) -> None:
    interrupted(tmp_path, after)
    assert len(chunk_files(tmp_path)) == len(played) == after
    outcome = runner.run(SMALL_WORLDS, tmp_path, quick=True)
    assert len(played) == PLAYS, "nothing is played twice"
    same_numbers(outcome, through[1])
    report.write(SMALL_WORLDS, outcome, report.result_folder(tmp_path, SMALL_WORLDS, quick=True))
    same_files(tmp_path / SMALL_WORLDS.id, through[0] / SMALL_WORLDS.id)


def test_the_table_does_not_depend_on_the_clock(through: tuple[Path, Outcome]) -> None:
    slower = [
        (panel, replace(result, traces=tuple(replace(trace, seconds=99.0) for trace in result)))
        for panel, result in through[1].parts
    ]
    assert finals(replace(through[1], parts=tuple(slower))) == finals(through[1])


@pytest.mark.filterwarnings("ignore:.*tasks .* by the workers have been cancelled:UserWarning")
def test_a_run_of_two_processes_gives_the_same_numbers(tmp_path: Path, through: tuple[Path, Outcome]) -> None:
    """Also where it is stopped and goes on."""
    interrupted(tmp_path, 2, jobs=2)
    kept = len(chunk_files(tmp_path))
    assert 2 <= kept < PLAYS
    same_numbers(runner.run(SMALL_WORLDS, tmp_path, quick=True, jobs=2), through[1])
    assert len(chunk_files(tmp_path)) == PLAYS


@pytest.mark.xdist_group("cluster")
def test_a_cluster_gives_the_same_numbers(tmp_path: Path, through: tuple[Path, Outcome]) -> None:
    """Two workers of Dask on this machine."""
    pytest.importorskip("distributed")
    same_numbers(runner.run(SMALL_WORLDS, tmp_path, quick=True, jobs=2, engine="dask"), through[1])
    assert len(chunk_files(tmp_path)) == PLAYS


# Result folders


def test_a_result_folder_holds_spec_trace_figure_tables_and_claims(through: tuple[Path, Outcome]) -> None:
    folder, outcome = through[0] / SMALL_WORLDS.id, through[1]
    names = ["claims.json", "figure.png", "figure.svg", "spec.json", "table.csv", "table.md", "trace.parquet"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((folder / "spec.json").read_text())
    assert (found["id"], found["quick"], found["seed"]) == (SMALL_WORLDS.id, True, 1)
    assert [panel["world"] for panel in found["panels"]] == [CASCADE, DRAWN]
    assert [p["params"] for p in found["panels"][0]["policies"]] == [dict(t.params) for t in outcome.parts[0][1]]
    assert [c["claim"] for c in json.loads((folder / "claims.json").read_text())] == [
        c.text for c in SMALL_WORLDS.claims
    ]
    rows = pq.read_table(folder / "trace.parquet").to_pydict()
    assert len(rows["regret"]) == 2 * 2 * 30 * 5, "panels, policies, checkpoints, replications"
    trace = outcome.only(world="drawn")["UCB1"]
    at = [
        i
        for i, row in enumerate(zip(rows["panel"], rows["label"], rows["replication"], strict=True))
        if row == ("drawn", "UCB1", 4)
    ]
    np.testing.assert_array_equal([rows["regret"][i] for i in at], trace.regret[:, 4])
    np.testing.assert_array_equal([rows["reward"][i] for i in at], trace.reward[:, 4])
    np.testing.assert_array_equal([rows["round"][i] for i in at], trace.rounds)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"version": "99.0"}', "was written by rankloop 99.0, and this is "),
        ("{", "cannot be read; remove "),
        ("{}", "cannot be read; remove "),
        ("[]", "cannot be read; remove "),
    ],
)
def test_a_folder_of_another_version_is_refused(tmp_path: Path, text: str, words: str) -> None:
    folder = tmp_path / SMALL_WORLDS.id
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(text)
    with pytest.raises(RankloopError) as error:
        report.result_folder(tmp_path, SMALL_WORLDS, quick=True)
    said = str(error.value)
    assert words in said
    assert str(folder) in said
    assert "\n" not in said
    assert said.endswith(".")
    assert (folder / "spec.json").read_text() == text


def test_a_folder_without_its_head_is_no_result(tmp_path: Path, through: tuple[Path, Outcome]) -> None:
    folder = report.result_folder(tmp_path, SMALL_WORLDS, quick=True)
    assert report.read(folder) is None
    report.write(SMALL_WORLDS, through[1], folder)
    kept = report.read(folder)
    assert kept is not None
    assert [claim["claim"] for claim in kept.claims] == [claim.text for claim in SMALL_WORLDS.claims]
    assert kept.table == (folder / "table.md").read_text()
    (folder / "table.md").unlink()
    with pytest.raises(RankloopError, match=r"is not a complete result \(FileNotFoundError\); remove it and run"):
        report.read(folder)
    (folder / "spec.json").unlink()
    assert report.read(folder) is None
    assert report.result_folder(tmp_path, SMALL_WORLDS, quick=True) == folder, "and may be written again"


def test_writing_that_fails_leaves_no_head(tmp_path: Path, through: tuple[Path, Outcome]) -> None:
    folder = report.result_folder(tmp_path, SMALL_WORLDS, quick=True)
    report.write(SMALL_WORLDS, through[1], folder)

    class Broken(Curves):
        def draw(self, outcome: Outcome) -> Any:
            raise KeyboardInterrupt

    broken = replace(SMALL_WORLDS, arrangement=Broken())
    with pytest.raises(KeyboardInterrupt):
        report.write(broken, through[1], folder)
    assert report.read(folder) is None


# A policy of one's own


def own(setting: Setting) -> SupportsRanking:
    return catalogue.build("gts", setting, sigma=0.1)


CUSTOM_COLOUR = PolicySpec(id="own", label="Mine", function=own)


def legend_of(arrangement: Arrangement, outcome: Outcome) -> list[str]:
    return [text.get_text() for one in arrangement.draw(outcome).legends for text in one.get_texts()]


def test_a_custom_policy_is_in_every_panel_and_never_stored(
    tmp_path: Path, through: tuple[Path, Outcome], played: list[str]
) -> None:
    for times in (1, 2):
        outcome = runner.run(SMALL_WORLDS, tmp_path, quick=True, extra=[CUSTOM_COLOUR])
        assert sum(name.startswith("Mine") for name in played) == times * 4, "it may have changed: played again"
    assert len(played) == PLAYS + 8
    assert len(chunk_files(tmp_path)) == PLAYS
    report.write(SMALL_WORLDS, outcome, tmp_path / SMALL_WORLDS.id)
    assert "Mine" in legend_of(Curves(), outcome)
    rows = list(csv.DictReader(io.StringIO((tmp_path / SMALL_WORLDS.id / "table.csv").read_text())))
    assert sum(row["policy"] == "Mine" for row in rows) == 2
    trace = pq.read_table(tmp_path / SMALL_WORLDS.id / "trace.parquet").to_pydict()
    assert trace["label"].count("Mine") == 2 * 30 * 5
    same_numbers(
        replace(
            outcome,
            parts=tuple(
                (small, replace(r, traces=r.traces[:2]))
                for small, (_, r) in zip(small_panels(True), outcome.parts, strict=True)
            ),
        ),
        through[1],
    )


@pytest.mark.parametrize(
    "arrangement",
    [
        Curves(),
        OverlaidCurves(),
        FinalRegret("x", "x"),
        Curves(only=("GTS",)),
        Curves(only=("GTS",), until=10),
    ],
    ids=["curves", "overlay", "ends", "only", "until"],
)
def test_every_figure_shows_a_custom_policy(arrangement: Arrangement) -> None:
    found = outcome_of({"GTS": BASE, "UCB1": 2 * BASE, "Mine": BASE / 2}, {"GTS": BASE, "UCB1": BASE, "Mine": BASE})
    parts = tuple((panel.with_policy(CUSTOM_COLOUR), result) for panel, result in found.parts)
    assert any("Mine" in text for text in legend_of(arrangement, replace(found, parts=parts)))


# Claims, on outcomes made by hand

R = 40
BASE = 100.0 + np.random.default_rng(1).normal(0.0, 5.0, R)
NOISE = np.random.default_rng(2).normal(0.0, 10.0, R)
NOISE -= NOISE.mean()
"""Adds nothing on average: a ratio of means is exactly what is written."""


def trace(
    label: str, regret: ArrayLike, *, id: str | None = None, reward: ArrayLike | None = None, **params: float
) -> Trace:
    """A trace with this regret, [R] at the end or [C, R]; reward 1,000 less regret unless given."""
    lost = np.atleast_2d(np.asarray(regret, dtype=np.float64))
    won = 1000.0 - lost if reward is None else np.broadcast_to(np.asarray(reward, dtype=np.float64), lost.shape)
    return Trace(id or label, label, params, lost, won, 1.0, 10 * np.arange(1, len(lost) + 1))


def made_panel(key: Key, title: str, traces: tuple[Trace, ...], random: ArrayLike = 999.0) -> tuple[Panel, Result]:
    baseline = trace("random", np.broadcast_to(np.asarray(random, dtype=np.float64), traces[0].regret.shape))
    rounds, replications = int(traces[0].rounds[-1]), traces[0].regret.shape[1]
    panel = Panel(key, title, CASCADE, tuple({"id": "gts", "label": t.label} for t in traces), rounds, replications)
    return panel, Result({}, "0", traces, baseline)


def made(*parts: tuple[Panel, Result]) -> Outcome:
    return Outcome(SMALL_WORLDS.id, True, parts)


def outcome_of(*panels: Mapping[str, ArrayLike]) -> Outcome:
    """Panels x = 0, 1, … of labels and their regrets."""
    return made(
        *(
            made_panel({"x": x}, f"x = {x}", tuple(trace(label, regret) for label, regret in finals.items()))
            for x, finals in enumerate(panels)
        )
    )


TWICE = outcome_of({"good": BASE, "bad": 2.0 * BASE + NOISE})
"""The final regret of bad is twice that of good, with noise."""


@pytest.mark.parametrize(("times", "verdict"), [(1.0, HOLDS), (1.8, HOLDS), (2.0, UNSURE), (2.2, FAILS)])
def test_lower_regret_requires_a_multiple_of_the_regret(times: float, verdict: ClaimVerdict) -> None:
    found = LowerRegret("good", ("bad",), times).judge(TWICE)
    assert found.verdict == verdict
    assert found.numbers.startswith("bad / good = 2.00 ± 0.0")


@pytest.mark.parametrize(("times", "verdict"), [(2.2, HOLDS), (2.0, UNSURE), (1.8, FAILS), (1.0, FAILS)])
def test_close_to_requires_at_most_a_multiple_of_the_regret(times: float, verdict: ClaimVerdict) -> None:
    found = CloseTo("bad", "good", times).judge(TWICE)
    assert found.verdict == verdict
    assert found.numbers.startswith("bad / good = 2.00 ± 0.0")


def test_the_interval_is_of_paired_differences() -> None:
    """Regrets that vary by 30 % from run to run, always ten percent apart, are distinguished; shuffled they are not."""
    spread = np.linspace(50.0, 150.0, R)
    shuffled = np.random.default_rng(3).permutation(1.1 * spread)
    assert LowerRegret("good", ("bad",)).judge(outcome_of({"good": spread, "bad": 1.1 * spread})).verdict == HOLDS
    assert LowerRegret("good", ("bad",)).judge(outcome_of({"good": spread, "bad": shuffled})).verdict == UNSURE


@pytest.mark.parametrize("test", [LowerRegret("good", ("bad",)), CloseTo("good", "bad", 2.0), LowestRegret("good")])
def test_one_run_decides_nothing(test: claims.ClaimTest) -> None:
    assert test.judge(outcome_of({"good": [1.0], "bad": [9.0]})).verdict == UNSURE


@pytest.mark.parametrize("good", [-10.0 + NOISE / 10.0, np.zeros(R)], ids=["negative", "zero"])
def test_regret_may_be_nothing_or_less(good: FloatArray) -> None:
    """As in matrix worlds, whose best list is found greedily: a loss of 50 is more than none, and than a gain."""
    found = outcome_of({"good": good, "bad": 50.0 + NOISE})
    assert LowerRegret("good", ("bad",)).judge(found).verdict == HOLDS
    assert LowestRegret("good").judge(found).verdict == HOLDS


def test_a_claim_must_hold_in_every_panel_that_it_is_about() -> None:
    good, bad = {"a": BASE, "b": 2 * BASE + NOISE}, {"a": 2 * BASE + NOISE, "b": BASE}
    even = {"a": BASE, "b": BASE + NOISE}
    test = LowerRegret("a", ("b",))
    assert test.judge(outcome_of(good, good)).verdict == HOLDS
    assert test.judge(outcome_of(good, even)).verdict == UNSURE
    assert test.judge(outcome_of(even, bad, good)).verdict == FAILS
    assert replace(test, where={"x": 0}).judge(outcome_of(good, bad)).verdict == HOLDS
    assert replace(test, where={"x": 1}).judge(outcome_of(good, bad)).verdict == FAILS
    assert replace(test, where={"x": 7}).judge(outcome_of(good, bad)).verdict == UNSURE, "nothing was run"
    said = test.judge(outcome_of(good, bad)).numbers
    assert said.startswith("x = 0: b / a = ")
    assert "; x = 1: b / a = " in said


def test_every_worse_policy_must_be_worse() -> None:
    panel = {"a": BASE, "b": 2 * BASE + NOISE, "c": BASE / 2}
    assert LowerRegret("a", ("b",)).judge(outcome_of(panel)).verdict == HOLDS
    assert LowerRegret("a", ("b", "c")).judge(outcome_of(panel)).verdict == FAILS


def test_the_baseline_may_be_compared_with() -> None:
    assert LowerRegret("good", ("random",), times=9.0).judge(TWICE).verdict == HOLDS
    assert LowerRegret("random", ("good",)).judge(TWICE).verdict == FAILS
    with pytest.raises(InvalidInput, match="label is 'other'; accepted: one of good, bad"):
        LowerRegret("other", ("good",)).judge(TWICE)


@pytest.mark.parametrize(
    ("rival", "verdict"), [(2 * BASE + NOISE, HOLDS), (BASE + NOISE, UNSURE), (BASE / 2 + NOISE / 9, FAILS)]
)
def test_lowest_is_against_the_best_of_the_others(rival: FloatArray, verdict: ClaimVerdict) -> None:
    found = LowestRegret("mine").judge(outcome_of({"far": 9 * BASE, "rival": rival, "mine": BASE}))
    assert found.verdict == verdict
    assert found.numbers.startswith("next is rival: rival / mine = ")


@pytest.mark.parametrize(
    ("at", "verdict"), [(5, HOLDS), (10, HOLDS), (11, FAILS), (20, FAILS), (999, FAILS), (None, FAILS)]
)
def test_lowest_at_a_round(at: int | None, verdict: ClaimVerdict) -> None:
    """Checkpoints at 10 and 20: ahead at the first, behind at the second."""
    made = outcome_of({"mine": [BASE, 9 * BASE], "rival": [2 * BASE + NOISE, 3 * BASE + NOISE]})
    assert LowestRegret("mine", at=at).judge(made).verdict == verdict
    assert LowerRegret("mine", ("rival",), at=at).judge(made).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.5, 2.5, HOLDS), (1.5, 2.0, UNSURE), (2.0, 2.5, UNSURE), (2.2, 3.0, FAILS), (0.5, 1.8, FAILS)],
)
def test_similar_regret_is_between_two_bounds(low: float, high: float, verdict: ClaimVerdict) -> None:
    found = SimilarRegret("bad", "good", low, high).judge(TWICE)
    assert found.verdict == verdict
    assert found.numbers.startswith("bad / good = 2.00 ± 0.0")
    assert found.numbers.endswith(f"(bounds {low:g} and {high:g})")


@pytest.mark.parametrize(
    ("times", "verdict"), [((1.0, 1.5), HOLDS), ((1.5, 2.2), HOLDS), ((2.2, 3.0), FAILS), ((2.0, 3.0), UNSURE)]
)
def test_one_value_of_a_constant_confirms_and_all_refute(times: tuple[float, ...], verdict: ClaimVerdict) -> None:
    test = ForEachConstant(tuple((f"c = {x:g}", LowerRegret("good", ("bad",), x)) for x in times))
    found = test.judge(TWICE)
    assert found.verdict == verdict
    assert all(f"c = {x:g}: {LowerRegret('good', ('bad',), x).judge(TWICE).verdict}" in found.numbers for x in times)


def test_one_policy_is_compared_between_panels() -> None:
    """Means 1, 2 and 4 times 100, each with a noise of ±3 or so."""
    mean = BASE.mean()
    made = outcome_of(*({"a": times * mean + NOISE} for times in (2.0, 1.0, 4.0)))
    assert LowestPanel("a", "x = 1").judge(made).verdict == HOLDS
    assert LowestPanel("a", "x = 0").judge(made).verdict == FAILS
    even = outcome_of({"a": mean + NOISE}, {"a": mean + NOISE})
    assert LowestPanel("a", "x = 0").judge(even).verdict == UNSURE
    for low, high, verdict in ((1.5, 2.5, HOLDS), (2.0, 2.5, UNSURE), (2.5, 3.0, FAILS), (1.0, 1.5, FAILS)):
        found = PanelRatio("a", "x = 2", "x = 0", low, high).judge(made)
        assert found.verdict == verdict
        assert found.numbers.startswith("a at x = 2 / at x = 0 = 2.00 ± ")
    assert MonotoneTrend("a", falls=True).judge(made).verdict == FAILS
    assert MonotoneTrend("a", falls=True, until="x = 1").judge(made).verdict == HOLDS


@pytest.mark.parametrize(
    ("ratios", "verdict"), [((1.0, 2.0, 3.0), HOLDS), ((1.0, 3.0, 2.0), FAILS), ((1.0, 1.0, 2.0), UNSURE)]
)
def test_a_gap_grows_in_each_step_and_for_each_policy(ratios: tuple[float, ...], verdict: ClaimVerdict) -> None:
    panels = [{"a": BASE, "b": ratio * BASE + NOISE, "c": (5.0 + n) * BASE + NOISE} for n, ratio in enumerate(ratios)]
    assert GapGrows("a", ("b",)).judge(outcome_of(*panels)).verdict == verdict
    assert GapGrows("a", ("b", "c")).judge(outcome_of(*panels)).verdict == verdict
    assert GapGrows("a", ("c",)).judge(outcome_of(*panels)).verdict == HOLDS


@pytest.mark.parametrize(
    ("means", "verdict", "falling"),
    [
        ((1, 2, 3), HOLDS, FAILS),
        ((3, 2, 1), FAILS, HOLDS),
        ((1, 3, 2), FAILS, FAILS),
        ((1, 1.01, 2), UNSURE, FAILS),  # 1 ± 4.5 more
        ((1, 1.01), UNSURE, UNSURE),
        ((1,), UNSURE, UNSURE),
    ],
)
def test_a_trend_is_monotone_from_panel_to_panel(
    means: tuple[float, ...], verdict: ClaimVerdict, falling: ClaimVerdict
) -> None:
    """Regret goes with these means; reward is 1,000 less regret, so it goes the other way."""
    made = outcome_of(*({"a": mean * BASE.mean() + NOISE} for mean in means))
    assert MonotoneTrend("a").judge(made).verdict == verdict
    assert MonotoneTrend("a", falls=True).judge(made).verdict == falling
    assert MonotoneTrend("a", of="reward").judge(made).verdict == falling
    assert MonotoneTrend("a", of="reward", falls=True).judge(made).verdict == verdict
    assert MonotoneTrend("a").judge(made).numbers.count("±") == len(means)


@pytest.mark.parametrize(
    ("largest", "verdict", "wide"), [(1.2, HOLDS, FAILS), (1.5, UNSURE, UNSURE), (3.0, FAILS, HOLDS)]
)
def test_spread_is_the_largest_over_the_smallest(largest: float, verdict: ClaimVerdict, wide: ClaimVerdict) -> None:
    mean = BASE.mean()
    made = outcome_of({"a": 1.1 * mean + NOISE}, {"a": largest * mean + NOISE}, {"a": mean + NOISE})
    found = RegretSpread("a", 1.5).judge(made)
    assert found.verdict == verdict
    assert found.numbers.startswith(f"a at x = 1 / at x = 2 = {largest:.2f} ± ")
    assert RegretSpread("a", 1.5, wide=True).judge(made).verdict == wide


def growing(f: Callable[[FloatArray], FloatArray], noise: float = 0.0) -> Outcome:
    t = np.arange(1.0, 101.0)[:, None]
    return outcome_of({"a": f(t) * BASE + noise * (t > 75) * (t - 75) / 25 * NOISE})


@pytest.mark.parametrize(
    ("curve", "verdict"),
    [
        (growing(lambda t: t), HOLDS),
        (growing(lambda t: np.log(t)), FAILS),  # ln(4/3)/ln 2 = 0.42
        (growing(lambda t: np.sqrt(t)), FAILS),  # (1 - √¾)/(√½ - √¼) = 0.65
        (growing(lambda t: np.minimum(t, 75.0) + 0.7 * np.maximum(t - 75.0, 0.0), noise=10.0), UNSURE),
    ],
    ids=["line", "logarithm", "root", "kink"],
)
def test_linear_growth_compares_the_last_quarter_with_the_second(curve: Outcome, verdict: ClaimVerdict) -> None:
    assert LinearGrowth("a").judge(curve).verdict == verdict


def test_the_worst_of_several_findings_counts() -> None:
    def of(*verdicts: ClaimVerdict) -> ClaimVerdict:
        return combine((f"panel {i}", ClaimFinding(verdict, "n")) for i, verdict in enumerate(verdicts)).verdict

    assert of(HOLDS, HOLDS) == HOLDS
    assert of(HOLDS, UNSURE, HOLDS) == UNSURE
    assert of(UNSURE, FAILS, HOLDS) == FAILS
    assert of() == UNSURE
    assert combine([("a", ClaimFinding(HOLDS, "1")), ("", ClaimFinding(HOLDS, "2"))]).numbers == "a: 1; 2"


@pytest.mark.parametrize(
    ("value", "half", "verdict"),
    [(2.0, 0.9, HOLDS), (2.0, 1.0, UNSURE), (0.0, 1.0, UNSURE), (0.0, 0.9, FAILS), (9.0, np.nan, UNSURE)],
)
def test_an_interval_must_lie_above_a_bound_as_a_whole(value: float, half: float, verdict: ClaimVerdict) -> None:
    assert interval_above(value, half, 1.0) == verdict


@pytest.mark.parametrize(
    ("value", "half", "verdict"),
    [
        (2.0, 0.9, HOLDS),
        (2.0, 1.1, UNSURE),
        (3.5, 0.4, FAILS),
        (0.5, 0.4, FAILS),
        (3.1, 0.4, UNSURE),
        (2.0, np.nan, UNSURE),
    ],
)
def test_an_interval_must_lie_between_the_bounds_as_a_whole(value: float, half: float, verdict: ClaimVerdict) -> None:
    assert interval_inside(value, half, 1.0, 3.0) == verdict


def test_posteriors_are_compared_by_their_deviations() -> None:
    """After 10 successes of 100: Beta(11, 91) has variance 11·91/(102²·103); N(0, 1) with noise ½ has 1/401."""
    found = BetaPosteriorWider().judge(made())
    assert f"ν = 0.1: sd {(11 * 91 / (102**2 * 103)) ** 0.5:.3f} (Beta), {401**-0.5:.3f} (Gaussian)" in found.numbers
    assert found.verdict == FAILS
    assert legend_of(PosteriorDensities(), made()) == ["Gaussian", "Beta"]
    assert len(PosteriorDensities().tables(made())["table"].rows) == 6


# Normalised cumulative reward


def scenario_panel(
    scenario: str, budget: int, *traces: Trace, space: str = "plain", **key: Any
) -> tuple[Panel, Result]:
    """A panel of the paper's grid; the random policy loses 99, so that a loss of 99 - 100 v is an NCR of v."""
    whole: Key = {"set": "mnist-0", "scenario": scenario, "budget": budget, "space": space, **key}
    return made_panel(whole, f"{whole}", traces, random=99.0)


def scored(id: str, ncr: float, **params: float) -> Trace:
    """A trace of two runs whose normalised cumulative reward is this."""
    return trace(f"{id}, {params}", np.array([99.0 - 100.0 * ncr] * 2), id=id, **params)


def test_ncr_is_the_share_of_what_could_be_won_over_the_random_policy() -> None:
    """(CR - CR_rand)/(CR_max - CR_rand + 1), with losses 49 and 29 against 99: 50/100 and 70/100."""
    one = trace("ind", [49.0, 29.0])
    best = best_parameters(made(scenario_panel("vanilla", 1, one)), "ind", budget=1)
    assert best is not None
    np.testing.assert_allclose(best.ncr, [0.5, 0.7])


def test_the_winner_of_the_search_has_the_largest_reward() -> None:
    found = made(
        scenario_panel(
            "vanilla", 1, scored("ind", 0.4, rate=4.0), scored("ind", 0.7, rate=16.0), scored("eps-ind", 0.9)
        ),
        scenario_panel("vanilla", 1, scored("dep", 0.6, rate=8.0), topics=10),
        scenario_panel("vanilla", 1, scored("dep", 0.8, rate=8.0, alpha=0.001), topics=20),
        scenario_panel("vanilla", 5, scored("ind", 0.99)),
        scenario_panel("vanilla", 1, scored("ind", 0.98), space="mixture"),
    )
    ind = best_parameters(found, "ind", scenario="vanilla", budget=1, space="plain")
    dep = best_parameters(found, "dep", scenario="vanilla", budget=1, space="plain")
    assert ind is not None
    assert dep is not None
    assert (ind.params, round(float(ind.ncr.mean()), 9)) == ("rate = 16", 0.7)
    assert (dep.params, round(float(dep.ncr.mean()), 9)) == ("topics = 20, rate = 8, alpha = 0.001", 0.8)
    assert best_parameters(found, "ind", scenario="exponential") is None


def printed(off: float = 0.0, *, at: tuple[str, int] = ("vanilla", 5), table: int = 4, id: str = "ind") -> Outcome:
    """The numbers of a table of the paper, one of them off by this."""
    return made(
        *(
            scenario_panel(
                scenario,
                budget,
                scored(id, (published(table, scenario, id, budget) or 0.0) + off * (at == (scenario, budget))),
            )
            for scenario in ("vanilla", "exponential")
            for budget in (1, 5, 10)
        )
    )


@pytest.mark.parametrize(("off", "verdict"), [(0.0, HOLDS), (-0.034, HOLDS), (-0.036, FAILS), (0.05, FAILS)])
def test_near_printed_allows_three_hundredths_and_rounding(off: float, verdict: ClaimVerdict) -> None:
    for at in (("vanilla", 5), ("exponential", 10)):
        found = NcrNearPrinted(4, "ind").judge(printed(off, at=at))
        assert found.verdict == verdict
        near = 6 - (verdict == FAILS)
        assert found.numbers.startswith(f"{near} of 6 cells within 0.03")
        far = f"{at[0]} b = {at[1]}: {0.99 + off:.2f} ± 0.00, printed 0.99"
        assert (far in found.numbers) == (verdict == FAILS)


def test_near_printed_looks_at_its_budgets_only() -> None:
    found = NcrNearPrinted(4, "ind", budgets=(1, 10)).judge(printed(-0.5, at=("vanilla", 5)))
    assert found == ClaimFinding(HOLDS, "4 of 4 cells within 0.03")


def test_near_printed_is_undecided_where_nothing_was_run() -> None:
    assert NcrNearPrinted(4, "dep").judge(printed()).verdict == UNSURE
    assert NcrNearPrinted(4, "ind", budgets=(50,)).judge(printed()).verdict == UNSURE


@pytest.mark.parametrize(("rival", "verdict"), [(0.6, HOLDS), (0.8, HOLDS), (0.804, HOLDS), (0.806, FAILS)])
def test_ncr_at_least_allows_rounding(rival: float, verdict: ClaimVerdict) -> None:
    found = made(
        scenario_panel("vanilla", 1, scored("ind", 0.8), scored("c-ucb1", rival), scored("gl-cdcm", 0.1)),
        scenario_panel("vanilla", 5, scored("ind", 0.8), scored("c-ucb1", 0.2)),
        scenario_panel("exponential", 1, scored("ind", 0.1), scored("dep", 0.2)),
    )
    judged = NcrAtLeast(("ind", "dep"), ("c-ucb1", "gl-cdcm"), "vanilla").judge(found)
    assert judged.verdict == verdict
    assert judged.numbers.startswith(f"b = 1: Ind 0.800, C-UCB1 {rival:.3f}, GL-CDCM 0.100; b = 5: ")
    assert NcrAtLeast(("ind",), ("dep",), "exponential").judge(found).verdict == FAILS
    assert NcrAtLeast(("ind",), ("dep",), "vanilla").judge(found).verdict == UNSURE, "Dep was not run there"
    assert NcrAtLeast(("ind",), ("dep",), "exponential", set="other").judge(found).verdict == UNSURE


def test_ncr_verdicts_rest_on_intervals() -> None:
    """Two runs 0.1 apart: the interval of their mean is wider than any distance that is tested."""
    noisy = trace("ind", [99.0 - 100.0 * (0.75 + 0.1 * n) for n in range(2)], id="ind")
    found = made(scenario_panel("vanilla", 1, noisy, scored("c-ucb1", 0.9)))
    assert NcrAtLeast(("ind",), ("c-ucb1",), "vanilla", (1,)).judge(found).verdict == UNSURE
    assert NcrAtLeast(("c-ucb1",), ("ind",), "vanilla", (1,)).judge(found).verdict == UNSURE
    near = NcrNearPrinted(4, "ind", budgets=(1,)).judge(found)
    assert near.verdict == UNSURE
    assert near.numbers.startswith("0 of 1 cells within 0.03; vanilla b = 1: 0.80 ± 0.6")


def test_printed_winners_are_those_of_the_tables() -> None:
    """Table 9: C-UCB1, GL-CDCM and Ind at 0.89 at most; table 13: baselines win at b = 1 with 0.80 against 0.75."""
    assert printed_winners(9) == tuple(
        b
        for b in (1, 5)
        if max(published(9, "vanilla", id, b) or 0.0 for id in ("ind", "dep"))
        >= max(published(9, "vanilla", id, b) or 0.0 for id in ("eps-ind", "c-ucb1", "gl-cdcm"))
    )
    assert printed_winners(13) == (5,)
    assert printed_winners(4) == (1, 5)


def test_the_interval_of_a_rank_correlation_is_fishers() -> None:
    """Ranks 1 2 3 4 5 against 2 1 3 5 4: 1 - 6·4/120 = 0.8; half width of artanh 1.96·√(1.06/2)."""
    rank, low, high = rank_correlation(np.arange(5.0), np.array([2.0, 1.0, 3.0, 5.0, 4.0]))
    assert rank == pytest.approx(0.8)
    half = 1.96 * (1.06 / 2.0) ** 0.5
    assert (low, high) == pytest.approx((np.tanh(np.arctanh(0.8) - half), np.tanh(np.arctanh(0.8) + half)))
    assert np.isnan(rank_correlation(np.arange(3.0), np.arange(3.0))).all()


def spaces(dep: ArrayLike, difference: ArrayLike) -> tuple[MixtureSpaceEffect, Outcome]:
    """Reward per round (of ten) of Dep and what Ind wins by the space of the mixture, for pivots 0, 1, …"""

    def rated(id: str, rate: float) -> Trace:
        return trace(id, [1.0, 1.0], reward=[10.0 * rate] * 2)

    parts = []
    pairs = list(zip(np.asarray(dep), np.asarray(difference), strict=True))
    for pivot, (of_dep, more) in enumerate(pairs):
        spaces = {"plain": (rated("ind", 0.5), rated("dep", of_dep)), "mixture": (rated("ind", 0.5 + more),)}
        for scenario, budget in (("vanilla", 1), ("exponential", 10)):
            for space, traces in spaces.items():
                parts.append(scenario_panel(scenario, budget, *traces, space=space, set=f"mnist-{pivot}"))
    return MixtureSpaceEffect(tuple(range(len(pairs)))), made(*parts)


@pytest.mark.parametrize(
    ("dep", "difference", "verdict"),
    [
        ([0.1, 0.5, 0.3, 0.9], [-0.3, 0.1, -0.2, 0.2], HOLDS),
        ([0.1, 0.5, 0.3, 0.9], [0.2, -0.2, 0.1, -0.3], FAILS),
        ([0.1, 0.2, 0.3, 0.4], [0.0, 0.3, -0.1, 0.2], UNSURE),  # ranks 1 3 0 2: correlation 0
    ],
)
def test_the_space_of_the_mixture_is_compared_by_ranks(
    dep: list[float], difference: list[float], verdict: ClaimVerdict
) -> None:
    test, found = spaces(dep, difference)
    for scenario, budget in (("vanilla", 1), ("exponential", 10)):
        a, b = test.numbers(found, scenario, budget)
        np.testing.assert_allclose(a, dep)
        np.testing.assert_allclose(b, difference)
    assert RewardFollowsSpace(test).judge(found).verdict == verdict
    hurt = [pivot for pivot, gain in enumerate(difference) if gain < 0.0]
    helped = [pivot for pivot, gain in enumerate(difference) if gain > 0.0]
    assert SpaceHurts(tuple(hurt)).judge(found).verdict == HOLDS
    assert SpaceHurts((*hurt, helped[0])).judge(found).verdict == FAILS
    assert test.tables(found)["table"].rows[0] == ("vanilla", "1", "0", f"{dep[0]:.3f}", f"{difference[0]:+.3f}")
    assert len(legend_of(test, found)) == 2


@pytest.mark.parametrize("case", ["ties", "missing"])
def test_numbers_that_are_equal_or_missing_say_nothing(case: str) -> None:
    test, found = spaces([0.5] * 4, [0.1, 0.2, 0.3, 0.4])
    assert RewardFollowsSpace(test).judge(found if case == "ties" else made()).verdict == UNSURE
    assert SpaceHurts((0, 1)).judge(made()).verdict == UNSURE


def test_the_table_shows_the_printed_numbers_beside() -> None:
    tables = NcrTable(4).tables(printed(-0.1))
    assert tables["table"].columns == ("b", "Ind, vanilla", "Ind, exponential")
    assert tables["table"].rows == (
        ("1", "0.97 (0.97)", "0.97 (0.97)"),
        ("5", "0.89 (0.99)", "0.99 (0.99)"),
        ("10", "0.99 (0.99)", "0.99 (0.99)"),
    )
    assert [row[:3] for row in tables["winners"].rows][:2] == [("vanilla", "1", "Ind"), ("vanilla", "5", "Ind")]
    assert legend_of(NcrTable(4), printed()) == ["Ind", "Ind, printed"]


def test_reward_rates_are_those_of_the_winners() -> None:
    """Reward 1,000 less a loss of 59 or 19, after ten rounds."""
    found = made(
        scenario_panel("vanilla", 1, scored("ind", 0.4, rate=4.0), scored("ind", 0.8, rate=16.0), set="a"),
        scenario_panel("exponential", 10, scored("dep", 0.4, rate=8.0), set="b", topics=20),
    )
    rates = RewardRates((("a", "A"), ("b", "B")))
    assert rates.tables(found)["table"].rows == (
        ("A", "vanilla", "1", "Ind", "98.100", "rate = 16"),
        ("B", "exponential", "10", "Dep", "94.100", "topics = 20, rate = 8"),
    )
    assert legend_of(rates, found) == ["Ind", "Dep"]


def test_published_numbers_are_the_papers() -> None:
    """Cells of tables 1, 4 and 13 of the paper, Appendix D.3."""
    table1 = {
        ("vanilla", "dep", 1): 0.51,
        ("vanilla", "c-ucb1", 5): 0.50,
        ("vanilla", "eps-ind", 10): 0.15,
        ("exponential", "ind", 10): 0.38,
        ("exponential", "dep", 50): 0.50,
        ("exponential", "dep", 100): 0.54,
    }
    table4 = {
        ("vanilla", "eps-ind", 1): 0.95,
        ("vanilla", "c-ucb1", 1): 0.84,
        ("vanilla", "gl-cdcm", 1): 0.98,
        ("vanilla", "ind", 1): 0.97,
        ("vanilla", "dep", 50): 0.70,
        ("exponential", "ind", 5): 0.99,
        ("exponential", "dep", 1): 1.00,
    }
    table13 = {
        ("vanilla", "eps-ind", 50): -4.56,
        ("vanilla", "eps-ind", 100): -3.00,
        ("vanilla", "ind", 1): 0.75,
        ("vanilla", "dep", 5): 0.98,
        ("exponential", "ind", 1): 0.76,
        ("exponential", "dep", 10): 0.86,
        ("exponential", "ind", 100): 0.87,
    }
    for number_, cells in ((1, table1), (4, table4), (13, table13)):
        for (scenario, id, budget), expected in cells.items():
            assert published(number_, scenario, id, budget) == expected
    assert list(TABLES) == list(range(1, 14))
    for rows in TABLES.values():
        assert list(rows) == [1, 5, 10, 50, 100]
        assert {len(row) for row in rows.values()} == {len(COLUMNS)}
        assert all(value <= 1.0 for row in rows.values() for value in row)
    assert published(1, "exponential", "c-ucb1", 1) is None
    assert published(1, "vanilla", "ind", 7) is None
    assert published(14, "vanilla", "ind", 1) is None


# Tables and figures


def test_a_table_is_markdown_and_csv() -> None:
    table = ResultTable(("policy", "regret"), (("a|b", "1.5"), ("c, d", "-")))
    assert table.markdown().splitlines() == ["| policy | regret |", "|---|---:|", r"| a\|b | 1.5 |", "| c, d | - |"]
    assert list(csv.reader(io.StringIO(table.csv()))) == [["policy", "regret"], ["a|b", "1.5"], ["c, d", "-"]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (12345.6, "12,346"),
        (123.456, "123.5"),
        (1.23456, "1.235"),
        (0.012345, "0.0123"),
        (-5.0, "-5.000"),
        (np.nan, "-"),
    ],
)
def test_numbers_have_four_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_final_numbers_are_sorted_by_regret() -> None:
    """Twice the regret, and the shares of the random policy's 999."""
    rows = finals(outcome_of({"bad": 2 * BASE, "good": BASE})).rows
    assert [row[:2] for row in rows] == [("x = 0", "good"), ("x = 0", "bad")]
    assert [row[4] for row in rows] == [f"{BASE.mean() / 9.99:.1f} %", f"{2 * BASE.mean() / 9.99:.1f} %"]
    assert rows[0][2] == number(float(BASE.mean()))


def test_metrics_of_a_curve() -> None:
    """Rounds 10 and 20; lost 1 and 2 of what the best lists would have won: 10 and 20."""
    one = trace("a", [[1.0, 1.0], [2.0, 2.0]], reward=[[9.0, 9.0], [18.0, 18.0]])
    np.testing.assert_allclose(values(one, "rate"), [[0.9] * 2] * 2)
    np.testing.assert_allclose(values(one, "relative"), [[0.1] * 2] * 2)
    np.testing.assert_allclose(values(one, "regret"), one.regret)


def test_figures_show_the_selected_curves() -> None:
    made = outcome_of({"a": [BASE, 2 * BASE], "b": [BASE, 3 * BASE]}, {"a": [BASE, 2 * BASE], "b": [BASE, 3 * BASE]})
    figure = Curves(until=10, hide={"x = 1": ("b",)}).draw(made)
    first, second = (axes for axes in figure.axes if axes.get_visible())
    assert [line.get_label() for line in first.get_lines()] == ["a", "b"]
    assert [line.get_label() for line in second.get_lines()] == ["a"]
    assert [line.get_xdata().tolist() for line in first.get_lines()] == [[10], [10]]  # type: ignore[union-attr]
    assert legend_of(Curves(only=("b",)), made) == ["b"]
    assert legend_of(OverlaidCurves(), made) == ["x = 0, a", "x = 0, b", "x = 1, a", "x = 1, b"]
    assert legend_of(FinalRegret("x", "x"), made) == ["a", "b"]
    assert legend_of(CurvesAndFinals(), replace(made, parts=made.parts[:1])) == ["a", "b"]


def test_one_panel_is_found_by_its_key() -> None:
    made = outcome_of({"a": BASE}, {"a": 2 * BASE})
    assert made.only(x=1)["a"].final.mean() == pytest.approx(2 * BASE.mean())
    for key, count in (({"x": 2}, 0), ({}, 2)):
        with pytest.raises(RankloopError, match=f"prior/small has {count} panels with"):
            made.only(**key)


# The library


def labels(panel: Panel) -> list[str]:
    return [spec.label for spec in policy_specs(panel.policies)]


def named_labels(test: Any) -> set[str]:
    """The labels of policies that a claim speaks about."""
    match test:
        case LowerRegret(better, worse):
            return {better, *worse}
        case CloseTo(label, to):
            return {label, to}
        case SimilarRegret(label, to):
            return {label, to}
        case GapGrows(better, worse):
            return {better, *worse}
        case ForEachConstant(tests):
            return {label for _, inner in tests for label in named_labels(inner)}
        case LowestRegret(label) | MonotoneTrend(label) | RegretSpread(label) | LinearGrowth(label):
            return {label}
        case LowestPanel(label) | PanelRatio(label):
            return {label}
    return set()


def test_ids_are_unique_and_begin_with_a_paper() -> None:
    ids = [experiment.id for experiment in library.ALL]
    assert len(set(ids)) == len(ids)
    assert {experiment.paper for experiment in library.ALL} == set(library.PAPERS)
    assert all(len(id.split("/")) == 2 for id in ids)
    assert {data for experiment in library.ALL for data in experiment.data} <= set(SETS)


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_panels_have_distinct_keys_and_valid_specs(
    quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of data sets are refused only because these are not there."""
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    for experiment in library.ALL:
        panels = experiment.panels(quick)
        assert len({json.dumps(panel.key, sort_keys=True) for panel in panels}) == len(panels), experiment.id
        assert len({panel.title for panel in panels}) == len(panels), experiment.id
        for panel in panels:
            assert labels(panel), experiment.id
            if experiment.data:
                with pytest.raises(MissingData, match=rf"data set ({'|'.join(experiment.data)}) is not in"):
                    panel.spec()
            else:
                spec = panel.spec()
                assert (spec.rounds, spec.replications, spec.seed) == (panel.rounds, panel.replications, 1)


def test_the_quick_version_is_the_smaller_one() -> None:
    for experiment in library.ALL:
        assert experiment.cost(True) < experiment.cost(False) or not experiment.panels(True), experiment.id
    assert sum(experiment.cost(True) for experiment in library.ALL) < 40e6


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_claims_speak_of_policies_and_panels_that_are_there(quick: bool) -> None:
    for experiment in library.ALL:
        panels = experiment.panels(quick)
        for claim in experiment.claims:
            assert claim.text
            assert claim.source
            assert claim.data
            where = getattr(claim.test, "where", {})
            about = [panel for panel in panels if all(panel.key.get(name) == value for name, value in where.items())]
            wanted = named_labels(claim.test)
            assert not wanted or about, f"{experiment.id}: {claim.text}"
            for panel in about:
                assert wanted <= {*labels(panel), "random"}, f"{experiment.id}: {claim.text}"
            if isinstance(claim.test, NcrNearPrinted | NcrAtLeast):
                cells = {(p.key["scenario"], p.key["budget"], s.id) for p in panels for s in policy_specs(p.policies)}
                scenarios = (claim.test.scenario,) if isinstance(claim.test, NcrAtLeast) else ("vanilla", "exponential")
                ids = (
                    (*claim.test.best_of, *claim.test.over) if isinstance(claim.test, NcrAtLeast) else (claim.test.id,)
                )
                assert {(s, b, id) for s in scenarios for b in claim.test.budgets for id in ids} <= cells, experiment.id


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_arrangements_speak_of_policies_and_panels_that_are_there(quick: bool) -> None:
    for experiment in library.ALL:
        panels = experiment.panels(quick)
        titles = {panel.title: labels(panel) for panel in panels}
        match experiment.arrangement:
            case Curves(only=only, hide=hide):
                assert all(set(only) <= set(there) for there in titles.values()), experiment.id
                assert all(set(hidden) <= set(titles[title]) for title, hidden in hide.items()), experiment.id
            case FinalRegret(key=key):
                assert all(isinstance(panel.key[key], int | float) for panel in panels), experiment.id
                assert len({tuple(there) for there in titles.values()}) == 1, experiment.id
            case CurvesAndFinals():
                assert len(panels) == 1, experiment.id
            case NcrTable(number=number_):
                assert number_ in TABLES
                assert {panel.key["scenario"] for panel in panels} == {"vanilla", "exponential"}
            case RewardRates(sets=sets, rows=rows):
                there = {(p.key["set"], p.key["scenario"], p.key["budget"]) for p in panels}
                assert {(key, *row) for key, _ in sets for row in rows} == there
            case MixtureSpaceEffect(pivots=pivots, rows=rows):
                cells = {(p.key["set"], p.key["space"], p.key["scenario"], p.key["budget"]) for p in panels}
                wanted = {(f"mnist-{p}", space, *row) for p in pivots for space in ("plain", "mixture") for row in rows}
                assert wanted == cells


def test_experiments_are_chosen_by_id_or_pattern_in_the_order_of_the_library() -> None:
    def ids(*patterns: str) -> list[str]:
        return [experiment.id for experiment in library.chosen(patterns)]

    assert ids() == []
    assert ids("prior/fig7") == ["prior/fig7"]
    assert ids("choice/fig*") == ["choice/fig1", "choice/fig2", "choice/fig3"]
    assert ids("choice/fig2", "prior/fig1", "choice/fig[12]") == ["prior/fig1", "choice/fig1", "choice/fig2"]
    assert ids("*") == [experiment.id for experiment in library.ALL]


@pytest.mark.parametrize(
    ("pattern", "there"),
    [
        ("choice/fig9", "there are choice/fig1, choice/fig2, choice/fig3, choice/revenue."),
        ("fig1", f"there are {', '.join(library.PAPERS)}."),
    ],
)
def test_an_unknown_id_is_refused_with_what_is_near(pattern: str, there: str) -> None:
    with pytest.raises(InvalidInput) as error:
        library.chosen(("prior/fig1", pattern))
    assert str(error.value).startswith(f"id is '{pattern}'; accepted: an id or a pattern such as choice/*")
    assert str(error.value).endswith(there)


def test_an_experiment_without_simulation_is_written_at_once(tmp_path: Path, played: list[str]) -> None:
    (experiment,) = library.chosen(("prior/fig7",))
    outcome = runner.run(experiment, tmp_path, quick=False)
    report.write(experiment, outcome, report.result_folder(tmp_path, experiment, quick=True))
    assert played == []
    assert not (tmp_path / "chunks").exists()
    kept = report.read(tmp_path / experiment.id)
    assert kept is not None
    assert kept.head["speed"] == "nothing to play"


# The page


def test_the_page_shows_results_and_names_what_is_missing(
    tmp_path: Path, through: tuple[Path, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = replace(SMALL_WORLDS, id="cascade/missing", title="Another", data=("yelp", "songs"))
    monkeypatch.setattr(library, "ALL", (SMALL_WORLDS, missing, replace(SMALL_WORLDS, id="prior/later")))
    place = tmp_path / "docs" / "explanation" / "reproduction.md"
    page.write(through[0], place)
    text = place.read_text()
    image = place.parent / "images" / "reproduction" / "prior-small.png"
    assert image.read_bytes() == (through[0] / SMALL_WORLDS.id / "figure.png").read_bytes()
    assert [path.name for path in image.parent.iterdir()] == [image.name]
    assert "![Two small worlds](images/reproduction/prior-small.png)" in text
    assert "### cascade/missing: Another\n\nNot run here. It needs yelp and songs.\n" in text
    assert "### prior/later: Two small worlds\n\nNot run here.\n" in text
    for claim in report.claim_verdicts(SMALL_WORLDS, through[1]):
        assert claim["verdict"] == TOO_SMALL
        cells = (claim[name] for name in ("claim", "source", "data", "verdict", "numbers"))
        assert f"| {' | '.join(cells)} |" in text
    assert "Quick version: 30 rounds, 5 replications; seed 1, rankloop" in text
    assert "*What differs, and why.* It is small." in text
    assert (through[0] / SMALL_WORLDS.id / "table.md").read_text() in text
    verdicts = [claim["verdict"] for claim in report.claim_verdicts(SMALL_WORLDS, through[1])]
    counts = " | ".join(str(verdicts.count(verdict)) for verdict in ClaimVerdict)
    assert f"| prior | 1 of 2 | 1 | {counts} |" in text
    assert "| cascade | 0 of 1 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "Quick versions: prior/small. Each says what its full version costs." in text
    assert "; a full run takes about 1 minutes of one process at these rates." in text
    assert text.index("## Cascading Bandits") < text.index("## Overcoming Prior"), "papers in their order"


def test_the_page_of_no_results_names_every_experiment(tmp_path: Path) -> None:
    page.write(tmp_path / "none", tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert text.count("Not run here.") == len(library.ALL)
    for experiment in library.ALL:
        assert f"### {experiment.id}: {experiment.title}\n" in text
    for title in library.PAPERS.values():
        assert f"## {title}\n" in text


def test_a_full_result_is_not_replaced_by_a_quick_one(tmp_path: Path) -> None:
    outcome = runner.run(SMALL_WORLDS, tmp_path, quick=False)
    report.write(SMALL_WORLDS, outcome, report.result_folder(tmp_path, SMALL_WORLDS, quick=False))
    with pytest.raises(RankloopError, match="holds the full result; choose another folder"):
        report.result_folder(tmp_path, SMALL_WORLDS, quick=True)
    assert report.result_folder(tmp_path, SMALL_WORLDS, quick=False)


def test_a_csv_holds_numbers_that_machines_read() -> None:
    table = ResultTable(("a", "b"), (("1,792", "16.5 %"), ("0.91 (0.93)", "-3.5")))
    assert table.csv() == "a,b\n1792,0.165\n0.91 (0.93),-3.5\n"


# Every policy in every world


def test_the_matrix_goes_on_where_it_stopped_and_says_why_a_cell_is_empty(tmp_path: Path) -> None:
    """Interrupted after its first chunk and started again, it plays the rest and gives the same numbers."""
    size = matrix.MatrixSize(12, 3)
    calls: list[tuple[int, int]] = []

    def stop(done: int, total: int) -> None:
        calls.append((done, total))
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        matrix.run(size, tmp_path / "cut", jobs=1, progress=stop)
    again: list[tuple[int, int]] = []
    found = matrix.run(size, tmp_path / "cut", jobs=1, progress=lambda done, total: again.append((done, total)))
    assert again[0] == calls[-1], "the first chunk is not played again"
    through = matrix.run(size, tmp_path / "through", jobs=1, progress=lambda done, total: None)
    assert len(found.cells) == len(through.cells) == len(found.worlds) * len(found.policies)
    for one, other in zip(found.cells, through.cells, strict=True):
        assert (one.world, one.id, one.refused) == (other.world, other.id, other.refused)
        assert (one.regret is None) == (one.refused is not None)
        if one.regret is not None:
            np.testing.assert_array_equal(one.regret, other.regret)
    refused = found.cell("cascade", "dep").refused
    assert refused is not None
    assert "items that cover topics" in refused
    share, half = found.share("cascade", "random")
    assert (share, half) == (1.0, 0.0)
