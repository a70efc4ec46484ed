"""Hyper-parameters of policies: their annotations say what is accepted, and are checked at the boundary."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Literal, get_args, get_origin

from rankloop import validate
from rankloop.errors import InvalidInput, closest
from rankloop.schema.accepted_values import number_range

Value = float | str | list[float] | None
"""A value of a hyper-parameter."""


class Kind(ABC):
    """The values that a hyper-parameter accepts."""

    @property
    @abstractmethod
    def accepted(self) -> str:
        """Description of the accepted values."""

    @abstractmethod
    def check(self, field: str, value: object) -> Value:
        """Return the value in the form the policy needs, or refuse it."""


@dataclass(frozen=True)
class Range(Kind):
    """Numbers in [low, high], or (low, high]; with `many` also a list of them."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    many: bool = False

    def check(self, field: str, value: object) -> float | list[float]:
        """Return the value as a float or a list of floats."""
        read = validate.numbers if self.many else validate.number
        return read(field, value, low=self.low, high=self.high, open_low=self.open_low)

    @property
    def accepted(self) -> str:
        """Description of the accepted values."""
        words = number_range(self.low, self.high, self.open_low)
        return words + ", or a list of one for each item" if self.many else words


@dataclass(frozen=True)
class NumberOr(Kind):
    """A number, or one word."""

    range: Range
    word: str

    def check(self, field: str, value: object) -> Value:
        """Return the number or the word."""
        if value == self.word:
            return self.word
        try:
            return self.range.check(field, value)
        except InvalidInput:
            raise InvalidInput(field, value, self.accepted) from None

    @property
    def accepted(self) -> str:
        """Description of the accepted values."""
        return f"{self.range.accepted}, or {self.word}"


@dataclass(frozen=True)
class WholeNumber(Kind):
    """A whole number of at least `low`."""

    low: int = 1

    def check(self, field: str, value: object) -> int:
        """Return the number."""
        return validate.integer(field, value, low=self.low)

    @property
    def accepted(self) -> str:
        """Description of the accepted values."""
        return f"a whole number of at least {self.low}"


@dataclass(frozen=True)
class OneOf(Kind):
    """One of several words."""

    words: tuple[str, ...]

    def check(self, field: str, value: object) -> str:
        """Return the word."""
        return validate.choice(field, value, self.words)

    @property
    def accepted(self) -> str:
        """Description of the accepted values."""
        return "one of " + ", ".join(self.words)


@dataclass(frozen=True)
class OrNone(Kind):
    """A value of another kind, or null."""

    kind: Kind

    def check(self, field: str, value: object) -> Value:
        """Return the checked value, or None."""
        return None if value is None else self.kind.check(field, value)

    @property
    def accepted(self) -> str:
        """Description of the accepted values."""
        return f"{self.kind.accepted}, or null"


@dataclass(frozen=True)
class AddedLater:
    """Marks a parameter that a policy did not have in earlier versions.

    At its default it is left out of the resolved parameters: random streams and stored results depend on them, and stay
    those of the earlier versions.
    """


Real = Annotated[float, Range()]
Positive = Annotated[float, Range(low=0.0, open_low=True)]
NonNegative = Annotated[float, Range(low=0.0)]
Probability = Annotated[float, Range(low=0.0, high=1.0)]
Fraction = Annotated[float, Range(low=0.0, high=1.0, open_low=True)]
Whole = Annotated[int, WholeNumber()]
PositivePerItem = Annotated[float | list[float], Range(low=0.0, open_low=True, many=True)]


@dataclass(frozen=True)
class Param:
    """One hyper-parameter of a policy."""

    name: str
    default: Value
    kind: Kind
    added_later: bool = False

    def check(self, value: object) -> Value:
        """Return the value in the form the policy needs, or refuse it."""
        return self.kind.check(self.name, value)

    @property
    def accepted(self) -> str:
        """Description of the accepted values."""
        return self.kind.accepted


def params_of(build: Callable[..., object]) -> tuple[Param, ...]:
    """Return the hyper-parameters of a catalogue function, its keyword-only arguments."""
    keywords = [p for p in inspect.signature(build).parameters.values() if p.kind is p.KEYWORD_ONLY]
    hints = inspect.signature(build, eval_str=True).parameters if keywords else {}
    for p in keywords:
        if p.default is p.empty:
            raise TypeError(f"the hyper-parameter {p.name} has no default")
    notes = {p.name: hints[p.name].annotation for p in keywords}
    return tuple(
        Param(
            p.name,
            p.default,
            _kind(p.name, notes[p.name]),
            AddedLater() in get_args(notes[p.name]),
        )
        for p in keywords
    )


def checked(params: tuple[Param, ...], given: Mapping[str, object]) -> dict[str, Value]:
    """Return the values of all parameters: the given ones checked, the others at their defaults.

    Parameters that were added later are left out at their defaults.
    """
    names = [p.name for p in params]
    for name, value in given.items():
        if name not in names:
            accepted = f"only the parameters {', '.join(names)}" if names else "no parameters at all"
            raise InvalidInput(str(name), value, accepted, closest(name, names))
    values = {p.name: p.check(given[p.name]) if p.name in given else p.default for p in params}
    return {p.name: values[p.name] for p in params if not (p.added_later and values[p.name] == p.default)}


def _kind(name: str, hint: object) -> Kind:
    """Return the kind that an annotation declares."""
    args = get_args(hint)
    if get_origin(hint) is Annotated:
        kind = next((arg for arg in args if isinstance(arg, Kind)), None)
        if kind is not None:
            return kind
    elif get_origin(hint) is Literal:
        return OneOf(args)
    elif NoneType in args:
        return OrNone(_kind(name, next(arg for arg in args if arg is not NoneType)))
    problem = "not annotated" if hint is inspect.Parameter.empty else f"annotated {hint}"
    raise TypeError(f"the hyper-parameter {name} is {problem}; use an alias of rankloop.catalogue.params, or a Literal")
