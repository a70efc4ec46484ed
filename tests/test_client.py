"""The client against a real server, and the commands that use it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import pickle
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tools.serving import serving

from rankloop import client as clients
from rankloop.cli import rankers as rankers_command
from rankloop.cli import serve as serve_command
from rankloop.client import AsyncClient, Client, Conflict, NotAllowed, NotFound, ServiceError, Unavailable
from rankloop.errors import InvalidInput, RankloopError
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.access.auth import make_key

CONFIG = {"policy": "cascade-ucb1", "slots": 2}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """Where a service listens, and its keys by role."""
    made = {role: make_key(role, [role]) for role in ("rank", "admin")}
    log = tmp_path_factory.mktemp("served") / "log.db"
    settings = ServiceSettings.of({"log": str(log), "keys": [kept for _, kept in made.values()]})
    with serving(settings) as url:
        yield url, {role: key for role, (key, _) in made.items()}


def test_every_call_of_the_client(served: tuple[str, dict[str, str]]) -> None:
    url, keys = served
    with Client(url, keys["admin"]) as service:
        assert service.put_ranker("news", CONFIG).name == "news"
        service.put_items("news", [{"id": id} for id in ("a", "b/c")] + [{"id": "d e", "default_position": 2.0}])
        assert [item.default_position for item in service.items("news")] == [None, None, 2.0]
        assert [item.id for item in service.items("news")] == ["a", "b/c", "d e"]
        assert service.item("news", "b/c").enabled
        ranking = service.rank("news", k=2, pin={0: "d e"}, exclude=("a",))
        assert ranking.ids == ("d e", "b/c")
        assert ranking.items[0].rule == "pinned"
        assert service.feedback("news", ranking.id, clicked=[1]).status == "learned"
        assert service.decision("news", ranking.id)["state"] == "settled"
        other = service.rank("news", candidates=["a", "b/c"], segment="de")
        assert service.feedback_bulk("news", [{"decision": other.id, "items": ["a"]}])[0].status == "learned"
        third = service.rank("news", k=1, propensity=10, decision="third", exclude=["x"])
        assert (third.id, third.ignored) == ("third", ("x",))
        assert service.rank("news", k=1, propensity=10, decision="third", exclude=["x"]) == third
        with pytest.raises(Conflict, match="no other request"):
            service.rank("news", decision="third")
        with pytest.raises(InvalidInput, match=r"exclude\[0\]"):
            service.rank("news", exclude=["x"], strict=True)
        assert service.withdraw("news", third.id).status == "withdrawn"
        report = service.report("news", limit=1)
        assert report["overview"]["groups"]["treatment"]["lists"] == 3
        assert report["items"][0]["item"] == "b/c"
        assert service.overview("news", hours=1)["groups"]["treatment"]["lists"] == 3
        assert service.segments("news") == ["", "de"]
        service.remove_item("news", "b/c")
        assert len(service.items("news", limit=10, offset=1)) == 1
        assert [one.name for one in service.rankers()] == ["news"]
        assert service.ranker("news").decisions == 3
        service.delete_ranker("news")
        assert service.rankers() == []


def test_the_async_client_sends_concurrent_calls(served: tuple[str, dict[str, str]]) -> None:
    url, keys = served

    async def visit() -> list[str]:
        async with AsyncClient(url, keys["admin"]) as service:
            await service.put_ranker("async", CONFIG)
            await service.put_items("async", [{"id": "a"}, {"id": "b"}])
            rankings = await asyncio.gather(*(service.rank("async", k=1) for _ in range(20)))
            told = await asyncio.gather(
                *(service.feedback("async", r.id, item_values={r.ids[0]: 1.0}) for r in rankings)
            )
            with pytest.raises(NotFound, match="item 'x' does not exist"):
                await service.item("async", "x")
            await service.delete_ranker("async")
            return [receipt.status for receipt in told]

    assert asyncio.run(visit()) == ["learned"] * 20


def test_error_responses_raise_the_exceptions_of_the_service(served: tuple[str, dict[str, str]]) -> None:
    url, keys = served
    with Client(url) as nobody, pytest.raises(NotAllowed, match="an API key is needed"):
        nobody.rankers()
    with Client(url, keys["rank"]) as service:
        with pytest.raises(NotAllowed, match="the role admin"):
            service.put_ranker("x", CONFIG)
        with pytest.raises(NotFound, match="ranker 'x'"):
            service.rank("x")
    with Client(url, keys["admin"]) as service:
        with pytest.raises(InvalidInput, match=r"ranker\.slots is 0") as caught:
            service.put_ranker("x", CONFIG | {"slots": 0})
        assert (caught.value.status, caught.value.field) == (422, "ranker.slots")
        assert isinstance(caught.value, RankloopError)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (str(again), again.status) == (str(caught.value), 422)


def test_an_unreachable_service_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}") as service, pytest.raises(Unavailable, match=f"127.0.0.1:{port}"):
        service.rankers()

    async def ask() -> None:
        async with AsyncClient(f"http://127.0.0.1:{port}") as other:
            await other.rankers()

    with pytest.raises(Unavailable):
        asyncio.run(ask())


def test_an_error_without_a_problem_body_is_a_service_error() -> None:
    import httpx

    for status, body in ((500, b"oops"), (502, b"[]"), (404, b"{}")):
        with pytest.raises(ServiceError, match=f"status {status}"):
            clients.Calls.rankers().result(httpx.Response(status, content=body))


# Commands


def command(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for module in (rankers_command, serve_command):
        module.add_to(commands)
    given = parser.parse_args(arguments)
    given.run(given)


def test_the_rankers_command(
    served: tuple[str, dict[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    url, keys = served
    monkeypatch.setenv("RANKLOOP_URL", url)
    monkeypatch.setenv("RANKLOOP_KEY", keys["admin"])
    command("rankers", "create", "shop", "--policy", "cascade-ucb1", "--slots", "3", "--set", "window=60")
    assert '"window": 60.0' in capsys.readouterr().out
    (tmp_path / "r.yaml").write_text("policy: random\nslots: 2\n")
    command("rankers", "create", "other", "--config", str(tmp_path / "r.yaml"))
    capsys.readouterr()
    command("rankers", "list")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["name", "policy"], ["shop", "cascade-ucb1"], ["other", "random"]]
    command("rankers", "show", "shop")
    assert '"slots": 3' in capsys.readouterr().out
    for name in ("shop", "other"):
        command("rankers", "delete", name)
    assert "Deleted other" in capsys.readouterr().out
    with pytest.raises(NotFound):
        command("rankers", "--url", url, "show", "shop")
    with pytest.raises(InvalidInput, match="FIELD=VALUE"):
        command("rankers", "create", "x", "--set", "window")
    with pytest.raises(InvalidInput, match="--config"):
        command("rankers", "create", "x", "--config", str(tmp_path / "none.yaml"))


def test_serve_runs_one_worker_on_loopback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    def run(app: Any, **options: Any) -> None:
        told.update(options)
        app.state.service.close()

    monkeypatch.setattr(uvicorn, "run", run)
    command("serve", "--log", str(tmp_path / "log.db"), "--port", "9")
    assert (told["host"], told["port"], told["workers"]) == ("127.0.0.1", 9, 1)
    assert (tmp_path / "log.db").exists()
    with pytest.raises(InvalidInput, match="without API keys"):
        command("serve", "--host", "0.0.0.0", "--log", str(tmp_path / "log.db"))


def test_serve_prints_new_api_keys(capsys: pytest.CaptureFixture[str]) -> None:
    command("serve", "--new-key", "shop:rank,feedback")
    printed = capsys.readouterr().out
    assert "rl_" in printed
    assert '"roles": ["feedback", "rank"]' in printed
    with pytest.raises(InvalidInput, match="one or more of the roles"):
        command("serve", "--new-key", "shop:king")


def test_the_quickstart_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands and the Python of the page run against `rankloop serve`; its rankers survive a kill."""
    name = "docs/tutorial/quickstart.md"
    page = (Path(__file__).parents[1] / name).read_text(encoding="utf-8")
    shell = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL))
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.chdir(tmp_path)
    serve = [sys.executable, "-m", "rankloop", "serve", "--log", "shop.db", "--port", str(port)]
    with subprocess.Popen(serve, stderr=subprocess.DEVNULL) as server:
        try:
            _until_it_answers(port)
            decision, statuses = "", []
            for line in shell.replace("\\\n", " ").replace("8080", str(port)).splitlines():
                if line.startswith("curl"):
                    command = ["curl", "-sS", "--fail", *shlex.split(line.replace("THE-ID-FROM-ABOVE", decision))[1:]]
                    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                    assert answer or "PUT" in line
                    decision = json.loads(answer)["decision"] if line.endswith("/rank") else decision
                    statuses += [json.loads(answer)["status"]] if line.endswith("/feedback") else []
            assert decision
            assert statuses == ["learned", "duplicate"]
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code.replace("8080", str(port)), name, "exec"), {"__name__": "page"})
            assert f"```text\n{printed.getvalue()}```" in page
        finally:
            server.kill()
    with subprocess.Popen(serve, stderr=subprocess.DEVNULL) as server:
        try:
            _until_it_answers(port)
            with Client(f"http://127.0.0.1:{port}") as client:
                assert {ranker.name: ranker.decisions for ranker in client.rankers()} == {"bar": 300, "shop": 1}
        finally:
            server.terminate()


def _until_it_answers(port: int) -> None:
    for _ in range(600):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1.0):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the service did not start")
