"""The composition inside wrappers."""

from __future__ import annotations

from typing import Any

from rankloop.policy import Policy, Ranks


def belief_of(policy: Ranks, state: Any) -> tuple[Policy[Any] | None, Any]:
    """The policy that wrappers are around, and its belief's state; nothing where it is no composition."""
    inner: Any = policy
    while not isinstance(inner, Policy) and hasattr(inner, "policy"):
        inner, state = inner.policy, getattr(state, "inner", state)
    return (inner, state.belief) if isinstance(inner, Policy) else (None, None)
