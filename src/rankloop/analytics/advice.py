"""Which settings fit visitors who click in another way than a policy assumes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rankloop.analytics.click_assumptions import ClickAssumptions
from rankloop.catalogue.setting_use import unread_by

WORDS = {
    "cascade": "visitors read from the top and stop at the first click: read clicks as a cascade",
    "last-click": "visitors read from the top and may go on after a click: read clicks down to the last",
    "semi-bandit": "visitors look at the whole list: read every slot as seen",
    "position-based": "visitors look at lower places less: read clicks with the bias of each place",
    "choice": "visitors click once and look at lower places less: read a list as one choice, and learn the biases",
}
CORRECT = "places are looked at otherwise than the bias says: correct it"
ANY = "gts"
"""A policy that takes any of these, for those whose policy does not."""
CHOOSES = "epoch-ucb-upb-star"
"""A policy of choice that learns biases by itself."""


def advise(
    assumes: ClickAssumptions, feedback: str, bias: Sequence[float] | None = None
) -> tuple[str, dict[str, object] | None]:
    """What to do, in words and as settings that replace the ranker's; None where they would not be accepted."""
    settings = _settings(assumes, feedback, bias)
    same = feedback == assumes.feedback and assumes.bias is not None
    words = f"It seems that {CORRECT if same else WORDS[feedback]}"
    if settings is None:
        return f"{words}.", None
    told = dict(settings)
    if bias is not None and told.get("bias") is not None:
        told["bias"] = [f"{one:g}" for one in bias]
    return f"{words} ({', '.join(f'{name}: {_plain(value)}' for name, value in told.items())}).", settings


def _settings(assumes: ClickAssumptions, feedback: str, bias: Sequence[float] | None) -> dict[str, object] | None:
    made: dict[str, Any] = {}
    if feedback == "position-based" or (assumes.bias is not None and feedback == assumes.feedback):
        if bias is None or len(bias) != assumes.slots:
            return None
        made["bias"] = list(bias)
    if feedback == assumes.feedback:
        pass
    elif feedback == "choice":
        made["policy"] = CHOOSES
    elif assumes.takes_feedback and (feedback != "position-based" or assumes.fractional):
        made["params"] = {**assumes.settings.params, "feedback": feedback}
    else:
        made |= {"policy": "pbm-ucb"} if made else {"policy": ANY, "params": {"feedback": feedback}}
    if "policy" in made:
        kept = assumes.settings.as_mapping()
        kept.pop("params", None)
        there = [name for name, value in kept.items() if name != "objective" or value != "any-click"]
        for name in unread_by(made["policy"], made.get("params", {}), there):
            made.setdefault(name, None)
    return made if assumes.accepts(made) else None


def _plain(value: object) -> str:
    """As it would stand in a file of settings."""
    return json.dumps(value, ensure_ascii=False).replace('"', "")
