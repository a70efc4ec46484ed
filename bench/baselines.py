"""Hand-written baselines that the benchmarks compare with."""

from __future__ import annotations

import numpy as np

from rankloop.types import FloatArray


def direct_loop(X: FloatArray, nu: FloatArray, k: int, rounds: int, rng: np.random.Generator) -> None:
    """Run CascadeLinTS in the most direct form: one replication, an inverse and a covariance draw each round."""
    d = X.shape[1]
    M, B = np.eye(d), np.zeros(d)
    for _ in range(rounds):
        covariance = np.linalg.inv(M)
        theta = rng.multivariate_normal(covariance @ B, covariance)
        shown = np.argsort(-(X @ theta))[:k]
        attracted = rng.random(k) < nu[shown]
        first = int(attracted.argmax()) if attracted.any() else k
        for slot in range(min(first + 1, k)):
            x = X[shown[slot]]
            M += np.outer(x, x)
            B += x * (slot == first)


class HandWritten:
    """One learner of CascadeLinTS in plain NumPy: the same square-root factor, no checks, no components."""

    def __init__(self, X: FloatArray, k: int) -> None:
        self.X, self.k = X, k
        self.F, self.b = np.eye(X.shape[1]), np.zeros(X.shape[1])

    def decide(self, rng: np.random.Generator) -> FloatArray:
        """Return the k best items under one posterior draw."""
        F = self.F
        scores = self.X @ (F @ (F.T @ self.b + rng.standard_normal(len(F))))
        best = np.argpartition(-scores, self.k)[: self.k]
        return np.asarray(best[np.argsort(-scores[best])])

    def learn(self, shown: FloatArray, first: int) -> None:
        """Apply Potter's update to the slots down to the first click."""
        F = self.F
        for slot in range(min(first + 1, self.k)):
            x = self.X[shown[slot]]
            f = F.T @ x
            a = 1.0 / (1.0 + f @ f)
            F -= np.outer(F @ f, f * (a / (1.0 + np.sqrt(a))))
            self.b += x * (slot == first)
