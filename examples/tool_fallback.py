"""A chain of fallbacks: which tools to call for a question, in which order, and when to answer without one.

Run `python examples/tool_fallback.py`. It is the problem of `payment_routing.py` with other words: every call costs the
same, a question that a tool answers is worth something, less the longer it took, and a question that stays open after
all calls has cost those calls. A tool that is unlikely to help is not called at all.
"""

from __future__ import annotations

from contextlib import closing

import numpy as np

from rankloop import Ranker, RankerConfig

TOOLS = ("cache", "search", "calculator", "small model", "large model")
TOPICS = ("facts", "numbers", "chat")
CALL_COST = 0.15
"""What a call costs, as a share of what an answered question is worth."""
SUCCESS = np.array(
    [  # facts, numbers, chat
        [0.30, 0.10, 0.05],
        [0.70, 0.20, 0.05],
        [0.01, 0.80, 0.01],
        [0.30, 0.20, 0.50],
        [0.50, 0.45, 0.60],
    ]
)
"""Probability that each tool answers a question of each topic; the policy does not know it."""


def features(tool: int, topic: int) -> list[float]:
    """Return the features of a call: the tool and the topic together."""
    x = np.zeros((len(TOOLS), len(TOPICS)))
    x[tool, topic] = 1.0
    return x.ravel().tolist()


def value(order: list[int], topic: int) -> float:
    """Return the expected net reward of calls in this order."""
    failed, total = 1.0, 0.0
    for calls, tool in enumerate(order):
        total += failed * SUCCESS[tool, topic] * (1.0 - CALL_COST * calls)
        failed *= 1.0 - SUCCESS[tool, topic]
    return float(total - CALL_COST * len(order) * failed)


def run(questions: int, seed: int = 0) -> tuple[float, float, float]:
    """Answer questions; return the expected net rewards in the second half: learned, in fixed order, and the best."""
    n, rng, totals = len(TOOLS), np.random.default_rng(seed), np.zeros(3)
    settings = {
        "policy": "ind",
        "slots": n,
        "dim": n * len(TOPICS),
        "rewards": [1.0 - CALL_COST * calls for calls in range(n)],
        "losses": [-CALL_COST * calls for calls in range(n + 1)],
        "seed": seed,
    }
    with closing(Ranker(RankerConfig.of(settings))) as ranker:
        ranker.put_items([{"id": id, "features": features(i, 0)} for i, id in enumerate(TOOLS)])
        for number in range(questions):
            topic = int(rng.integers(len(TOPICS)))
            ranking = ranker.rank(items=[{"id": id, "features": features(i, topic)} for i, id in enumerate(TOOLS)])
            order = [TOOLS.index(id) for id in ranking.ids]
            answered = rng.random(n) < SUCCESS[:, topic]
            ranker.feedback(ranking.id, clicked=[slot for slot, tool in enumerate(order) if answered[tool]][:1])
            if number >= questions // 2:
                by_success = np.argsort(-SUCCESS[:, topic]).tolist()
                best = max(value(by_success[:length], topic) for length in range(n + 1))
                totals += value(order, topic), value(list(range(n)), topic), best
    learned, fixed, most = totals / (questions - questions // 2)
    return float(learned), float(fixed), float(most)


if __name__ == "__main__":
    learned, fixed, most = run(4_000)
    print(f"net reward of a question: {learned:.3f} learned, {fixed:.3f} in fixed order, {most:.3f} at best")
