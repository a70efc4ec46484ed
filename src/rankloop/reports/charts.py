"""The charts of a report page, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rankloop.analytics.click_model_fit import SlotEffect
from rankloop.analytics.diagnosis import ItemSummary
from rankloop.analytics.learned_effects import SlotWorth
from rankloop.reports.ab_test_verdict import ABTestVerdict
from rankloop.reports.svg import AxisScale, Point, element, label, line, number, path, picture, ticks, time_ticks
from rankloop.reports.time_buckets import GroupTotals, MergedBucket
from rankloop.reports.value_format import ValueFormat

WIDTH, LEFT, RIGHT = 960.0, 58.0, 92.0  # width and margins of a chart, in SVG units
MAX_NAME_LETTERS = 26
"""Length at which item names are shortened."""


def values(buckets: Sequence[MergedBucket], written: ValueFormat) -> str:
    """Return the chart of the values per list of both groups with 95 % bands."""
    settled = [group for s in buckets for group in (s.treatment, s.control) if group.settled]
    ends = [_bounds(group, written) for group in settled]
    top = max((high for _, high in ends), default=1.0) * 1.05
    top = min(1.0, top) if written.is_rate else top if top > 0.0 else 0.0
    bottom = min(0.0, min((low for low, _ in ends), default=0.0) * 1.05)
    if top == bottom:
        top = 1.0
    x, y, axes = _axes(buckets, (bottom, top), 300.0, written.tick)
    groups: list[tuple[str, Callable[[MergedBucket], GroupTotals]]] = [
        ("control", lambda s: s.control),
        ("treatment", lambda s: s.treatment),
    ]
    parts, last = list(axes), []
    for name, of in groups:
        drawn = False
        for run in _runs(buckets, of):
            middle = [x(s.start + s.seconds / 2) for s in run]
            bounds = [_bounds(of(s), written) for s in run]
            upper = [(at, y(min(top, b[1]))) for at, b in zip(middle, bounds, strict=True)]
            lower = [(at, y(b[0])) for at, b in zip(middle, bounds, strict=True)]
            points = [(at, y(of(s).value_per_list or 0.0)) for at, s in zip(middle, run, strict=True)]
            parts += _line_with_band(points, upper, lower, name)
            drawn = True
            end = points[-1]
        if drawn:
            last.append((name, end))
    parts += _line_names(last)
    return picture(WIDTH, 300.0, f"{written.title} over time, with 95 % confidence bands", parts)


def exploration(buckets: Sequence[MergedBucket]) -> str:
    """Return the chart of the exploration share."""
    known = [s for s in buckets if s.treatment.exploration_share is not None]
    top = min(1.0, max((s.treatment.exploration_share or 0.0 for s in known), default=1.0) * 1.1 or 1.0)
    x, y, axes = _axes(buckets, (0.0, top), 190.0, lambda share: f"{100 * share:g} %")
    points = [(x(s.start + s.seconds / 2), y(s.treatment.exploration_share or 0.0)) for s in known]
    parts = list(axes)
    if len(points) > 1:
        parts.append(path([*points, (points[-1][0], y(0.0)), (points[0][0], y(0.0))], "band treatment", close=True))
        parts.append(path(points, "line treatment"))
    parts += [
        element("circle", cx=number(a), cy=number(b), r=number(3.0), class_="dot treatment") for a, b in points[-1:]
    ]
    return picture(WIDTH, 190.0, "Exploration share over time", parts)


def _bounds(group: GroupTotals, written: ValueFormat) -> tuple[float, float]:
    """Return the interval of a value per list; the value itself where there is none."""
    value = group.value_per_list or 0.0
    return group.bounds(written) or (value, value)


def _axes(
    buckets: Sequence[MergedBucket], ends: tuple[float, float], height: float, tick: Callable[[float], str]
) -> tuple[AxisScale, AxisScale, list[str]]:
    start, end = buckets[0].start, buckets[-1].start + buckets[-1].seconds
    x = AxisScale(start, end, LEFT, WIDTH - RIGHT)
    y = AxisScale(*ends, height - 30.0, 12.0)
    parts = []
    for value in ticks(*ends):
        parts.append(line((LEFT, y(value)), (WIDTH - RIGHT, y(value)), "grid" if value else "axis"))
        parts.append(label(LEFT - 8, y(value) + 4, tick(value), anchor="end"))
    parts += [label(x(at), height - 10.0, text, anchor="middle") for at, text in time_ticks(start, end)]
    return x, y, parts


def _runs(buckets: Sequence[MergedBucket], of: Callable[[MergedBucket], GroupTotals]) -> list[list[MergedBucket]]:
    """Return runs of adjacent buckets with outcomes: a line has gaps where there are none."""
    runs: list[list[MergedBucket]] = [[]]
    for one in buckets:
        if of(one).settled:
            runs[-1].append(one)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _line_with_band(points: Sequence[Point], upper: Sequence[Point], lower: Sequence[Point], name: str) -> list[str]:
    if len(points) == 1:
        return [line(upper[0], lower[0], f"interval {name}"), _dot(points[0], name)]
    return [path([*upper, *reversed(lower)], f"band {name}", close=True), path(points, f"line {name}")]


def _dot(at: Point, class_: str, r: float = 4.0) -> str:
    return element("circle", cx=number(at[0]), cy=number(at[1]), r=number(r), class_=f"dot {class_}")


def _line_names(last: Sequence[tuple[str, Point]]) -> list[str]:
    """Return the names at the ends of the lines, moved apart where they would overlap."""
    parts: list[str] = []
    previous = -math.inf
    for name, (x, y) in sorted(last, key=lambda one: one[1][1]):
        at = max(y, previous + 16.0)
        parts += [_dot((x, y), name, 3.0), label(x + 9, at + 4, name, f"name {name}")]
        previous = at
    return parts


def lift(result: ABTestVerdict, written: ValueFormat) -> str:
    """Return the chart of the difference with its interval, relative to zero."""
    width, height = 420.0, 96.0
    low, high = min(0.0, result.low), max(0.0, result.high)
    margin = 0.16 * (high - low) or 1e-9
    x = AxisScale(low - margin, high + margin, 14.0, width - 14.0)
    tone = {"better": "good", "worse": "bad"}.get(result.state, "open")
    parts = [
        line((14.0, 46.0), (width - 14.0, 46.0), "axis"),
        line((x(0.0), 18.0), (x(0.0), 62.0), "zero"),
        label(min(max(x(0.0), 46.0), width - 46.0), 82.0, "no difference", anchor="middle"),
        *([label(14.0, 82.0, "worse")] if x(0.0) > 120.0 else []),
        *([label(width - 14.0, 82.0, "better", anchor="end")] if x(0.0) < width - 120.0 else []),
        element(
            "rect",
            x=number(x(result.low)),
            y=number(39.0),
            width=number(x(result.high) - x(result.low)),
            height=number(14.0),
            rx=number(7.0),
            class_=f"range {tone}",
        ),
        _dot((x(result.difference), 46.0), tone, 7.0),
    ]
    at = min(max(x(result.difference), 70.0), width - 70.0)
    gap = f"{written.change(result.difference, result.control)}{' pp' if written.is_rate else ''}"
    parts.append(label(at, 24.0, gap, f"value {tone}", "middle"))
    return picture(width, height, f"{written.difference_name} with its 95 % confidence interval", parts)


def list_shares(gained: Sequence[ItemSummary], lost: Sequence[ItemSummary]) -> str:
    """Return the chart of the items' shares of the lists, from control to treatment."""
    rows = [*gained, *lost]
    row, left, top = 30.0, 220.0, 34.0
    height = top + row * len(rows) + 30.0
    most = max((max(one.treatment_share or 0.0, one.control_share or 0.0) for one in rows), default=1.0) or 1.0
    x = AxisScale(0.0, most, left, WIDTH - 70.0)
    parts = []
    for value in ticks(0.0, most):
        parts.append(line((x(value), top - 8), (x(value), height - 30.0), "grid" if value else "axis"))
        parts.append(label(x(value), height - 10.0, f"{100 * value:g} %", anchor="middle"))
    parts += [_dot((left, 12.0), "control", 5.0), label(left + 10, 16.0, "control", "name control")]
    parts += [_dot((left + 90, 12.0), "treatment", 5.0), label(left + 100, 16.0, "treatment", "name treatment")]
    for n, one in enumerate(rows):
        y = top + row * n + row / 2
        a, b = x(one.control_share or 0.0), x(one.treatment_share or 0.0)
        parts += [
            label(left - 12, y + 4, _short(one.item), "item", "end"),
            line((a, y), (b, y), f"bridge {'up' if b > a else 'down'}"),
            _dot((a, y), "control", 5.0),
            _dot((b, y), "treatment", 6.0),
        ]
    return picture(WIDTH, height, "Share of the lists that show each item, in control and in treatment", parts)


