"""The HTTP protocol with admission: rank and feedback requests wait in a queue before anything is done for them."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import msgspec
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from rankloop.service.admission import Admission
from rankloop.service.fair_queue import Waiting
from rankloop.service.problems import MEDIA, problem
from rankloop.service.refusals import DETAILS, MAX_RETRY_SECONDS, QUEUE_FULL, overloaded

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from rankloop.service.service import Service

VISIT = re.compile(r"/v1/rankers/([^/]*)/(?:rank|feedback)\Z")
"""Of the decoded path, as in `endpoints.Requests`."""
SIMPLE_REQUEST = re.compile(
    rb"POST /v1/rankers/([^/?% ]+)/(?:rank|feedback) HTTP/1\.1\r\n"
    rb"(?:(?!transfer-encoding:|expect:|upgrade:|origin:|connection:(?! *keep-alive\r))[^\r\n]*\r\n)*?"
    rb"content-length: *(\d{1,6})\r\n"
    rb"(?:(?!transfer-encoding:|expect:|upgrade:|origin:|content-length:|connection:(?! *keep-alive\r))[^\r\n]+\r\n)*"
    rb"\r\n",
    re.IGNORECASE,
)
"""The head of a request without anything that changes how its end is found or how it must be answered."""
REFUSAL_PAUSE_SECONDS = 0.5
"""Time for which an overloaded service holds back a refusal, so that callers which repeat at once cannot use it up."""
MAX_KNOWN_HEADS, MAX_HEAD_BYTES = 1000, 2000
MAX_PIPELINED = 16
"""Requests that a client may send behind the one that is being answered; after their answers the connection closes."""
AUTHORIZATION = re.compile(rb"\r\nauthorization: *([^\r]*)\r\n", re.IGNORECASE)


_known_heads: dict[bytes, tuple[str, bytes | None, int]] = {}
"""Heads that were read before: the requests of a caller are alike, and reading one costs as much as refusing it."""


def _read_head(head: bytes) -> tuple[str, bytes | None, int]:
    """Return the ranker, the Authorization header and the length of the body; a negative length if it is not simple."""
    match, sent = SIMPLE_REQUEST.fullmatch(head), AUTHORIZATION.search(head)
    if match is None:
        return "", None, -len(head) - 1
    return match[1].decode("latin-1"), None if sent is None else sent[1], int(match[2])


def _response(reason: str, seconds: int) -> tuple[bytes, bytes]:
    """Return the head, without its end, and the body of a refusal."""
    body = msgspec.json.encode(problem(overloaded(reason, seconds)))
    head = (
        f"HTTP/1.1 503 Service Unavailable\r\ncontent-type: {MEDIA}\r\ncontent-length: {len(body)}\r\n"
        f"retry-after: {seconds}\r\n"
    )
    return head.encode(), body


RESPONSES = {reason: [_response(reason, n + 1) for n in range(MAX_RETRY_SECONDS)] for reason in DETAILS}


class TooManyPipelined(Exception):
    """Stops the parser at a request that is not answered, since too many wait before it."""


def _announces_more_than(limit: int, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a body would be too large: the application refuses it before it arrives."""
    lengths = [value for name, value in headers if name == b"content-length"]
    return bool(lengths) and lengths[0].isdigit() and int(lengths[0]) > limit


def refusal(reason: str, *headers: bytes) -> bytes:
    """Return the bytes of a response that refuses a request for a reason."""
    head, body = random.choice(RESPONSES[reason])  # noqa: S311  (it only spreads the callers)
    return b"".join([head, *(header + b"\r\n" for header in headers), b"\r\n", body])


