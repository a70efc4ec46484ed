"""`rankloop policies` and `rankloop worlds`: what there is."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence

from rankloop import catalogue, validate
from rankloop.cli.options import Commands, add_policies, use_policies
from rankloop.worlds import KINDS


def add_to(commands: Commands) -> None:
    """Add both commands."""
    policies = commands.add_parser("policies", help="list the policies, or show one with its formula")
    policies.add_argument("id", nargs="?", help="show this policy's formula and parameters")
    add_policies(policies)
    policies.set_defaults(run=show_policies)
    worlds = commands.add_parser("worlds", help="list the kinds of simulated visitors, or show one with its fields")
    worlds.add_argument("kind", nargs="?", help="show this world's fields")
    worlds.set_defaults(run=show_worlds)


def show_policies(given: argparse.Namespace) -> None:
    """One line each, or one in full."""
    use_policies(given)
    if given.id is not None:
        print(describe(catalogue.find(given.id)))
        return
    rows = [(entry.id, entry.paper, entry.feedback, entry.summary) for entry in catalogue.entries()]
    _print_table(("id", "paper", "feedback", "what it does"), rows)


def describe(entry: catalogue.PolicyEntry) -> str:
    """A policy's docstring and parameters."""
    lines = [f"{entry.id}  (paper: {entry.paper}; feedback: {entry.feedback})", "", entry.doc, "", "Parameters:"]
    for param in entry.params:
        default = "null" if param.default is None else param.default
        lines.append(f"  {param.name} = {default}: {param.accepted}")
    lines.append(
        "  feedback: how clicks are read, if not in its own way: cascade, last-click, position-based, semi-bandit"
    )
    lines.append("  every: so many rounds are learned from together (batches)")
    if entry.needs:
        lines.append(f"Needs of the world: {', '.join(entry.needs)}.")
    return "\n".join(lines)


def show_worlds(given: argparse.Namespace) -> None:
    """One line each, or one in full."""
    if given.kind is not None:
        print(f"{given.kind}\n\n{inspect.getdoc(KINDS[validate.choice('kind', given.kind, KINDS)])}")
        return
    _print_table(("kind", "what a visitor does"), [(kind, _first_line(make)) for kind, make in KINDS.items()])


def _first_line(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").split("\n")[0]


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[c]) for row in (head, *rows)) for c in range(len(head) - 1)]
    for row in (head, *rows):
        print("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]))
