"""The files of deploy/: they name what exists, and run without containers as they would in them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tools.reference.metrics import metrics
from tools.reference.settings import service_variables

from postgres_server import Server, server  # noqa: F401
from rankloop.schema import Guardrail, RankerSettings
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service import settings

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
PROMQL_LABELS = {"instance", "job", "le"}
"""Labels that Prometheus adds, and that of the buckets of a histogram."""


# Names


def expressions() -> list[str]:
    """All PromQL expressions of the dashboard and of the alert rules."""
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    variables = [one["query"]["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    return panels + variables + [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def test_the_dashboard_and_the_alerts_name_only_metrics_that_exist() -> None:
    known = {name: set(metric.labels) for metric in metrics() for name in metric.exposed}
    for expression in expressions():
        named = set(re.findall(r"\brankloop_\w+", expression))
        assert named <= known.keys() - {None}, expression
        assert named or "up{" in expression
        labels = set(re.findall(r"(\w+)(?:=~|!=|=)\"", expression))
        labels |= {one for group in re.findall(r"(?:by|on) \(([^)]*)\)", expression) for one in group.split(", ")}
        labels |= set(re.findall(r"label_values\(\w+, (\w+)\)", expression))
        assert labels <= set().union(*(known[name] for name in named)) | PROMQL_LABELS, expression


def test_every_panel_of_the_dashboard_has_a_place_of_its_own() -> None:
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    cells = [
        (x, y)
        for one in panels
        for x in range(one["gridPos"]["x"], one["gridPos"]["x"] + one["gridPos"]["w"])
        for y in range(one["gridPos"]["y"], one["gridPos"]["y"] + one["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({one["id"] for one in panels}) == len(panels)


def test_every_alert_has_a_severity_and_a_sentence() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yaml").read_text())["groups"][0]["rules"]
    for rule in rules:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"]["summary"].endswith(".")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", DEPLOY / "prometheus-rules.yaml"], check=True, capture_output=True)


def test_the_settings_file_has_every_setting_with_its_default() -> None:
    text = (DEPLOY / "rankloop.yaml").read_text()
    assert settings.load(DEPLOY / "rankloop.yaml", environment={}) == ServiceSettings()
    document: dict[str, Any] = yaml.safe_load(text)
    for path in service_variables().values():
        found = document
        for name in path.split("."):
            assert name in found, path
            found = found[name]
    for name in (*RankerSettings.__struct_fields__, *Guardrail.__struct_fields__):
        assert re.search(rf"^# +{name}: ?", text, re.MULTILINE), name


def test_the_example_of_the_settings_file_is_a_ranker() -> None:
    text = (DEPLOY / "rankloop.yaml").read_text()
    example = text[text.index("#   shop:") :].replace("# ", "", 1)
    lines = [re.sub(r"^# ?", "", line) for line in example.splitlines()]
    shop = yaml.safe_load("\n".join(line for line in lines if not line.strip().startswith("#")))["shop"]
    assert RankerSettings.of(shop) == RankerSettings.of({"slots": 5, "guardrail": True})


# The image


def instructions(stage: int) -> list[tuple[str, str]]:
    """The instructions of one stage of the Dockerfile, with their arguments."""
    text = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    stages: list[list[tuple[str, str]]] = [[]]
    for line in lines:
        name, _, rest = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, rest))
    return stages[stage]


def test_the_image_is_small_unprivileged_and_checked() -> None:
    final = dict(instructions(2))
    assert final["USER"] == "10001:10001"
    assert "/readyz" in final["HEALTHCHECK"]
    assert json.loads(final["ENTRYPOINT"]) == ["rankloop"]
    assert set(json.loads(final["VOLUME"])) == {"/var/lib/rankloop", "/var/cache/rankloop"}
    assert "RUN" in dict(instructions(1)), "the compiler of the build is not in the image"


def test_no_image_names_a_registry() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    images = [one["image"] for one in compose["services"].values()]
    images += [rest for name, rest in instructions(0) if name == "ARG"]
    for image in images:
        assert not re.search(r"[\w-]+\.[a-z]{2,}/|:\d+/", image), image
    assert compose["services"]["rankloop"]["deploy"]["replicas"] == "${RANKLOOP_REPLICAS:-1}"


def test_no_container_can_write_its_root_file_system_or_gain_privileges() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    for name in ("rankloop", "proxy"):
        assert services[name]["read_only"]
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
    folders = {one.split(":")[1] for one in services["rankloop"]["volumes"]} | {"/var/lib/rankloop"}
    assert set(json.loads(dict(instructions(2))["VOLUME"])) <= folders


@pytest.mark.slow
def test_the_steps_of_the_image_make_a_service_in_a_clean_root(tmp_path: Path) -> None:
    """Without a container engine: the same commands in a copy of what the build is given, and the same health check."""
    root, source = tmp_path / "opt", tmp_path / "source"
    source.mkdir()
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    for name, rest in instructions(1):
        *files, target = rest.split()
        if name == "COPY":
            for file in files:
                copy = shutil.copytree if (ROOT / file).is_dir() else shutil.copy
                copy(ROOT / file, source / target)
        elif name == "RUN":
            command = rest.replace("/usr/local/lib/rankloop", str(root)).replace(
                "python -m venv", f"{sys.executable} -m venv"
            )
            done = subprocess.run(
                command, shell=True, cwd=source, env=environment, capture_output=True, text=True, check=False
            )
            if "No matching distribution" in done.stderr or "ConnectionError" in done.stderr:
                pytest.skip("packages cannot be installed here")
            assert done.returncode == 0, done.stderr
    shutil.rmtree(source)  # the final stage does not have it
    with configured(tmp_path) as folder, serving(folder, [str(root / "bin" / "rankloop"), *image_command()]) as url:
        check = json.loads(dict(instructions(2))["HEALTHCHECK"].partition("CMD ")[2])
        code = check[-1].replace("http://127.0.0.1:8080", url)
        subprocess.run([root / "bin" / "python", "-c", code], check=True, timeout=60)


def image_command() -> list[str]:
    command: list[str] = json.loads(dict(instructions(2))["CMD"])
    return command


# The set-up of the compose file, by hand


@contextmanager
def configured(folder: Path) -> Iterator[Path]:
    """A folder with a settings file that has a key, made as deploy/README.md says."""
    shutil.copy(DEPLOY / "rankloop.yaml", folder / "rankloop.yaml")
    made = subprocess.run(
        [sys.executable, "-m", "rankloop", "serve", "--config", "rankloop.yaml", "--new-key", "shop:admin"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    key = re.search(r"^ +(\S{20,})$", made.stdout, re.MULTILINE)
    assert key is not None
    (folder / "key").write_text(key[1])
    yield folder


@contextmanager
def serving(folder: Path, command: list[str], port: int = 0) -> Iterator[str]:
    """Run the command of an image with the paths of a folder; the address of the service."""
    places = {"/etc/rankloop": str(folder), "/run/secrets": str(folder), "0.0.0.0": "127.0.0.1"}
    for place, own in places.items():
        command = [part.replace(place, own) for part in command]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKLOOP_")}
    environment |= {"NUMBA_CACHE_DIR": str(folder / "cache")}
    with (folder / f"output{port}").open("w") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, env=environment, stdout=output, stderr=output
        )
    try:
        url = awaited(lambda: re.search(r"running on (http://\S+)", (folder / f"output{port}").read_text()))[1]
        awaited(lambda: httpx.get(f"{url}/readyz").status_code == 200)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


@contextmanager
def proxied(folder: Path, *urls: str) -> Iterator[str]:
    """Run nginx with the configuration of the compose file in front of services; its address."""
    assert NGINX is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = (DEPLOY / "nginx.conf").read_text().replace("/tmp/", f"{folder}/")
    servers = " ".join(f"server {url.removeprefix('http://')} max_fails=1 fail_timeout=2s;" for url in urls)
    text = re.sub(r"server rankloop:8080 [^;]*;", servers, text).replace("listen 8080", f"listen 127.0.0.1:{port}")
    (folder / "nginx.conf").write_text(text)
    arguments = [NGINX, "-p", str(folder), "-e", "stderr", "-c", "nginx.conf"]
    subprocess.run([*arguments, "-t"], check=True, capture_output=True)
    process = subprocess.Popen([*arguments, "-g", "daemon off;"], stderr=subprocess.DEVNULL)
    try:
        awaited(lambda: httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def awaited(condition: Any, seconds: float = 120.0) -> Any:
    """Wait until something holds, and return it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_visitors_reach_a_service_on_postgresql_through_nginx(server: Server, tmp_path: Path) -> None:  # noqa: F811
    """The command of the compose file, on a real database and behind the real proxy; it survives a restart."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["rankloop"]
    command = [sys.executable, "-m", "rankloop", *compose["command"]]
    with ExitStack() as stack:
        folder = stack.enter_context(configured(tmp_path))
        (folder / "log_address").write_text(server.database() + "\n")
        with serving(folder, command) as service, proxied(folder, service) as url:
            port = int(service.rpartition(":")[2])
            visit(folder, url, "before")
            assert httpx.get(f"{url}/metrics").status_code == 404
            assert httpx.get(f"{url}/v1/rankers").status_code == 401, "a key is needed"
            page = httpx.get(f"{url}/", follow_redirects=True)
            assert (page.status_code, page.url.port) == (200, int(url.rpartition(":")[2]))
        with serving(folder, command, port), proxied(folder, service) as url:
            assert visit(folder, url, "after")["lists"] == 200
            headers = {"Authorization": f"Bearer {(folder / 'key').read_text()}"}
            found = httpx.get(f"{url}/v1/rankers/cafe", headers=headers).json()
            assert found["decisions"] == 400


def visit(folder: Path, url: str, run: str) -> dict[str, Any]:
    """Let 200 visitors of `rankloop visitors` visit."""
    command = "visitors --ranker cafe --create gts --rounds 200 --json --quiet --run"
    environment = os.environ | {"RANKLOOP_KEY": (folder / "key").read_text()}
    done = subprocess.run(
        [sys.executable, "-m", "rankloop", *shlex.split(command), run, "--url", url],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    text = (
        (DEPLOY / "nginx.conf").read_text().replace("rankloop:8080", "127.0.0.1:8080").replace("/tmp/", f"{tmp_path}/")
    )
    (tmp_path / "nginx.conf").write_text(text)
    assert NGINX is not None
    subprocess.run([NGINX, "-t", "-e", "stderr", "-c", tmp_path / "nginx.conf"], check=True, capture_output=True)


# The unit


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "rankloop.service").read_text()
    assert "ExecStart=/usr/local/lib/rankloop/bin/rankloop serve" in unit
    (tmp_path / "rankloop.service").write_text(unit.replace("/usr/local/lib/rankloop/bin/rankloop", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "rankloop.service"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
