"""Write the page of all reproductions: figures, claims with their verdicts, and deviations from the papers."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rankloop.experiments import library
from rankloop.experiments.claims import ClaimVerdict
from rankloop.experiments.experiment import Experiment
from rankloop.experiments.report import StoredResult, read
from rankloop.experiments.tables import ResultTable

INTRODUCTION = """# Reproduction

Every figure and table of the five papers, run again by `rankloop reproduce`, with a verdict on each claim of a paper:
it *holds* or *does not hold* where a 95 % interval lies on one side of the bound; otherwise the verdict is *cannot
tell*. A run that differs from the paper's in more than its number of replications (fewer rounds, also because the data
set at hand is smaller, or a coarser search of parameters) decides nothing: *cannot tell at this size*. Where the paper
does not print a constant, the claim is tested with several values, and a table shows all of them: the claim holds if it
holds with one, and fails only if it fails with all. Where data stand in for the paper's, the text below the table says
how they differ. A claim that fails is listed like the others. This page is written by
`rankloop reproduce --page docs/explanation/reproduction.md` from the results of the machine that ran them; *quick*
marks the smaller version of an experiment.
"""


def write(results: Path, page: Path) -> None:
    """Write the page, and copy its figures to images/reproduction next to it."""
    images = page.parent / "images" / "reproduction"
    images.mkdir(parents=True, exist_ok=True)
    stored = {e.id: read(results / e.id) for e in library.ALL}
    for id, result in stored.items():
        if result is not None:
            shutil.copyfile(result.figure, images / _image(id))
    page.write_text("\n".join(_lines(stored)), encoding="utf-8")


def _lines(stored: dict[str, StoredResult | None]) -> Iterator[str]:
    yield INTRODUCTION
    yield _summary(stored).markdown()
    yield ""
    quick = [id for id, result in stored.items() if result is not None and result.head["quick"]]
    if quick:
        yield f"Quick versions: {', '.join(quick)}. Each says what its full version costs.\n"
    for paper, title in library.PAPERS.items():
        yield f"## {title}\n"
        for experiment in library.ALL:
            if experiment.paper == paper:
                yield from _section(experiment, stored[experiment.id])


def _summary(stored: dict[str, StoredResult | None]) -> ResultTable:
    rows = []
    for paper in library.PAPERS:
        results = [stored[e.id] for e in library.ALL if e.paper == paper]
        verdicts = Counter(claim["verdict"] for result in results if result is not None for claim in result.claims)
        run = [result for result in results if result is not None]
        quick = sum(bool(result.head["quick"]) for result in run)
        counts = (str(verdicts[v]) for v in ClaimVerdict)
        rows.append((paper, f"{len(run)} of {len(results)}", str(quick), *counts))
    return ResultTable(("paper", "experiments run", "of these quick", *(str(v) for v in ClaimVerdict)), tuple(rows))


def _section(experiment: Experiment, stored: StoredResult | None) -> Iterator[str]:
    yield f"### {experiment.id}: {experiment.title}\n"
    if stored is None:
        needs = f" It needs {' and '.join(experiment.data)}." if experiment.data else ""
        yield f"Not run here.{needs}\n"
        return
    yield f"![{experiment.title}](images/reproduction/{_image(experiment.id)})\n"
    head = stored.head
    sizes = sorted({(p["rounds"], p["replications"]) for p in head["panels"]})
    played = "; ".join(f"{t:,} rounds, {r:,} replications" for t, r in sizes) or "no simulation"
    kind = "Quick version: " if head["quick"] else ""
    yield (
        f"{kind}{played}; seed {head['seed']}, rankloop {head['version']}, NumPy {head['numpy']}, {head['machine']}; "
        f"{head['speed']}.\n"
    )
    if stored.claims:
        columns = ("claim", "source", "data", "verdict", "numbers")
        rows = tuple(tuple(claim[name] for name in columns) for claim in stored.claims)
        yield ResultTable(("claim", "where", "data", "verdict", "numbers"), rows).markdown() + "\n"
    if stored.sensitivity:
        yield "By constants that the paper does not print:\n"
        yield stored.sensitivity
    if stored.table.count("\n") <= 40:
        yield stored.table
    if experiment.differs:
        yield f"*What differs, and why.* {experiment.differs}\n"


def _image(id: str) -> str:
    return id.replace("/", "-") + ".png"
