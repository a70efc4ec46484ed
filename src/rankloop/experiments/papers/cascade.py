"""Paper `cascade`: recommendation from large sets of items, Section 4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rankloop.experiments.claims import Claim, ClaimTest, LowerRegret, SimilarRegret
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import Curves, OverlaidCurves
from rankloop.experiments.outcome import Panel
from rankloop.experiments.panel_claims import GapGrows, LowestPanel, MonotoneTrend, PanelRatio

Player = Mapping[str, object]
UCB1 = {"id": "cascade-ucb1", "label": "CascadeUCB1"}
LIN_TS = {"id": "cascade-lin-ts", "label": "CascadeLinTS"}
RANKED = {"id": "ranked-lin-ts", "label": "RankedLinTS"}


@dataclass(frozen=True)
class CascadeProblem:
    """A data set as the paper uses it, and its category for figure 2b."""

    name: str
    data: str
    most: Mapping[str, int]
    largest: str  # the largest L, as text
    subset: str
    subset_data: tuple[str, ...]
    subset_world: Mapping[str, object]
    title: str  # the paper's name of the data set
    section: str
    lowest: int | None = None  # the number of features at which the paper finds the lowest regret
    note: str = ""
    cut: str = ""  # what our copy of the paper's text has lost


PROBLEMS = (
    CascadeProblem(
        "movielens",
        "movielens-1m",
        {},
        "all",
        "adventure films",
        ("movielens-1m",),
        {"data": "movielens-1m", "categories": ["Adventure"]},
        "MovieLens 1M",
        "Section 4.6.1",
        20,
        "A film attracts the users who gave it more than 3 stars. ",
    ),
    CascadeProblem(
        "yelp",
        "yelp",
        {"users": 20_000, "items": 3_000},
        "3,000",
        "American restaurants",
        ("yelp-restaurants",),
        {"data": "yelp-restaurants", "categories": ["American (Traditional)", "American (New)"]},
        "Yelp",
        "Section 4.4.1",
        None,
        "The paper takes the restaurants of the challenge data of 2016 (2.2 million reviews); the public cut used here "
        "has 16,239 users, does not name its categories and keeps all kinds of businesses, so the most reviewed ones "
        "are taken. The subset comes from another cut, which names them. ",
    ),
    CascadeProblem(
        "songs",
        "songs",
        {"users": 400_000, "items": 10_000},
        "all",
        "rock songs",
        ("songs", "song-genres"),
        {"data": "songs", "categories": ["Rock"]},
        "Million Song",
        "Section 4.5.1",
        10,
        "The paper has 400,000 users; the public sample used here has 1,630. ",
        "The sentence of Section 4.5.1 that compares CascadeLinTS with RankedLinTS for all L lacks its middle in the "
        "text at hand; it is read as in Section 4.6.1. ",
    ),
)
WHICH = "The paper does not say which 16 or 256 items it uses: here they are the most popular ones, shuffled. "


def _panel(
    name: str, value: str | int, title: str, world: Mapping[str, object], policies: tuple[Player, ...], quick: bool
) -> Panel:
    rounds, runs = (8_000, 4) if quick else (100_000, 10)
    return Panel({name: value}, title, {"kind": "matrix", **world}, policies, rounds, runs, chunk=10)


def _world(problem: CascadeProblem, **sizes: int) -> dict[str, object]:
    cut = {"most": dict(problem.most)} if problem.most else {}
    return {"data": problem.data, **cut, **sizes}


def _fig1_claims(problem: CascadeProblem) -> tuple[Claim, ...]:
    """Return what the section of a data set says of figure 1."""
    large, section = f"L = {problem.largest}", problem.section
    similar = tuple(
        Claim(
            f"At L = 16 the regret of {worse} is similar to that of CascadeLinTS (here: between half and twice)",
            section,
            problem.title,
            SimilarRegret(worse, "CascadeLinTS", 0.5, 2.0, where={"items": "L = 16"}),
        )
        for worse in (("RankedLinTS",) if problem.name == "yelp" else ("RankedLinTS", "CascadeUCB1"))
    )
    twice = Claim(
        "At L = 16 the regret of CascadeUCB1 is about twice that of CascadeLinTS (here: 1.5 to 3 times)",
        section,
        problem.title,
        SimilarRegret("CascadeUCB1", "CascadeLinTS", 1.5, 3.0, where={"items": "L = 16"}),
    )
    others = ("CascadeUCB1", "RankedLinTS") if problem.name == "yelp" else ("CascadeUCB1",)
    return (
        *similar,
        *((twice,) if problem.name == "yelp" else ()),
        Claim(
            f"The gap between CascadeLinTS and {' and '.join(others)} grows with L",
            section,
            problem.title,
            GapGrows("CascadeLinTS", others),
        ),
        Claim(
            "At L = 256 the regret of CascadeUCB1 is several times that of CascadeLinTS (here: more than 3 times)",
            "Figure 1",
            problem.title,
            LowerRegret("CascadeLinTS", ("CascadeUCB1",), times=3.0, where={"items": "L = 256"}),
        ),
        Claim(
            "At the largest L the regret of CascadeUCB1 is orders of magnitude larger (here: more than 10 times)",
            section,
            problem.title,
            LowerRegret("CascadeLinTS", ("CascadeUCB1",), times=10.0, where={"items": large}),
        ),
        *(
            (
                Claim(
                    "CascadeLinTS's regret is lower than RankedLinTS's for every L",
                    section,
                    problem.title,
                    LowerRegret("CascadeLinTS", ("RankedLinTS",)),
                ),
            )
            if problem.name != "yelp"
            else ()
        ),
    )


def _fig2_claims(problem: CascadeProblem, part: str) -> tuple[Claim, ...]:
    """Return what the section of a data set says of a part of figure 2."""

    def claim(text: str, test: ClaimTest) -> tuple[Claim, ...]:
        return (Claim(text, problem.section, problem.title + (", " + problem.subset) * (part == "b"), test),)

    label = "CascadeLinTS"
    if part == "c" and problem.name == "yelp":
        return claim("Regret grows from K = 4 to K = 8", MonotoneTrend(label, until="K = 8"))
    if part == "c":
        return claim("Regret grows with the number of recommended items K", MonotoneTrend(label))
    if part == "d":
        return claim("Reward grows with the number of recommended items K", MonotoneTrend(label, of="reward"))
    if problem.lowest is not None:
        text = f"The lowest regret is at d = {problem.lowest}"
        return claim(text, LowestPanel(label, f"d = {problem.lowest}"))
    if part == "b":
        text = "CascadeLinTS learns with any number of features (here: less than half of the random policy's regret)"
        return claim(text, LowerRegret(label, ("random",), times=2.0))
    return (
        *claim(
            "When the features double to d = 40, the regret roughly doubles (here: 1.5 to 2.5 times)",
            PanelRatio(label, "d = 40", "d = 20", 1.5, 2.5),
        ),
        *claim(
            "When the features halve to d = 10, the regret is roughly halved (here: 0.4 to 0.67 times)",
            PanelRatio(label, "d = 10", "d = 20", 0.4, 0.67),
        ),
    )


def _fig1(problem: CascadeProblem) -> Experiment:
    def panels(quick: bool) -> tuple[Panel, ...]:
        players = (UCB1, LIN_TS, RANKED)
        worlds = (
            ("L = 16", _world(problem, items=16, dim=16, k=4)),
            ("L = 256", _world(problem, items=256, dim=20, k=4)),
            (f"L = {problem.largest}", _world(problem, dim=20, k=4)),
        )
        return tuple(_panel("items", title, title, world, players, quick) for title, world in worlds)

    return Experiment(
        id=f"cascade/fig1-{problem.name}",
        title=f"Regret for L = 16, 256 and {problem.largest} items of {problem.data}",
        panels=panels,
        arrangement=Curves(),
        claims=_fig1_claims(problem),
        data=(problem.data,),
        differs=problem.note + problem.cut + WHICH + "At L = 16 there are at most 16 features.",
    )


def _fig2(problem: CascadeProblem, part: str) -> Experiment:
    """Return part a (features), b (features, a subset), c (slots, regret) or d (slots, reward)."""
    subset = part == "b"

    def panels(quick: bool) -> tuple[Panel, ...]:
        if part in "ab":
            base = dict(problem.subset_world) if subset else _world(problem)
            # A category may have fewer than 256 items; then all of them are used.
            size = {} if subset else {"items": 256}
            return tuple(
                _panel("d", d, f"d = {d}", {**base, **size, "dim": d, "k": 4}, (LIN_TS,), quick) for d in (10, 20, 40)
            )
        return tuple(
            _panel("K", k, f"K = {k}", _world(problem, items=256, dim=20, k=k), (LIN_TS,), quick) for k in (4, 8, 12)
        )

    what = {"a": "features", "b": f"features, {problem.subset}", "c": "slots", "d": "slots"}[part]
    metric = "reward" if part == "d" else "regret"
    note = "The subset keeps all its items where it has fewer than 256. " if subset else WHICH
    return Experiment(
        id=f"cascade/fig2{part}-{problem.name}",
        title=f"CascadeLinTS by number of {what}: {metric}, {problem.data}",
        panels=panels,
        arrangement=OverlaidCurves(metric),
        claims=_fig2_claims(problem, part),
        data=problem.subset_data if subset else (problem.data,),
        differs=problem.note + note,
    )


EXPERIMENTS = (
    *(_fig1(problem) for problem in PROBLEMS),
    *(_fig2(problem, part) for part in "abcd" for problem in PROBLEMS),
)
