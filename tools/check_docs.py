"""Check that pages mention only what exists, and that docs/reference mentions everything that exists.

python -m tools.check_docs [PAGE ...]   # all pages without arguments
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

from rankloop.errors import InvalidInput, RankloopError
from rankloop.schema import (
    FeedbackEvent,
    Guardrail,
    Item,
    KindSettings,
    RankAnswer,
    RankerSettings,
    RankRequest,
    Receipt,
    RewardSettings,
)
from rankloop.schema.api_key import ApiKey
from rankloop.schema.connection_settings import ConnectionSettings
from rankloop.schema.service_settings import ServiceLimits, ServiceSettings, SnapshotSettings
from rankloop.simulator import Spec
from tools.reference import names

ROOT = names.ROOT
HISTORY = ("CHANGELOG.md",)
"""Pages that may name what no longer exists."""
FENCE = re.compile(r"^\s*(```+|~~~+)\s*(\w*)")
METHODS = "GET|POST|PUT|PATCH|DELETE"
SHELL = ("sh", "bash", "console", "shell")
REPOSITORY = ("src/", "tests/", "tools/", "docs/", "bench/", "examples/", ".ci/")
PARTS: Mapping[str, type] = {
    "guardrail": Guardrail,
    "reward": RewardSettings,
    "kinds": KindSettings,
    "limits": ServiceLimits,
    "connections": ConnectionSettings,
    "snapshots": SnapshotSettings,
}
BODIES: Mapping[str, type] = {
    "": RankerSettings, "challenger": RankerSettings, "rank": RankRequest, "feedback": FeedbackEvent,
}  # fmt: skip
"""What the body of a request to `/v1/rankers/NAME` and the paths below it is."""
BUILDERS = ("RankerConfig", "RankerSettings", "put_ranker", "put_challenger", "patch_ranker")
"""Functions whose keywords are settings of a ranker."""


@dataclass(frozen=True)
class DocProblem:
    """A name on a page that does not exist."""

    page: str
    line: int
    kind: str
    name: str
    closest: str = ""

    def __str__(self) -> str:
        hint = f"; the closest existing one is `{self.closest}`" if self.closest else ""
        return f"{self.page}:{self.line}: {self.kind} `{self.name}` does not exist{hint}."


@dataclass(frozen=True)
class Snippet:
    """Some code on a page: inline, or a block in a language."""

    line: int
    text: str
    language: str = "inline"


def pages() -> list[Path]:
    """Return all pages that describe the present: those at the root of the repository and those of docs/."""
    top = [path for path in sorted(ROOT.glob("*.md")) if path.name not in HISTORY]
    return top + sorted((ROOT / "docs").rglob("*.md"))


def snippets(text: str) -> Iterator[Snippet]:
    """Yield inline code and code blocks with the line where each starts."""
    prose: list[str] = []
    block: list[str] = []
    fence, language, start = "", "", 0
    for number, line in enumerate(text.split("\n"), 1):
        found = FENCE.match(line)
        if fence and found and found[1].startswith(fence) and not found[2]:
            yield Snippet(start, "\n".join(block), language or "text")
            fence, block = "", []
        elif fence:
            block.append(line)
        elif found:
            fence, language, start = found[1], found[2], number + 1
        prose.append("" if fence or found else line)
    whole = "\n".join(prose)
    for found in re.finditer(r"(?<!`)(`+)(?!`)((?:[^\n]|\n(?!\n))+?)(?<!`)\1(?!`)", whole):
        yield Snippet(whole.count("\n", 0, found.start()) + 1, " ".join(found[2].split()))


def check_page(path: Path) -> list[DocProblem]:
    """Return every name on a page that does not exist."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    text = path.read_text(encoding="utf-8")
    found = [DocProblem(name, line, kind, what, near) for line, kind, what, near in _mentions(text)]
    return list(dict.fromkeys(found))


Finding = tuple[int, str, str, str]


def _mentions(text: str) -> Iterator[Finding]:
    for number, line in enumerate(text.split("\n"), 1):
        for name in re.findall(r"\bRANKLOOP_[A-Z](?:[A-Z_]*[A-Z])?\b(?!_?…)", line):
            if name not in names.variables():
                yield number, "environment variable", name, names.closest(name, names.variables())
    for snippet in snippets(text):
        yield from ((snippet.line + at, kind, name, near) for at, kind, name, near in _check(snippet))


