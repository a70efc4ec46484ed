"""Run a service in a thread of this process, for tests and screenshots."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.app import create_app
from rankloop.service.transport.watched_http import WatchedHttp


@contextmanager
def serving(
    settings: ServiceSettings, *, port: int = 0, around: Callable[[ASGIApp], ASGIApp] | None = None
) -> Iterator[str]:
    """Yield the address of a service with these settings until the end of the block; port 0 chooses a free one."""
    app: ASGIApp = create_app(settings)
    # asyncio disables Nagle's algorithm (a delay of 40 ms) only on sockets whose protocol is explicitly TCP.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen()
    chosen = uvicorn.Config(
        around(app) if around else app,
        http=WatchedHttp,
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(chosen)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
