"""Small still pictures as SVG: scores with error bars, curves, and a matrix as a heat map.

Colours are the variables of the page's style, so that they follow light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from vicinal.core.types import Array
from vicinal.reporting.contents import Score
from vicinal.reporting.page._text import element, escape

Range = tuple[float, float]
Curve = tuple[str, list[float], list[float]]  # its name, x and y


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers in [low, high], a few of them: steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * m for m in (1, 2, 5, 10, 20) if span / (power * m) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    """A coordinate or a label, short."""
    return f"{value:.4g}".replace("-", "\u2212")


# Scores -------------------------------------------------------------------------------------------


def score_range(scores: list[Score], share: bool) -> Range:
    """From below all error bars to above them; a share stays in [0, 1]."""
    finite = [score for score in scores if math.isfinite(score.mean)]
    errors = [score.error if math.isfinite(score.error) else 0.0 for score in finite]
    low = min((s.mean - e for s, e in zip(finite, errors, strict=True)), default=0.0)
    high = max((s.mean + e for s, e in zip(finite, errors, strict=True)), default=1.0)
    room = 0.08 * (high - low) + 0.005
    low, high = low - room, high + room
    return (max(low, 0.0), min(high, 1.0)) if share else (low, high)


def _place(value: float, limits: Range) -> float:
    """Where a value is on an axis from 6 to 294."""
    value = min(max(value, limits[0]), limits[1])
    return round(6 + 288 * (value - limits[0]) / (limits[1] - limits[0]), 1)


def dot(score: Score, limits: Range) -> str:
    """A score as a dot with its standard error as a bar; the table has its numbers."""
    places = [_place(t, limits) for t in ticks(*limits, most=5)]
    parts = [element("line", class_="grid", x1=x, x2=x, y1=0, y2=28) for x in places]
    if math.isfinite(score.mean):
        x = _place(score.mean, limits)
        if math.isfinite(score.error):
            a = _place(score.mean - score.error, limits)
            b = _place(score.mean + score.error, limits)
            parts.append(element("path", class_="whisker", d=f"M{a} 14H{b}M{a} 9v10M{b} 9v10"))
        if score.learnt:
            parts.append(element("path", class_="dot learnt", d=f"M{x} 7l7 7l-7 7l-7-7z"))
        else:
            parts.append(element("circle", class_="dot", cx=x, cy=14, r=5.5))
    return element("svg", *parts, viewBox="0 0 300 28", aria_hidden="true")


def dot_axis(limits: Range, share: bool) -> str:
    """The numbers below the dots."""
    texts = [
        element("text", _label(t, share), x=_place(t, limits), y=13, text_anchor="middle")
        for t in ticks(*limits, most=5)
    ]
    return element("svg", *texts, viewBox="0 0 300 18", aria_hidden="true")


def _label(value: float, share: bool) -> str:
    return f"{_number(100 * value)} %" if share else _number(value)


# Curves -------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 46
LEAST_SPAN = 0.2  # of a share, from the bottom to the top of a chart


def curves(lines: list[Curve], words: str, *, x_name: str, share: bool = False) -> str:
    """Curves with their names above: the first solid, the second dashed.

    Values that are not finite are left out; "" if none is finite.
    """
    lines = [line for line in map(_finite, lines) if line[1]]
    if not lines:
        return ""
    x_limits = _widened([a for _, x, _ in lines for a in x], 0)
    y_limits = _widened([b for _, _, y in lines for b in y], 0.06)
    if share:  # not so near that noise looks like a change
        middle, half = sum(y_limits) / 2, max(y_limits[1] - y_limits[0], LEAST_SPAN) / 2
        top = min(middle + half, 1.0)
        y_limits = max(min(middle - half, top - 2 * half), 0.0), top
    across = _scale(x_limits, LEFT, WIDTH - RIGHT)
    down = _scale(y_limits, HEIGHT - BOTTOM, TOP)
    parts = []
    for t in ticks(*y_limits):
        y = down(t)
        parts.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        parts.append(element("text", _label(t, share), x=LEFT - 8, y=y + 4, text_anchor="end"))
    low = HEIGHT - BOTTOM + 18
    for t in ticks(*x_limits, most=6):
        parts.append(element("text", _number(t), x=across(t), y=low, text_anchor="middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(element("text", escape(x_name), x=middle, y=HEIGHT - 4, text_anchor="middle"))
    keys = []
    for i, (name, xs, ys) in enumerate(lines):
        places = " ".join(f"{across(a)},{down(b)}" for a, b in zip(xs, ys, strict=True))
        parts.append(element("polyline", class_=f"curve curve-{i}", points=places))
        end = {"cx": across(xs[-1]), "cy": down(ys[-1])}
        parts.append(element("circle", class_=f"curve-end curve-{i}", r=3.5, **end))
        path = element("path", class_=f"curve curve-{i}", d="M0 5H28")
        key = element("svg", path, class_="key", viewBox="0 0 28 10", aria_hidden="true")
        keys.append(element("li", key, escape(name)))
    size = f"0 0 {WIDTH} {HEIGHT}"
    chart = element("svg", *parts, class_="chart", viewBox=size, role="img", aria_label=words)
    return element("ul", *keys, class_="key-list") + chart


def _finite(line: Curve) -> Curve:
    """The curve without the values that are not finite."""
    name, x, y = line
    kept = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(b)]
    return name, [a for a, _ in kept], [b for _, b in kept]


def _scale(limits: Range, start: float, end: float) -> Callable[[float], float]:
    """The function that takes the limits to start and end."""
    return lambda v: round(start + (end - start) * (v - limits[0]) / (limits[1] - limits[0]), 1)


def _widened(values: list[float], share: float) -> Range:
    """The range of the values with some room on both sides; never empty."""
    low, high = min(values), max(values)
    room = share * (high - low) if high > low else abs(low) * 0.1 or 1.0
    return low - room, high + room


# A matrix -----------------------------------------------------------------------------------------

LONGEST = 18  # letters of a name next to the heat map


def heat_map(matrix: Array, names: list[str], words: str) -> str:
    """The matrix as squares: orange for positive entries, purple for negative, both with a sign.

    Each square has its numbers as a tooltip.
    """
    n = len(names)
    size = 28 if n <= 24 else 20
    short = [name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in names]
    margin = 14 + 7 * max((len(name) for name in short), default=0)
    highest = float(np.abs(matrix).max()) or 1.0
    parts = []
    for i in range(n):
        at = margin + size * i
        middle = at + size // 2 + 4
        parts.append(element("text", escape(short[i]), x=margin - 6, y=middle, text_anchor="end"))
        turned = f"translate({middle} {margin - 6}) rotate(-90)"
        parts.append(element("text", escape(short[i]), transform=turned))
        for j in range(n):
            value = float(matrix[i, j])
            title = f"{names[i]} × {names[j]}: {_number(value)}"
            parts.append(_square(margin + size * j, at, size, value / highest, title))
    side = margin + size * n + 4
    picture = element(
        "svg", *parts, class_="heat", viewBox=f"0 0 {side} {side}", style=f"width:{side}px",
        role="img", aria_label=words,
    )  # fmt: skip
    region = {"tabindex": 0, "role": "region", "aria-label": "Heat map, scrollable"}
    return element("div", picture, class_="scroll", **region)


def _square(x: int, y: int, size: int, strength: float, title: str) -> str:
    """One entry; a strength in [-1, 1]. A weak one has no sign: it could not be seen."""
    kind = "plus" if strength >= 0 else "minus"
    square = element(
        "rect", element("title", escape(title)), class_=kind, x=x, y=y, width=size - 1,
        height=size - 1, fill_opacity=round(abs(strength) ** 0.7, 3),
    )  # fmt: skip
    if abs(strength) < 0.08:
        return square
    ink = "strong" if abs(strength) > 0.6 else "weak"
    place = {"x": x + size / 2 - 0.5, "y": y + size / 2 + 4, "text_anchor": "middle"}
    return square + element(
        "text", "+" if strength > 0 else "\u2212", class_=f"sign {ink}", **place
    )
