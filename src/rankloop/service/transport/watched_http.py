"""The service's HTTP protocol: tells `Connections` what a connection waits for, and ends it when it is told to."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from rankloop.schema.connection_settings import ConnectionSettings
from rankloop.service import problems
from rankloop.service.problems import RequestRefused
from rankloop.service.transport.answer_transport import BufferedHttp
from rankloop.service.transport.connections import STATE_KEY, Connections, OpenConnection, Phase, network

MAX_HEAD_BYTES = 65_536
"""Size of a request's headers, and of everything else in a request but its body, at which the connection is closed."""


def _raw(status: int, detail: str) -> bytes:
    """Return a whole response, for connections whose request does not reach the application."""
    answer = problems.response(RequestRefused(status, detail, headers={"Connection": "close"}))
    lines = [b"HTTP/1.1 %d %s" % (status, problems.phrase(status).encode())]
    lines += [name + b": " + value for name, value in answer.raw_headers]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


TOO_MANY = _raw(503, "too many connections are open.")
TOO_SLOW = {
    Phase.HEAD: _raw(408, "the headers of the request did not arrive in time."),
    Phase.BODY: _raw(408, "the body of the request did not arrive in time."),
}
TOO_LARGE = _raw(431, f"the headers are too large; accepted: at most {MAX_HEAD_BYTES} bytes.")


class WatchedHttp(BufferedHttp):
    """uvicorn's HTTP protocol with limits of connections, of the size of headers, and of the time that clients take."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.ws_protocol_class = None  # there are no web sockets here, and their protocol would not be watched
        watch = cast("Connections | None", app_state.get(STATE_KEY))
        # Without the application's lifespan there are no limits: each connection is the only one of its own collection.
        self._watch = Connections(ConnectionSettings(), 1, _count_nothing) if watch is None else watch
        self._in_head = self._in_body = self._is_ended = self._was_refused = False
        # Bytes of the request that is being parsed, and those of its body; whether the next one begins within the data
        self._message_bytes = self._body_bytes = 0
        self._begins_within = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or close it if there are too many."""
        super().connection_made(transport)
        self._one = OpenConnection(self, network(self.client[0]) if self.client else "")
        if not self._watch.admit(self._one):
            self._is_ended = True
            self._send_last(TOO_MANY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._watch.forget(self._one)

    def data_received(self, data: bytes) -> None:
        """Parse what was received."""
        if self._is_ended:
            return
        if self.is_refusing:  # it is received again after the refusal
            super().data_received(data)
            return
        self._one.size += len(data)
        is_within = self._begins_within = self._in_head or self._in_body
        self._message_bytes = self._message_bytes + len(data) if is_within else len(data)
        super().data_received(data)
        self.settle()
        # Each piece of a body may have a head of its own: small pieces are allowed, trailers without end are not.
        if self._message_bytes > MAX_HEAD_BYTES + 2 * self._body_bytes and (self._in_head or self._in_body):
            self._refuse_size()

    def _refuse_size(self) -> None:
        """Close the connection; say why unless that would be taken for the answer to an earlier request."""
        cycle = self.cycle
        is_free = cycle is None or cycle.response_complete  # while headers arrive, the cycle is of an earlier request
        is_first = is_free if self._in_head else not cycle.response_started
        self._is_ended = True
        self._send_last(TOO_LARGE if is_first and not self.pipeline else b"")

    def eof_received(self) -> None:
        """Note that the connection closes as soon as the client has received what was sent."""
        super().eof_received()
        self._watch.enter(self._one, Phase.ANSWER, self._unsent)

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        """Note the first byte of a request."""
        super().on_message_begin()
        self._in_head = True
        if self._begins_within:
            self._message_bytes = 0
        self._begins_within, self._body_bytes = True, 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one after the body might replace another that was checked."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Start to answer a request."""
        self._in_head, self._in_body = False, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note the last byte of a request."""
        self._in_body = False
        super().on_message_complete()

    # Answers

    def _answer_refused(self, reason: str) -> None:
        self._was_refused = True
        self._watch.renew(self._one)  # the client has sent a whole request
        super()._answer_refused(reason)
        self._unset_keepalive_if_required()
        self.settle()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._unset_keepalive_if_required()  # the sweep closes idle connections, without a timer for each
        self.settle()

    def pause_writing(self) -> None:
        """Note that the client receives less than is sent."""
        super().pause_writing()
        self.settle()

    def resume_writing(self) -> None:
        """Note that the client has received almost everything."""
        super().resume_writing()
        self.settle()

    # What `Connections` asks for

    def settle(self) -> None:
        """Report the current phase."""
        cycle, flow = self.cycle, self.flow
        size = 0
        if flow.write_paused or self.transport.is_closing():
            phase, size = Phase.ANSWER, self._unsent
        elif self.pipeline:
            phase = Phase.WORK
        elif self.is_refusing:
            phase = Phase.IDLE  # the service does nothing for it, so that it may make room for another
        elif cycle is not None and not cycle.response_complete:
            phase = Phase.BODY if cycle.more_body else Phase.WORK
        elif self._in_head:
            phase = Phase.HEAD
        elif self._in_body:
            phase = Phase.BODY  # it was refused before it arrived
        else:
            phase = Phase.NEW if cycle is None and not self._was_refused else Phase.IDLE
        self._watch.enter(self._one, phase, size)

    def is_held(self) -> bool:
        """Return whether the service itself has stopped reading, so that the client cannot proceed."""
        cycle = self.cycle
        return self._one.phase is Phase.BODY and (self.flow.read_paused or cycle.waiting_for_100_continue)

    def close(self, phase: Phase) -> None:
        """Say what did not arrive in time unless an answer has begun, then close."""
        unanswered = self._in_head or (self.cycle is not None and not self.cycle.response_started)
        self._send_last(TOO_SLOW.get(phase, b"") if unanswered else b"")

    def abort(self) -> None:
        """Close at once."""
        self.transport.abort()

    def _send_last(self, data: bytes) -> None:
        if data:
            self.transport.write(data)
        self.transport.close()
        self.settle()

    @property
    def _unsent(self) -> int:
        return self.transport.get_write_buffer_size()


def _count_nothing(reason: str) -> None:
    """Ignore a closed connection."""
