"""Write the matrix of policies and worlds as a table, a heat map and a Parquet file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankloop import catalogue
from rankloop.errors import MissingExtra
from rankloop.experiments.matrix import Matrix
from rankloop.files import replace_file
from rankloop.simulator.plot import save_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def table(matrix: Matrix) -> str:
    """Return a Markdown table: share of the random policy's regret with half its 95 % confidence interval."""
    lines = ["| policy | " + " | ".join(matrix.worlds) + " |", "|---|" + "---:|" * len(matrix.worlds)]
    for id in matrix.policies:
        lines.append(f"| {id} | " + " | ".join(_cell(*matrix.share(world, id)) for world in matrix.worlds) + " |")
    return "\n".join(lines)


def _cell(share: float, half: float) -> str:
    return "" if np.isnan(share) else f"{share:.1%} ± {half:.1%}".replace("%", " %")


def write(matrix: Matrix, folder: Path) -> None:
    """Write matrix.md, matrix.parquet, matrix.png and matrix.svg."""
    figure = heat_map(matrix)
    replace_file(folder / "matrix.md", lambda p: p.write_text(table(matrix) + "\n", encoding="utf-8"))
    replace_file(folder / "matrix.parquet", lambda p: _parquet(matrix, p))
    replace_file(folder / "matrix.png", lambda p: figure.savefig(p, format="png"))
    replace_file(folder / "matrix.svg", lambda p: save_svg(figure, p))


def _parquet(matrix: Matrix, path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise MissingExtra("writing the matrix", "experiments") from None
    rows = []
    for cell in matrix.cells:
        share, half = matrix.share(cell.world, cell.id)
        ran = cell.regret is not None
        rows.append(
            {
                "world": cell.world,
                "policy": cell.id,
                "paper": catalogue.find(cell.id).paper,
                "regret": float(cell.regret.mean()) if cell.regret is not None else None,
                "share": share if ran else None,
                "share_low": share - half if ran else None,
                "share_high": share + half if ran else None,
                "seconds": cell.seconds if ran else None,
                "refused": cell.refused,
                "rounds": matrix.size.rounds,
                "replications": matrix.size.replications,
            }
        )
    pq.write_table(pa.Table.from_pylist(rows), path)


def heat_map(matrix: Matrix) -> Figure:
    """Return a heat map of policies (rows, by paper) and worlds (columns); darker is less regret, empty cannot run."""
    try:
        from matplotlib import colormaps
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise MissingExtra("a figure", "experiments") from None
    shares = np.array([[matrix.share(w, id)[0] for w in matrix.worlds] for id in matrix.policies])
    shown = np.clip(shares, 0.01, 1.5)
    figure = Figure(figsize=(8.0, 0.29 * len(matrix.policies) + 1.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    colours = colormaps["viridis"].with_extremes(bad="#f2f2f2")
    image = axes.imshow(np.ma.masked_invalid(shown), cmap=colours, norm=LogNorm(0.01, 1.5), aspect="auto")
    for i, j in np.ndindex(shares.shape):
        if np.isfinite(shares[i, j]):
            dark = shown[i, j] < 0.15
            text = f"{shares[i, j]:.0%}" if shares[i, j] >= 0.0995 else f"{shares[i, j]:.1%}"
            axes.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
    axes.set_xticks(range(len(matrix.worlds)), [w.replace("-", "-\n") for w in matrix.worlds], fontsize=8)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(matrix.policies)), matrix.policies, fontsize=8)
    for edge in _paper_edges(matrix.policies):
        axes.axhline(edge - 0.5, color="white", linewidth=3)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.4, pad=0.02)
    bar.set_ticks([0.01, 0.03, 0.1, 0.3, 1.0], labels=["1 %", "3 %", "10 %", "30 %", "100 %"])
    bar.set_label("final regret, share of the random policy's", fontsize=8)
    return figure


def _paper_edges(ids: list[str]) -> list[int]:
    papers = [catalogue.find(id).paper for id in ids]
    return [i for i in range(1, len(papers)) if papers[i] != papers[i - 1]]
