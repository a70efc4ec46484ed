"""What exists: every name that a page may mention, from the code itself."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.routing import Route

import rankloop
from rankloop.cli.main import parser
from rankloop.schema.service_settings import ServiceSettings
from rankloop.service.settings import PREFIX
from tools.reference import api, cli
from tools.reference.endpoints import endpoints
from tools.reference.metrics import metrics
from tools.reference.service import application
from tools.reference.settings import service_variables
from tools.reference.source import environment_variables

ROOT = Path(__file__).parents[2]
PARAMETER = re.compile(r"\{[^}]*\}|<[^>]*>|[A-Z]+|…|\.\.\.|\$\w+")
"""A segment of a path that stands for any value."""


def closest(name: str, known: Iterable[str]) -> str:
    """Return the known name that looks most like a name; empty where there are none."""
    return next(iter(difflib.get_close_matches(name, list(known), 1, 0.0)), "")


@cache
def modules() -> frozenset[str]:
    """Return all modules of the package."""
    found = pkgutil.walk_packages(rankloop.__path__, "rankloop.")
    return frozenset({"rankloop", *(one.name for one in found)})


@cache
def classes() -> dict[str, type]:
    """Return the public classes by name."""
    found = {}
    for module in map(importlib.import_module, (*api.PARTS, *reversed(api.PUBLIC))):
        for name in api.public_names(module):
            if isinstance(value := getattr(module, name), type):
                found[name] = value
    return found


def has_attribute(value: object, name: str) -> bool:
    """Return whether an object has an attribute, or a class a field of this name."""
    bases = value.__mro__ if isinstance(value, type) else ()
    return hasattr(value, name) or any(name in vars(base).get("__annotations__", {}) for base in bases)


@cache
def registered_names() -> frozenset[str]:
    """Return the dotted names that the source has as texts: loggers, groups of entry points."""
    files = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "rankloop").rglob("*.py"))
    return frozenset(name for text in files for name in re.findall(r'"(rankloop(?:\.\w+)+)"', text))


def closest_python_name(dotted: str) -> str | None:
    """Return None where `rankloop.x.y` exists, else the closest name that does."""
    if dotted in registered_names():
        return None
    steps = dotted.split(".")
    depth = next(n for n in range(len(steps), 0, -1) if ".".join(steps[:n]) in modules())
    value: object = importlib.import_module(".".join(steps[:depth]))
    for at, step in enumerate(steps[depth:], depth):
        if not has_attribute(value, step):
            prefix = ".".join(steps[:at])
            inner = {name.removeprefix(prefix + ".") for name in modules() if name.startswith(prefix + ".")}
            return f"{prefix}.{closest(step, {*inner, *(n for n in dir(value) if n[0] != '_')})}"
        value = getattr(value, step, None)
    return None


@cache
def source_paths() -> frozenset[str]:
    """Return every file and folder of the repository, as seen from its root and from the package."""
    found = set()
    for folder in ("src", "tests", "tools", "docs", "bench", "examples", ".ci"):
        for path in (ROOT / folder, *(ROOT / folder).rglob("*")):
            if "__pycache__" not in path.parts:
                found.add(path.relative_to(ROOT).as_posix())
    inside = {name.removeprefix("src/rankloop/") for name in found if name.startswith("src/rankloop/")}
    return frozenset(found | inside)


@dataclass(frozen=True)
class KnownCommand:
    """A command with the options that may stand before and after its name."""

    name: str
    options: frozenset[str]
    is_group: bool


@cache
def commands() -> dict[str, KnownCommand]:
    """Return every command by its full name; `rankloop` itself is one, too."""
    top = parser()
    found = {"rankloop": KnownCommand("rankloop", frozenset(cli.options(top)), True)}
    programs: list[tuple[str, ArgumentParser]] = [(prog, inner) for prog, _, inner in cli.commands(top)]
    names = [prog for prog, _ in programs]
    for prog, inner in programs:
        options = cli.options(inner) | set(found[prog.rsplit(" ", 1)[0]].options)
        is_group = any(other.startswith(prog + " ") for other in names)
        found[prog] = KnownCommand(prog, frozenset(options), is_group)
    return found


@cache
def options() -> frozenset[str]:
    """Return the options of all commands, and of the scripts in tools/ and bench/."""
    found = {option for command in commands().values() for option in command.options}
    for folder in ("tools", "bench"):
        for path in (ROOT / folder).rglob("*.py"):
            found |= set(re.findall(r'"(--[a-z][\w-]*)"', path.read_text(encoding="utf-8")))
    return frozenset(found)


@cache
def package_variables() -> frozenset[str]:
    """Return the environment variables that the package reads."""
    return frozenset({*service_variables(), *environment_variables()})


@cache
def variables() -> frozenset[str]:
    """Return the environment variables that the package, the tests, the tools and the Makefile read."""
    found = {*package_variables(), *(PREFIX + name.upper() for name in ServiceSettings.__struct_fields__)}
    for folder in ("tests", "tools", "bench"):
        found |= set(environment_variables(ROOT / folder))
    return frozenset(found | set(re.findall(r"RANKLOOP_[A-Z_]+", (ROOT / "Makefile").read_text(encoding="utf-8"))))


@cache
def targets() -> frozenset[str]:
    """Return the targets of the Makefile."""
    return frozenset(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@cache
def routes() -> frozenset[tuple[str, str]]:
    """Return every method and path of the service, also those that are not in the OpenAPI document."""
    found = {(one.method, one.path) for one in endpoints()[0]}
    with application() as app:
        plain = [route for route in app.routes if isinstance(route, Route)]
    return frozenset(found | {(method, route.path) for route in plain for method in route.methods or ()})


def is_route(method: str | None, path: str) -> bool:
    """Return whether a path is one of the service; `…/rank` stands for every path that ends so."""
    path = path.split("?")[0].rstrip(".,;")
    ending = path.startswith(("…/", ".../"))
    wanted = (path.split("/", 1)[1] if ending else path.strip("/")).split("/")
    for known_method, known in routes():
        steps = known.strip("/").split("/")
        if method is not None and method != known_method:
            continue
        if ending:
            steps = steps[-len(wanted) :]
        if len(steps) == len(wanted) and all(map(_fits, wanted, steps)):
            return True
    return False


def _fits(given: str, known: str) -> bool:
    return given == known or bool(PARAMETER.fullmatch(known)) or (bool(PARAMETER.fullmatch(given)) and known[0] == "{")


@cache
def metric_names() -> frozenset[str]:
    """Return the names of all metrics and of their time series."""
    return frozenset(name for metric in metrics() for name in (metric.name, *metric.exposed))
