"""Bodies of requests and answers: bounded, JSON, decoded into the form that the code wants."""

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


async def read(headers: Mapping[bytes, bytes], receive: Receive, most: int) -> bytes:
    """The whole body, as long as it is JSON and not too large."""
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media != b"application/json":
        # A form of another site's page cannot say so: what a browser sends unasked is refused here.
        raise RequestRefused(415, "accepted: a body with the header 'Content-Type: application/json'.")
    told = headers.get(b"content-length", b"")
    if told.isdigit() and (len(told) > 15 or int(told) > most):
        raise _too_large(most)
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False) and len(body) <= most:
        message = await receive()
        body += message.get("body", b"")
    if len(body) > most:
        raise _too_large(most)
    return body


def _too_large(most: int) -> RequestRefused:
    return RequestRefused(413, f"the body is too large; accepted: at most {most} bytes.")


def decode(decoder: Callable[[bytes], T], body: bytes) -> T:
    """The body as the decoder reads it."""
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


def at_most(field: str, given: Sized | None, most: int) -> None:
    """Refuse a list that is too long."""
    if given is not None and len(given) > most:
        raise InvalidInput(field, Words(f"a list of {len(given)}"), f"a list of at most {most}")


def no_more(query: bytes, known: Collection[str]) -> None:
    """Refuse parameters of the address that nobody reads, and those given twice."""
    if not query:
        return
    seen: set[str] = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known or name in seen:
            accepted = ", each once" if known else ""
            raise RequestRefused(
                422,
                f"the parameter {name[:100]!r} is not acceptable; accepted: {', '.join(known) or 'none'}{accepted}.",
                field=name[:100],
            )
        seen.add(name)


def answer(value: object, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(encode(value), status, media_type="application/json")
