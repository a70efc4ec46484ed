"""The baseline of the service: an empty POST with the same framework and server. `python -m bench.empty PORT`."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastapi import FastAPI

from rankloop.service.app import NO_TELEMETRY
from rankloop.service.transport.answer_transport import BufferedHttp

app = FastAPI(telemetry=NO_TELEMETRY)


@app.post("/empty")
async def empty(body: dict[str, Any]) -> dict[str, Any]:
    """Return an empty object."""
    return {}


if __name__ == "__main__":
    uvicorn.run(
        app,
        http=BufferedHttp,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        access_log=False,
        log_level="error",
        proxy_headers=False,
    )
