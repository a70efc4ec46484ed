"""The simulator: paired, reproducible, and its numbers are what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankloop import InvalidInput, Policy, Result, Setting, __version__, checks, simulate
from rankloop.belief import Gaussian, GaussianState
from rankloop.design import PerItem
from rankloop.explore import EpsilonList, Greedy
from rankloop.feedback import Cascade
from rankloop.plan import TopK
from rankloop.simulator import PolicySpec, Spec, stats, streams
from rankloop.simulator.chunk import checkpoints
from rankloop.simulator.spec import DEFAULT_CHUNK
from rankloop.types import FloatArray
from rankloop.worlds import from_spec
from rankloop.worlds.matrix import greedy_cover
from small_worlds import CASCADE, DEPENDENT, POSITION, ShowsAlways, matrix_file, random_users

DRAWN: dict[str, Any] = {"kind": "cascade", "attraction": {"beta": {"items": 6, "a": 1, "b": 3}}, "k": 2}


def shows(policy: ShowsAlways, label: str) -> PolicySpec:
    """A policy that always shows one list, under a name of its own."""
    return PolicySpec(id=label, label=label, function=lambda setting: policy)


def curves(result: Result) -> dict[str, tuple[FloatArray, FloatArray]]:
    return {trace.label: (trace.regret, trace.reward) for trace in result}


def same_curves(one: Result, other: Result, labels: list[str]) -> None:
    for label in labels:
        np.testing.assert_array_equal(one[label].regret, other[label].regret)
        np.testing.assert_array_equal(one[label].reward, other[label].reward)


# Visitors


@pytest.mark.parametrize("world", [CASCADE, DEPENDENT, POSITION], ids=lambda world: str(world["kind"]))
def test_every_policy_meets_the_same_visitors(world: dict[str, Any]) -> None:
    """One list under two policies, of which one also draws random numbers: the same clicks, round by round."""
    k = from_spec(world).prepare(streams.shared(0)).draw([streams.replication(0, 0)], None).setting.slots
    quiet, noisy = (ShowsAlways([3, 0, 2][:k], draws) for draws in (0, 5))
    simulate([shows(quiet, "quiet"), "random", shows(noisy, "noisy")], world, rounds=60, replications=7, seed=1)
    assert np.array(quiet.clicks).shape == (60, 7, k)
    assert np.any(quiet.clicks)
    np.testing.assert_array_equal(quiet.clicks, noisy.clicks)


def test_what_attracts_a_visitor_does_not_depend_on_the_rest_of_the_list() -> None:
    """Every slot is looked at: item 2 is clicked or not, in whichever slot and company it stands."""
    world = POSITION | {"bias": [1, 1, 1]}
    one, other = ShowsAlways([2, 0, 1]), ShowsAlways([4, 3, 2])
    simulate([shows(one, "one"), shows(other, "other")], world, rounds=60, replications=7, seed=2)
    np.testing.assert_array_equal(np.array(one.clicks)[:, :, 0], np.array(other.clicks)[:, :, 2])


def test_rounds_and_replications_have_visitors_of_their_own() -> None:
    """Fair coins, 40 rounds of 40: two equal rows have a chance of 780·2^-40, below 1e-9."""
    coin = ShowsAlways([0])
    simulate(
        [shows(coin, "coin")], {"kind": "cascade", "attraction": [0.5], "k": 1}, rounds=40, replications=40, chunk=8
    )
    tosses = np.concatenate(np.array(coin.clicks).reshape(5, 40, 8), axis=1)
    assert len(np.unique(tosses, axis=0)) == 40
    assert len(np.unique(tosses.T, axis=0)) == 40


def test_adding_a_policy_leaves_the_others_as_they_were() -> None:
    run = partial(simulate, world=DRAWN, rounds=80, replications=6, seed=3, chunk=4)
    alone = run(["cascade-ucb1", "ts-beta"])
    more = run(["gts", "ts-beta", "random", "cascade-ucb1", {"id": "gts", "sigma": 0.1, "label": "bold"}])
    same_curves(alone, more, ["cascade-ucb1", "ts-beta"])
    np.testing.assert_array_equal(alone.random.regret, more.random.regret)
    assert not np.array_equal(more["gts"].regret, more["bold"].regret)


def test_one_process_and_two_give_the_same_arrays() -> None:
    policies: list[Any] = ["cascade-ucb1", {"id": "gts", "sigma": 0.3}, epsilon_greedy]
    run = partial(simulate, policies, DRAWN, rounds=60, replications=10, seed=4, chunk=4)
    played = {1: 0, 2: 0}

    def report(jobs: int) -> Callable[[int], None]:
        def add(more: int) -> None:
            played[jobs] += more

        return add

    one, two = (run(jobs=jobs, report=report(jobs)) for jobs in (1, 2))
    same_curves(one, two, ["cascade-ucb1", "gts", "epsilon_greedy"])
    np.testing.assert_array_equal(one.random.regret, two.random.regret)
    assert played == {1: 4 * 60 * 10, 2: 4 * 60 * 10}, "three policies and the baseline"


def test_the_seed_decides() -> None:
    run = partial(simulate, ["cascade-ucb1", "gts"], DRAWN, rounds=40, replications=5)
    same_curves(run(seed=5), run(seed=5), ["cascade-ucb1", "gts"])
    for label in ("cascade-ucb1", "gts"):
        assert not np.array_equal(run(seed=5)[label].regret, run(seed=6)[label].regret)


def test_the_chunk_is_part_of_an_experiments_identity_but_not_of_its_worlds() -> None:
    """A list that never changes has a regret that only the world decides; visitors come by chunk."""
    run = partial(simulate, [shows(ShowsAlways([0, 1]), "fixed"), "gts"], DRAWN, rounds=50, replications=9, seed=7)
    by_4, by_9 = run(chunk=4), run(chunk=9)
    np.testing.assert_allclose(by_4["fixed"].regret, by_9["fixed"].regret, rtol=1e-12, atol=1e-12)
    assert not np.array_equal(by_4["fixed"].reward, by_9["fixed"].reward)
    same_curves(by_4, run(chunk=4), ["fixed", "gts"])
    same_curves(run(), run(chunk=DEFAULT_CHUNK), ["fixed", "gts"])
    assert by_4.spec["chunk"] == 4


def test_a_first_chunk_does_not_know_of_the_others() -> None:
    run = partial(simulate, ["gts"], DRAWN, rounds=30, seed=8, chunk=4)
    np.testing.assert_array_equal(run(replications=4)["gts"].regret, run(replications=10)["gts"].regret[:, :4])


# Regret and reward


@pytest.mark.parametrize("rounds", [*range(1, 130), 199, 200, 201, 999, 12_345, 1_000_000])
def test_checkpoints(rounds: int) -> None:
    recorded = checkpoints(rounds)
    assert recorded[0] >= 1
    assert recorded[-1] == rounds
    assert (np.diff(recorded) > 0).all()
    assert len(recorded) >= min(rounds, 20)


@pytest.mark.parametrize(
    ("world", "best"), [(CASCADE, [1, 3]), (DEPENDENT, [2, 1, 3]), (POSITION, [2, 1, 3])], ids=["cascade", "dcm", "pbm"]
)
def test_the_best_list_has_no_regret(world: dict[str, Any], best: list[int]) -> None:
    """Attraction 0.5, 0.4, 0.3 of items 1, 3, 2; the middle slot is the best one, then the last."""
    result = simulate([shows(ShowsAlways(best), "best")], world, rounds=100, replications=3)
    np.testing.assert_allclose(result["best"].regret, 0.0, atol=1e-12)


def test_the_greedy_cover_has_no_regret(tmp_path: Path) -> None:
    spec = {"kind": "matrix", "file": matrix_file(tmp_path, random_users(50, 8, seed=1)), "dim": 2, "k": 3}
    world: Any = from_spec(spec).prepare(streams.shared(9))
    cover = ShowsAlways(greedy_cover(world.W, 3))
    result = simulate([shows(cover, "cover"), "random"], spec, rounds=100, replications=3, seed=9)
    np.testing.assert_allclose(result["cover"].regret, 0.0, atol=1e-12)
    assert (result["random"].final > 0).all()


def test_a_prior_that_is_right_plays_the_best_list_of_every_replication() -> None:
    """A logistic world gives a prior of mean ν, and `ensemble` ranks by it."""
    world = {"kind": "cascade", "attraction": {"logistic": {"items": 12, "dim": 3}}, "k": 4}
    result = simulate(["ensemble"], world, rounds=50, replications=20)
    np.testing.assert_allclose(result["ensemble"].regret, 0.0, atol=1e-11)


def test_regret_is_the_expected_loss_added_up() -> None:
    """Items 0 and 4 instead of 1 and 3: (1 - 0.5·0.6) - (1 - 0.9·0.8) = 0.42 lost in each round."""
    result = simulate([shows(ShowsAlways([0, 4]), "bad")], CASCADE, rounds=50, replications=3)
    loss = (1 - 0.5 * 0.6) - (1 - 0.9 * 0.8)
    np.testing.assert_allclose(result["bad"].regret, loss * np.tile(np.arange(1, 51)[:, None], (1, 3)), rtol=1e-12)


@pytest.mark.parametrize("world", [CASCADE, DEPENDENT, POSITION, DRAWN], ids=["cascade", "dcm", "pbm", "drawn"])
def test_regret_never_falls_where_the_best_list_is_exact(world: dict[str, Any]) -> None:
    result = simulate(["random", "gts"], world, rounds=150, replications=5)
    for trace in result:
        steps = np.diff(trace.regret, axis=0, prepend=0.0)
        assert (steps >= -1e-12).all()
        assert (trace.final > 0).all()


def test_reward_is_what_was_realised() -> None:
    """Under the cascade a reward is a click; rewards are whole numbers that add up."""
    fixed = ShowsAlways([3, 0])
    result = simulate([shows(fixed, "fixed")], CASCADE, rounds=70, replications=4)
    np.testing.assert_array_equal(result["fixed"].reward, np.array(fixed.clicks).sum(axis=2).cumsum(axis=0))


def test_regret_and_reward_agree() -> None:
    """Reward + regret - rounds·best is noise of mean 0: 400 replications of 200 rounds, five standard errors.

    Fails with a chance below 1e-6, were the seed free.
    """
    result = simulate(["cascade-ucb1"], CASCADE, rounds=200, replications=400, seed=10)
    noise = result["cascade-ucb1"].reward[-1] + result["cascade-ucb1"].final - 200 * (1 - 0.5 * 0.6)
    assert abs(noise.mean()) < 5.0 * noise.std() / np.sqrt(400)


# Results


@pytest.fixture(scope="module")
def result() -> Result:
    policies: list[Any] = ["cascade-ucb1", {"id": "gts", "sigma": 0.3, "label": "GTS"}]
    return simulate(policies, CASCADE, rounds=40, replications=6, seed=11)


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def strict(text: str) -> Any:
    """JSON without NaN and Infinity."""
    return json.loads(text, parse_constant=no_constant)


def test_json_has_the_promised_form(result: Result) -> None:
    whole = strict(json.dumps(result.as_json()))
    assert list(whole) == ["spec", "version", "policies"]
    assert whole["version"] == __version__
    assert whole["spec"]["world"] == CASCADE
    assert (whole["spec"]["rounds"], whole["spec"]["replications"], whole["spec"]["seed"]) == (40, 6, 11)
    assert [p["label"] for p in whole["policies"]] == ["cascade-ucb1", "GTS"]
    assert [p["id"] for p in whole["policies"]] == ["cascade-ucb1", "gts"]
    assert whole["policies"][0]["params"] == {}
    assert whole["policies"][1]["params"] == {"mu0": 0.0, "sigma0": 1.0, "sigma": 0.3, "prior": "none"}
    for p, trace in zip(whole["policies"], result, strict=True):
        assert list(p) == ["id", "label", "params", "regret", "reward", "seconds", "rounds_per_second"]
        for name in ("regret", "reward"):
            values = getattr(trace, name)
            assert list(p[name]) == ["round", "mean", "sem"]
            assert p[name]["round"] == list(range(1, 41))
            np.testing.assert_allclose(p[name]["mean"], values.sum(axis=1) / 6, rtol=1e-12)
            np.testing.assert_allclose(p[name]["sem"], values.std(axis=1, ddof=1) / np.sqrt(6), rtol=1e-12)
            assert all(type(x) is float for x in p[name]["mean"] + p[name]["sem"])
            assert all(type(x) is int for x in p[name]["round"])
        assert type(p["seconds"]) is float
        assert p["seconds"] > 0
        assert p["rounds_per_second"] == pytest.approx(40 * 6 / p["seconds"])


def test_one_replication_has_no_standard_error(tmp_path: Path) -> None:
    one = simulate(["gts"], CASCADE, rounds=25, replications=1)
    for curve in ("regret", "reward"):
        assert one.as_json()["policies"][0][curve]["sem"] == [None] * 25
    one.save(tmp_path)
    assert strict((tmp_path / "result.json").read_text()) == strict(json.dumps(one.as_json()))
    assert "NaN" not in str(one)


def test_params_and_spec_are_plain_whatever_was_given() -> None:
    """Arrays, tuples, worlds and functions have a JSON form."""
    mixed = simulate([epsilon_greedy, "random"], from_spec(CASCADE), rounds=5, replications=2)
    whole = strict(json.dumps(mixed.as_json()))
    assert [p["id"] for p in whole["policies"]] == ["epsilon_greedy", "random"]
    assert whole["spec"]["policies"] == ["epsilon_greedy", "random"]


def test_save_and_load_round_trip(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "deep" / "folder")
    files = sorted(path.name for path in (tmp_path / "deep" / "folder").iterdir())
    assert files == ["regret.png", "regret.svg", "result.json", "trace.parquet"]
    loaded = Result.load(tmp_path / "deep" / "folder")
    same_curves(result, loaded, ["cascade-ucb1", "GTS"])
    assert loaded.as_json() == result.as_json()
    assert str(loaded) == str(result)
    np.testing.assert_array_equal(loaded.random.regret, result.random.regret)
    np.testing.assert_array_equal(loaded.random.reward, result.random.reward)
    np.testing.assert_array_equal(loaded.random.rounds, result.random.rounds)
    assert (loaded.random.id, loaded.random.label) == ("random", "random")


@pytest.mark.parametrize("label", ["random", "my random", "random (baseline)"])
def test_any_label_survives_save_and_load(label: str, tmp_path: Path) -> None:
    before = simulate(["random", {"id": "gts", "label": label + "!"}], CASCADE, rounds=30, replications=3)
    renamed = simulate(
        [{"id": "random", "label": "other"}, {"id": "gts", "label": label}], CASCADE, rounds=30, replications=3
    )
    np.testing.assert_array_equal(before[label + "!"].regret, renamed[label].regret)
    renamed.save(tmp_path)
    loaded = Result.load(tmp_path)
    same_curves(renamed, loaded, ["other", label])
    np.testing.assert_array_equal(loaded.random.regret, renamed.random.regret)


@pytest.mark.parametrize("label", [r"cost $\frac$ of it", "_hidden", "a & b < c"])
def test_any_label_can_be_drawn(label: str, tmp_path: Path) -> None:
    simulate([{"id": "gts", "label": label}], CASCADE, rounds=5, replications=2).save(tmp_path)
    assert (tmp_path / "regret.svg").read_text().rstrip().endswith("</svg>")


def test_saving_again_replaces(result: Result, tmp_path: Path) -> None:
    simulate(["random"], CASCADE, rounds=5, replications=2).save(tmp_path)
    result.save(tmp_path)
    assert Result.load(tmp_path).as_json() == result.as_json()
    assert len(list(tmp_path.iterdir())) == 4


def test_loading_from_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"folder is .*result\.json and trace\.parquet"):
        Result.load(tmp_path)


def test_the_table_says_what_a_reader_needs(result: Result) -> None:
    text = str(result)
    rows = text.splitlines()
    assert "policy" in rows[0]
    assert "final regret" in rows[0]
    assert len(rows) == 2 + 2 + 1, "head, rule, one row for each policy, legend"
    for trace in result:
        (row,) = (row for row in rows if row.startswith(trace.label + " "))
        error = trace.final.std(ddof=1) / np.sqrt(6)
        assert f"{trace.final.mean():.2f} ± {error:.2f}" in row
        assert f"{trace.final.mean() / result.random.final.mean():.1%}" in row
    assert "± one standard error" in rows[-1]
    assert "≈ not credibly worse" in rows[-1]
    assert "40 rounds, 6 replications" in rows[-1]
    best = min(result, key=lambda trace: trace.final.mean())
    assert rows[2].startswith(best.label)
    assert rows[2].endswith("best")


def test_the_baseline_is_the_random_policy_in_the_spec_or_not() -> None:
    run = partial(simulate, world=CASCADE, rounds=60, replications=8, seed=12)
    without, asked = run(["gts"]), run(["gts", {"id": "random", "label": "dice"}])
    np.testing.assert_array_equal(without.random.regret, asked["dice"].regret)
    np.testing.assert_array_equal(asked.random.regret, asked["dice"].regret)
    assert [trace.label for trace in without] == ["gts"], "it is not a policy of the spec"
    (row,) = (row for row in str(asked).splitlines() if row.startswith("dice"))
    assert "100.0%" in row


def test_an_unknown_label_is_refused(result: Result) -> None:
    with pytest.raises(InvalidInput, match="one of cascade-ucb1, GTS"):
        result["gts"]


def test_like_the_best() -> None:
    """Paired: a constant difference is certain, however noisy the replications are.

    Differences to the first row: 1, 1, 1, 1 with no error at all; 0; 1, -1, 1, -1 of mean 0; 0, 0, 0, 4 of
    mean 1, variance (1 + 1 + 1 + 9)/3 = 4 and standard error √(4/4) = 1, and 1 ≤ 3.18·1; 100 without error.
    """
    base = np.array([10.0, 50.0, 90.0, 130.0])
    swing, late = np.array([1.0, -1.0, 1.0, -1.0]), np.array([0.0, 0.0, 0.0, 4.0])
    finals = np.stack([base, base + 1, base, base + swing, base + late, base + 100])
    np.testing.assert_array_equal(stats.not_worse_than_best(finals), [True, False, True, True, True, False])


def test_like_the_best_at_the_edge() -> None:
    """Differences 1 and 1 + 2x: mean 1 + x, standard error x, Student's 12.706 with one degree of freedom.

    Like the best as long as 1 + x ≤ 12.706 x, that is x ≥ 1/11.706.
    """
    for x, like in ((1 / 11.6, True), (1 / 11.8, False)):
        finals = np.array([[5.0, 7.0], [5.0 + 1, 7.0 + 1 + 2 * x]])
        np.testing.assert_array_equal(stats.not_worse_than_best(finals), [True, like])


def test_with_one_replication_no_policy_is_credibly_worse() -> None:
    np.testing.assert_array_equal(stats.not_worse_than_best(np.array([[1.0], [100.0]])), [True, True])


def test_standard_error_by_hand() -> None:
    """1, 2, 3, 4: variance 5/3, over four numbers."""
    np.testing.assert_allclose(stats.sem(np.array([[1.0, 2.0, 3.0, 4.0]])), [np.sqrt(5 / 3 / 4)], rtol=1e-12)


# A policy of one's own


def epsilon_greedy(setting: Setting) -> Policy[GaussianState]:
    """Greedy on optimistic means, and one list in twenty at random."""
    belief = Gaussian(setting.items, mu0=1.0)
    return Policy(PerItem(), belief, EpsilonList(Greedy(), 0.05), TopK(), Cascade())


@pytest.mark.parametrize("law", list(checks.laws(epsilon_greedy)), ids=lambda law: law.name)
def test_a_custom_policy_satisfies_the_laws(law: checks.Law) -> None:
    law.check()


def test_a_custom_policy_runs_with_those_of_the_catalogue() -> None:
    result = simulate([epsilon_greedy, "cascade-ucb1", "random"], CASCADE, rounds=500, replications=20, seed=13)
    assert [trace.label for trace in result] == ["epsilon_greedy", "cascade-ucb1", "random"]
    assert result["epsilon_greedy"].final.mean() < 0.5 * result["random"].final.mean()


def test_two_policies_of_one_name_need_labels() -> None:
    with pytest.raises(InvalidInput, match=r"policies\[1\]\.label is 'epsilon_greedy'"):
        simulate([epsilon_greedy, epsilon_greedy], CASCADE, rounds=5, replications=2)
    named = [PolicySpec(id="mine", label=label, function=epsilon_greedy) for label in ("one", "two")]
    result = simulate(named, CASCADE, rounds=20, replications=2)
    np.testing.assert_array_equal(result["one"].regret, result["two"].regret)


def test_parameters_for_each_item_reach_the_policy() -> None:
    """A prior that all but knows the answer, item by item, has less regret than its opposite."""
    good, bad = [1, 500, 1, 500, 1], [500, 1, 500, 1, 500]
    policies = [
        {"id": "ts-beta", "a": good, "b": 100, "label": "good"},
        {"id": "ts-beta", "a": bad, "b": 100, "label": "bad"},
    ]
    result = simulate(policies, CASCADE, rounds=30, replications=5)
    assert result["good"].final.max() < result["bad"].final.min()


# Memory


PEAK_MEMORY = """
import tracemalloc
from rankloop.simulator import PolicySpec, streams
from rankloop.simulator.chunk import Chunk, play
from rankloop.worlds import from_spec
from small_worlds import CASCADE
world = from_spec(CASCADE).prepare(streams.shared(0))
for rounds in (200, 200, 2000):
    tracemalloc.start()
    play(world, PolicySpec("gts", "gts", {}), Chunk(0, 0, 8), rounds, 0, lambda t: None)
    print(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
"""


def test_memory_does_not_grow_with_rounds() -> None:
    """Ten times the rounds, the same peak; 32 KiB of slack is less than 1,800 rounds of 3 numbers would take.

    A process of its own measures, because tracemalloc also counts what other threads of this one allocate. The first
    run only fills the caches.
    """
    command = [sys.executable, "-c", PEAK_MEMORY]
    run = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    _, short, long = map(int, run.stdout.split())
    assert abs(long - short) < 32 * 1024


# Refusals


@pytest.mark.parametrize("world", [5, "cascade", None, [1, 2]])
def test_a_world_that_is_none_is_refused(world: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^world is "):
        simulate(["random"], world, rounds=5, replications=2)


@pytest.mark.parametrize(("name", "value"), [("rounds", 0), ("replications", 0), ("seed", -1), ("chunk", 0)])
def test_sizes_are_checked(name: str, value: int) -> None:
    given: dict[str, Any] = {"rounds": 5, "replications": 2, name: value}
    with pytest.raises(InvalidInput, match=f"^{name} is {value}; accepted: a whole number "):
        simulate(["random"], CASCADE, **given)
    with pytest.raises(InvalidInput, match=r"^jobs is 0; accepted: a whole number of at least 1"):
        simulate(["random"], CASCADE, rounds=5, replications=2, jobs=0)


def test_a_spec_and_a_policy_of_it_check_themselves() -> None:
    world = from_spec({"kind": "cascade", "attraction": [0.5, 0.2], "k": 1})
    gts = PolicySpec("gts", "gts")
    assert Spec(world, (gts,), rounds=5, replications=2).chunk == 128
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: PolicySpec("gtss", "gts"), r"^id is 'gtss'.*Did you mean 'gts'\?"),
        (lambda: PolicySpec("gts", "a\nb"), "^label is "),
        (lambda: PolicySpec("gts", "gts", {"sigma": -1}), "^sigma is -1"),
        (lambda: Spec(world, (gts,), rounds=0, replications=2), "^rounds is 0"),
        (lambda: Spec(world, (gts,), rounds=5, replications=2, seed=-1), "^seed is -1"),
        (lambda: Spec(world, (gts, gts), rounds=5, replications=2), r"^policies\[1\].label is 'gts'"),
        (lambda: Spec(world, (), rounds=5, replications=2), "^policies is "),
        (lambda: Spec.of({"world": world, "polcies": ["gts"]}), "Did you mean 'policies'"),
    ]
    for make, said in wrong:
        with pytest.raises(InvalidInput, match=said):
            make()
