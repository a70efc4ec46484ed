"""Decide and learn with hashed sparse rows, beside Vowpal Wabbit's `cb_explore_adf` on the same rows.

    python -m bench.sparse

1,000 candidates of 50 non-zero values each, hashed into 2^18 coefficients; a decision shows one of them, of which the
outcome is learned. Rounds of both alternate within one run. Vowpal Wabbit is not a dependency of the package: without
the module `vowpalwabbit`, only rankloop is measured. It gets its examples as objects that were made before the clock
starts, and, for comparison, as text, which it has to parse.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from rankloop import build
from rankloop.simulator.parallel import one_blas_thread
from rankloop.types import FloatArray, Request, Setting

CANDIDATES, POSITIONS, BITS, ROUNDS, WARM_UP = 1000, 50, 18, 60, 5
VW = f"--cb_explore_adf --epsilon 0.05 --cb_type mtr -b {BITS} --quiet"


def rows(rng: np.random.Generator) -> FloatArray:
    """Return sparse rows [CANDIDATES, 2·POSITIONS] as a shop would have them: few values occur often."""
    at = (2**BITS * rng.random((CANDIDATES, POSITIONS)) ** 3).astype(np.int64)
    return np.concatenate([rng.uniform(0.5, 1.0, at.shape), at], axis=1)


def ours(id: str, **params: Any) -> Callable[[FloatArray], float]:
    """Return a function that decides and learns once, and returns the seconds."""
    policy: Any = build(id, Setting(CANDIDATES, 1, dim=2 * POSITIONS, hashed=2**BITS), **params)
    state, rng = policy.init(1), np.random.default_rng(0)

    def once(x: FloatArray) -> float:
        started = time.perf_counter()
        decision = policy.decide(state, Request(1, CANDIDATES, 1, x), rng)
        policy.learn(state, decision, np.ones((1, 1)))
        return time.perf_counter() - started

    return once


def texts(x: FloatArray) -> list[str]:
    """Return each row as a line of Vowpal Wabbit, whose features are numbers already."""
    return [
        "|f " + " ".join(f"{int(j)}:{v:.6g}" for v, j in zip(row[:POSITIONS], row[POSITIONS:], strict=True))
        for row in x
    ]


def theirs(vw: Any, workspace: Any, *, parsed: bool) -> Callable[[FloatArray], float]:
    """Return a function that predicts, draws an action and learns its cost, and returns the seconds."""
    rng = np.random.default_rng(0)

    def once(x: FloatArray) -> float:
        lines = texts(x)
        examples = workspace.parse(lines) if parsed else None
        started = time.perf_counter()
        scores = workspace.predict(lines if examples is None else examples)
        chosen = int(np.searchsorted(np.cumsum(scores), rng.random() * sum(scores)))
        chosen = min(chosen, CANDIDATES - 1)
        label = f"0:-1:{max(scores[chosen], 1e-6):.6f}"
        if examples is None:
            workspace.learn([f"{label} {line}" if i == chosen else line for i, line in enumerate(lines)])
        else:
            examples[chosen].set_label_string(label)
            workspace.learn(examples)
        seconds = time.perf_counter() - started
        if examples is not None:
            workspace.finish_example(examples)
        return seconds

    return once


def main() -> None:
    runs = {
        "lin-ts-ltr": ours("lin-ts-ltr"),
        "cascade-lin-ucb": ours("cascade-lin-ucb", c=1.0),
        "log-ts-ltr": ours("log-ts-ltr"),
    }
    try:
        vw = importlib.import_module("vowpalwabbit")
        runs["Vowpal Wabbit, parsed before"] = theirs(vw, vw.Workspace(VW), parsed=True)
        runs["Vowpal Wabbit, from text"] = theirs(vw, vw.Workspace(VW), parsed=False)
    except ImportError:
        print("the module vowpalwabbit is not installed, so that only rankloop is measured (pip install vowpalwabbit)")
    rng, seconds = np.random.default_rng(1), {name: list[float]() for name in runs}
    for repeat in range(WARM_UP + ROUNDS):
        x = rows(rng)
        for name, once in runs.items():
            spent = once(x)
            if repeat >= WARM_UP:
                seconds[name].append(spent)
    print(f"{CANDIDATES:,} candidates of {POSITIONS} values in 2^{BITS} coefficients, decide and learn once:")
    for name, spent_each in seconds.items():
        print(f"  {name}: {1e3 * np.median(spent_each):.2f} ms")
    reference = seconds.get("Vowpal Wabbit, parsed before")
    if reference is not None:
        ratio = float(np.median(np.array(seconds["lin-ts-ltr"]) / np.array(reference)))
        print(f"lin-ts-ltr takes {ratio:.2f} of the time of Vowpal Wabbit on parsed examples (target: at most 1)")


if __name__ == "__main__":
    with one_blas_thread():
        main()
