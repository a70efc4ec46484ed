"""docs/reference/cli.md: every command, argument and option of `rankloop`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from rankloop.cli.main import parser
from tools.reference.markdown import code, escaped, page, sentence, table


def commands(of: argparse.ArgumentParser | None = None) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield every command that can be run with its help, depth first: `rankloop log verify` and so on."""
    of = of or parser()
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            for name, inner in action.choices.items():
                yield inner.prog, helps.get(name, ""), inner
                yield from commands(inner)


def options(of: argparse.ArgumentParser) -> set[str]:
    """Return the options of one command, `--help` and `-h` included."""
    return {option for action in of._actions for option in action.option_strings}


def _is_group(of: argparse.ArgumentParser) -> bool:
    return any(isinstance(action, argparse._SubParsersAction) for action in of._actions)


def cli_page() -> str:
    """Return the page of the command line."""
    intro = ["Every command explains itself with `--help`. Exit status: 0 done, 1 failed, 2 wrong arguments,"]
    intro += ["130 interrupted.", ""]
    top = parser()
    found = list(commands(top))
    rows = [(f"[`{prog}`](#{prog.replace(' ', '-')})", sentence(escaped(help))) for prog, help, _ in found]
    general = _options(top)
    return page(
        "Command line",
        "the parsers of `rankloop.cli`",
        intro,
        table(("command", "what it does"), rows),
        ["", "## General options", "", *general],
        *(_command(*one) for one in found),
    )


def _command(prog: str, help: str, of: argparse.ArgumentParser) -> Iterator[str]:
    yield from (f"{'##' if prog.count(' ') == 1 else '###'} {prog}", "")
    text = of.description or help
    yield from (sentence(escaped(_expanded(text, of, {}))), "")
    if not _is_group(of):
        yield from ("```text", _synopsis(prog, of), "```", "")
    yield from _options(of)


def _options(of: argparse.ArgumentParser) -> list[str]:
    rows = []
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction | argparse._HelpAction):
            continue
        names = ", ".join(code(option) for option in action.option_strings) or code(_value(action))
        value = code(_value(action)) if action.option_strings and action.nargs != 0 else ""
        needed = "required" if action.required and action.nargs not in ("?", "*") else ""
        repeated = "repeatable" if isinstance(action, argparse._AppendAction) else ""
        note = ", ".join(filter(None, (needed, repeated)))
        text = sentence(escaped(_expanded(action.help or "", of, vars(action))))
        rows.append((names, value, note, text))
    return table(("argument or option", "value", "", "meaning"), rows) if rows else []


def _expanded(text: str, of: argparse.ArgumentParser, values: dict[str, object]) -> str:
    return text % {**values, "prog": of.prog} if "%" in text else text


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper() if action.option_strings else action.dest


def _synopsis(prog: str, of: argparse.ArgumentParser) -> str:
    words = [prog]
    for action in of._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        if not action.option_strings:
            name = _value(action)
            words.append({"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [...]"}.get(str(action.nargs), name))
        elif action.required:
            words.append(f"{action.option_strings[-1]} {_value(action)}")
    if any(action.option_strings and not action.required for action in of._actions):
        words.insert(1, "[OPTIONS]")
    return " ".join(words)
