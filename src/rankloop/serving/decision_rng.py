"""The random numbers of a decision, from a counter-based generator: any decision's can be had at any time."""

from __future__ import annotations

from typing import Any

import numpy as np

PROPENSITY_STREAM = 1
"""Of the draws that estimate a propensity; the list itself is drawn from stream 0 of its decision."""


def rng_of_decision(seed: int, number: int, stream: int = 0) -> np.random.Generator:
    """The random numbers of a decision."""
    return np.random.Generator(np.random.Philox(key=[seed, number], counter=[0, 0, 0, stream]))


class DecisionRng:
    """One generator that becomes that of any decision: as `numbered`, in a tenth of the time, for one thread."""

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._rng = np.random.Generator(self._bits)
        self._state: Any = self._bits.state
        self._key, self._counter = self._state["state"]["key"], self._state["state"]["counter"]

    def __call__(self, seed: int, number: int) -> np.random.Generator:
        """The random numbers of a decision, until those of another are asked for."""
        self._counter[:] = 0
        self._key[:] = seed, number
        self._bits.state = self._state
        return self._rng
