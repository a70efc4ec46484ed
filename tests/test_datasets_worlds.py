"""Worlds made of data sets: what they hold is what the files say, prepared once."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import data_files
from rankloop import catalogue, datasets, simulate
from rankloop.datasets import MissingData, prepared
from rankloop.errors import InvalidInput, RankloopError
from rankloop.math.logistic import sigmoid
from rankloop.simulator import streams
from rankloop.types import EMPTY, FloatArray, IntArray
from rankloop.worlds import MatrixWorld, from_spec
from rankloop.worlds.arm_chunks import ChunkWorld
from rankloop.worlds.item_position import ItemPositionWorld
from small_worlds import settled

Stars = Sequence[tuple[int, int, float]]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for data sets, and another for what is prepared from them."""
    place = tmp_path / "data"
    place.mkdir()
    monkeypatch.setenv("RANKLOOP_DATA", str(place))
    monkeypatch.setenv("RANKLOOP_CACHE", str(tmp_path / "cache"))
    return place


def matrix(id: str, **fields: Any) -> MatrixWorld:
    world = from_spec({"kind": "matrix", "data": id, "dim": 1, "k": 1} | fields)
    assert isinstance(world, MatrixWorld)
    return world


def chunks(spec: Mapping[str, Any]) -> ChunkWorld:
    world = from_spec(spec)
    assert isinstance(world, ChunkWorld)
    return world


def unit(rows: FloatArray) -> FloatArray:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


# Feedback matrices


def test_a_film_attracts_those_who_gave_it_more_than_three_stars(root: Path) -> None:
    """Users 2, 5, 9 and films 1, 7, 30: user 2 gave film 30 five stars and film 1 three, user 5 film 1 four."""
    data_files.movielens_dat(root / "ml-1m")
    np.testing.assert_array_equal(matrix("movielens-1m").W, [[0, 0, 1], [1, 0, 0], [0, 0, 0]])


def test_a_review_attracts_whatever_its_stars(root: Path) -> None:
    """User a reviewed x and y, user b gave y two stars."""
    data_files.yelp_json(root / "yelp")
    W = matrix("yelp").W
    assert sorted(W.tolist()) == [[False, True], [True, True]]


def test_a_play_attracts(root: Path) -> None:
    """u1 played SOA and SOB, u2 SOB, u3 SOC."""
    data_files.triplets(root / "train_triplets.txt", gz=True)
    np.testing.assert_array_equal(matrix("songs").W, [[1, 1, 0], [0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("categories", "columns"), [(["Rock"], [0, 1]), (["Jazz"], [1]), (["Jazz", "Rock"], [0, 1]), ([], [0, 1, 2])]
)
def test_categories_are_a_choice_of_items(root: Path, categories: list[str], columns: list[int]) -> None:
    """SOA is rock, SOB pop, rock and jazz, SOC has no genre; all users stay."""
    data_files.triplets(root / "train_triplets.txt")
    data_files.genres(root / "genres")
    np.testing.assert_array_equal(
        matrix("songs", categories=categories).W, np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])[:, columns]
    )


@pytest.mark.parametrize(
    ("most", "rows", "columns"),
    [
        ({"users": 2}, [0, 1], [0, 1, 2]),
        ({"items": 1}, [0, 1, 2], [1]),
        ({"users": 2, "items": 2}, [0, 1], [0, 1]),
        ({"users": 99, "items": 99}, [0, 1, 2], [0, 1, 2]),
    ],
)
def test_most_keeps_the_busiest_users_and_the_most_popular_items(
    root: Path, most: dict[str, int], rows: list[int], columns: list[int]
) -> None:
    """Plays of u1, u2, u3: 2, 1, 1; of SOA, SOB, SOC: 1, 2, 1. Ties go to the first."""
    data_files.triplets(root / "train_triplets.txt")
    whole = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(matrix("songs", most=most).W, whole[np.ix_(rows, columns)])


def films(folder: Path, stars: Stars) -> Path:
    """MovieLens in its .csv layout."""
    movies = sorted({movie for _, movie, _ in stars})
    rows = "".join(f"{user},{movie},{value},0\n" for user, movie, value in stars)
    data_files.write(folder / "ratings.csv", "userId,movieId,rating,timestamp\n" + rows)
    data_files.write(folder / "movies.csv", "movieId,title,genres\n" + "".join(f"{m},T,Drama\n" for m in movies))
    return folder


