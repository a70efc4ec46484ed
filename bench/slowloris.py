"""Hold connections open without using them: `python -m bench.slowloris [SECONDS]`.

Hundreds of clients connect and stay silent, send half of their headers, or send a body without end, and connect again
when they are disconnected. Meanwhile every health check and every visit of an ordinary client must succeed.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import tempfile
import time
from dataclasses import dataclass

import httpx

from bench.load import HOST, serving

SILENT, HALF_HEADERS, ENDLESS_BODIES = 500, 300, 200
"""Connections of each kind that are kept open."""
HEAD = b"POST /v1/rankers/%s/rank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
PAUSE_SECONDS = 0.05


@dataclass
class Slowloris:
    """What happened to both kinds of clients."""

    checks: int = 0  # health checks and visits that succeeded
    failures: int = 0
    connections: int = 0  # of the attackers
    disconnected: int = 0

    @property
    def holds(self) -> bool:
        """Whether ordinary clients noticed nothing, although attackers were there."""
        return self.checks > 0 and self.failures == 0 and self.disconnected > 0

    def __str__(self) -> str:
        return (
            f"{self.connections:,} idle or slow connections, {self.disconnected:,} of them closed by the service; "
            f"{self.checks:,} health checks and visits succeeded, {self.failures:,} failed"
        )


class _Attackers:
    """Connections that are opened again as soon as the service closes them."""

    def __init__(self, address: tuple[str, int], ranker: str, result: Slowloris) -> None:
        head = HEAD % ranker.encode()
        starts = [b""] * SILENT + [head] * HALF_HEADERS + [head + b"Content-Length: 900000\r\n\r\n{"] * ENDLESS_BODIES
        self._address, self._result = address, result
        self._open = [(start, self._connect(start)) for start in starts]
        self._turns = itertools.cycle(range(len(self._open)))

    def _connect(self, start: bytes) -> socket.socket | None:
        try:
            line = socket.create_connection(self._address, timeout=5.0)
            line.setblocking(False)
            line.send(start)
        except OSError:
            return None
        self._result.connections += 1
        return line

    def trickle(self, connections: int) -> None:
        """Send one more byte on some connections, and open those again that were closed."""
        for _ in range(connections):
            at = next(self._turns)
            start, line = self._open[at]
            if line is not None and self._is_open(line, start):
                continue
            if line is not None:
                self._result.disconnected += 1
                line.close()
            self._open[at] = start, self._connect(start)

    def _is_open(self, line: socket.socket, start: bytes) -> bool:
        try:
            if start:
                line.send(b" ")
            line.recv(4096)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False  # an answer can only be a refusal; nothing is the end of the stream

    def close(self) -> None:
        """Close all connections."""
        for _, line in self._open:
            if line is not None:
                line.close()


def slowloris_stage(address: tuple[str, int], seconds: float, ranker: str = "bench") -> Slowloris:
    """Attack a service for so many seconds; ask it as an ordinary client meanwhile."""
    result, url = Slowloris(), f"http://{address[0]}:{address[1]}"
    attackers, end = _Attackers(address, ranker, result), time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            attackers.trickle(25)
            with contextlib.suppress(httpx.HTTPError), httpx.Client(base_url=url, timeout=10.0) as client:
                result.failures += 2
                answers = [client.get("/healthz"), client.post(f"/v1/rankers/{ranker}/rank", json={"k": 3})]
                succeeded = sum(answer.status_code == 200 for answer in answers)
                result.checks, result.failures = result.checks + succeeded, result.failures - succeeded
            time.sleep(PAUSE_SECONDS)
    finally:
        attackers.close()
    return result


def main(seconds: float = 60.0) -> None:
    """Print what happened."""
    with tempfile.TemporaryDirectory() as folder, serving("bench.served", f"{folder}/log.db") as (port, _):
        result = slowloris_stage((HOST, port), seconds)
    print(result)
    if not result.holds:
        sys.exit("ordinary clients were affected, or nobody was disconnected")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
