"""The little that charts need of SVG: elements, scales, ticks. Colours are classes of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

Point = tuple[float, float]
STEPS = (60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000)
"""Seconds between the ticks of a time axis."""


def element(name: str, text: str = "", /, **attributes: str) -> str:
    """An element with escaped attributes; `text` is what stands inside, escaped already."""
    given = "".join(f' {_name(key)}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{given}>{text}</{name}>" if text else f"<{name}{given}/>"


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def number(value: float) -> str:
    """A length or a place on the page, to a hundredth."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def label(x: float, y: float, words: str, class_: str = "tick", anchor: str = "start") -> str:
    """Text at a point."""
    return element("text", escape(words), x=number(x), y=number(y), class_=class_, text_anchor=anchor)


def line(a: Point, b: Point, class_: str) -> str:
    """From one point to another."""
    return element("line", x1=number(a[0]), y1=number(a[1]), x2=number(b[0]), y2=number(b[1]), class_=class_)


def path(points: Sequence[Point], class_: str, close: bool = False) -> str:
    """A line through points, or the area that they enclose."""
    told = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return element("path", d=f"M{told}{' Z' if close else ''}", class_=class_)


def picture(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """An image that says what it shows."""
    told = element("title", escape(title))
    box = f"0 0 {width:.0f} {height:.0f}"
    return element("svg", told + "".join(parts), viewBox=box, role="img", class_="chart")


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places on the page."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a value stands."""
        size = (self.high - self.low) or 1.0
        return self.start + (value - self.low) / size * (self.end - self.start)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two."""
    if high <= low:
        return [low]
    rough = (high - low) / most
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1.0, 2.0, 5.0, 10.0) if size * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def hours(start: float, end: float, most: int = 6) -> list[tuple[float, str]]:
    """Round times between two, and what to call them."""
    step = next((one for one in STEPS if (end - start) / one <= most), STEPS[-1])
    first = math.ceil(start / step) * step
    pattern = "%H:%M" if step < 86400 else "%d %b"
    found: list[tuple[float, str]] = []
    day = ""
    for n in range(int((end - first) / step) + 1):
        moment = datetime.fromtimestamp(first + n * step, UTC)
        new = moment.strftime("%d %b")
        words = moment.strftime(pattern)
        found.append((first + n * step, f"{new} {words}" if step < 86400 and new != day else words))
        day = new
    return found
