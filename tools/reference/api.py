"""docs/reference/api.md and parts.md: the public Python API, with signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Container, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import msgspec

from rankloop.schema.base import Payload
from tools.reference.markdown import code, docstring, escaped, first_line, page, sentence, table
from tools.reference.signatures import annotation, default, signature
from tools.reference.source import field_comments

PUBLIC = (
    "rankloop",
    "rankloop.connection",
    "rankloop.client",
    "rankloop.serving",
    "rankloop.simulator",
    "rankloop.checks",
)
"""Modules whose whole `__all__` is described."""
PARTS = (
    "rankloop.design",
    "rankloop.belief",
    "rankloop.explore",
    "rankloop.plan",
    "rankloop.feedback",
    "rankloop.wrappers",
    "rankloop.propensity",
)
"""Modules of the parts of a policy: interfaces are described, implementations are listed."""


def api_page() -> str:
    """Return the page of the public API."""
    intro = [
        "[Parts of a policy](parts.md) describes what a new belief, exploration rule, planner or wrapper implements.",
        "",
    ]
    described: set[int] = set()
    modules = (_module(import_module(module), described) for module in PUBLIC)
    return page("Python API", "the public modules of `rankloop`", intro, *modules)


def parts_page() -> str:
    """Return the page of the parts of a policy."""
    intro = ["What a part must or may implement; [Add a policy](../how-to/add-a-policy.md) shows how.", ""]
    modules = (_parts(import_module(module)) for module in PARTS)
    return page("Parts of a policy", "the modules that a policy is composed of", intro, *modules)


def public_names(module: ModuleType) -> list[str]:
    """Return the public names of a module: those of `__all__`, or those that it defines itself."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return sorted((name for name in names if not name.startswith("_")), key=str.lower)


def _module(module: ModuleType, described: set[int]) -> Iterator[str]:
    values = {name: getattr(module, name) for name in public_names(module)}
    new = {name: value for name, value in values.items() if id(value) not in described}
    described.update(id(value) for value in new.values() if inspect.isclass(value) or inspect.isroutine(value))
    yield from (f"## {module.__name__}", "", first_line(module), "")
    errors = {name: value for name, value in new.items() if inspect.isclass(value) and issubclass(value, Exception)}
    for name, value in new.items():
        if name in errors:
            continue
        if inspect.isclass(value):
            yield from _class(name, value, set(values))
        elif callable(value) and not _is_alias(value):
            yield from (f"### {name}", "", "```python", signature(name, value), "```", "", *docstring(value), "")
        else:
            yield from (f"### {name}", "", "```python", f"{name} = {_value(value)}", "```", "")
    if errors:
        yield from ("### Errors", "")
        rows = [(code(name), str(getattr(value, "status", "")), first_line(value)) for name, value in errors.items()]
        yield from table(("error", "HTTP status", "meaning"), rows)
        yield ""
    if repeated := [name for name in values if name not in new]:
        yield f"Also importable from here, described above: {', '.join(code(name) for name in repeated)}."
        yield ""


def _is_alias(value: object) -> bool:
    return hasattr(value, "__origin__")


def _value(value: object) -> str:
    return annotation(value) if _is_alias(value) else default(value)


def _class(name: str, kind: type[Any], described: Container[str]) -> Iterator[str]:
    yield from (f"### {name}", "")
    if not getattr(kind, "_is_protocol", False):
        yield from ("```python", signature(name, kind), "```", "")
    yield from docstring(kind)
    yield ""
    if issubclass(kind, Payload):
        yield from ("Its fields are described in [Settings](settings.md).", "")
    elif rows := list(_fields(kind)):
        yield from (*table(("field", "type", "default", "meaning"), rows), "")
    inherited: dict[str, list[str]] = {}
    for method, value, home in _methods(kind):
        if home is not kind and home.__name__ in described:
            inherited.setdefault(home.__name__, []).append(method)
            continue
        yield from (f"#### {name}.{method}", "")
        yield from ("```python", _declared(method, value), "```", "", *docstring(value), "")
    for base, methods in inherited.items():
        yield from (f"Inherited from `{base}`: {', '.join(map(code, methods))}.", "")


def _fields(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    comments = field_comments(kind) if dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) else {}
    if dataclasses.is_dataclass(kind):
        for one in dataclasses.fields(kind):
            usual = "required" if one.default is dataclasses.MISSING else code(default(one.default))
            if one.default_factory is not dataclasses.MISSING:
                usual = code(f"{getattr(one.default_factory, '__name__', '...')}()")
            yield code(one.name), code(annotation(one.type)), usual, sentence(escaped(comments.get(one.name, "")))
    elif issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            usual = "required" if field.required else code(default(field.default))
            yield code(field.name), code(annotation(field.type)), usual, sentence(escaped(comments.get(field.name, "")))


def _methods(kind: type[Any]) -> Iterator[tuple[str, Any, type]]:
    """Yield public methods and properties that the package defines, those of base classes too, and who defines them."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("rankloop") or (base is Payload and kind is not Payload):
            continue
        for name, value in vars(base).items():
            documented = isinstance(value, (property, classmethod, staticmethod)) or inspect.isroutine(value)
            if not name.startswith("_") and documented and name not in seen:
                seen.add(name)
                yield name, value, base


def _declared(name: str, value: Any) -> str:
    if isinstance(value, property):
        kind = inspect.signature(value.fget).return_annotation if value.fget else "Any"
        return f"@property\n{name}: {annotation(kind)}"
    if isinstance(value, classmethod):
        return f"@classmethod\n{signature(name, value.__func__, bound=True)}"
    if isinstance(value, staticmethod):
        return f"@staticmethod\n{signature(name, value.__func__)}"
    prefix = "async " if inspect.iscoroutinefunction(value) else ""
    return prefix + signature(name, value, bound=True)


def _parts(module: ModuleType) -> Iterator[str]:
    yield from (f"## {module.__name__}", "", first_line(module), "")
    rows, interfaces = [], []
    for name in public_names(module):
        value = getattr(module, name)
        if not inspect.isclass(value):
            continue
        if getattr(value, "_is_protocol", False) or inspect.isabstract(value):
            interfaces.append((name, value))
        else:
            rows.append((code(name), first_line(value)))
    names = {name for name, _ in interfaces}
    for name, value in interfaces:
        yield from _class(name, value, names)
    if rows:
        yield from (*table(("class", "what it is"), rows), "")
