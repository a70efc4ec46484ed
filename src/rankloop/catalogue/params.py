"""Hyper-parameters of policies: what is accepted stands in the annotation and is checked at the edge."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np

from rankloop import validate
from rankloop.errors import InvalidInput, closest
from rankloop.schema.words import interval


@dataclass(frozen=True)
class Range:
    """Numbers in [low, high], or (low, high]; `many` also takes a list of them."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    many: bool = False

    def check(self, field: str, value: Any) -> Any:
        """The value as a float or a list of floats."""
        if self.many and isinstance(value, list | tuple | np.ndarray):
            return validate.vector(field, value, low=self.low, high=self.high, open_low=self.open_low).tolist()
        return validate.number(field, value, low=self.low, high=self.high, open_low=self.open_low)

    @property
    def accepted(self) -> str:
        """In words."""
        words = interval(self.low, self.high, self.open_low)
        return words + ", or a list of one for each item" if self.many else words


@dataclass(frozen=True)
class NumberOr:
    """A number, or one word."""

    range: Range
    word: str

    def check(self, field: str, value: Any) -> Any:
        """The number or the word."""
        if value == self.word:
            return value
        if isinstance(value, str):
            raise InvalidInput(field, value, self.accepted)
        return self.range.check(field, value)

    @property
    def accepted(self) -> str:
        """In words."""
        return f"{self.range.accepted}, or {self.word}"


@dataclass(frozen=True)
class WholeNumber:
    """A whole number of at least `low`."""

    low: int = 1

    def check(self, field: str, value: Any) -> int:
        """The number."""
        return validate.integer(field, value, low=self.low)

    @property
    def accepted(self) -> str:
        """In words."""
        return f"a whole number of at least {self.low}"


Kind = Range | NumberOr | WholeNumber

Real = Annotated[float, Range()]
Positive = Annotated[float, Range(low=0.0, open_low=True)]
NonNegative = Annotated[float, Range(low=0.0)]
Probability = Annotated[float, Range(low=0.0, high=1.0)]
Fraction = Annotated[float, Range(low=0.0, high=1.0, open_low=True)]
Whole = Annotated[int, WholeNumber()]
PositivePerItem = Annotated[Any, Range(low=0.0, open_low=True, many=True)]


@dataclass(frozen=True)
class Param:
    """One hyper-parameter of a policy."""

    name: str
    default: Any
    kind: Kind | tuple[str, ...]
    optional: bool

    def check(self, value: Any) -> Any:
        """The value as the policy wants it."""
        if value is None and self.optional:
            return None
        if isinstance(self.kind, tuple):
            return validate.choice(self.name, value, self.kind)
        return self.kind.check(self.name, value)

    @property
    def accepted(self) -> str:
        """In words."""
        words = "one of " + ", ".join(self.kind) if isinstance(self.kind, tuple) else self.kind.accepted
        return words + ", or null" if self.optional else words


def params_of(build: Callable[..., Any]) -> tuple[Param, ...]:
    """The keyword-only arguments of a catalogue function."""
    keywords = [p for p in inspect.signature(build).parameters.values() if p.kind is p.KEYWORD_ONLY]
    hints = inspect.signature(build, eval_str=True).parameters if keywords else {}
    for p in keywords:
        if p.default is p.empty:
            raise TypeError(f"the hyper-parameter {p.name} has no default")
    return tuple(Param(p.name, p.default, *_kind(p.name, hints[p.name].annotation)) for p in keywords)


def checked(params: tuple[Param, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters with their values: given and checked, or the default."""
    names = [p.name for p in params]
    for name, value in given.items():
        if name not in names:
            accepted = f"only the parameters {', '.join(names)}" if names else "no parameters at all"
            raise InvalidInput(str(name), value, accepted, closest(name, names))
    return {p.name: p.check(given[p.name]) if p.name in given else p.default for p in params}


def _kind(name: str, hint: Any) -> tuple[Kind | tuple[str, ...], bool]:
    optional = False
    if get_origin(hint) is not Annotated and type(None) in get_args(hint):
        optional = True
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is Annotated:
        return next(m for m in get_args(hint) if isinstance(m, Kind)), optional
    if get_origin(hint) is Literal:
        return get_args(hint), optional
    told = "not annotated" if hint is inspect.Parameter.empty else f"annotated {hint}"
    raise TypeError(f"the hyper-parameter {name} is {told}; use an alias of rankloop.catalogue.params, or a Literal")