def slot_effects(effects: Sequence[SlotEffect]) -> str:
    """Return the chart of measured and assumed click rates of the same items by slot."""
    height, right, tops = 240.0, 110.0, [1.0]
    tops += [value for one in effects for value in (one.assumed, min(one.high or 0.0, 2.0)) if value is not None]
    top = max(tops) * 1.08
    y = AxisScale(0.0, top, height - 34.0, 14.0)
    step = (WIDTH - LEFT - right) / len(effects)
    parts = []
    for value in ticks(0.0, top):
        parts.append(line((LEFT, y(value)), (WIDTH - right, y(value)), "grid" if value else "axis"))
        parts.append(label(LEFT - 8, y(value) + 4, f"{value:g}", anchor="end"))
    for n, one in enumerate(effects):
        x = LEFT + step * (n + 0.5)
        parts.append(label(x, height - 12.0, f"slot {one.slot}", anchor="middle"))
        if one.assumed is not None:
            parts.append(line((x - 24, y(one.assumed)), (x + 24, y(one.assumed)), "assumed"))
        if one.effect is not None and one.low is not None and one.high is not None:
            tone = "bad" if one.mismatch else "treatment"
            if one.slot != one.reference:
                parts.append(line((x, y(one.low)), (x, y(min(one.high, top))), f"interval {tone}"))
            parts.append(_dot((x, y(min(one.effect, top))), tone, 5.5))
    parts += _key(WIDTH - right + 16.0, [("treatment", "measured"), ("assumed", "assumed")])
    return picture(
        WIDTH, height, f"Click rates of the same items by slot, relative to slot {effects[0].reference}", parts
    )


