"""`RewardSettings`: which kinds of feedback a ranker takes, and what they are worth together."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from rankloop.errors import InvalidInput, Words
from rankloop.schema.base import Payload
from rankloop.schema.identifiers import Id, printable
from rankloop.schema.limits import MAX_FLOAT, MAX_KINDS, MAX_MAGNITUDE

CLICK = "click"
"""The kind of a feedback event that names none."""
IMPRESSION = "impression"
"""The kind that says only that a list was shown; no kind of a reward has this name."""
Aggregation = Literal["sum", "earliest", "max"]
Learn = Literal["at-once", "at-close"]
Activation = Literal["decision", "impression"]
"""What makes a list count."""


class KindSettings(Payload, kw_only=True, frozen=True, omit_defaults=True):
    """What feedback of one kind is worth, and how long it counts."""

    where: ClassVar[str] = "kind"

    weight: Annotated[
        float,
        Meta(
            ge=-MAX_MAGNITUDE,
            le=MAX_MAGNITUDE,
            description="Factor of the values of this kind in what is learned about a slot. Values of weight 0 are"
            " counted and reported only. Where the objective counts clicks, it is 1 or 0.",
        ),
    ] = 1.0
    aggregate: Annotated[
        Aggregation,
        Meta(
            description="How several events of this kind for one decision are combined: sum, earliest (the first event"
            " counts) or max (of each slot)."
        ),
    ] = "sum"
    window: Annotated[
        Annotated[float, Meta(gt=0.0, le=MAX_FLOAT)] | None,
        Meta(description="Seconds during which this kind counts (default: the ranker's `window`, which is the most)."),
    ] = None


class RewardSettings(Payload, kw_only=True, frozen=True, omit_defaults=True):
    """Kinds of feedback, such as clicks and purchases, and when a list is learned from them."""

    where: ClassVar[str] = "reward"

    kinds: Annotated[dict[Id, KindSettings], Meta(description="The kinds of feedback that are accepted, by name.")]
    learn: Annotated[
        Learn,
        Meta(
            description="When a list is learned: at-once (with its first event, to which later ones are added, if the"
            " policy can amend) or at-close (when its window closes, or with its final event)."
        ),
    ] = "at-once"

    def __post_init__(self) -> None:
        """Refuse a section without kinds, too many of them, and names that cannot be printed or mean something else."""
        if not 1 <= len(self.kinds) <= MAX_KINDS:
            raise InvalidInput("kinds", Words(f"a mapping of {len(self.kinds)}"), f"1 to {MAX_KINDS} kinds")
        for name in self.kinds:
            printable("kinds", name)
        if IMPRESSION in self.kinds:
            raise InvalidInput("kinds", IMPRESSION, "other names: an impression says only that a list was shown")

    def check_within(self, where: str, window: float, objective: str) -> None:
        """Refuse what does not fit to the other settings of a ranker.

        Args:
            where: dotted name of this section.
            window: the ranker's feedback window, in seconds.
            objective: of the ranker.
        """
        for name, one in self.kinds.items():
            if one.window is not None and one.window > window:
                raise InvalidInput(
                    f"{where}.kinds.{name}.window", one.window, f"at most the ranker's window, {window:g}"
                )
            if objective != "amount" and one.weight not in (0.0, 1.0):
                accepted = f"1 or 0, since the objective is {objective}; other weights need the objective amount"
                raise InvalidInput(f"{where}.kinds.{name}.weight", one.weight, accepted)
        if all(one.weight == 0.0 for one in self.kinds.values()):
            raise InvalidInput(
                f"{where}.kinds", Words("without a weight"), "at least one kind of a weight other than 0"
            )
