"""Draws lines over two logarithmic axes as SVG, a panel for each shape of patterns."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

Lines = dict[str, list[tuple[float, float]]]
"""Of each engine the points of its line."""


@dataclass(frozen=True, slots=True)
class Panel:
    """The lines of one shape, and where those *ended* that have no further points."""

    lines: Lines
    ended: dict[str, float]


WIDTH, HEIGHT = 260, 230
LEFT, TOP, GAP = 70, 60, 75
COLOURS = ("#4477aa", "#bbbbbb", "#ee6677", "#ccbb44", "#228833", "#aa3377", "#66ccee")


def draw(panels: Mapping[str, Panel], across: str, up: str, cross: str = "") -> str:
    """Draw a panel for each of *panels*, by its name; *across* and *up* are titles of axes, *cross*
    says why a line ends."""
    points = [p for panel in panels.values() for line in panel.lines.values() for p in line]
    ends = [size for panel in panels.values() for size in panel.ended.values()]
    spans = [_span([point[0] for point in points] + ends), _span([point[1] for point in points])]
    width = LEFT + len(panels) * (WIDTH + GAP)
    body = [f'<rect width="{width}" height="{TOP + HEIGHT + 50}" fill="#ffffff"/>']
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel.lines))
    for at, name in enumerate(names):
        colour = COLOURS[at % len(COLOURS)]
        body.append(f'<rect x="{LEFT + at * 110}" y="10" width="12" height="12" fill="{colour}"/>')
        body.append(f'<text x="{LEFT + 16 + at * 110}" y="20">{escape(name)}</text>')
    for at, (title, panel) in enumerate(panels.items()):
        left = LEFT + at * (WIDTH + GAP)
        body.append(f'<text x="{left}" y="{TOP - 10}" font-size="14">{escape(title)}</text>')
        body += _panel(left, panel, names, spans)
    foot = TOP + HEIGHT + 40
    crosses = f"; \u00d7: {cross}" if cross else ""
    axes = f"{escape(up)}, by {escape(across)}{escape(crosses)}"
    body.append(f'<text x="{LEFT}" y="{foot}">{axes}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + 50}"'
        ' font-family="sans-serif" font-size="12">\n' + "\n".join(body) + "\n</svg>\n"
    )


def _span(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around *values*."""
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def _panel(
    left: float, panel: Panel, names: Sequence[str], spans: Sequence[tuple[int, int]]
) -> Iterator[str]:
    def x(value: float) -> float:
        low, high = spans[0]
        return left + (math.log10(value) - low) / (high - low) * WIDTH

    def y(value: float) -> float:
        low, high = spans[1]
        return TOP + HEIGHT - (math.log10(value) - low) / (high - low) * HEIGHT

    for power in range(spans[0][0], spans[0][1] + 1):
        at = x(10**power)
        yield f'<path d="M{at:.1f} {TOP}V{TOP + HEIGHT}" stroke="#dddddd"/>'
        text = f"{10**power:,}" if power % 2 == 0 else ""
        yield f'<text x="{at:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{text}</text>'
    for power in range(spans[1][0], spans[1][1] + 1):
        at = y(10.0**power)
        yield f'<path d="M{left} {at:.1f}H{left + WIDTH}" stroke="#dddddd"/>'
        yield f'<text x="{left - 4}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:,.0f}</text>'
    for row, (name, size) in enumerate(panel.ended.items()):
        colour = COLOURS[names.index(name) % len(COLOURS)]
        title = f"<title>{escape(name)}: {size:,.0f}: ended</title>"
        place = f'x="{x(size):.1f}" y="{TOP + 12 + 12 * row}" text-anchor="middle"'
        yield f'<text {place} font-size="18" fill="{colour}">\u00d7{title}</text>'
    for name, line in panel.lines.items():
        colour = COLOURS[names.index(name) % len(COLOURS)]
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in line)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for a, b in line:
            title = f"<title>{escape(name)}: {a:,.0f}, {b:,.1f} us</title>"
            yield f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{colour}">{title}</circle>'
