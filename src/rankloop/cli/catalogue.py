"""`rankloop policies` and `rankloop worlds`: list them, or describe one."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rankloop.cli.options import Commands, add_policies, load_policies

if TYPE_CHECKING:
    from rankloop.catalogue import PolicyEntry


def add_to(commands: Commands) -> None:
    """Add both commands."""
    policies = commands.add_parser(
        "policies",
        help="List the policies, or describe one.",
        description="List the policies, or show the formula, reference and parameters of one.",
    )
    policies.add_argument("id", nargs="?", help="Id of the policy to describe.")
    add_policies(policies)
    policies.set_defaults(run=show_policies)
    worlds = commands.add_parser(
        "worlds",
        help="List the simulated worlds, or describe one.",
        description="List the kinds of simulated worlds, or show the fields of one.",
    )
    worlds.add_argument("kind", nargs="?", help="Kind of the world to describe.")
    worlds.set_defaults(run=show_worlds)


def show_policies(args: argparse.Namespace) -> None:
    """Print one line for each policy, or one policy in full."""
    from rankloop import catalogue

    load_policies(args)
    if args.id is not None:
        print(describe(catalogue.find(args.id)))
        return
    rows = [(entry.id, entry.paper, entry.feedback, with_advice(entry)) for entry in catalogue.entries()]
    _print_table(("id", "paper", "feedback", "what it does"), rows)


def with_advice(entry: PolicyEntry) -> str:
    """Return what a policy does in one line, and what to use instead where its radius is a worst-case bound."""
    return " ".join(filter(None, (entry.summary, entry.advice)))


def describe(entry: PolicyEntry) -> str:
    """Return a policy's docstring and parameters."""
    lines = [f"{entry.id}  (paper: {entry.paper}; feedback: {entry.feedback})", "", entry.doc, "", "Parameters:"]
    for param in entry.params:
        default = "null" if param.default is None else param.default
        lines.append(f"  {param.name} = {default}: {param.accepted}")
    lines.append(
        "  feedback: click model, if not the policy's default: cascade, last-click, position-based or semi-bandit"
    )
    lines.append("  every: number of rounds in a batch; the policy learns after each batch")
    if entry.practical:
        lines.append(
            "The default radius is the one that the analysis needs in the worst case, and learns slowly; in practice "
            f"use {entry.practical}."
        )
    if entry.needs:
        lines.append(f"Requires of the world: {', '.join(entry.needs)}.")
    return "\n".join(lines)


def show_worlds(args: argparse.Namespace) -> None:
    """Print one line for each kind of world, or one kind in full."""
    from rankloop import validate
    from rankloop.worlds import KINDS

    if args.kind is not None:
        print(f"{args.kind}\n\n{inspect.getdoc(KINDS[validate.choice('kind', args.kind, KINDS)])}")
        return
    _print_table(("kind", "what a visitor does"), [(kind, _first_line(make)) for kind, make in KINDS.items()])


def _first_line(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").split("\n")[0]


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[c]) for row in (head, *rows)) for c in range(len(head) - 1)]
    for row in (head, *rows):
        print("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]))