def _check(snippet: Snippet) -> Iterator[Finding]:
    """Yield problems of a snippet, with lines counted from its start."""
    if snippet.language == "inline":
        yield from _inline(snippet.text)
    elif snippet.language in SHELL:
        for at, command in _commands(snippet.text):
            yield from ((at, *problem) for problem in _shell(command))
    elif snippet.language in ("python", "py"):
        yield from _python(snippet.text)
    elif snippet.language in ("yaml", "json"):
        yield from _settings_block(snippet)
    else:
        for at, line in enumerate(snippet.text.split("\n")):
            if (command := line.strip()).startswith("$ "):
                yield from ((at, *problem) for problem in _shell(command.removeprefix("$ ")))


def _inline(text: str) -> Iterator[Finding]:
    for problem in (*_shell(text), *_endpoints(text)):
        yield (0, *problem)
    for dotted in re.findall(r"(?<![\w/.-])(rankloop(?:\.[A-Za-z_]\w*)+)", text):
        suffix = dotted.rsplit(".", 1)[1]
        if suffix not in ("db", "py", "yaml", "yml", "org") and (near := names.closest_python_name(dotted)):
            yield 0, "Python name", dotted, near
    if (found := re.match(r"^([A-Z]\w+)\.([a-z_]\w*)(?:\(.*\))?$", text)) and found[1] in names.classes():
        kind = names.classes()[found[1]]
        if not names.has_attribute(kind, found[2]):
            public = [name for name in dir(kind) if name[0] != "_"]
            yield 0, "attribute", f"{found[1]}.{found[2]}", f"{found[1]}.{names.closest(found[2], public)}"
    for path in re.findall(r"^(?:[\w.-]+/)*[\w.-]+(?:\.\w+)?/?$", text):
        source = path.startswith(REPOSITORY) or (path.endswith(".py") and "/" in path)
        if source and path.rstrip("/") not in names.source_paths():
            yield 0, "file", path, names.closest(path, names.source_paths())
    for option in re.findall(r"^(--[a-z][\w-]*)", text):
        if option not in names.options():
            yield 0, "option", option, names.closest(option, names.options())
    for metric in re.findall(r"^(rankloop_[a-z_]+)(?:\{.*\})?$", text):
        if metric not in names.metric_names():
            yield 0, "metric", metric, names.closest(metric, names.metric_names())


Problem = tuple[str, str, str]


def _endpoints(text: str) -> Iterator[Problem]:
    for method, path in re.findall(rf"\b({METHODS}) ((?:…|\.\.\.)?/[^\s`'\"]*)", text):
        if not names.is_route(method, path):
            known = [f"{known} {path}" for known, path in names.routes()]
            if not path.startswith("/"):
                known = [route.replace("/v1/rankers/{name}/", "…/") for route in known]
            yield "endpoint", f"{method} {path}", names.closest(f"{method} {path}", known)
    for path in re.findall(r"(/v1/[^\s`'\"]*)", text):
        if not re.search(rf"(?:{METHODS}) {re.escape(path)}", text) and not _named(path):
            yield "path", path, names.closest(path, [known for _, known in names.routes()])


def _named(path: str) -> bool:
    """Return whether a path exists for some method, with real names in place of its parameters."""
    steps = path.split("?")[0].rstrip(".,;").strip("/").split("/")
    for _, known in names.routes():
        wanted = known.strip("/").split("/")
        if len(wanted) == len(steps) and all(a == b or b[0] == "{" for a, b in zip(steps, wanted, strict=True)):
            return True
    return False


def _commands(block: str) -> Iterator[tuple[int, str]]:
    """Yield the commands of a shell block with their lines; a backslash or an open quote continues one."""
    pending, start = "", 0
    for at, line in enumerate(block.split("\n")):
        start = start if pending else at
        pending += ("\n" if pending else "") + line.removeprefix("$ ")
        if pending.endswith("\\"):
            pending = pending[:-1]
            continue
        try:
            shlex.split(pending, comments=True)
        except ValueError:
            continue
        yield start, pending
        pending = ""


def _shell(text: str) -> Iterator[Problem]:
    try:
        words = shlex.split(text, comments="\n" not in text)
    except ValueError:
        words = text.split()
    for at, word in enumerate(words):
        starts = at == 0 or words[at - 1] in ("&&", "|", "||", ";", "&", "nohup", "exec") or "=" in words[at - 1]
        if word == "make" and starts and at + 1 < len(words):
            target = words[at + 1].rstrip(",.;:")
            if re.fullmatch(r"[a-z][\w-]*", target) and target not in names.targets():
                yield "make target", f"make {target}", f"make {names.closest(target, names.targets())}"
        elif (word == "rankloop" and starts) or word.endswith("/rankloop"):
            yield from _invocation(words[at + 1 :])
    if words[:1] == ["curl"]:
        yield from (*_endpoints(text), *_curl_body(text))


