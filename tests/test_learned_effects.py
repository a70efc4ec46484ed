"""What policies have learned besides items: position biases with intervals, and trust in the caller's scores."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from rankloop import catalogue
from rankloop.analytics.intervals import NORMAL_95
from rankloop.analytics.learned_effects import MISLEADING_TRUST
from rankloop.belief import ChoiceEstimates, Counts, CountsState
from rankloop.catalogue import registry
from rankloop.design import PerItem
from rankloop.explore import Greedy
from rankloop.feedback import SemiBandit
from rankloop.math import mnl
from rankloop.plan import TopK
from rankloop.policy import Policy
from rankloop.reports import ReportData, Section, page, sections, text
from rankloop.serving import Ranker, RankerConfig
from rankloop.types import FloatArray, ScoreTrust, Setting
from test_ranker import Clock

K, J = 3, 5
ALPHA, LAM = np.array([0.6, 0.4, 0.3, 0.2, 0.1]), np.array([1.0, 0.6, 0.35])


def epochs(rng: np.random.Generator, number: int) -> tuple[FloatArray, FloatArray]:
    """Counts N and S [1, K, J] of random lists, each kept until a visitor chooses nothing."""
    N, S = np.zeros((2, 1, K, J))
    for _ in range(number):
        items = rng.permutation(J)[:K]
        weight = np.append(LAM * ALPHA[items], 1.0)
        S[0, np.arange(K), items] += 1
        while (chosen := int(rng.choice(K + 1, p=weight / weight.sum()))) < K:
            N[0, chosen, items[chosen]] += 1
    return N, S


def fitted(N: FloatArray, S: FloatArray) -> tuple[FloatArray, FloatArray]:
    return mnl.fit_mle(N, S, np.full((1, J), 0.1), np.ones((1, K)))


def test_errors_are_those_of_the_whole_information_matrix() -> None:
    """Against the inverse of all of it, items and slots together, λ_1 left out."""
    N, S = epochs(np.random.default_rng(0), 200)
    alpha, lam = fitted(N, S)
    p = (w := lam[0][:, None] * alpha[0]) / (1.0 + w)
    W = (N + S)[0] * p * (1.0 - p)
    information = np.zeros((J + K, J + K))
    information[:J, :J], information[J:, J:] = np.diag(W.sum(axis=0)), np.diag(W.sum(axis=1))
    information[J:, :J], information[:J, J:] = W, W.T
    information += mnl.RIDGE * np.eye(J + K)
    kept = [n for n in range(J + K) if n != J]
    variance = np.diag(np.linalg.inv(information[np.ix_(kept, kept)]))
    items, slots = mnl.log_errors(N, S, alpha, lam)
    np.testing.assert_allclose(items[0], np.sqrt(variance[:J]), rtol=1e-9)
    np.testing.assert_allclose(slots[0], [0.0, *np.sqrt(variance[J:])], rtol=1e-9)


def test_intervals_hold_the_truth() -> None:
    """Of 300 worlds, 95 % of the intervals of each slot and item hold the truth.

    At least 90.5 %: 3.6 standard errors, less than 1 chance in 1,000 over all seven numbers.
    """
    rng, belief = np.random.default_rng(1), ChoiceEstimates(J, K)
    held = np.zeros(K + J)
    for _ in range(300):
        N, S = epochs(rng, 150)
        state = belief.init(1)
        state.N[:], state.S[:] = N, S
        state.alpha[:], state.lam[:] = fitted(N, S)
        effects, (mean, deviation) = belief.slot_effects(state), belief.item_estimates(state) or (None, None)
        assert effects is not None
        assert mean is not None
        assert deviation is not None
        held[:K] += (effects.low[0] <= LAM + 1e-12) & (effects.high[0] >= LAM - 1e-12)
        held[K:] += np.abs(mean[0] - ALPHA) <= NORMAL_95 * deviation[0]
    assert held[0] == 300, "the first slot is 1 by definition"
    assert held[1:].min() >= 0.905 * 300


def test_nothing_is_claimed_where_nothing_is_known() -> None:
    """No clicks, items that never left their slot, items never shown, estimators without a likelihood."""
    belief = ChoiceEstimates(J, K)
    state = belief.init(1)
    effects = belief.slot_effects(state)
    assert effects is not None
    assert np.isnan(effects.low[0, 1:]).all()
    state.N[0, np.arange(K), np.arange(K)] = [40, 30, 20]
    state.S[0, np.arange(K), np.arange(K)] = 100
    state.alpha[:], state.lam[:] = fitted(state.N, state.S)
    effects, found = belief.slot_effects(state), belief.item_estimates(state)
    assert effects is not None
    assert found is not None
    assert np.isnan(effects.high[0, 1:]).all(), "only products of α and λ are known"
    assert np.isnan(found[0][0, K:]).all()
    assert np.isfinite(found[0][0, :K]).all()
    assert np.isfinite(found[1][0, 0]), "the item of slot 0 is known"
    other = ChoiceEstimates(J, K, mnl.fit_exclude)
    effects = other.slot_effects(state)
    assert effects is not None
    assert np.isnan(effects.low).all()


def test_policies_without_such_parts_say_that_they_cannot() -> None:
    setting = Setting(J, K)
    for id in ("gts", "cascade-ucb1", "random", "mnl-bandit"):
        policy = catalogue.build(id, setting)
        assert policy.slot_effects(policy.init(1)) is None
        assert policy.score_trust(policy.init(1)) is None


# A ranker that learns position biases


@pytest.fixture(scope="module")
def chosen() -> tuple[Ranker, Clock]:
    """Visitors who choose one item or none, and look less at lower slots."""
    clock, rng = Clock(), np.random.default_rng(3)
    config = {"policy": "epoch-ucb-upb-star", "slots": K, "traffic": 0.9, "seed": 2}
    ranker = Ranker(RankerConfig.of(config), clock=clock)
    ids = [f"i{n}" for n in range(J)]
    ranker.put_items([{"id": id} for id in ids])
    for n in range(2500):
        made = ranker.rank(order=ids, visitor=f"v{n}")
        weight = np.append(LAM * ALPHA[[ids.index(id) for id in made.ids]], 1.0)
        slot = int(rng.choice(K + 1, p=weight / weight.sum()))
        ranker.feedback(made.id, clicked=[] if slot == K else [slot])
        clock.now += 20.0
    ranker.flush()
    return ranker, clock


def report(ranker: Ranker, clock: Clock) -> ReportData:
    return ReportData("shop", clock.now, ranker.config.as_mapping(), ranker.overview(24.0), ranker.diagnosis())


def section(data: ReportData, key: str) -> Section:
    (found,) = [one for one in sections(data) if one.key == key]
    return found


def test_items_have_estimates_and_slots_a_worth(chosen: tuple[Ranker, Clock]) -> None:
    """The intervals are of one long run; each is widened by half, so that chance fails once in 300."""
    ranker, _ = chosen
    table = ranker.estimates()
    rows = {row.item: row for row in table.rows()[0]}
    for n, truth in enumerate(ALPHA):
        row = rows[f"i{n}"]
        assert row.estimate is not None
        assert row.low is not None
        assert abs(row.estimate - truth) < 1.5 * (row.estimate - row.low)
    assert [one.slot for one in table.slots] == [0, 1, 2]
    assert (table.slots[0].effect, table.slots[0].low, table.slots[0].high) == (1.0, 1.0, 1.0)
    for one, truth in zip(table.slots[1:], LAM[1:], strict=True):
        assert one.low is not None
        assert one.high is not None
        assert one.low**1.5 < truth * one.effect**0.5 < one.high**1.5
    assert table.trust is None


def test_a_report_says_what_slots_are_worth(chosen: tuple[Ranker, Clock]) -> None:
    data = report(*chosen)
    found = section(data, "slot_worths")
    last = data.diagnosis.slot_worths[-1]
    assert found.title == "What are your slots worth?"
    assert found.headline.startswith(f"A place in slot 2 is worth {100 * last.effect:.0f} % of one in slot 0 (95 %")
    assert [row[0] for row in found.tables[0].rows] == ["0", "1", "2"]
    tree = ET.fromstring(page(data))
    (chart,) = [svg for svg in tree.iter("svg") if "worth of each slot" in (svg.findtext("title") or "")]
    assert len([one for one in chart.iter("rect") if "bar" in one.attrib["class"]]) == K
    assert len([one for one in chart.iter("line") if one.attrib["class"] == "whisker"]) == K - 1
    assert "What are your slots worth?" in text(data)


def test_a_new_ranker_has_slots_of_unknown_worth() -> None:
    clock = Clock()
    ranker = Ranker(RankerConfig.of({"policy": "epoch-ucb-upb", "slots": 2}), clock=clock)
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    assert section(report(ranker, clock), "slot_worths").headline.startswith("Too early to tell")
    plain = Ranker(RankerConfig.of({"policy": "gts", "slots": 2}), clock=clock)
    assert "slot_worths" not in {one.key for one in sections(report(plain, clock))}
    assert plain.estimates().slots == []


# Trust in scores


class Trusting(Counts):
    """Counts that pretend to weigh scores: the coefficient is the mean of the first item, ± 0.05."""

    def score_trust(self, state: CountsState) -> ScoreTrust | None:
        """Return a coefficient that tests choose by the clicks on the first item."""
        clicks, shown = state.clicks[:, 0], np.maximum(state.shown[:, 0], 1.0)
        return ScoreTrust(2.0 * clicks / shown - 0.5, np.full(len(clicks), 0.05))


def trusting(setting: Setting) -> Policy[CountsState]:
    """Rank by counts, and report a trust in scores."""
    return Policy(PerItem(), Trusting(setting.items), Greedy(), TopK(), SemiBandit())


@pytest.mark.parametrize(
    ("clicked", "tone", "words"),
    [
        (0.0, "bad", "Your scores mislead: they are trusted by now at −0.50 (95 % interval −0.60 to −0.40), so"),
        (0.25, "bad", "Your scores mislead: they are trusted by now at 0.00 (95 % interval −0.10 to 0.10), so"),
        (0.5, "plain", "Your scores are trusted in part, by now at 0.50 (95 % interval 0.40 to 0.60)."),
        (0.75, "good", "Your scores are trusted, by now at 1.00 (95 % interval 0.90 to 1.10)."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("discount", [1.0, 1.0 - 1e-12])
def test_a_report_says_how_far_scores_are_trusted(
    monkeypatch: pytest.MonkeyPatch, clicked: float, tone: str, words: str, discount: float
) -> None:
    """By a composition, and by a wrapper around it."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    registry.policy("trusting", paper="baseline", needs=("lasting",))(trusting)
    clock = Clock()
    ranker = Ranker(RankerConfig.of({"policy": "trusting", "slots": 1, "discount": discount}), clock=clock)
    ranker.put_items([{"id": "a"}])
    for n in range(40):
        ranker.feedback(ranker.rank().id, clicked=[0] if n % 4 < 4 * clicked else [])
    data = report(ranker, clock)
    trust = data.diagnosis.score_trust
    assert trust is not None
    assert trust.mean == pytest.approx(2 * clicked - 0.5)
    assert trust.misleading == (trust.high < MISLEADING_TRUST)
    found = section(data, "score_trust")
    assert found.tone == tone
    assert found.headline.startswith(words)
    assert (sections(data)[1].key == "score_trust") == (tone == "bad")
    assert ranker.estimates().trust == trust


def test_the_segment_is_named_where_there_are_several(chosen: tuple[Ranker, Clock]) -> None:
    clock = Clock()
    ranker = Ranker(RankerConfig.of({"policy": "epoch-ucb-upb", "slots": 2}), clock=clock)
    ranker.put_items([{"id": "a"}, {"id": "b"}])
    for segment in ("de", "de", "fr"):
        ranker.feedback(ranker.rank(segment=segment).id, clicked=[])
    data = report(ranker, clock)
    assert data.diagnosis.segment == "de"
    assert "in segment 'de'" in " ".join(section(data, "slot_worths").lines)
