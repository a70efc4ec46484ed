"""Bodies of requests and answers: bounded JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sized
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import Response
from starlette.types import Receive

from rankloop.errors import InvalidInput, Words
from rankloop.service.problems import RequestRefused, not_acceptable, not_json

T = TypeVar("T")
encode = msgspec.json.Encoder().encode


async def read(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
    """Return the body of a request, if it is JSON and has at most `limit` bytes."""
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media != b"application/json":
        # A form on another site's page cannot send this type, so this refuses cross-site requests of browsers.
        raise RequestRefused(415, "accepted: a body with the header 'Content-Type: application/json'.")
    length = headers.get(b"content-length", b"")
    if length.isdigit() and (len(length) > 15 or int(length) > limit):
        raise _too_large(limit)
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False) and len(body) <= limit:
        message = await receive()
        body += message.get("body", b"")
    if len(body) > limit:
        raise _too_large(limit)
    return body


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(413, f"the body is too large; accepted: at most {limit} bytes.")


def decode(decoder: Callable[[bytes], T], body: bytes) -> T:
    """Return the decoded body, or refuse the request."""
    try:
        return decoder(body)
    except msgspec.ValidationError as error:
        raise not_acceptable(str(error)) from None
    except msgspec.DecodeError as error:
        raise not_json(str(error)) from None
    except UnicodeDecodeError:
        raise not_json("its text is not UTF-8") from None
    except RecursionError:
        raise RequestRefused(400, "the body is nested too deeply.") from None


def at_most(field: str, given: Sized | None, limit: int) -> None:
    """Refuse a list with more than `limit` entries."""
    if given is not None and len(given) > limit:
        raise InvalidInput(field, Words(f"a list of {len(given)}"), f"a list of at most {limit}")


def refuse_parameters(query: bytes, known: Collection[str] = ()) -> None:
    """Refuse query parameters that are unknown or given twice."""
    if not query:
        return
    seen: set[str] = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known or name in seen:
            once = ", each once" if known else ""
            raise RequestRefused(
                422,
                f"the parameter {name[:100]!r} is not acceptable; accepted: {', '.join(known) or 'none'}{once}.",
                field=name[:100],
            )
        seen.add(name)


def answer(value: object, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(encode(value), status, media_type="application/json")