class AdmittingHttp(HttpToolsProtocol):
    """uvicorn's HTTP protocol; rank and feedback requests start when the service's admission lets them.

    Every request starts when it is complete and when its client has received the answers before, so that slow clients
    hold nobody up; a body that is too large is left to the application to refuse. While the queue is full, a request is
    refused without being parsed, which takes a tenth of the time; an overloaded service does so after a pause.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        service = cast("Service | None", app_state.get("service"))  # from the lifespan of the application
        self._admission: Admission | None = None if service is None else service.admission
        self._max_body = 0 if service is None else service.limits.body
        origins = () if service is None else service.settings.cors_origins
        self._origins = frozenset(origin.encode() for origin in origins)
        self._held: tuple[RequestResponseCycle, ASGI3Application] | None = None  # until its body is complete
        self._blocked: tuple[RequestResponseCycle, ASGI3Application] | None = None  # until the client reads
        self._kept = 0  # bytes of bodies of requests that have not started
        self._refused_cycles: list[RequestResponseCycle] = []  # whose answers are being completed
        self._within_request = self._is_full = False
        self._unanswered: bytes | None = None  # what arrived while a refusal is held back

    # Refusing without parsing

    @property
    def is_refusing(self) -> bool:
        """Whether a refusal is held back."""
        return self._unanswered is not None

    def data_received(self, data: bytes) -> None:
        """Parse the data, or refuse a whole request at once."""
        if self._unanswered is not None:  # answers keep the order of their requests
            self._unanswered += data
            if len(self._unanswered) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            return
        admission = self._admission
        if (
            admission is not None
            and admission.may_refuse
            and not self._within_request
            and not self.flow.write_paused
            and self._refused(data, admission)
        ):
            return
        if self._is_full:
            return
        super().data_received(data)
        if self._held is not None:
            self._ask_for_body()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; the requests before one that is too many are answered first."""
        if not self._is_full:
            super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the requests that have not started."""
        self._held = self._blocked = None
        self._release(self._kept)
        super().connection_lost(exc)

    def _refused(self, data: bytes, admission: Admission) -> bool:
        """Refuse the request that this data is, if it is a simple one that may not wait."""
        if self.cycle is not None and not self.cycle.response_complete:
            return False
        end = data.find(b"\r\n\r\n", 0, MAX_HEAD_BYTES) + 4
        head = data[:end]
        known = _known_heads.get(head)
        if known is None:
            if len(_known_heads) >= MAX_KNOWN_HEADS:
                _known_heads.clear()
            known = _known_heads[head] = _read_head(head)
        ranker, authorization, length = known
        if len(data) != end + length:
            return False
        reason = admission.refuses(admission.key_of(authorization), ranker)
        if reason is None:
            return False
        admission.count_refusal(reason)
        self._unset_keepalive_if_required()
        if admission.overloaded:
            self._unanswered = b""
            self.loop.call_later(REFUSAL_PAUSE_SECONDS, self._answer_refused, reason)
        else:
            self._answer_refused(reason)
        return True

    def _answer_refused(self, reason: str) -> None:
        """Send a refusal, then take what was sent meanwhile."""
        data, self._unanswered = self._unanswered, None
        if self.transport.is_closing():
            return
        self.transport.write(refusal(reason))
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)
        self.flow.resume_reading()
        if data:
            self.data_received(data)

    # Waiting

    def on_message_begin(self) -> None:
        """Note that the parser is within a request."""
        if len(self.pipeline) >= MAX_PIPELINED:
            self._is_full, self.cycle.keep_alive = True, False
            raise TooManyPipelined
        self._within_request = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Offer the request to the admission, now that its body is complete."""
        self._within_request = False
        super().on_message_complete()
        if self._held is not None:
            self._offer_held()

    def on_body(self, body: bytes) -> None:
        """Keep the body until the request starts."""
        super().on_body(body)
        if self._held is not None or self.pipeline or self._blocked is not None:
            self._keep(len(body))

    def _keep(self, size: int) -> None:
        self._kept += size
        if self._kept <= HIGH_WATER_LIMIT or self._admission is None:
            return
        self._admission.bodies.note(self, self._kept)
        if self._held is not None:
            self.flow.resume_reading()  # the application, which would do so, has not started
            if len(self._held[0].body) > self._max_body:
                self._offer_held()

    def _release(self, size: int) -> None:
        if self._kept > HIGH_WATER_LIMIT and self._admission is not None:
            left = self._kept - size
            self._admission.bodies.note(self, left if left > HIGH_WATER_LIMIT else 0)
        self._kept -= size

    def give_up(self) -> None:
        """Refuse the request whose body arrives, and close the connection."""
        held, self._held = self._held, None
        if held is None or self._admission is None:
            self.transport.close()
            return
        held[0].keep_alive = False
        self._admission.count_refusal(QUEUE_FULL)
        self._refuse(held[0], QUEUE_FULL)

    def _ask_for_body(self) -> None:
        """Tell a client to go on that waits for that before it sends its body."""
        if self._held is not None and self._held[0].waiting_for_100_continue:
            self._held[0].waiting_for_100_continue = False
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        if self._held is not None:
            self._ask_for_body()

    def resume_writing(self) -> None:
        """Offer the request that waited until its client received the answers before."""
        super().resume_writing()
        if self._blocked is not None:
            blocked, self._blocked = self._blocked, None
            self._offer(*blocked)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._admission is None:
            super()._start_asgi_task(cycle, app)
            return
        self._held = cycle, app
        if not cycle.more_body or _announces_more_than(self._max_body, cycle.scope["headers"]):
            self._offer_held()
        elif cycle.body:
            self._keep(0)  # part of it arrived behind another request
        else:
            self.flow.resume_reading()

    def _offer_held(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._offer(*held)

    def _offer(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Start a request, or let it wait for its turn."""
        if self.flow.write_paused:  # its answer would have to wait for the client, and others for the answer
            self._blocked = cycle, app
            return
        if cycle.body:
            self._release(len(cycle.body))
        scope: Any = cycle.scope
        match = VISIT.match(scope["path"]) if scope["method"] == "POST" else None
        if match is None or self._admission is None:
            super()._start_asgi_task(cycle, app)
        elif self._admission.starts_now(match[1]):
            self._start_admitted(cycle, app)
        else:
            self._queue(cycle, app, match[1], self._admission)

    def _queue(self, cycle: RequestResponseCycle, app: ASGI3Application, ranker: str, admission: Admission) -> None:
        scope: Any = cycle.scope
        headers, arrived = dict(scope["headers"]), time.monotonic()
        key = admission.key_of(headers.get(b"authorization"))
        reason = admission.refuses(key, ranker)
        if reason is not None:
            admission.count_refusal(reason)
            self._refuse(cycle, reason)
            return
        scope["state"]["arrived"] = arrived
        admission.wait(
            Waiting(
                key,
                ranker,
                arrived,
                admission.deadline(arrived, headers),
                lambda: self._start_admitted(cycle, app),
                lambda reason: self._refuse(cycle, reason),
            )
        )

    def _start_admitted(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        if self._admission is None:
            return
        if cycle.disconnected:  # nobody waits for the answer
            self._admission.finished()
            return
        if self.flow.write_paused:
            self._admission.finished()
            self._keep(len(cycle.body))
            self._blocked = cycle, app
            return
        task: asyncio.Task[None] = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if self._admission is not None:
            self._admission.finished()

    def _refuse(self, cycle: RequestResponseCycle, reason: str) -> None:
        """Answer a request that was not executed."""
        if cycle.disconnected or cycle.response_started:
            return
        headers = [] if cycle.keep_alive else [b"connection: close"]
        if self._origins:
            headers += self._cors_headers(dict(cycle.scope["headers"]).get(b"origin"))
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(refusal(reason, *headers))
        if not cycle.keep_alive:
            cycle.transport.close()
        # The next request of the connection may be refused as well: a call within a call for each would be too deep.
        self._refused_cycles.append(cycle)
        if len(self._refused_cycles) > 1:
            return
        try:
            for refused in self._refused_cycles:  # it grows
                refused.on_response()
        finally:
            self._refused_cycles.clear()

    def _cors_headers(self, origin: bytes | None) -> list[bytes]:
        """Return the headers that let a web page of an allowed origin read a refusal."""
        if origin is None or not ({origin, b"*"} & self._origins):
            return []
        allowed = b"*" if b"*" in self._origins else origin
        return [b"access-control-allow-origin: " + allowed, b"access-control-expose-headers: Retry-After"]
