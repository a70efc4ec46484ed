"""Write what the catalogue drives: the README's table of policies, docs/policies.md and docs/worlds.md.

python -m tools.generate          # write
python -m tools.generate --check  # fail if anything is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

from rankloop import catalogue
from rankloop.cli.listing import describe
from rankloop.worlds import KINDS

ROOT = Path(__file__).parent.parent
START, END = "<!-- policies:start -->", "<!-- policies:end -->"


def readme() -> str:
    """The README with the table between its marks renewed."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = ["| id | paper | reads clicks as | what it does |", "|---|---|---|---|"]
    rows += [f"| `{e.id}` | {e.paper} | {e.feedback} | {e.summary} |" for e in catalogue.entries()]
    table = "\n".join([START, *rows, END])
    return re.sub(f"{START}.*{END}", lambda _: table, text, flags=re.DOTALL)


def policies_page() -> str:
    """Every policy with formula, parameters and reference."""
    parts = ["# Policies", "", "Generated from the catalogue: `rankloop policies ID` prints the same.", ""]
    for entry in catalogue.entries():
        parts += [f"## {entry.id}", "", "```text", describe(entry), "```", ""]
    return "\n".join(parts)


def worlds_page() -> str:
    """Every kind of world with its fields."""
    parts = ["# Worlds", "", "Generated from the kinds: `rankloop worlds KIND` prints the same.", ""]
    for kind, make in KINDS.items():
        parts += [f"## {kind}", "", "```text", inspect.getdoc(make) or "", "```", ""]
    return "\n".join(parts)


def main() -> int:
    """Write the pages, or with --check compare them."""
    pages = {"README.md": readme(), "docs/policies.md": policies_page(), "docs/worlds.md": worlds_page()}
    stale = [n for n, text in pages.items() if not (ROOT / n).exists() or (ROOT / n).read_text("utf-8") != text]
    if "--check" in sys.argv:
        for name in stale:
            print(f"{name} is out of date: run `make generate`.", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(pages[name], encoding="utf-8")
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
