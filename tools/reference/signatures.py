"""Signatures as a reader writes them, without addresses of objects and without the package's private modules."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

WIDTH = 100
"""Characters of a signature on one line; a longer one has a line for each parameter."""


def signature(name: str, function: Callable[..., Any], *, bound: bool = False) -> str:
    """Return `name(parameters) -> result`; `bound` leaves out the first parameter."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return f"{name}(...)"
    parameters = list(found.parameters.values())[1 if bound else 0 :]
    result = "" if found.return_annotation in (inspect.Signature.empty, None) else f" -> {_type(found)}"
    words = _parameters(parameters)
    line = f"{name}({', '.join(words)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){result}"])


def _type(found: inspect.Signature) -> str:
    return annotation(found.return_annotation)


def annotation(kind: object) -> str:
    """Return a type as source text."""
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return re.sub(r"\b(?:rankloop|collections|typing|pathlib|numpy)(?:\.\w+)*\.(\w+)", r"\1", text)


def default(value: object) -> str:
    """Return a default value as source text; an object that has none is named by its type."""
    if inspect.isroutine(value) or inspect.isclass(value):
        return str(getattr(value, "__name__", "..."))
    text = repr(value)
    return "..." if " at 0x" in text or text.startswith("<") else text


def _parameters(parameters: list[inspect.Parameter]) -> list[str]:
    words: list[str] = []
    for at, one in enumerate(parameters):
        star = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        if one.kind is one.KEYWORD_ONLY and not any(
            p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL) for p in parameters[:at]
        ):
            words.append("*")
        typed = "" if one.annotation is one.empty else f": {annotation(one.annotation)}"
        equals = " = " if typed else "="
        words.append(star + one.name + typed + ("" if one.default is one.empty else equals + default(one.default)))
        last = at + 1 == len(parameters) or parameters[at + 1].kind is not one.POSITIONAL_ONLY
        if one.kind is one.POSITIONAL_ONLY and last:
            words.append("/")
    return words
