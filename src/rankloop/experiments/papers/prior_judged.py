"""Paper `prior` on judged documents: Web30K and Istella, Section 5.4."""

from __future__ import annotations

from collections.abc import Callable

from rankloop.experiments.claims import Claim, ClaimTest, ForEachConstant, LowerRegret, LowestRegret
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.figures import Curves
from rankloop.experiments.outcome import Key, Panel
from rankloop.experiments.papers.prior_players import REAL, Players
from rankloop.experiments.sensitivity import Sensitivity

WEB, ISTELLA = "Web30K", "Istella"


def _judged(
    data: str, players: Players, rounds: int, scalings: tuple[str, ...] = ("range",)
) -> Callable[[bool], tuple[Panel, ...]]:
    """Return panels in which each replication is a random test query; the quick version has at most 2,000 rounds."""

    def panel(scaling: str, quick: bool) -> Panel:
        judged = {"data": data} if scaling == "range" else {"data": data, "scaling": scaling}
        world = {"kind": "cascade", "attraction": {"judged": judged}, "k": 10}
        title = data if len(scalings) == 1 else f"{data}, features {scaling}"
        length, replications = (min(rounds, 2_000), 12) if quick else (rounds, 900)
        key = {"data": data, "scaling": scaling}
        return Panel(key, title, world, players, length, replications, chunk=12 if quick else 60)

    return lambda quick: tuple(panel(scaling, quick) for scaling in scalings)


def real(
    number: int, data: str, what: str, players: Players, until: int | None, claims: tuple[Claim, ...]
) -> Experiment:
    """Return a figure on judged documents, of the first `until` rounds or of all 10,000."""
    return Experiment(
        id=f"prior/fig{number}",
        title=f"{what}, K = 10",
        panels=_judged(data, players, until or 10_000),
        arrangement=Curves(until=until),
        claims=claims,
        data=(data,),
        differs=_differs(data),
    )


def _differs(data: str) -> str:
    return (
        "Priors come from ten gradient-boosted rankers, each trained on half of the training queries, not from "
        "deep models; features are scaled to [0, 1], documents to unit norm (how the paper normalises is not said: "
        "see fig11-scaling); a document of grade g attracts with probability (2^g - 1)/2^4; each replication is a test "
        "query drawn at random, not 50 of each."
        + (" The public sample of MSLR-WEB30K has 18 test queries, the whole one 6,000." if data == "mslr-web" else "")
    )


def real_claims(data: str) -> tuple[Claim, ...]:
    """Return what Section 5.4 says of both data sets."""
    return (
        Claim("LogTS-LTR has the lowest regret", "Section 5.4", data, LowestRegret("LogTS-LTR")),
        Claim("GTS is better than TS-Beta", "Section 5.4", data, LowerRegret("GTS", ("TS-Beta",))),
        Claim("LinTS-LTR is better than GTS", "Section 5.4", data, LowerRegret("LinTS-LTR", ("GTS",))),
    )


SCALINGS = ("range", "standard", "range-only")


def scaling() -> Experiment:
    """Return figure 11 with features scaled in several ways, since the paper only calls them normalised."""

    def for_each(test: Callable[[Key], ClaimTest]) -> ForEachConstant:
        return ForEachConstant(tuple((name, test({"scaling": name})) for name in SCALINGS))

    return Experiment(
        id="prior/fig11-scaling",
        title="Web30K, the first 2,000 rounds, by the scaling of features, K = 10",
        panels=_judged("mslr-web", REAL, 2_000, SCALINGS),
        arrangement=Curves(),
        claims=(
            Claim(
                "LogTS-LTR has the lowest regret",
                "Section 5.4",
                WEB,
                for_each(lambda where: LowestRegret("LogTS-LTR", where=where)),
            ),
            Claim(
                "LinTS-LTR is better than GTS",
                "Section 5.4",
                WEB,
                for_each(lambda where: LowerRegret("LinTS-LTR", ("GTS",), where=where)),
            ),
        ),
        data=("mslr-web",),
        differs=_differs("mslr-web"),
        sensitivity=tuple(
            Sensitivity(f"scaling, {label}", tuple((name, label, {"scaling": name}) for name in SCALINGS), "TS-Beta")
            for label in ("LogTS-LTR", "LinTS-LTR")
        ),
    )
