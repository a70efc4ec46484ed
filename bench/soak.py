"""A long run with visitors at half of what the service can bear. `python -m bench.soak [MINUTES]`.

Memory must stay flat, nothing may fail, and at the end a replay of the whole log must give the live state.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.load import HOST, cpu, memory
from rankloop.cli.log_verify import report_lines
from rankloop.client import Client, Unavailable
from rankloop.eventlog import SqliteStore
from rankloop.serving import RankerConfig
from rankloop.serving.verification import compare_snapshot, decide_again

LATE, LOST, PROCESSES = 0.05, 0.02, 2
EVERY = 10.0
"""Seconds between looks at the memory."""


def visitors(url: str, name: str, *options: str) -> list[str]:
    """The command of visitors."""
    command = [sys.executable, "-m", "rankloop", "visitors", "--ranker", "soak", "--url", url, "--run", name]
    return [*command, "--json", "--quiet", "--rounds", "0", *options]


def capacity(url: str) -> float:
    """Visits per second, as fast as they can."""
    fast = visitors(url, "fast", "--create", "cascade-lin-ts", "--seconds", "15", "--callers", "32")
    told = json.loads(subprocess.run(fast, check=True, capture_output=True, text=True).stdout)
    return float(told["lists"] / told["seconds"])


def soaked(minutes: float, folder: Path) -> None:
    """Run, watch, verify, print."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    log, url = folder / "log.db", f"http://{HOST}:{port}"
    serve = [sys.executable, "-m", "rankloop", "serve", "--log", str(log), "--port", str(port)]
    environment = os.environ | {"RANKLOOP_LIMITS__RATE": "1000000"}
    with subprocess.Popen(serve, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            _until_it_answers(url)
            most = capacity(url)
            with Client(url) as client:
                config = client.ranker("soak").config | {"window": 30.0}
                client.put_ranker("soak", config)
            print(f"as fast as possible: {most:.0f} visits/s; half of it for {minutes:g} minutes", flush=True)
            _run(url, most / 2, minutes, server.pid)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()
    store = SqliteStore(log)
    logs = {json.loads(entry.body)["log"] for entry in store.read("") if entry.kind == "ranker-put"}
    for name in sorted(logs):
        finding = compare_snapshot(store, name, RankerConfig.of(config))
        print("\n".join(report_lines(name, finding, decide_again(store, name))))
    store.close()


def _run(url: str, rate: float, minutes: float, pid: int) -> None:
    options = ["--rate", f"{rate / PROCESSES:.1f}", "--seconds", str(60 * minutes), "--callers", "32", "--delay", "5"]
    options += ["--late", str(LATE), "--lost", str(LOST)]
    began, before = time.monotonic(), cpu(pid)
    running = [
        subprocess.Popen(visitors(url, f"run-{n}", *options), stdout=subprocess.PIPE, text=True)
        for n in range(PROCESSES)
    ]
    held: list[float] = []
    while any(one.poll() is None for one in running):
        time.sleep(EVERY)
        held.append(memory(pid))
    share = (cpu(pid) - before) / (time.monotonic() - began)
    told = [json.loads(one.communicate()[0]) for one in running]
    _print(told, held, share)
    with Client(url) as client:
        overview = client.report("soak", limit=1)["overview"]
    print(
        f"settled {overview['groups']['policy']['settled']:,} of {overview['decisions']:,} lists, pending "
        f"{overview['open_decisions']}, late {overview['late']}, windows closed {overview['closed']:,}"
    )


def _print(told: list[dict[str, Any]], held: list[float], share: float) -> None:
    for one in told:
        print(json.dumps(one))
    third = max(1, len(held) // 3)
    early, late = max(held[third : 2 * third] or held), max(held[-third:])
    print(f"memory: {held[0]:.0f} MB at first, at most {early:.0f} in the second third, {late:.0f} in the last")
    print(f"the service used {share:.0%} of a core")


def _until_it_answers(url: str) -> None:
    with Client(url) as client:
        for _ in range(300):
            try:
                client.rankers()
                return
            except Unavailable:
                time.sleep(0.1)
    raise TimeoutError("the service did not start")


def main(minutes: float = 30.0) -> None:
    """Run in a folder that goes."""
    with tempfile.TemporaryDirectory() as folder:
        soaked(minutes, Path(folder))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
