"""SVG helpers for charts: elements, axis scales and ticks. Colours come from the style sheet of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

Point = tuple[float, float]
TICK_SECONDS = (60, 300, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000)
"""Distances between the ticks of a time axis, in seconds."""


def element(name: str, text: str = "", /, **attributes: str) -> str:
    """Return an element with escaped attributes; `text` is its content, already escaped."""
    attribute_text = "".join(f' {_name(key)}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{attribute_text}>{text}</{name}>" if text else f"<{name}{attribute_text}/>"


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def number(value: float) -> str:
    """Return a coordinate or a length with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def label(x: float, y: float, text: str, class_: str = "tick", anchor: str = "start") -> str:
    """Return text at a point."""
    return element("text", escape(text), x=number(x), y=number(y), class_=class_, text_anchor=anchor)


def line(a: Point, b: Point, class_: str) -> str:
    """Return a line from a to b."""
    return element("line", x1=number(a[0]), y1=number(a[1]), x2=number(b[0]), y2=number(b[1]), class_=class_)


def path(points: Sequence[Point], class_: str, close: bool = False) -> str:
    """Return a line through points, or the area that they enclose."""
    commands = " L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return element("path", d=f"M{commands}{' Z' if close else ''}", class_=class_)


def picture(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """Return an SVG image with a title for screen readers."""
    heading = element("title", escape(title))
    box = f"0 0 {width:.0f} {height:.0f}"
    return element("svg", heading + "".join(parts), viewBox=box, role="img", class_="chart")


@dataclass(frozen=True, slots=True)
class AxisScale:
    """A linear map from values to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        size = (self.high - self.low) or 1.0
        return self.start + (value - self.low) / size * (self.end - self.start)


def ticks(low: float, high: float, limit: int = 5) -> list[float]:
    """Return round numbers between low and high, about `limit` of them."""
    if high <= low:
        return [low]
    rough = (high - low) / limit
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1.0, 2.0, 5.0, 10.0) if size * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def time_ticks(start: float, end: float, limit: int = 6) -> list[tuple[float, str]]:
    """Return about `limit` round times between start and end, with their labels."""
    step = next((one for one in TICK_SECONDS if (end - start) / one <= limit), TICK_SECONDS[-1])
    first = math.ceil(start / step) * step
    pattern = "%H:%M" if step < 86400 else "%d %b"
    labels: list[tuple[float, str]] = []
    day = ""
    for n in range(int((end - first) / step) + 1):
        moment = datetime.fromtimestamp(first + n * step, UTC)
        date, text = moment.strftime("%d %b"), moment.strftime(pattern)
        labels.append((first + n * step, f"{date} {text}" if step < 86400 and date != day else text))
        day = date
    return labels
