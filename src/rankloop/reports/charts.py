"""The charts of a report, as SVG inside the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rankloop.analytics.click_model_fit import SlotEffect
from rankloop.analytics.diagnosis import ItemSummary
from rankloop.reports.number_format import digits, signed
from rankloop.reports.svg import Point, Scale, element, hours, label, line, number, path, picture, ticks
from rankloop.reports.time_spans import Span, Sums
from rankloop.reports.verdict import ControlVerdict

WIDTH, LEFT, RIGHT = 960.0, 58.0, 82.0
LONG = 26
"""Letters of an item's name in a chart."""


def over_time(spans: Sequence[Span]) -> str:
    """Click-through of both groups with 95 % bands."""
    tops = [b[1] for s in spans for group in (s.policy, s.control) if group.settled and (b := _kept(group))]
    top = min(1.0, max(tops, default=1.0) * 1.05)
    x, y, axes = _axes(spans, top, 300.0)
    groups: list[tuple[str, Callable[[Span], Sums]]] = [
        ("control", lambda s: s.control),
        ("policy", lambda s: s.policy),
    ]
    parts, last = list(axes), []
    for name, of in groups:
        drawn = False
        for run in _runs(spans, of):
            middle = [x(s.start + s.seconds / 2) for s in run]
            bounds = [_kept(of(s)) for s in run]
            upper = [(at, y(min(top, b[1]))) for at, b in zip(middle, bounds, strict=True)]
            lower = [(at, y(b[0])) for at, b in zip(middle, bounds, strict=True)]
            points = [(at, y(of(s).rate or 0.0)) for at, s in zip(middle, run, strict=True)]
            parts += _drawn(points, upper, lower, name)
            drawn = True
            end = points[-1]
        if drawn:
            last.append((name, end))
    parts += _named(last)
    return picture(WIDTH, 300.0, "Click-through over time, with 95 % bands", parts)


def exploring(spans: Sequence[Span]) -> str:
    """Share of scores that explored."""
    known = [s for s in spans if s.policy.share is not None]
    top = min(1.0, max((s.policy.share or 0.0 for s in known), default=1.0) * 1.1 or 1.0)
    x, y, axes = _axes(spans, top, 190.0)
    points = [(x(s.start + s.seconds / 2), y(s.policy.share or 0.0)) for s in known]
    parts = list(axes)
    if len(points) > 1:
        parts.append(path([*points, (points[-1][0], y(0.0)), (points[0][0], y(0.0))], "band policy", close=True))
        parts.append(path(points, "line policy"))
    parts += [element("circle", cx=number(a), cy=number(b), r=number(3.0), class_="dot policy") for a, b in points[-1:]]
    return picture(WIDTH, 190.0, "Share of scores that explored, over time", parts)


def _kept(group: Sums) -> tuple[float, float]:
    return group.bounds or (0.0, 0.0)


def _axes(spans: Sequence[Span], top: float, height: float) -> tuple[Scale, Scale, list[str]]:
    start, end = spans[0].start, spans[-1].start + spans[-1].seconds
    x = Scale(start, end, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, top, height - 30.0, 12.0)
    parts = []
    for value in ticks(0.0, top):
        parts.append(line((LEFT, y(value)), (WIDTH - RIGHT, y(value)), "grid" if value else "axis"))
        parts.append(label(LEFT - 8, y(value) + 4, f"{100 * value:g} %", anchor="end"))
    parts += [label(x(at), height - 10.0, words, anchor="middle") for at, words in hours(start, end)]
    return x, y, parts


def _runs(spans: Sequence[Span], of: Callable[[Span], Sums]) -> list[list[Span]]:
    """Neighbours that have outcomes: a line is not drawn over time of which nothing is known."""
    runs: list[list[Span]] = [[]]
    for one in spans:
        if of(one).settled:
            runs[-1].append(one)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _drawn(points: Sequence[Point], upper: Sequence[Point], lower: Sequence[Point], name: str) -> list[str]:
    if len(points) == 1:
        return [line(upper[0], lower[0], f"whisker {name}"), _dot(points[0], name)]
    return [path([*upper, *reversed(lower)], f"band {name}", close=True), path(points, f"line {name}")]


def _dot(at: Point, class_: str, r: float = 4.0) -> str:
    return element("circle", cx=number(at[0]), cy=number(at[1]), r=number(r), class_=f"dot {class_}")


def _named(last: Sequence[tuple[str, Point]]) -> list[str]:
    """Names at the ends of lines, apart from each other."""
    parts: list[str] = []
    taken = -math.inf
    for name, (x, y) in sorted(last, key=lambda one: one[1][1]):
        at = max(y, taken + 16.0)
        parts += [_dot((x, y), name, 3.0), label(x + 9, at + 4, name, f"name {name}")]
        taken = at
    return parts


