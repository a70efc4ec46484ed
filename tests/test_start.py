"""A start loads only what it needs: no NumPy for `--help` or a client, no SciPy and no extras for a ranker.

Loaded modules are compared instead of seconds, which depend on the machine; `python -m tools.start_time` prints those.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest

from rankloop.cli.main import parser

NUMERICAL = {"numpy", "numba", "scipy"}
EXTRAS = {"matplotlib", "sklearn", "pandas", "pyarrow", "fastapi", "starlette", "httpx", "joblib", "yaml"}
LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"


def loaded_by(program: str) -> set[str]:
    """Return the modules that a program has loaded in a new interpreter."""
    run = subprocess.run([sys.executable, "-c", f"{program}\n{LOADED}"], capture_output=True, text=True, check=True)
    return set(json.loads(run.stderr))


def help_of(*arguments: str) -> str:
    return f"from rankloop.cli.main import main\ntry:\n    main({[*arguments, '--help']})\nexcept SystemExit:\n    pass"


def commands() -> list[str]:
    (action,) = [action for action in parser()._actions if action.choices]
    return sorted(action.choices or ())


def test_importing_the_package_loads_nothing_numerical() -> None:
    assert loaded_by("import rankloop") & (NUMERICAL | EXTRAS | {"msgspec"}) == set()


def test_a_client_needs_no_numpy() -> None:
    assert loaded_by("import rankloop.client") & (NUMERICAL | EXTRAS - {"httpx"}) == set()


def test_a_ranker_needs_no_function_of_scipy_and_no_extra() -> None:
    """Beyond those that Numba loads itself."""
    modules = loaded_by("import rankloop; rankloop.Ranker; rankloop.build") - loaded_by("import numpy, numba")
    assert "rankloop.serving.ranker" in modules
    assert (
        modules & (EXTRAS | {"scipy.special", "scipy.stats", "scipy.optimize", "scipy.sparse", "scipy.linalg"}) == set()
    )


@pytest.mark.parametrize("arguments", [(), *((command,) for command in commands())], ids=" ".join)
def test_help_loads_nothing_that_a_command_needs(arguments: tuple[str, ...]) -> None:
    assert loaded_by(help_of(*arguments)) & (NUMERICAL | EXTRAS) == set()


def test_every_command_and_option_is_documented_by_a_sentence() -> None:
    """Help texts start with a capital letter and end with a full stop, at every level."""
    texts: dict[str, str] = {}
    waiting = [parser()]
    while waiting:
        command = waiting.pop()
        for action in command._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
                texts |= {f"{command.prog} {verb.dest}": verb.help or "" for verb in action._get_subactions()}
            elif action.dest not in ("help", "version"):
                texts[f"{command.prog} {action.dest}"] = action.help or ""
    assert {name: text for name, text in texts.items() if not (text[:1].isupper() and text.endswith("."))} == {}
    assert len(texts) > 80
