"""Charts as inline SVG, drawn for reports of one file: no script, no font, nothing fetched.

Colours and text sizes are classes of `filters.spark.page`, so that a chart is readable in light,
in dark and on paper.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 460, 290
"""The size of a line chart: two stand side by side where there is room."""
LEFT, RIGHT, TOP, BOTTOM = 66, 26, 14, 46
WIDE = 920
"""The width of a chart that takes a line for itself."""
COLOURS = 6
"""Series colours that the page has; further series begin again."""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one line, and for each the smallest and the largest measured, if known.

    An *ideal* one is drawn dashed and without marks: what there would be if nothing were lost.
    """

    name: str
    points: Sequence[tuple[float, float]]
    spread: Sequence[tuple[float, float]] = ()
    ideal: bool = False


@dataclass(slots=True)
class Block:
    """A call in a flame graph: its time, with all that it called. Units are the caller's."""

    name: str
    value: float = 0.0
    inner: "dict[str, Block]" = field(default_factory=dict)


class _Scale:
    """Values of one axis to pixels."""

    def __init__(
        self,
        values: Iterable[float],
        start: float,
        end: float,
        *,
        log: bool,
        zero: bool = False,
        own: bool = False,
    ) -> None:
        kept = sorted(set(values))
        low, high = kept[0], kept[-1]
        self._log = log
        if own:
            self.ticks = kept
            low, high = (math.log10(low), math.log10(high)) if log else (0.0 if zero else low, high)
            high = high if high > low else low + 1
        elif log:
            low, high = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
            high = max(high, low + 1)
            steps = (1, 2, 5) if high - low <= 2 else (1,)
            self.ticks = [step * 10.0**power for power in range(low, high) for step in steps]
            self.ticks.append(10.0**high)
        else:
            self.ticks = _round_ticks(0.0 if zero else low, high)
            low, high = self.ticks[0], self.ticks[-1]
        self._low, self._high = low, high
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = ((math.log10(value) if self._log else value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


def line_chart(
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    log_x: bool = False,
    log_y: bool = False,
    own_x: bool = False,
) -> str:
    """Lines over two axes with the titles *x* and *y*; a linear one begins at 0.

    *own_x* marks on the x axis what was measured, not round values. Points without a place on a
    logarithmic axis are left out.
    """

    def placed(point: tuple[float, float]) -> bool:
        return (point[0] > 0 or not log_x) and (point[1] > 0 or not log_y)

    points = [point for one in series for point in one.points if placed(point)]
    if not points:
        return "<p>Nothing was measured.</p>"
    ends = [(xy[0], bound) for s in series for xy, pair in _spreads(s) for bound in pair]
    extent = points + [point for point in ends if placed(point)]
    across = _Scale((p[0] for p in extent), LEFT, WIDTH - RIGHT, log=log_x, zero=True, own=own_x)
    down = _Scale((p[1] for p in extent), HEIGHT - BOTTOM, TOP, log=log_y, zero=True)
    body = [_axes(across, down, x, y)]
    number = 0
    for one in series:
        kept = [point for point in one.points if placed(point)]
        path = " ".join(f"{across(a):.1f},{down(b):.1f}" for a, b in kept)
        if one.ideal:
            body.append(f'<polyline class="ideal" points="{path}"/>')
            continue
        colour = f"c{number % COLOURS}"
        number += 1
        body.append(f'<polyline class="line {colour}" points="{path}"/>')
        for (at, value), (low, high) in _spreads(one):
            if placed((at, value)) and placed((at, low)):
                body.append(
                    f'<line class="spread {colour}" x1="{across(at):.1f}" x2="{across(at):.1f}"'
                    f' y1="{down(low):.1f}" y2="{down(high):.1f}"/>'
                )
        for a, b in kept:
            body.append(
                f'<circle class="mark {colour}" cx="{across(a):.1f}" cy="{down(b):.1f}" r="3.5">'
                f"<title>{escape(one.name)}: {number_text(a)}, {number_text(b)}</title></circle>"
            )
    return _svg(WIDTH, HEIGHT, body, f"{y} by {x}") + _legend(series)


def bar_chart(rows: Sequence[tuple[str, float]], *, most: int = 48) -> str:
    """Draw a horizontal bar for each row; of more than *most* rows, neighbours are added up."""
    if not rows:
        return "<p>Nothing to show.</p>"
    step = math.ceil(len(rows) / most)
    groups = [rows[n : n + step] for n in range(0, len(rows), step)]
    joined = [(_span([name for name, _ in one]), sum(value for _, value in one)) for one in groups]
    peak = max(value for _, value in joined) or 1.0
    cells = (
        f"<span>{escape(name)}</span>"
        f'<span><i class="bar c0" style="width:{100 * value / peak:.1f}%"></i></span>'
        f'<span class="n">{number_text(value)}</span>'
        for name, value in joined
    )
    return f'<div class="bars">{"".join(cells)}</div>'


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def flame(root: Block, *, unit: str) -> str:
    """An icicle: the caller above, what it calls below, as wide as the time it took."""
    rows: list[str] = []
    deepest = 0

    def draw(block: Block, left: float, depth: int, width: float) -> None:
        nonlocal deepest
        deepest = max(deepest, depth)
        share = block.value / root.value if root.value else 0.0
        shade = f"c{sum(map(ord, block.name)) % COLOURS}"
        rows.append(
            f"<g><title>{escape(block.name)}: {number_text(block.value)} {escape(unit)},"
            f" {share:.1%}</title>"
            f'<rect class="flame {shade}" x="{left:.1f}" y="{4 + 21 * depth}"'
            f' width="{max(width - 1, 0.5):.1f}" height="20"/>'
        )
        fits = int((width - 8) / 6.4)
        if fits >= 4:
            rows.append(
                f'<text class="flame-text" x="{left + 4:.1f}" y="{18 + 21 * depth}">'
                f"{escape(shortened(block.name, fits))}</text>"
            )
        rows.append("</g>")
        for inner in sorted(block.inner.values(), key=lambda one: -one.value):
            inner_width = width * inner.value / block.value if block.value else 0.0
            if inner_width >= 2:
                draw(inner, left, depth + 1, inner_width)
            left += inner_width

    draw(root, 4, 0, WIDE - 8)
    return _svg(WIDE, 10 + 21 * (deepest + 1), rows, "where the time goes")


def number_text(value: float) -> str:
    """A number as a person reads it: three digits, or thousands with commas."""
    if value == 0:
        return "0"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _tick_text(value: float) -> str:
    """A number that has little room."""
    for least, size, unit in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{number_text(value / size)} {unit}"
    return number_text(value)


def shortened(text: str, most: int) -> str:
    """*text* in at most *most* characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _spreads(series: Series) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    return list(zip(series.points, series.spread, strict=True)) if series.spread else []


def _axes(across: _Scale, down: _Scale, x: str, y: str) -> str:
    lines = []
    for tick in across.ticks:
        at = across(tick)
        lines.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text class="tick" x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">'
            f"{_tick_text(tick)}</text>"
        )
    for tick in down.ticks:
        at = down(tick)
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="tick" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">'
            f"{_tick_text(tick)}</text>"
        )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    lines.append(
        f'<text class="title" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}"'
        f' text-anchor="middle">{escape(x)}</text>'
        f'<text class="title" transform="translate(14 {middle}) rotate(-90)"'
        f' text-anchor="middle">{escape(y)}</text>'
    )
    return "".join(lines)


def _round_ticks(low: float, high: float) -> list[float]:
    """About five values at round distances, from *low* or below to *high* or above."""
    if high <= low:
        high = low + 1
    rough = (high - low) / 5
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    first = math.floor(low / step)
    last = math.ceil(high / step - 1e-9)
    return [n * step for n in range(first, last + 1)]


def _legend(series: Sequence[Series]) -> str:
    if len(series) < 2:
        return ""
    items = []
    number = 0
    for one in series:
        if one.ideal:
            item = f'<span><i class="key ideal-key"></i>{escape(one.name)}</span>'
            items += [] if item in items else [item]
        else:
            colour = f"c{number % COLOURS}"
            items.append(f'<span><i class="key {colour}"></i>{escape(one.name)}</span>')
            number += 1
    return f'<p class="legend">{"".join(items)}</p>'


def _svg(width: float, height: float, body: Iterable[str], label: str) -> str:
    kind = "chart" if width == WIDTH else "wide"
    return (
        f'<div class="scroll"><svg class="{kind}" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{escape(label)}">{"".join(body)}</svg></div>'
    )
