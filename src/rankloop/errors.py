"""Errors for users: one sentence that says what was wrong and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable


class RankloopError(ValueError):
    """Base of every error that rankloop raises on purpose."""

    status: int = 422
    """The HTTP status of the error; 0 where a service gave no answer."""
    retry: bool = False
    """Whether the same request may succeed later."""
    field: str | None = None
    """The dotted name of the value that was refused, if one was."""
    given: str | None = None
    """The value that was given, on one line."""
    accepted: str | None = None
    """What is accepted instead."""
    meant: str | None = None
    """A name close to the one that was given, if there is one."""

    @property
    def kind(self) -> str:
        """The name of the error in the API."""
        return type(self).__name__


class InvalidInput(RankloopError):
    """An input value is not acceptable; nothing was changed.

    Args:
        field: dotted name of the value, for example ``world.k``.
        value: the value that was given.
        accepted: what is accepted instead.
        meant: a name close to the one that was given, if there is one; see `closest`.
    """

    field: str
    given: str
    accepted: str

    def __init__(self, field: str, value: object, accepted: str, meant: str | None = None) -> None:
        self.field, self.value, self.accepted, self.meant = field, value, accepted, meant
        self.given = _brief(value)
        instead = "" if meant is None else f" Did you mean {meant!r}?"
        super().__init__(f"{_one_line(field)} is {self.given}; accepted: {accepted}.{instead}")

    @property
    def kind(self) -> str:
        """The same name for all subclasses, whose fields say the rest."""
        return InvalidInput.__name__

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, object, str, str | None], dict[str, object]]:
        """Support pickling, for errors from worker processes."""
        return type(self), (self.field, self.value, self.accepted, self.meant), self.__dict__

    def within(self, prefix: str) -> InvalidInput:
        """Return the same error with a longer field name: ``k`` becomes ``world.k``."""
        return type(self)(f"{prefix}.{self.field}" if prefix else self.field, self.value, self.accepted, self.meant)


class Words(str):
    """A description in place of a value, shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


MISSING = Words("missing")
"""Stands for a value that was not given."""


def closest(given: object, among: Iterable[str]) -> str | None:
    """Return the known name that is closest to an unknown one; None where none is close."""
    from difflib import get_close_matches  # rarely needed and slow to import

    found = get_close_matches(given, list(among), n=1) if isinstance(given, str) else []
    return found[0] if found else None


class NotFound(RankloopError):
    """No ranker, item or decision has this name."""

    status = 404


class UnknownDecision(NotFound):
    """Feedback for a decision that this ranker never made."""


class Conflict(RankloopError):
    """The request conflicts with the present state, id or settings; nothing was changed."""

    status = 409


class ConflictingDecision(Conflict):
    """The decision id was used before, for another request."""

    field = "decision"


class Unavailable(RankloopError):
    """The log or the service cannot be reached at the moment; nothing was stored. Try again."""

    status, retry = 503, True


class Busy(Unavailable):
    """Other work held the ranker for longer than the caller would wait; nothing was executed."""


class Quarantined(Unavailable):
    """The ranker is quarantined; nothing was changed."""

    retry = False


class NotAllowed(RankloopError):
    """The service requires a key, another key, or one with another role."""

    status = 403


class TooMany(RankloopError):
    """Too many requests; try again later."""

    status, retry = 429, True


class ServiceError(RankloopError):
    """A service failed, or returned an unexpected answer."""

    status = 500


class Unsupported(RankloopError):
    """A policy needs something that the world or the service does not offer."""


class MissingExtra(RankloopError):
    """An optional dependency is required but not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f"{what} needs the optional dependencies; in a checkout: pip install '.[{extra}]'.")

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        """Support pickling, for errors from worker processes."""
        return type(self), (self.what, self.extra)


def _brief(value: object, limit: int = 80) -> str:
    """Return the value on one line, shortened in the middle where it is long: the end of a path is its name."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else f"{text[: limit // 3]} … {text[-limit // 2 :]}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