def _invocation(words: Sequence[str]) -> Iterator[Problem]:
    """Yield the words of a `rankloop …` command that do not exist: the command, its verb, its options."""
    command = names.commands()["rankloop"]
    for at, word in enumerate(words):
        if word in ("&", "&&", "|", "||", ";", ">", "2>", "<"):
            return
        option = word.split("=")[0].rstrip(",.;:")
        if option.startswith("--"):
            verbs = [one for name, one in names.commands().items() if name.startswith(command.name + " ")]
            known = {*command.options, *(option for verb in verbs for option in verb.options)}
            if option not in known:
                yield "option", f"{command.name} {option}", names.closest(option, known)
            if option == "--set" and at + 1 < len(words):
                yield from _fields({words[at + 1].split("=")[0]: None}, RankerSettings)
        elif command.is_group and re.fullmatch(r"[a-z][a-z-]*", word.rstrip(",.;:")):
            after_option = at > 0 and words[at - 1].startswith("--") and "=" not in words[at - 1]
            name = f"{command.name} {word.rstrip(',.;:')}"
            if name in names.commands():
                command = names.commands()[name]
            elif not after_option:
                yield "command", name, names.closest(name, names.commands())
                return
        elif command.is_group and re.match(r"[A-Z…]", word):
            return
        elif command.name == "rankloop rankers set" and re.match(r"[a-z_]+=", word):
            yield from _fields({option: None}, RankerSettings)


def _curl_body(text: str) -> Iterator[Problem]:
    target = re.search(r"/v1/rankers/[^/\s'\"]+(?:/([\w/]+))?", text)
    for body in re.findall(r"'(\{.*?\})'", text, re.DOTALL):
        try:
            given = json.loads(body)
        except ValueError:
            continue
        if target and target[1] == "items":
            for item in given.get("items", ()):
                yield from _fields(item, Item)
        elif target and (target[1] or "") in BODIES:
            yield from _fields(given, BODIES[target[1] or ""])


def _fields(given: Mapping[str, object], kind: type) -> Iterator[Problem]:
    """Yield the keys of a mapping that are no fields of a payload, those of its parts too."""
    known = [name for field in msgspec.structs.fields(kind) for name in (field.encode_name, field.name)]
    for name, value in given.items():
        if name not in known:
            yield f"field of {kind.__name__}", name, names.closest(name, known)
        elif name in PARTS and isinstance(value, Mapping) and kind in (RankerSettings, ServiceSettings):
            yield from _fields(value, PARTS[name])
        elif kind is ServiceSettings and name == "rankers" and isinstance(value, Mapping):
            for config in value.values():
                yield from _fields(config or {}, RankerSettings)
        elif kind is ServiceSettings and name == "keys" and isinstance(value, list):
            for key in value:
                yield from _fields(key, ApiKey)


def _settings_block(snippet: Snippet) -> Iterator[Finding]:
    try:
        given = yaml.safe_load(snippet.text)
    except yaml.YAMLError:
        yield 0, f"{snippet.language} block", "that can be parsed", ""
        return
    if not isinstance(given, dict):
        return
    problems: list[Problem] = []
    if "world" in given:
        try:
            Spec.of(given)
        except InvalidInput as error:
            if "polic" not in str(error):  # the page may define its own policies
                problems.append(("setting of a specification in", str(error), ""))
        except RankloopError:
            pass  # it needs data sets that are not here
    elif {"rankers", "limits", "snapshots", "keys", "log", "cors_origins"} & given.keys():
        problems += _fields(given, ServiceSettings)
    elif "decision" in given:
        kinds = (RankAnswer, Receipt, FeedbackEvent)
        problems += _fields(given, max(kinds, key=lambda kind: len(given.keys() & set(kind.__struct_fields__))))
    elif "policy" in given:
        problems += _fields(given, RankerSettings)
    for kind, name, near in problems:
        at = next((n for n, line in enumerate(snippet.text.split("\n")) if f"{name}" in line), 0)
        yield at, kind, name, near


def _python(text: str) -> Iterator[Finding]:
    try:
        tree = ast.parse(re.sub(r"^(>>>|\.\.\.) ?", "", text, flags=re.MULTILINE) if ">>>" in text else text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 1) - 1
        imported: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "rankloop":
            imported = [f"{node.module}.{one.name}" for one in node.names]
        elif isinstance(node, ast.Import):
            imported = [one.name for one in node.names if one.name.split(".")[0] == "rankloop"]
        for dotted in imported:
            if near := names.closest_python_name(dotted):
                yield line, "Python name", dotted, near
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in BUILDERS:
                given = {one.arg: None for one in node.keywords if one.arg and one.arg not in ("config", "reset")}
                yield from ((line, *problem) for problem in _fields(given, RankerSettings))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every problem of the pages given, or of all pages; return 1 where there are any."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    problems = [problem for path in map(Path, given or pages()) for problem in check_page(path.resolve())]
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
