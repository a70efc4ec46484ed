"""Numbers as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

UNITS = ((86400.0 * 365, "year"), (86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))


def digits(share: float) -> int:
    """Decimals of a percentage: three figures of it."""
    size = abs(100.0 * share)
    return 1 if size >= 10 else 2 if size >= 1 else 3


def percent(share: float | None, decimals: int | None = None) -> str:
    """A share as a percentage."""
    if share is None:
        return "–"
    return f"{100.0 * share:.{digits(share) if decimals is None else decimals}f} %"


def signed(share: float, decimals: int) -> str:
    """A difference in points of a percentage, with its sign."""
    return f"{100.0 * share:+.{decimals}f}".replace("-", "−")


def probability(p: float) -> str:
    """A probability that is never called certain."""
    return "more than 99.9 %" if p > 0.999 else "less than 0.1 %" if p < 0.001 else f"{100.0 * p:.1f} %"


def number(value: float) -> str:
    """Any number, to three figures."""
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def count(n: float, what: str = "") -> str:
    """How many, with the word for it."""
    words = f"{n:,.0f}"
    return f"{words} {what}{'' if round(n) == 1 else 's'}" if what else words


def about(n: float) -> str:
    """A large number to two figures: nobody knows it better."""
    if n < 100:
        return f"{n:.0f}"
    scale = 10 ** (math.floor(math.log10(n)) - 1)
    return f"{round(n / scale) * scale:,}"


def span(seconds: float) -> str:
    """How long, in the largest unit that fits."""
    for size, name in UNITS:
        if seconds >= size or size == 1.0:
            n = seconds / size
            shown = f"{n:.1f}".removesuffix(".0") if n < 10 else f"{n:,.0f}"
            return f"{shown} {name}{'' if shown == '1' else 's'}"
    return ""  # pragma: no cover


def moment(time: float) -> str:
    """A date and time of day, UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")
