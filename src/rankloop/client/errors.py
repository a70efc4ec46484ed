"""What the service refuses, as errors."""

from __future__ import annotations

from rankloop.errors import RankloopError


class ServiceError(RankloopError):
    """The service refused; the sentence is its own."""

    def __init__(self, detail: str, status: int = 0, field: str | None = None) -> None:
        self.status, self.field = status, field
        super().__init__(detail)

    def __reduce__(self) -> tuple[type[ServiceError], tuple[str, int, str | None]]:
        return type(self), (str(self), self.status, self.field)


class NotAccepted(ServiceError):
    """Something that was given is wrong (400, 413, 415, 422)."""


class NotAllowed(ServiceError):
    """No key, a wrong one, or one without the role (401, 403)."""


class NotFound(ServiceError):
    """No such ranker, item or decision (404)."""


class Conflict(ServiceError):
    """Not now, or not with this id, which another request had (409)."""


class TooMany(ServiceError):
    """Too many requests (429); try again a little later."""


class Unavailable(ServiceError):
    """The service cannot be reached, or cannot keep anything now (503); try again."""


ERRORS: dict[int, type[ServiceError]] = {
    400: NotAccepted, 401: NotAllowed, 403: NotAllowed, 404: NotFound, 409: Conflict,
    413: NotAccepted, 415: NotAccepted, 422: NotAccepted, 429: TooMany, 503: Unavailable,
}  # fmt: skip
