"""What a planner is."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from rankloop.errors import InvalidInput
from rankloop.types import FloatArray, IntArray, Request, SlotScore


class Plan(NamedTuple):
    """Lists, the score that each item had for the slot it was given, and where luck decided between equal ones."""

    items: IntArray  # [B, k], EMPTY where nothing is shown
    scores: FloatArray  # [B, k], arbitrary in empty slots
    rivals: IntArray | None = None  # [B, k] as in `Decision`; None where nothing tied


class Planner(Protocol):
    """Makes lists [B, k] of distinct allowed items; exact ties are broken uniformly at random.

    A planner gets a function and not an array: a score may depend on the slot and on the prefix.
    Where fewer than k items are allowed, the last slots stay empty (-1).
    """

    def __call__(self, score: SlotScore, request: Request, rng: np.random.Generator) -> Plan:
        """The lists for this request."""


def check_slots(request: Request, slots: int) -> None:
    """Refuse a request for more slots than a policy was built for."""
    most = request.k if request.slots is None else int(request.slots.max(initial=-1)) + 1
    if most > slots:
        raise InvalidInput("request.k", most, f"at most {slots}, the slots that this policy was built for")