def slot_worths(slots: Sequence[SlotWorth]) -> str:
    """Return the bar chart of the learned worth of each slot, with intervals."""
    height, right = 220.0, 20.0
    tops = [1.0, *(one.effect for one in slots), *(min(one.high, 2.0) for one in slots if one.high is not None)]
    top = max(tops) * 1.08
    y = AxisScale(0.0, top, height - 34.0, 14.0)
    step = (WIDTH - LEFT - right) / len(slots)
    wide, parts = min(56.0, 0.6 * step), []
    for value in ticks(0.0, top):
        parts.append(line((LEFT, y(value)), (WIDTH - right, y(value)), "grid" if value else "axis"))
        parts.append(label(LEFT - 8, y(value) + 4, f"{100 * value:g} %", anchor="end"))
    for n, one in enumerate(slots):
        x = LEFT + step * (n + 0.5)
        size = {"x": number(x - wide / 2), "y": number(y(one.effect)), "width": number(wide)}
        parts.append(element("rect", **size, height=number(y(0.0) - y(one.effect)), class_="bar treatment"))
        parts.append(label(x, height - 12.0, f"slot {one.slot}", anchor="middle"))
        if one.low is not None and one.high is not None and one.high > one.low:
            parts.append(line((x, y(one.low)), (x, y(min(one.high, top))), "whisker"))
    return picture(WIDTH, height, "Learned worth of each slot, relative to slot 0, with 95 % intervals", parts)


def _key(x: float, names: Sequence[tuple[str, str]]) -> list[str]:
    parts = []
    for n, (class_, text) in enumerate(names):
        y = 24.0 + 20.0 * n
        mark = line((x, y), (x + 14, y), "assumed") if class_ == "assumed" else _dot((x + 7, y), class_, 5.0)
        parts += [mark, label(x + 19, y + 4, text, "tick")]
    return parts


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME_LETTERS else f"{name[: MAX_NAME_LETTERS - 1]}…"
