"""Suggest settings that fit how visitors click, where a policy assumes another click model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rankloop.analytics.click_assumptions import ClickAssumptions
from rankloop.catalogue.setting_use import unread_by

CLICK_MODEL_ADVICE = {
    "cascade": "Visitors seem to scan from the top and stop at the first click: use the cascade click model",
    "last-click": "Visitors seem to scan from the top and may continue after a click: learn from all slots down to the "
    "last click",
    "semi-bandit": "Visitors seem to look at the whole list: learn from every slot",
    "position-based": "Visitors seem to look at lower slots less often: use a position-based click model",
    "choice": "Visitors seem to click once and to look at lower slots less often: use a choice model that learns the "
    "position bias",
}
BIAS_ADVICE = "The configured position bias does not match the clicks: correct it"
FALLBACK_POLICY = "gts"
"""Suggested where the policy in use does not accept another click model."""
CHOICE_POLICY = "epoch-ucb-upb-star"
"""A choice model that learns the position bias."""


def advise(
    assumes: ClickAssumptions, feedback: str, bias: Sequence[float] | None = None
) -> tuple[str, dict[str, object] | None]:
    """Return advice as a sentence and as settings to change; None for settings that the ranker would refuse.

    Args:
        assumes: what the policy in use assumes.
        feedback: the click model that fits.
        bias: estimated position bias by slot.
    """
    settings = _settings(assumes, feedback, bias)
    same_model = feedback == assumes.feedback and assumes.bias is not None
    text = BIAS_ADVICE if same_model else CLICK_MODEL_ADVICE[feedback]
    if settings is None:
        return f"{text}.", None
    printed = dict(settings)
    if bias is not None and printed.get("bias") is not None:
        printed["bias"] = [f"{one:g}" for one in bias]
    return f"{text} ({', '.join(f'{name}: {_plain(value)}' for name, value in printed.items())}).", settings


def _settings(assumes: ClickAssumptions, feedback: str, bias: Sequence[float] | None) -> dict[str, object] | None:
    changes: dict[str, Any] = {}
    if feedback == "position-based" or (assumes.bias is not None and feedback == assumes.feedback):
        if bias is None or len(bias) != assumes.slots:
            return None
        changes["bias"] = list(bias)
    if feedback == assumes.feedback:
        pass
    elif feedback == "choice":
        changes["policy"] = CHOICE_POLICY
    elif assumes.takes_feedback and (feedback != "position-based" or assumes.fractional):
        changes["params"] = {**assumes.settings.params, "feedback": feedback}
    else:
        changes |= {"policy": "pbm-ucb"} if changes else {"policy": FALLBACK_POLICY, "params": {"feedback": feedback}}
    if "policy" in changes:
        current = assumes.settings.as_mapping()
        current.pop("params", None)
        configured = [name for name, value in current.items() if name != "objective" or value != "any-click"]
        for name in unread_by(changes["policy"], changes.get("params", {}), configured):
            changes.setdefault(name, None)
    return changes if assumes.accepts(changes) else None


def _plain(value: object) -> str:
    """Return a value as a settings file would show it."""
    return json.dumps(value, ensure_ascii=False).replace('"', "")
