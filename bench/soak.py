"""Run visitors for a long time at half of the capacity of the service. `python -m bench.soak [MINUTES]`.

Memory must stay constant, no request may fail, and at the end a replay of the whole log must equal the live state.
Before the end, the service is attacked by slow clients (`bench.slowloris`) and overloaded (`bench.overload`).
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
from bench.overload import overload_stage
from bench.slowloris import slowloris_stage
from rankloop.cli.log_verify import report_lines
from rankloop.client import Client, Unavailable
from rankloop.eventlog import SqliteStore
from rankloop.serving.config import LoggedConfig
from rankloop.serving.verification import compare_snapshot, decide_again, last_settings

LATE_SHARE, LOST_SHARE, PROCESSES = 0.05, 0.02, 2
MEMORY_SAMPLE_SECONDS = 10.0
SLOWLORIS_SECONDS, OVERLOAD_SECONDS = 60.0, 20.0
TARGET = {"policy": "gts", "slots": 10}
"""The ranker of the attacks."""


def visitors_command(url: str, name: str, *options: str) -> list[str]:
    """Return the command line of simulated visitors."""
    command = [sys.executable, "-m", "rankloop", "visitors", "--ranker", "soak", "--url", url, "--run", name]
    return [*command, "--json", "--quiet", "--rounds", "0", *options]


def capacity(url: str) -> float:
    """Return the visits per second without a rate limit."""
    command = visitors_command(url, "fast", "--create", "cascade-lin-ts", "--seconds", "15", "--callers", "32")
    summary = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(summary["lists"] / summary["seconds"])


def soak(minutes: float, folder: Path) -> None:
    """Run the visitors, sample the memory, and verify the log."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    log, url = folder / "log.db", f"http://{HOST}:{port}"
    serve = [sys.executable, "-m", "rankloop", "serve", "--log", str(log), "--port", str(port)]
    environment = os.environ | {"RANKLOOP_LIMITS__RATE": "1000000"}
    with subprocess.Popen(serve, env=environment, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_until_ready(url)
            max_rate = capacity(url)
            with Client(url) as client:
                config = client.ranker("soak").config | {"window": 30.0}
                client.put_ranker("soak", config)
            print(f"capacity: {max_rate:.0f} visits/s; half of it for {minutes:g} minutes", flush=True)
            _run(url, max_rate / 2, minutes, server.pid)
            _attack(url, port, server.pid)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()
    store = SqliteStore(log)
    logs = {json.loads(entry.body)["log"] for entry in store.read("") if entry.kind == "ranker-put"}
    for name in sorted(logs):
        settings = last_settings(store, name) or config
        finding = compare_snapshot(store, name, LoggedConfig.of(settings))
        print("\n".join(report_lines(name, finding, decide_again(store, name))))
    store.close()


def _run(url: str, rate: float, minutes: float, pid: int) -> None:
    options = ["--rate", f"{rate / PROCESSES:.1f}", "--seconds", str(60 * minutes), "--callers", "32", "--delay", "5"]
    options += ["--late", str(LATE_SHARE), "--lost", str(LOST_SHARE)]
    started, before = time.monotonic(), cpu(pid)
    running = [
        subprocess.Popen(visitors_command(url, f"run-{n}", *options), stdout=subprocess.PIPE, text=True)
        for n in range(PROCESSES)
    ]
    samples: list[float] = []
    while any(one.poll() is None for one in running):
        time.sleep(MEMORY_SAMPLE_SECONDS)
        samples.append(memory(pid))
    share = (cpu(pid) - before) / (time.monotonic() - started)
    _print([json.loads(one.communicate()[0]) for one in running], samples, share)
    with Client(url) as client:
        overview = client.report("soak", limit=1)["overview"]
    print(
        f"settled {overview['groups']['treatment']['settled']:,} of {overview['decisions']:,} lists, pending "
        f"{overview['open_decisions']}, late {overview['late']}, windows closed {overview['closed']:,}"
    )


def _attack(url: str, port: int, pid: int) -> None:
    """Hold connections open, then send three times as many requests as the service can answer."""
    with Client(url) as client:
        client.put_ranker("bench", TARGET)
        client.put_items("bench", [{"id": f"item-{i}"} for i in range(100)])
    print(f"slow clients: {slowloris_stage((HOST, port), SLOWLORIS_SECONDS)}", flush=True)
    print(overload_stage((HOST, port), OVERLOAD_SECONDS), flush=True)
    print(f"memory after both: {memory(pid):.0f} MB", flush=True)


def _print(summaries: list[dict[str, Any]], memory_mb: list[float], share: float) -> None:
    for summary in summaries:
        print(json.dumps(summary))
    third = max(1, len(memory_mb) // 3)
    early, late = max(memory_mb[third : 2 * third] or memory_mb), max(memory_mb[-third:])
    print(f"memory: {memory_mb[0]:.0f} MB at first, at most {early:.0f} in the second third, {late:.0f} in the last")
    print(f"the service used {share:.0%} of a core")


def _wait_until_ready(url: str) -> None:
    with Client(url) as client:
        for _ in range(300):
            try:
                client.rankers()
                return
            except Unavailable:
                time.sleep(0.1)
    raise TimeoutError("the service did not start")


def main(minutes: float = 30.0) -> None:
    """Run in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        soak(minutes, Path(folder))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