def lift(found: ControlVerdict) -> str:
    """The difference and its interval, beside none."""
    width, height, d = 420.0, 96.0, digits(found.control)
    low, high = min(0.0, found.low), max(0.0, found.high)
    room = 0.16 * (high - low) or 1e-9
    x = Scale(low - room, high + room, 14.0, width - 14.0)
    tone = {"better": "good", "worse": "bad"}.get(found.state, "open")
    parts = [
        line((14.0, 46.0), (width - 14.0, 46.0), "axis"),
        line((x(0.0), 18.0), (x(0.0), 62.0), "zero"),
        label(min(max(x(0.0), 46.0), width - 46.0), 82.0, "as control", anchor="middle"),
        *([label(14.0, 82.0, "worse")] if x(0.0) > 120.0 else []),
        *([label(width - 14.0, 82.0, "better", anchor="end")] if x(0.0) < width - 120.0 else []),
        element(
            "rect",
            x=number(x(found.low)),
            y=number(39.0),
            width=number(x(found.high) - x(found.low)),
            height=number(14.0),
            rx=number(7.0),
            class_=f"range {tone}",
        ),
        _dot((x(found.difference), 46.0), tone, 7.0),
    ]
    at = min(max(x(found.difference), 70.0), width - 70.0)
    parts.append(label(at, 24.0, f"{signed(found.difference, d)} points", f"value {tone}", "middle"))
    return picture(width, height, "Difference of click-through with its 95 % interval", parts)


def shares(gained: Sequence[ItemSummary], lost: Sequence[ItemSummary]) -> str:
    """Of which share of the lists items are part: from control's to the policy's."""
    rows = [*gained, *lost]
    row, left, top = 30.0, 220.0, 34.0
    height = top + row * len(rows) + 30.0
    most = max((max(one.treatment_share or 0.0, one.control_share or 0.0) for one in rows), default=1.0) or 1.0
    x = Scale(0.0, most, left, WIDTH - 70.0)
    parts = []
    for value in ticks(0.0, most):
        parts.append(line((x(value), top - 8), (x(value), height - 30.0), "grid" if value else "axis"))
        parts.append(label(x(value), height - 10.0, f"{100 * value:g} %", anchor="middle"))
    parts += [_dot((left, 12.0), "control", 5.0), label(left + 10, 16.0, "in control's lists", "name control")]
    parts += [_dot((left + 150, 12.0), "policy", 5.0), label(left + 160, 16.0, "in the policy's lists", "name policy")]
    for n, one in enumerate(rows):
        y = top + row * n + row / 2
        a, b = x(one.control_share or 0.0), x(one.treatment_share or 0.0)
        parts += [
            label(left - 12, y + 4, _short(one.item), "item", "end"),
            line((a, y), (b, y), f"bridge {'up' if b > a else 'down'}"),
            _dot((a, y), "control", 5.0),
            _dot((b, y), "policy", 6.0),
        ]
    return picture(WIDTH, height, "Items by the share of lists that they stand in", parts)


def slot_effects(found: Sequence[SlotEffect]) -> str:
    """Click rates of the same items by place, beside what the policy assumes."""
    height, right, tops = 240.0, 110.0, [1.0]
    tops += [value for one in found for value in (one.assumed, min(one.high or 0.0, 2.0)) if value is not None]
    top = max(tops) * 1.08
    y = Scale(0.0, top, height - 34.0, 14.0)
    step = (WIDTH - LEFT - right) / len(found)
    parts = []
    for value in ticks(0.0, top):
        parts.append(line((LEFT, y(value)), (WIDTH - right, y(value)), "grid" if value else "axis"))
        parts.append(label(LEFT - 8, y(value) + 4, f"{value:g}", anchor="end"))
    for n, one in enumerate(found):
        x = LEFT + step * (n + 0.5)
        parts.append(label(x, height - 12.0, f"slot {one.slot}", anchor="middle"))
        if one.assumed is not None:
            parts.append(line((x - 24, y(one.assumed)), (x + 24, y(one.assumed)), "assumed"))
        if one.effect is not None and one.low is not None and one.high is not None:
            tone = "bad" if one.off else "policy"
            if one.slot != one.reference:
                parts.append(line((x, y(one.low)), (x, y(min(one.high, top))), f"whisker {tone}"))
            parts.append(_dot((x, y(min(one.effect, top))), tone, 5.5))
    parts += _key(WIDTH - right + 16.0, [("policy", "measured"), ("assumed", "assumed")])
    return picture(
        WIDTH, height, f"Click rates of the same items by slot, compared with slot {found[0].reference}", parts
    )


def _key(x: float, names: Sequence[tuple[str, str]]) -> list[str]:
    parts = []
    for n, (class_, words) in enumerate(names):
        y = 24.0 + 20.0 * n
        mark = line((x, y), (x + 14, y), "assumed") if class_ == "assumed" else _dot((x + 7, y), class_, 5.0)
        parts += [mark, label(x + 19, y + 4, words, "tick")]
    return parts


def _short(name: str) -> str:
    return name if len(name) <= LONG else f"{name[: LONG - 1]}…"