def some_stars(users: int = 20, movies: int = 60, seed: int = 0) -> Stars:
    """Half of all pairs, half stars from 0.5 to 5; every film and every user has a row."""
    rng = np.random.default_rng(seed)
    rated = rng.random((users, movies)) < 0.5
    rated[np.arange(movies) % users, np.arange(movies)] = True
    value = rng.integers(1, 11, size=rated.shape) / 2
    return [(int(u) + 1, int(m) + 1, float(value[u, m])) for u, m in np.argwhere(rated)]


def test_policies_run_on_the_users_of_a_data_set(root: Path) -> None:
    films(root / "ml-latest-small", some_stars())
    spec = {"kind": "matrix", "data": "movielens-small", "items": 12, "dim": 3, "k": 2}
    result = simulate(["cascade-lin-ts", "cascade-ucb1"], spec, rounds=20, replications=3, seed=1)
    for trace in result:
        assert (trace.reward[-1] <= 20).all()
        assert (np.diff(trace.regret, axis=0) >= -1e-12).any()


# Digits


def digits(root: Path, monkeypatch: pytest.MonkeyPatch, fit: int = 15) -> None:
    """40 images for training, 15 of them for the PCA, and 20 others; the label of image i is its number mod 10."""
    data_files.mnist(root / "mnist", (40, 20))
    monkeypatch.setattr(prepared, "PCA_IMAGES", fit)


PIVOT: dict[str, Any] = {"kind": "pivot", "data": "mnist", "pivot": 3, "chunk": 5, "budget": 2}


