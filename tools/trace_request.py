"""Trace one rank request and one feedback through the service: which files and functions they pass through.

python -m tools.trace_request --limit-rank 20 --limit-feedback 20   # fail where more files are involved
python -m tools.trace_request --markdown                            # the block of docs/explanation/architecture.md
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from types import CodeType, FrameType

import httpx
from fastapi import FastAPI

import rankloop
from rankloop.errors import RankloopError
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.app import create_app
from rankloop.service.service import Service
from rankloop.serving import Ranker

PACKAGE = str(Path(rankloop.__file__).parent) + "/"
SUSPENDABLE = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
PERIODIC = ("scheduler", "watch", "checkpoint")
"""Words in the names of threads that work on their own schedule, whatever is requested."""
THREADS = {"MainThread": "callbacks of the event loop", "rankloop-writer": "the writer's thread"}
"""What threads are called in the output, where their name says too little."""
WARM_UP_VISITS = 5
QUIET_SECONDS = 0.25
"""A request is over when no function was entered for so long."""
RANKER = "/v1/rankers/traced"


@dataclass
class Walk:
    """The functions that one request enters, in order: first on its own way, then in the background."""

    title: str
    request: list[tuple[str, str]] = field(default_factory=list)  # (file, function) on the way to the answer
    background: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # the same by thread: commit and apply
    waits: bool = False  # the answer waits for the background

    @property
    def ways(self) -> list[list[tuple[str, str]]]:
        """Return the sequences of calls on which the answer depends, one for each thread of control."""
        return [self.request, *(self.background[name] for name in sorted(self.background) if self.waits)]

    @property
    def files(self) -> int:
        """Return the number of distinct files."""
        return len({file for way in self.ways for file, _ in way})

    @property
    def changes(self) -> int:
        """Return how often a call leads to another file than the call before."""
        return sum(a[0] != b[0] for way in self.ways for a, b in pairwise(way))

    @property
    def calls(self) -> int:
        """Return the number of calls."""
        return sum(len(way) for way in self.ways)

    def __str__(self) -> str:
        return f"{self.files} files, {self.changes} changes of file, {self.calls} calls until the answer"

    def background_title(self, thread: str) -> str:
        """Return what a thread does for this request."""
        return f"{THREADS.get(thread, thread)}, {'before' if self.waits else 'not needed for'} the answer"


class Recorder:
    """A profile function for all threads of the process; it records while a walk is set."""

    def __init__(self) -> None:
        self._walk: Walk | None = None
        self._suspended: set[FrameType] = set()  # coroutines that were entered: to resume one is no call
        self._request: CodeType = Recorder._send.__code__
        self._ours: CodeType = Recorder.trace.__code__

    def start(self) -> None:
        """Profile this thread and those that are started from now on."""
        threading.setprofile(self)
        sys.setprofile(self)

    def stop(self) -> None:
        """Profile no more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        """Record a call of a function of the package."""
        walk, code = self._walk, frame.f_code
        if walk is None or event != "call" or not code.co_filename.startswith(PACKAGE) or code.co_name[0] == "<":
            return
        if code.co_flags & SUSPENDABLE:
            if frame in self._suspended:
                return
            self._suspended.add(frame)
        call = (code.co_filename[len(PACKAGE) :], code.co_qualname.replace(".<locals>", ""))
        callers = set(_callers(sys._getframe(1)))  # compiled functions pass a frame without callers
        if self._request in callers:
            walk.request.append(call)
        elif self._ours not in callers and not any(word in threading.current_thread().name for word in PERIODIC):
            walk.background.setdefault(threading.current_thread().name, []).append(call)

    async def _send(self, client: httpx.AsyncClient, path: str, body: dict[str, object]) -> None:
        (await client.post(path, json=body)).raise_for_status()

    async def trace(self, walk: Walk, client: httpx.AsyncClient, body: dict[str, object], ranker: Ranker) -> Walk:
        """Return the walk of one request, with the commit and the application of its event in the background."""
        position, self._walk = ranker.position, walk
        await self._send(client, f"{RANKER}/{walk.title}", body)
        while ranker.position == position:
            await asyncio.sleep(QUIET_SECONDS)
        calls = -1
        while calls != (calls := len(walk.request) + sum(map(len, walk.background.values()))):
            await asyncio.sleep(QUIET_SECONDS)
        self._walk = None
        self._suspended.clear()
        return walk


