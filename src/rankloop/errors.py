"""Errors for people: one sentence that says what was wrong and what is accepted."""

from __future__ import annotations

from collections.abc import Iterable


class RankloopError(ValueError):
    """Base of every error that rankloop raises on purpose."""

    status: int = 422
    """The HTTP status with which a service refuses; 0 where a service gave no answer."""
    retry: bool = False
    """Whether the same request may do better a little later."""
    field: str | None = None
    """The dotted name of what was wrong, where something given was."""
    given: str | None = None
    """What was given instead, on one line."""
    accepted: str | None = None
    """What would have been fine."""
    meant: str | None = None
    """A name close to the one that was given, if there is one."""

    @property
    def kind(self) -> str:
        """The name under which a service tells of it."""
        return type(self).__name__


class InvalidInput(RankloopError):
    """A value from outside is not acceptable; nothing was changed.

    Args:
        field: dotted name of what was given, for example ``world.k``.
        value: the value that was given.
        accepted: what would have been fine.
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
        """The same for all errors of this kind, whose fields say the rest."""
        return InvalidInput.__name__

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, object, str, str | None], dict[str, object]]:
        """How it travels from a worker process."""
        return type(self), (self.field, self.value, self.accepted, self.meant), self.__dict__

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


class NotFound(RankloopError):
    """There is no ranker, item or decision of this name."""

    status = 404


class UnknownDecision(NotFound):
    """Feedback for a decision that this ranker never made."""


class Conflict(RankloopError):
    """Not now, or not with this id or these settings; nothing was changed."""

    status = 409


class ConflictingDecision(Conflict):
    """A caller brought an id under which another request was decided."""

    field = "decision"


class Unavailable(RankloopError):
    """The log or the service cannot be reached now; nothing of what was asked has been kept. Try again."""

    status, retry = 503, True


class Quarantined(Unavailable):
    """The ranker is set aside; nothing of what was asked has happened."""

    retry = False


class NotAllowed(RankloopError):
    """A service wants a key, another one, or one with another role."""

    status = 403


class TooMany(RankloopError):
    """Too many requests; try again a little later."""

    status, retry = 429, True


class ServiceError(RankloopError):
    """A service failed, or answered what nobody expected."""

    status = 500


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
