"""The page of all reproductions: figures, claims with their verdicts, what differs and why."""

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

Every figure and table of the five papers, run again by `rankloop reproduce`, and each claim of a paper judged by the
numbers: it *holds* or *does not hold* where a 95 % interval lies on one side, and *cannot be told* where it does not.
A claim that fails is listed like the others. This page is written by
`rankloop reproduce --page docs/explanation/reproduction.md` from the results of the machine that ran them; *quick*
marks the smaller version of an experiment.
"""


def write(results: Path, page: Path) -> None:
    """Write the page, and copy the figures that it shows to images/reproduction beside it."""
    images = page.parent / "images" / "reproduction"
    images.mkdir(parents=True, exist_ok=True)
    kept = {e.id: read(results / e.id) for e in library.ALL}
    for id, result in kept.items():
        if result is not None:
            shutil.copyfile(result.figure, images / _image(id))
    page.write_text("\n".join(_lines(kept)), encoding="utf-8")


def _lines(kept: dict[str, StoredResult | None]) -> Iterator[str]:
    yield INTRODUCTION
    yield _summary(kept).markdown()
    yield ""
    for paper, title in library.PAPERS.items():
        yield f"## {title}\n"
        for experiment in library.ALL:
            if experiment.paper == paper:
                yield from _section(experiment, kept[experiment.id])


def _summary(kept: dict[str, StoredResult | None]) -> ResultTable:
    rows = []
    for paper in library.PAPERS:
        mine = [kept[e.id] for e in library.ALL if e.paper == paper]
        found = Counter(c["verdict"] for k in mine if k is not None for c in k.claims)
        ran = sum(k is not None for k in mine)
        rows.append((paper, f"{ran} of {len(mine)}", *(str(found[v]) for v in ClaimVerdict)))
    return ResultTable(("paper", "experiments run", *(str(v) for v in ClaimVerdict)), tuple(rows))


def _section(experiment: Experiment, kept: StoredResult | None) -> Iterator[str]:
    yield f"### {experiment.id}: {experiment.title}\n"
    if kept is None:
        needs = f" It needs {' and '.join(experiment.data)}." if experiment.data else ""
        yield f"Not run here.{needs}\n"
        return
    yield f"![{experiment.title}](images/reproduction/{_image(experiment.id)})\n"
    head = kept.head
    sizes = sorted({(p["rounds"], p["replications"]) for p in head["panels"]})
    played = "; ".join(f"{t:,} rounds, {r:,} replications" for t, r in sizes) or "no simulation"
    kind = "Quick version: " if head["quick"] else ""
    yield (
        f"{kind}{played}; seed {head['seed']}, rankloop {head['version']}, NumPy {head['numpy']}, {head['machine']}; "
        f"{head['speed']}.\n"
    )
    if kept.claims:
        rows = tuple((c["claim"], c["source"], c["verdict"], c["numbers"]) for c in kept.claims)
        yield ResultTable(("claim", "where", "verdict", "numbers"), rows).markdown() + "\n"
    if kept.table.count("\n") <= 40:
        yield kept.table
    if experiment.differs:
        yield f"*What differs, and why.* {experiment.differs}\n"


def _image(id: str) -> str:
    return id.replace("/", "-") + ".png"
