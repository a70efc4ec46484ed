"""Format numbers, durations and times for reports."""

from __future__ import annotations

import math
from datetime import UTC, datetime

UNITS = ((86400.0 * 365, "year"), (86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))


def digits(share: float) -> int:
    """Return the decimals that give a percentage three significant digits."""
    size = abs(100.0 * share)
    return 1 if size >= 10 else 2 if size >= 1 else 3


def percent(share: float | None, decimals: int | None = None) -> str:
    """Return a share as a percentage."""
    if share is None:
        return "–"
    return f"{100.0 * share:.{digits(share) if decimals is None else decimals}f} %"


def signed(share: float, decimals: int) -> str:
    """Return a difference of shares in percentage points, with its sign."""
    return f"{100.0 * share:+.{decimals}f}".replace("-", "−")


def probability(p: float) -> str:
    """Return a probability as a percentage; never 0 or 100 %."""
    return "more than 99.9 %" if p > 0.999 else "less than 0.1 %" if p < 0.001 else f"{100.0 * p:.1f} %"


def number(value: float) -> str:
    """Return a number with three significant digits."""
    if not math.isfinite(value):
        return "–"
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}").replace("-", "−")


def count(n: float, noun: str = "") -> str:
    """Return a count, with the noun in singular or plural."""
    text = f"{n:,.0f}"
    return f"{text} {noun}{'' if round(n) == 1 else 's'}" if noun else text


def rounded(n: float) -> str:
    """Return a rough estimate with two significant digits."""
    if n < 100:
        return f"{n:.0f}"
    scale = 10 ** (math.floor(math.log10(n)) - 1)
    return f"{round(n / scale) * scale:,}"


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that fits."""
    for size, unit in UNITS:
        if seconds >= size or size == 1.0:
            n = seconds / size
            text = f"{n:.1f}".removesuffix(".0") if n < 10 else f"{n:,.0f}"
            return f"{text} {unit}{'' if text == '1' else 's'}"
    return ""  # pragma: no cover


def moment(time: float) -> str:
    """Return a Unix time as date and time of day, UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")
