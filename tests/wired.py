"""The HTTP protocol of the service on a transport without a network: every byte and every pause is the test's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from rankloop.schema.admission_settings import AdmissionSettings
from rankloop.schema.connection_settings import ConnectionSettings
from rankloop.service.admission import Admission
from rankloop.service.transport.connections import STATE_KEY, Connections
from rankloop.service.transport.watched_http import WatchedHttp

BODY_LIMIT = 1_000_000


opened: list[Wired] = []
"""Of the test under way."""


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.sent = b""
        self.closing = self.paused = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("192.0.2.1", 5), "sockname": ("192.0.2.2", 80)}.get(name, default)


class Wired:
    """Connections to an application that answers when the test lets it."""

    def __init__(self, cors_origins: tuple[str, ...] = (), total: int = 1000, **admission: Any) -> None:
        self.admission = Admission(AdmissionSettings(**{"deadline_ms": 60_000.0, "overload_ms": 60_000.0} | admission))
        self.now, self.reasons = 0.0, list[str]()
        self.connections = Connections(ConnectionSettings(), total, self.reasons.append, clock=lambda: self.now)
        self.go_on = asyncio.Event()
        self.go_on.set()
        opened.append(self)
        self.scopes: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        service = SimpleNamespace(
            admission=self.admission,
            limits=SimpleNamespace(body=BODY_LIMIT),
            settings=SimpleNamespace(cors_origins=cors_origins),
        )
        self._state: dict[str, object] = {STATE_KEY: self.connections, "service": service}
        self._config = Config(self._answer, interface="asgi3", log_config=None)
        self._config.load()

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        self.bodies.append((await receive())["body"])
        await self.go_on.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def connect(self) -> tuple[WatchedHttp, Wire]:
        protocol, wire = WatchedHttp(self._config, ServerState(), self._state), Wire()
        protocol.connection_made(wire)  # type: ignore[arg-type]
        return protocol, wire


async def settled() -> None:
    """Let everything happen that needs no time."""
    for _ in range(200):
        await asyncio.sleep(0)


async def finished() -> None:
    """Let every request that is under way end."""
    while opened:
        opened.pop().go_on.set()
    await settled()


def statuses(wire: Wire) -> list[int]:
    """The statuses of the answers, in order."""
    return [int(part[:3]) for part in wire.sent.split(b"HTTP/1.1 ")[1:]]
