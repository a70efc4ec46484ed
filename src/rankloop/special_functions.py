"""Functions of `scipy.special`, loaded at their first call: importing them costs more than the rest of the package."""

from __future__ import annotations

from functools import cache
from types import ModuleType

from rankloop.arrays import FloatArray

NORMAL_95 = 1.959964
"""Quantile of the standard normal distribution for a two-sided 95 % interval."""


@cache
def _special() -> ModuleType:
    import scipy.special

    module: ModuleType = scipy.special
    return module


def expit(u: object) -> FloatArray:
    """Return the logistic function 1/(1 + exp(-u))."""
    found: FloatArray = _special().expit(u)
    return found


def rel_entr(p: object, q: object) -> FloatArray:
    """Return p log(p/q), 0 where p is 0."""
    found: FloatArray = _special().rel_entr(p, q)
    return found


def xlogy(x: object, y: object) -> FloatArray:
    """Return x log(y), 0 where x is 0."""
    found: FloatArray = _special().xlogy(x, y)
    return found


def wrightomega(x: object) -> FloatArray:
    """Return Wright's ω, the solution of ω + log ω = x."""
    found: FloatArray = _special().wrightomega(x)
    return found


def betaincinv(a: object, b: object, q: object) -> FloatArray:
    """Return the q-quantile of the beta distribution with the parameters a and b."""
    found: FloatArray = _special().betaincinv(a, b, q)
    return found


def ndtri(q: object) -> FloatArray:
    """Return the q-quantile of the standard normal distribution."""
    found: FloatArray = _special().ndtri(q)
    return found


def stdtrit(degrees: float, q: float) -> float:
    """Return the q-quantile of Student's t distribution."""
    return float(_special().stdtrit(degrees, q))