def test_digits_are_projected_on_components_of_images_that_are_never_offered(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PCA written as a singular value decomposition; its signs are free, so inner products are compared."""
    digits(root, monkeypatch)
    order = np.random.default_rng(prepared.SEED).permutation(40)
    fit, rest = order[:15], [*order[15:], *range(40, 60)]
    images = datasets.read(root, "mnist", datasets.Digits).images / 255.0
    mean = images[fit].mean(axis=0)
    _, _, Vt = np.linalg.svd(images[fit] - mean)
    x = unit((images[rest] - mean) @ Vt[:10].T)
    world = chunks(PIVOT)
    assert world.x.shape == (45, 10)
    np.testing.assert_allclose(world.x @ world.x.T, x @ x.T, atol=1e-8)
    np.testing.assert_array_equal(world.rate, [float(i % 10 == 3 if i < 40 else (i - 40) % 10 == 3) for i in rest])


def test_success_is_to_show_the_digit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits(root, monkeypatch)
    world, instance = chunks(PIVOT), settled(PIVOT, 4)
    truth = {row.tobytes(): rate for row, rate in zip(world.x, world.rate, strict=True)}
    rng = np.random.default_rng(1)
    hits = 0.0
    for _ in range(9):
        visit = instance.visit(rng)
        for i in range(5):
            alone = np.tile([i, EMPTY], (4, 1))
            right = [truth[row.tobytes()] for row in visit.request.features[:, i]]
            np.testing.assert_array_equal(visit.click(alone)[1], right)
            hits += sum(right)
    assert hits == 4 * world.rate.sum()


def test_topics_are_what_digits_cover(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits(root, monkeypatch)
    plain, covered = chunks(PIVOT), chunks(PIVOT | {"topics": 3})
    assert plain.coverage is None
    assert covered.coverage is not None
    assert covered.coverage.shape == (45, 3)
    assert ((covered.coverage >= 0) & (covered.coverage <= 1)).all()
    np.testing.assert_allclose(np.linalg.norm(covered.coverage, axis=1), 1.0)
    np.testing.assert_array_equal(plain.x, covered.x)
    instance = settled(PIVOT | {"topics": 3}, 2)
    assert (instance.setting.dim, instance.setting.coverage) == (10, 3)


def test_the_space_of_the_mixture_replaces_the_features(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits(root, monkeypatch)
    spec = PIVOT | {"topics": 3, "space": "mixture"}
    world = chunks(spec)
    np.testing.assert_array_equal(world.x, world.coverage)
    np.testing.assert_array_equal(world.x, chunks(PIVOT | {"topics": 3}).coverage)
    np.testing.assert_array_equal(world.rate, chunks(PIVOT).rate)
    assert settled(spec, 2).setting.dim == 3
    simulate(["ind", "dep", "random"], spec, rounds=9, replications=2)


# Rated items

RATED: dict[str, Any] = {"kind": "rated", "data": "movielens-small", "chunk": 4, "budget": 3}


def test_rates_are_those_of_the_films_that_are_offered(root: Path) -> None:
    """σ(mean - median of the means), of four fifths of the films; the others made the features."""
    stars = some_stars()
    films(root / "ml-latest-small", stars)
    means = {m: np.mean([v for _, movie, v in stars if movie == m]) for m in range(1, 61)}
    median = np.median(list(means.values()))
    expected = Counter(round(1.0 / (1.0 + float(np.exp(median - mean))), 9) for mean in means.values())
    world = chunks(RATED)
    assert ((world.rate > 0) & (world.rate < 1)).all()
    found = Counter(round(float(rate), 9) for rate in world.rate)
    assert found.total() == 48
    assert found <= expected
    assert world.x.shape == (48, 10)
    np.testing.assert_allclose(np.linalg.norm(world.x, axis=1), 1.0)


def plain_value(p: Sequence[float], rewards: FloatArray, losses: FloatArray) -> float:
    """Σ r_i p_i ∏_{h<i}(1-p_h) + ℓ_s ∏(1-p)."""
    failed, won = 1.0, 0.0
    for r, chance in zip(rewards, p, strict=False):
        won += r * chance * failed
        failed *= 1.0 - chance
    return float(won + losses[len(p)] * failed)


@pytest.mark.parametrize(
    ("scenario", "shortest"),
    [
        ({"scenario": "vanilla"}, 3),
        ({"scenario": "exponential"}, 3),
        ({"rewards": [1, 0.5, 0.2], "losses": [0, -0.1, -0.5, -2]}, 2),
    ],
)
def test_the_best_list_of_rated_items_is_found_by_trying_all(
    root: Path, scenario: dict[str, Any], shortest: int
) -> None:
    """4 + 12 + 24 lists of a chunk of four, and the empty one."""
    films(root / "ml-latest-small", some_stars())
    spec = RATED | scenario
    world, instance = chunks(spec), settled(spec, 3)
    truth = {row.tobytes(): float(rate) for row, rate in zip(world.x, world.rate, strict=True)}
    lists = [one for length in range(4) for one in permutations(range(4), length)]
    rng = np.random.default_rng(2)
    lengths = set()
    rewards, losses = np.asarray(world.scenario.rewards), np.asarray(world.scenario.losses)
    for _ in range(12):
        visit = instance.visit(rng)
        rates = [[truth[row.tobytes()] for row in learner] for learner in visit.request.features]
        for b, p in enumerate(rates):
            values = [plain_value([p[i] for i in one], rewards, losses) for one in lists]
            assert visit.best[b] == pytest.approx(max(values), rel=1e-12)
            lengths.add(len(lists[int(np.argmax(values))]))
            assert visit.value(np.tile(lists[-1], (3, 1)))[b] == pytest.approx(values[-1], rel=1e-12)
    assert min(lengths) == shortest, "where misses cost, some lists are shorter"


def test_clicks_come_at_the_rate(root: Path) -> None:
    """Eight replications and the 48 films of each, shown alone: successes less their sum of rates, in deviations."""
    films(root / "ml-latest-small", some_stars())
    spec = RATED | {"budget": 1, "chunk": 1}
    instance = settled(spec, 8)
    rng = np.random.default_rng(3)
    excess, variance = 0.0, 0.0
    for _ in range(48):
        visit = instance.visit(rng)
        p, clicked = visit.best, visit.click(np.zeros((8, 1), dtype=np.int64))[1]
        np.testing.assert_allclose(visit.value(np.zeros((8, 1), dtype=np.int64)), p)
        excess, variance = excess + float((clicked - p).sum()), variance + float((p * (1 - p)).sum())
    assert abs(excess) < 3.9 * variance**0.5, "one seed in ten thousand fails"


def test_rated_items_cover_topics(root: Path) -> None:
    films(root / "ml-latest-small", some_stars())
    world = chunks(RATED | {"topics": 2})
    assert world.coverage is not None
    assert world.coverage.shape == (48, 2)
    simulate(["dep", "ind"], RATED | {"topics": 2, "budget": [3, 0, 1]}, rounds=12, replications=2)


def test_rates_of_a_file_lie_between_0_and_1(tmp_path: Path) -> None:
    x = np.eye(4)
    for rate, fine in (([0.0, 1.0, 0.5, 0.25], True), ([0.0, 1.1, 0.5, 0.25], False), ([-0.1, 1, 1, 1], False)):
        np.savez(tmp_path / "rates.npz", x=x, rate=np.array(rate))
        spec = {"kind": "rated", "file": str(tmp_path / "rates.npz"), "chunk": 2, "budget": 1}
        if fine:
            np.testing.assert_array_equal(chunks(spec).rate, rate)
        else:
            with pytest.raises(InvalidInput, match=r"^world\.file is .*rates\.npz'; accepted: .*rates lie in \[0, 1\]"):
                from_spec(spec)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int64, np.float32])
def test_rates_of_a_file_may_be_of_any_kind_of_number(tmp_path: Path, kind: type[Any]) -> None:
    np.savez(tmp_path / "rates.npz", x=np.eye(6), rate=np.array([0, 1, 1, 0, 1, 0], dtype=kind))
    spec = {"kind": "rated", "file": str(tmp_path / "rates.npz"), "chunk": 3, "budget": 2, "scenario": "exponential"}
    assert chunks(spec).rate.dtype == np.float64
    assert np.isfinite(simulate(["ind"], spec, rounds=2, replications=2)["ind"].regret).all()


# Judged documents

FEATURES = 136
SIZES = {101: 10, 102: 7, 103: 14, 104: 12}
"""Test queries and their documents; the second has too few."""


def judged(root: Path) -> tuple[FloatArray, IntArray, FloatArray]:
    """MSLR-WEB with four test queries; features [n, 136] of the test documents, their grades, and of all documents."""
    rng = np.random.default_rng(4)
    folder = root / "MSLR-WEB30K" / "Fold1"
    query = {"train": np.repeat(np.arange(1, 13), 12), "test": np.repeat(list(SIZES), list(SIZES.values()))}
    x, grade = {}, {}
    for role, ids in query.items():
        x[role] = rng.random((len(ids), FEATURES)).round(4)
        x[role][:, 5] = 0.25  # says nothing
        grade[role] = np.floor(5 * x[role][:, 0]).clip(0, 4).astype(np.int64)
        text = data_files.svmlight(grade[role].tolist(), ids.tolist(), x[role])
        data_files.write(folder / f"{role}.txt", text)
    return x["test"], grade["test"], np.concatenate([x["train"], x["test"]])


JUDGED: dict[str, Any] = {"kind": "cascade", "attraction": {"judged": {"data": "mslr-web"}}, "k": 10}


def test_each_replication_is_a_query_with_its_grades_features_and_prior(root: Path) -> None:
    """Rows of the file, scaled to [0, 1] over all documents and to unit norm; attraction (2^g - 1)/16."""
    x, grade, everything = judged(root)
    instance = settled(JUDGED, 32, seed=5)
    low, high = everything.min(axis=0), everything.max(axis=0)
    varies = np.arange(FEATURES) != 5
    scaled = unit(((x - low) / np.where(varies, high - low, 1.0))[:, varies])
    starts = np.cumsum([0, *SIZES.values()])
    of = {size: slice(starts[i], starts[i + 1]) for i, size in enumerate(SIZES.values())}
    assert instance.nu.shape == (32, 14)
    present = instance.request.allowed
    sizes = present.sum(axis=1)
    assert set(sizes.tolist()) == {10, 12, 14}, "each query of at least ten documents is drawn, the other never"
    for b, size in enumerate(sizes.tolist()):
        np.testing.assert_array_equal(present[b], np.arange(14) < size)
        np.testing.assert_allclose(instance.nu[b, :size], (2.0 ** grade[of[size]] - 1) / 16)
        np.testing.assert_allclose(instance.request.features[b, :size], scaled[of[size]], atol=1e-12)
        assert not instance.nu[b, size:].any()
        assert not instance.request.features[b, size:].any()
    prior = instance.setting.prior
    assert prior.a.shape == prior.b.shape == (32, 14)
    assert (prior.a > 0).all()
    assert (prior.b > 0).all()
    # Ten rankers share their ten votes; the floor of a thousandth may add to either side.
    np.testing.assert_allclose((prior.a + prior.b)[present], 10.0, atol=2e-3)
    assert ((prior.a + prior.b)[~present] == 2.0).all()
    assert np.corrcoef((prior.a / (prior.a + prior.b))[present], instance.nu[present])[0, 1] > 0.8, "grades are learned"


@pytest.mark.parametrize("scaling", ["standard", "range-only"])
def test_judged_documents_may_be_scaled_otherwise(root: Path, scaling: str) -> None:
    """Documents of unit norm, or of norm at most 1 in the range [0, 1]; attraction and priors stay as they are."""
    x, _, everything = judged(root)
    instance = settled(JUDGED | {"attraction": {"judged": {"data": "mslr-web", "scaling": scaling}}}, 32, seed=5)
    plain = settled(JUDGED, 32, seed=5)
    low, high = everything.min(axis=0), everything.max(axis=0)
    varies = np.arange(FEATURES) != 5
    ranged = ((everything - low) / np.where(varies, high - low, 1.0))[:, varies]
    if scaling == "standard":
        expected = unit(((ranged - ranged.mean(axis=0)) / ranged.std(axis=0))[-len(x) :])
    else:
        test = ranged[-len(x) :]
        expected = test / np.linalg.norm(test, axis=1).max()
    starts = np.cumsum([0, *SIZES.values()])
    of = {size: slice(starts[i], starts[i + 1]) for i, size in enumerate(SIZES.values())}
    for b, size in enumerate(instance.request.allowed.sum(axis=1).tolist()):
        np.testing.assert_allclose(instance.request.features[b, :size], expected[of[size]], atol=1e-9)
    np.testing.assert_array_equal(instance.nu, plain.nu)
    np.testing.assert_array_equal(instance.setting.prior.a, plain.setting.prior.a)
    assert np.linalg.norm(instance.request.features, axis=2).max() <= 1.0 + 1e-9


def test_the_best_list_holds_the_best_documents(root: Path) -> None:
    judged(root)
    instance = settled(JUDGED | {"k": 3}, 16)
    best = 1.0 - np.prod(1.0 - np.sort(instance.nu, axis=1)[:, -3:], axis=1)
    np.testing.assert_allclose(instance.best, best)


HERE = {"lasting", "features", "prior"}
CHOOSE_THEIR_LENGTH = ("ind", "eps-ind")


def test_absent_documents_are_never_shown(root: Path) -> None:
    """By any policy that runs here, even where there are more slots than documents."""
    judged(root)
    ids = [entry.id for entry in catalogue.entries() if set(entry.needs) <= HERE]
    assert {"log-ts-ltr", "lin-ts-ltr", "gts", "ts-beta", "random", "cascade-woful", "ensemble"} <= set(ids)
    spec = JUDGED | {"k": 13}
    for id in ids:
        instance = from_spec(spec).draw([streams.replication(6, r) for r in range(8)], rounds=3)
        policy = catalogue.build(id, instance.setting)
        state, rng = policy.init(8), np.random.default_rng(6)
        for _ in range(3):
            visit = instance.visit(rng)
            decision = policy.decide(state, visit.request, rng)
            assert visit.request.allowed is not None
            for row, here in zip(decision.items, visit.request.allowed, strict=True):
                shown = row[row != EMPTY]
                assert here[shown].all(), id
                assert len(shown) == min(13, here.sum()) or id in CHOOSE_THEIR_LENGTH, id
            policy.learn(state, decision, policy.feedback.keep(visit.click(decision.items)[0]))


@pytest.mark.parametrize(
    "spec",
    [{"kind": "cascade-rewards", "budget": 3}, {"kind": "choice", "bias": [1.0, 0.5]}],
    ids=lambda spec: spec["kind"],
)
def test_other_worlds_of_judged_documents_leave_out_absent_ones_too(root: Path, spec: dict[str, Any]) -> None:
    judged(root)
    request = settled(spec | {"attraction": JUDGED["attraction"]}, 8, seed=5).visit(np.random.default_rng(0)).request
    assert request.allowed is not None
    assert set(request.allowed.sum(axis=1).tolist()) <= {10, 12, 14}


def test_judgements_without_a_query_of_ten_documents_are_refused(root: Path) -> None:
    rng = np.random.default_rng(10)
    for role, first in (("train", 1), ("test", 11)):
        query = np.repeat(np.arange(first, first + 8), 6).tolist()
        text = data_files.svmlight(rng.integers(5, size=48).tolist(), query, rng.random((48, FEATURES)).round(3))
        data_files.write(root / "MSLR-WEB30K" / "Fold1" / f"{role}.txt", text)
    with pytest.raises(RankloopError, match=r"mslr-web.*10"):
        simulate(["random"], JUDGED | {"k": 3}, rounds=2, replications=2)


# Visitors of a shop


def shop(root: Path) -> list[tuple[int, int, int, str, str]]:
    """Two logs of 150 impressions: item, slot, click and two features of the visitor.

    Item 1 loses attention, and visitors of kind r, r never click.
    """
    rng = np.random.default_rng(7)
    seen, logs = [], {}
    for behaviour in ("random", "bts"):
        rows = ""
        for i in range(150):
            item, slot, age, town = int(rng.integers(2)), int(rng.integers(1, 4)), *rng.choice(list("pqr"), 2)
            click = int(rng.random() < sigmoid(np.array(1.0 - 0.8 * item * slot + (age == "p"))))
            click *= (age, town) != ("r", "r")
            seen.append((item, slot, click, str(age), str(town)))
            rows += f"{i},t,{item},{slot},{click},0.5,{age},{town},c,d,0.0,0.0\n"
        logs[f"{behaviour}/all"] = rows
    data_files.bandit_log(root / "obd", logs)
    return seen


SHOP: dict[str, Any] = {"kind": "item-position", "data": "open-bandit", "k": 2, "objective": "clicks"}


def test_the_simulator_of_a_log_is_its_ridge_regression(root: Path) -> None:
    """θ_j = w + v_j where v_j = -g_j and w = Σ v_j, with g_j = Σ (σ(zᵀθ_j) - y) z over the impressions of item j:
    the gradients of Σ log-loss + |w|²/2 + Σ |v_j|²/2 vanish."""
    seen = shop(root)
    world = from_spec(SHOP)
    assert isinstance(world, ItemPositionWorld)
    assert world.alpha is not None
    assert world.beta is not None
    assert world.intercept is not None
    columns = [("age", c) for c in "pqr"] + [("town", c) for c in "pqr"] + [("c", ""), ("d", "")]
    x = [
        [float(kind in "cd" or c == (age if kind == "age" else town)) for kind, c in columns] for *_, age, town in seen
    ]
    item, slot, y = (np.array([row[i] for row in seen], dtype=np.float64) for i in range(3))
    z = np.column_stack([np.ones(len(seen)), x, slot])
    theta = np.column_stack([world.intercept, world.beta, -world.alpha])
    v = np.stack([-z[item == j].T @ (sigmoid(z[item == j] @ theta[j]) - y[item == j]) for j in (0, 1)])
    # The fit stops where no entry of the mean gradient is above 1e-4: the sum's over 300 rows, once for w and for v_j.
    np.testing.assert_allclose(theta, v.sum(axis=0) + v, atol=2 * 300 * 1e-4)
    assert world.alpha[1] > world.alpha[0] + 0.1, "item 1 loses attention"
    assert world.features is not None
    np.testing.assert_allclose(np.linalg.norm(world.features, axis=1), 1.0)


def test_visitors_of_the_shop_are_those_who_clicked(root: Path) -> None:
    seen = shop(root)
    instance = settled(SHOP, 20)
    rng = np.random.default_rng(8)
    found = set()
    for _ in range(20):
        visit = instance.visit(rng)
        assert visit.request.context.shape == (20, 9)
        assert (visit.request.context[:, -3:] == 1.0).all(), "two features that everybody has, and the intercept's 1"
        found |= {tuple(row) for row in visit.request.context[:, :6].tolist()}
        items = np.tile([1, 0], (20, 1))
        pull = np.matvec(instance.beta[0], visit.request.context[:, None, :-1])[:, 0] + instance.intercept
        p = np.asarray(sigmoid(pull[:, ::-1] - instance.alpha[:, ::-1] * np.array([1.0, 2.0])))
        np.testing.assert_allclose(visit.value(items), p.sum(axis=1), rtol=1e-12)
    clicked = {
        tuple(float(c == kind) for kind in (age, town) for c in "pqr") for _, _, click, age, town in seen if click
    }
    assert found == clicked
    assert len(clicked) == 8


def test_a_log_without_a_click_is_refused(root: Path) -> None:
    rows = "".join(f"{i},t,{i % 2},{i % 3 + 1},0,0.5,a,b,c,d,0.0,0.0\n" for i in range(9))
    data_files.bandit_log(root / "obd", {f"{behaviour}/all": rows for behaviour in ("random", "bts")})
    with pytest.raises(RankloopError, match="click"):
        from_spec(SHOP)


CONTEXTS = [[0.5, 0.0], [0.0, 1.0], [-0.6, 0.8]]
POSITIONS: dict[str, Any] = {"kind": "item-position", "items": 4, "dim": 2, "k": 2}


@pytest.mark.parametrize("intercept", [False, True])
def test_every_visitor_has_one_of_the_contexts(intercept: bool) -> None:
    spec = POSITIONS | {"contexts": CONTEXTS} | ({"intercept": 0.5} if intercept else {})
    instance = settled(spec, 8)
    rng = np.random.default_rng(9)
    seen = np.concatenate([instance.visit(rng).request.context for _ in range(30)])
    rows = [[*row, 1.0] if intercept else row for row in CONTEXTS]
    counts = [int((seen == row).all(axis=1).sum()) for row in rows]
    assert sum(counts) == 240
    # 80 each on average, with a standard deviation of 7.3: 28 off is one seed in ten thousand.
    assert max(abs(n - 80) for n in counts) < 28
    simulate(["ucr"], spec, rounds=10, replications=2)


# What is refused


def refused(spec: Mapping[str, Any]) -> str:
    with pytest.raises(RankloopError) as error:
        from_spec(spec)
    said = str(error.value)
    sentence, asks, _ = said.partition(" Did you mean ")
    assert sentence.endswith(".")
    assert not asks or said.endswith("?")
    assert "\n" not in said
    assert sentence.count(". ") == 0
    return said


MATRIX: dict[str, Any] = {"kind": "matrix", "dim": 1, "k": 1}
FILE = "users.npz"


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        (MATRIX | {"data": "netflix"}, "world.data", "is 'netflix'; accepted: one of movielens-1m,"),
        (MATRIX | {"data": "mnist"}, "world.data", "one of movielens-1m,"),
        (MATRIX | {"data": 1}, "world.data", "is 1; accepted: one of movielens-1m,"),
        (PIVOT | {"data": "songs"}, "world.data", "accepted: one of mnist"),
        (RATED | {"data": "netflix"}, "world.data", "accepted: one of movielens-1m,"),
        (SHOP | {"data": "mnist"}, "world.data", "accepted: one of open-bandit"),
        (
            JUDGED | {"attraction": {"judged": {"data": "mnist"}}},
            "world.attraction.judged.data",
            "accepted: one of mslr-web, letor, istella",
        ),
        (JUDGED | {"attraction": {"judged": {}}}, "world.attraction.judged.data", "missing"),
        (MATRIX | {"data": "songs", "file": FILE}, "world.file", "either a file or a data set (data)"),
        (PIVOT | {"file": FILE}, "world.file", "either a file or a data set (data)"),
        (RATED | {"file": FILE}, "world.file", "either a file or a data set (data)"),
        (MATRIX, "world.file", "is missing; accepted: either a file or a data set (data)"),
        ({"kind": "pivot", "pivot": 1, "budget": 1}, "world.file", "is missing; accepted: either a file or a data set"),
        ({"kind": "rated", "budget": 1}, "world.file", "is missing; accepted: either a file or a data set"),
        (MATRIX | {"file": FILE, "categories": ["Drama"]}, "world.categories", "only together with world.data"),
        (MATRIX | {"file": FILE, "most": {"users": 2}}, "world.most", "only together with world.data"),
        ({"kind": "rated", "budget": 1, "file": FILE, "topics": 3}, "world.topics", "only together with world.data"),
        (
            {"kind": "rated", "budget": 1, "file": FILE, "space": "mixture"},
            "world.space",
            "only together with world.data",
        ),
        (MATRIX | {"data": "songs", "categories": "Rock"}, "world.categories", "a list of names"),
        (MATRIX | {"data": "songs", "categories": [1]}, "world.categories", "a list of names"),
        (MATRIX | {"data": "songs", "most": {"users": 0}}, "world.most.users", "a whole number of at least 1"),
        (MATRIX | {"data": "songs", "most": {"films": 2}}, "world.most.films", "only the fields users, items"),
        (MATRIX | {"data": "songs", "most": 3}, "world.most", "a mapping with users, items"),
        (MATRIX | {"data": "songs", "dim": 9}, "world.dim", "a whole number from 1 to 1"),
        (MATRIX | {"data": "songs", "k": 4}, "world.k", "a whole number from 1 to 3"),
        (MATRIX | {"data": "songs", "items": 4}, "world.items", "a whole number from 1 to 3"),
        (PIVOT | {"topics": 1}, "world.topics", "a whole number from 2 to 1000"),
        (PIVOT | {"topics": "ten"}, "world.topics", "a whole number from 2 to 1000"),
        (PIVOT | {"topics": 3, "space": "plain"}, "world.space", "one of mixture"),
        (PIVOT | {"space": "mixture"}, "world.topics", "is missing; accepted: a number of topics"),
        (PIVOT | {"pivot": 11}, "world.pivot", "one of the labels"),
        (PIVOT | {"chunk": 46}, "world.chunk", "a whole number from 1 to 45"),
        (SHOP | {"contexts": CONTEXTS}, "world.contexts", "no contexts together with world.data"),
        (SHOP | {"alpha": [0.5]}, "world.alpha", "no alpha together with world.data"),
        (POSITIONS | {"contexts": [[1.0, 2.0, 3.0]]}, "world.contexts", "is rows of 3; accepted: rows of 2 numbers"),
        (POSITIONS | {"contexts": [[1.0], [1.0, 2.0]]}, "world.contexts", "all of one length"),
        (POSITIONS | {"contexts": []}, "world.contexts", "a list of rows"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence_that_names_the_field(
    root: Path, monkeypatch: pytest.MonkeyPatch, spec: Mapping[str, Any], field: str, words: str
) -> None:
    data_files.triplets(root / "train_triplets.txt")
    digits(root, monkeypatch)
    said = refused(spec)
    assert said.startswith(f"{field} is ")
    assert words in said


def test_an_unknown_category_is_refused_with_those_that_are_there(root: Path) -> None:
    data_files.triplets(root / "train_triplets.txt")
    assert "none here" in refused(MATRIX | {"data": "songs", "categories": ["Rock"]})
    data_files.genres(root / "genres")
    prepared._read.cache_clear()
    said = refused(MATRIX | {"data": "songs", "categories": ["Rock", "Polka"]})
    assert "'Polka'; accepted: a category of songs: Jazz, Pop, Rock" in said


@pytest.mark.parametrize(
    ("spec", "field", "place"),
    [
        (MATRIX | {"data": "songs", "categories": ["Polka"]}, "world.categories", "here"),
        (MATRIX | {"data": "songs"}, "RANKLOOP_DATA", "nowhere"),
        (RATED | {"topics": 400}, "world.topics", "here"),
    ],
)
def test_the_field_is_named_as_the_user_knows_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], field: str, place: str
) -> None:
    data_files.triplets(root / "train_triplets.txt")
    films(root / "ml-latest-small", some_stars())
    if place == "nowhere":
        monkeypatch.setenv("RANKLOOP_DATA", str(root / "none"))
    assert refused(spec).startswith(f"{field} is ")


@pytest.mark.parametrize(
    "spec", [MATRIX | {"data": "songs"}, PIVOT, RATED, SHOP, JUDGED], ids=lambda spec: spec["kind"]
)
def test_a_data_set_that_is_not_there_says_how_to_get_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any]
) -> None:
    with pytest.raises(MissingData, match=r"^data set \S+ is not in .*: get .* there\.$"):
        from_spec(spec)
    monkeypatch.setenv("RANKLOOP_DATA", str(root / "none"))
    assert "RANKLOOP_DATA is " in refused(spec)
    monkeypatch.delenv("RANKLOOP_DATA")
    assert refused(spec) == "the folder of the data sets is unknown; give --data DIR or set RANKLOOP_DATA."


# Prepared once


def kept(tmp_path: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").glob("*")}


def test_what_is_prepared_is_read_from_its_file_the_second_time(root: Path, tmp_path: Path) -> None:
    films(root / "ml-latest-small", some_stars())
    world = chunks(RATED | {"topics": 2})
    before = kept(tmp_path)
    assert sorted(path.name.split("-")[0] for path in before) == ["coverage", "rated"]
    again = chunks(RATED | {"topics": 2})
    np.testing.assert_array_equal(again.x, world.x)
    np.testing.assert_array_equal(again.coverage, world.coverage)
    assert kept(tmp_path) == before
    (file,) = (tmp_path / "cache").glob("rated-*")
    np.savez(file, x=np.eye(48, 10), rate=np.full(48, 0.125))
    assert (chunks(RATED).rate == 0.125).all(), "it is the file that is read"


def test_a_copy_of_the_data_needs_no_second_preparation(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    films(root / "ml-latest-small", some_stars())
    chunks(RATED)
    before = kept(tmp_path)
    shutil.copytree(root, tmp_path / "copy")
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path / "copy"))
    chunks(RATED)
    assert kept(tmp_path) == before


def test_other_data_or_topics_are_prepared_anew(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stars = list(some_stars())
    films(root / "ml-latest-small", stars)
    rate = chunks(RATED | {"topics": 2}).rate
    assert len(kept(tmp_path)) == 2
    chunks(RATED | {"topics": 3})
    assert len(kept(tmp_path)) == 3
    user, movie, value = stars[0]
    stars[0] = (user, movie, 5.0 if value < 5 else 1.0)
    films(tmp_path / "other" / "ml-latest-small", stars)
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path / "other"))
    assert (chunks(RATED).rate != rate).any()
    assert len(kept(tmp_path)) == 4


@pytest.mark.parametrize("damage", [lambda raw: raw[:100], lambda raw: b"", lambda raw: b"x" * len(raw)])
def test_a_damaged_file_is_prepared_again(root: Path, tmp_path: Path, damage: Any) -> None:
    films(root / "ml-latest-small", some_stars())
    world = chunks(RATED)
    (file,) = kept(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    prepared._rated_arms.cache_clear()
    np.testing.assert_array_equal(chunks(RATED).rate, world.rate)
    assert len(np.load(file)["rate"]) == 48
