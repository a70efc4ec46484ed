"""Errors for people: one sentence that says what was wrong and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable


class RankloopError(ValueError):
    """Base of every error that rankloop raises on purpose."""

    status: int = 422
    """With which HTTP status a service refuses."""
    retry: bool = False
    """Whether the same request may do better a little later."""
    field: str | None = None
    """What was given and is not acceptable, if it was one thing."""


class InvalidInput(RankloopError):
    """A value from outside is not acceptable; nothing was changed.

    Args:
        field: dotted name of what was given, for example ``world.k``.
        value: the value that was given.
        accepted: what would have been fine.
        meant: a name close to the one that was given, if there is one; see `closest`.
    """

    field: str

    def __init__(self, field: str, value: object, accepted: str, meant: str | None = None) -> None:
        self.field, self.value, self.accepted, self.meant = field, value, accepted, meant
        instead = "" if meant is None else f" Did you mean {meant!r}?"
        super().__init__(f"{_one_line(field)} is {_brief(value)}; accepted: {accepted}.{instead}")

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, object, str, str | None]]:
        """How it travels from a worker process."""
        return type(self), (self.field, self.value, self.accepted, self.meant)

    def within(self, prefix: str) -> InvalidInput:
        """The same error seen from outside: ``k`` becomes ``world.k``."""
        return type(self)(f"{prefix}.{self.field}" if prefix else self.field, self.value, self.accepted, self.meant)


class Words(str):
    """A description in place of a value: shown as it is, not as a quoted text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


MISSING = Words("missing")
"""In place of a value that was not given."""


def closest(given: object, among: Iterable[str]) -> str | None:
    """The name that was probably meant by one that is unknown; None where none is close."""
    from difflib import get_close_matches  # seldom needed, and slow to import

    found = get_close_matches(given, list(among), n=1) if isinstance(given, str) else []
    return found[0] if found else None


class Quarantined(RankloopError):
    """The ranker is set aside; nothing of what was asked has happened."""

    status = 503


class Unsupported(RankloopError):
    """A policy needs something that the world or the service does not offer."""


class MissingExtra(RankloopError):
    """An optional dependency is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f"{what} needs the optional dependencies; in a checkout: pip install '.[{extra}]'.")

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        """How it travels from a worker process."""
        return type(self), (self.what, self.extra)


def _brief(value: object, limit: int = 80) -> str:
    """The value on one line, its middle left out where it is long: the end of a path is its name."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else f"{text[: limit // 3]} … {text[-limit // 2 :]}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