def _callers(frame: FrameType | None) -> Iterator[CodeType]:
    """Yield the code of a frame and of all its callers."""
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def trace(policy: str = "gts") -> tuple[Walk, Walk]:
    """Return the walks of one rank request and one feedback, in a service that has learned from a few visits."""
    recorder = Recorder()
    recorder.start()  # before the service starts its threads
    try:
        with tempfile.TemporaryDirectory() as folder:
            return asyncio.run(_traced(create_app(ServiceSettings(log=f"{folder}/log.db")), policy, recorder))
    finally:
        recorder.stop()


async def _traced(app: FastAPI, policy: str, recorder: Recorder) -> tuple[Walk, Walk]:
    service = app.state.service
    async with app.router.lifespan_context(app):
        features = _put_ranker(service, policy)
        items = [{"id": f"item-{at}"} | features for at in range(20)]
        service.rankers.put_items("traced", items)
        ranker, now = service.rankers.find("traced").ranker, time.time()
        ranker._clock = lambda: now  # the first decision of a minute starts another row of counters
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for _ in range(WARM_UP_VISITS):
                decision = (await client.post(f"{RANKER}/rank", json={"k": 3})).json()["decision"]
                await client.post(f"{RANKER}/feedback", json={"decision": decision, "clicked": [0]})
            await _settle(ranker)
            ranked = await recorder.trace(Walk("rank"), client, {"k": 3}, ranker)
            decision = (await client.post(f"{RANKER}/rank", json={"k": 3})).json()["decision"]
            await _settle(ranker)
            body: dict[str, object] = {"decision": decision, "clicked": [0]}
            return ranked, await recorder.trace(Walk("feedback", waits=True), client, body, ranker)


def _put_ranker(service: Service, policy: str) -> dict[str, list[float]]:
    """Create the ranker, with features where its policy needs them; return the features of an item."""
    config = {"policy": policy, "slots": 3, "seed": 7}
    try:
        service.rankers.put("traced", config)
        return {}
    except RankloopError:
        service.rankers.put("traced", config | {"dim": 2})
        return {"features": [0.6, 0.8]}


async def _settle(ranker: Ranker) -> None:
    """Wait until everything is committed and applied; the loop stays free, since it applies."""
    await asyncio.get_running_loop().run_in_executor(None, ranker.flush)
    await asyncio.sleep(QUIET_SECONDS)


def _steps(way: Sequence[tuple[str, str]]) -> list[str]:
    """Return one line for each stay in a file: the functions entered, without repetition."""
    stays = groupby(way, key=lambda call: call[0])
    return [f"`{file}`: {', '.join(dict.fromkeys(f'`{name}`' for _, name in calls))}" for file, calls in stays]


def _numbered(way: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{at}. {step}" for at, step in enumerate(_steps(way), 1)]


def markdown(policy: str = "gts") -> list[str]:
    """Return both walks as the lines of a Markdown block."""
    lines = [
        f"Traced with `python -m tools.trace_request --policy {policy}`, one request at a time in an idle service.",
        "",
    ]
    for walk in trace(policy):
        lines += [f"**`POST /v1/rankers/{{name}}/{walk.title}`**: {walk}.", ""]
        lines += [*_numbered(walk.request), ""]
        for thread in sorted(walk.background):
            lines += [
                f"{walk.background_title(thread).capitalize()}:",
                "",
                *_numbered(walk.background[thread]),
                "",
            ]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both walks; return 1 where one passes through more files than accepted."""
    parser = argparse.ArgumentParser(prog="python -m tools.trace_request", description=__doc__.split("\n")[0])
    parser.add_argument("--policy", default="gts", help="Policy of the traced ranker (default gts).")
    parser.add_argument("--limit-rank", type=int, metavar="FILES", help="Greatest number of files of a rank request.")
    parser.add_argument("--limit-feedback", type=int, metavar="FILES", help="Greatest number of files of a feedback.")
    parser.add_argument("--markdown", action="store_true", help="Print a block for the documentation.")
    given = parser.parse_args(arguments)
    if given.markdown:
        print("\n".join(markdown(given.policy)))
        return 0
    exceeded = 0
    for walk, limit in zip(trace(given.policy), (given.limit_rank, given.limit_feedback), strict=True):
        print(f"{walk.title}: {walk}")
        print(*(f"  {step.replace('`', '')}" for step in _steps(walk.request)), sep="\n")
        for thread in sorted(walk.background):
            print(f"  {walk.background_title(thread)}:")
            print(*(f"    {step.replace('`', '')}" for step in _steps(walk.background[thread])), sep="\n")
        if limit is not None and walk.files > limit:
            print(f"{walk.title} passes through {walk.files} files; accepted: at most {limit}.", file=sys.stderr)
            exceeded = 1
    return exceeded


if __name__ == "__main__":
    sys.exit(main())
